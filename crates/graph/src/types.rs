//! What a value is: its elements and its sizes.

use crate::graph::ConstantId;
use crate::infer::{FEW, Shape};
use sconce_format::ScalarType;
use std::hash::{Hash, Hasher};
use std::mem::discriminant;

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Type {
    /// What an element is.
    pub element: Element,
    /// The sizes, the outermost first.
    pub dims: Vec<Dim>,
}

impl Type {
    /// A tensor of plain numbers with fixed sizes.
    pub fn plain(dtype: ScalarType, sizes: &[usize]) -> Self {
        Self { element: Element::Plain(dtype), dims: sizes.iter().map(|&size| Dim::Fixed(size)).collect() }
    }

    /// The same sizes with other elements.
    pub fn with_element(&self, element: Element) -> Self {
        Self { element, dims: self.dims.clone() }
    }

    /// The sizes; bounds where they are not fixed.
    pub fn sizes(&self) -> Shape {
        if self.dims.len() > FEW {
            return self.dims.iter().map(Dim::bound).collect();
        }
        let mut few = [0; FEW];
        few.iter_mut().zip(&self.dims).for_each(|(size, dim)| *size = dim.bound());
        Shape::from_buf_and_len(few, self.dims.len())
    }

    /// Whether these are the sizes.
    pub fn has_sizes(&self, sizes: &[usize]) -> bool {
        self.dims.len() == sizes.len() && self.dims.iter().zip(sizes).all(|(dim, size)| dim.bound() == *size)
    }

    /// Whether the elements are plain numbers of this type.
    pub fn is(&self, dtype: ScalarType) -> bool {
        self.element == Element::Plain(dtype)
    }

    /// The quantisation, if there is one.
    pub fn quantized(&self) -> Option<&Quantized> {
        match &self.element {
            Element::Quantized(quantized) => Some(quantized),
            Element::Plain(_) => None,
        }
    }
}

/// One size.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    /// Known.
    Fixed(usize),
    /// Known when the inputs are.
    Symbol(Symbol),
}

impl Dim {
    /// The largest size it can have.
    pub fn bound(&self) -> usize {
        match self {
            Self::Fixed(size) => *size,
            Self::Symbol(symbol) => symbol.most,
        }
    }
}

/// A size that has a name and a bound. Equal names are equal sizes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// Its largest value.
    pub most: usize,
}

/// What an element is.
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum Element {
    /// A number.
    Plain(ScalarType),
    /// A small integer that stands for a real number.
    Quantized(Quantized),
}

impl Element {
    /// Bytes that `count` elements take. Four-bit elements come two in a byte; their rows are even.
    pub fn bytes(&self, count: usize) -> Option<usize> {
        match self {
            Self::Plain(dtype) => count.checked_mul(dtype.size()),
            Self::Quantized(quantized) => match quantized.storage {
                Storage::Int8 | Storage::UInt8 => Some(count),
                Storage::Int32 => count.checked_mul(4),
                Storage::Int4 => Some(count.div_ceil(2)),
            },
        }
    }
}

/// Integers that stand for real numbers: `scale * (integer - zero)`.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Quantized {
    /// How the integers are stored.
    pub storage: Storage,
    /// Which scale and zero an element has.
    pub scheme: Scheme,
}

/// How quantised integers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Storage {
    /// Signed bytes.
    Int8,
    /// Unsigned bytes.
    UInt8,
    /// Signed words: biases.
    Int32,
    /// Unsigned four-bit numbers, the even element in the low half of a byte; each row (of the last dimension) starts on
    /// a byte.
    Int4,
}

/// Which scale and zero belong to an element.
#[derive(Clone, Debug, PartialEq)]
pub enum Scheme {
    /// The same for all.
    PerTensor {
        /// The scale.
        scale: f32,
        /// The integer that stands for zero.
        zero: i32,
    },
    /// One scale for each index along a dimension.
    PerChannel {
        /// The dimension.
        axis: usize,
        /// The scales, `float32`.
        scales: ConstantId,
        /// The integer that stands for zero.
        zero: i32,
    },
    /// Scale and zero are found at run time for each row: each index of all but the last `dims` dimensions.
    PerToken {
        /// How many dimensions a row has.
        dims: usize,
    },
    /// One scale for each `size` neighbours along the last dimension of a matrix, `bfloat16`, row by row.
    PerGroup {
        /// Elements of a group.
        size: usize,
        /// The scales, `bfloat16`.
        scales: ConstantId,
        /// The integer that stands for zero.
        zero: i32,
    },
}

impl Hash for Scheme {
    fn hash<H: Hasher>(&self, state: &mut H) {
        discriminant(self).hash(state);
        match self {
            Self::PerTensor { scale, zero } => (scale.to_bits(), zero).hash(state),
            Self::PerChannel { axis, scales, zero } => (axis, scales, zero).hash(state),
            Self::PerToken { dims } => dims.hash(state),
            Self::PerGroup { size, scales, zero } => (size, scales, zero).hash(state),
        }
    }
}

impl Type {
    /// The constant with the scales of the elements, if there is one.
    pub fn scales(&self) -> Option<ConstantId> {
        match &self.quantized()?.scheme {
            Scheme::PerChannel { scales, .. } | Scheme::PerGroup { scales, .. } => Some(*scales),
            Scheme::PerTensor { .. } | Scheme::PerToken { .. } => None,
        }
    }

    pub(crate) fn scales_mut(&mut self) -> Option<&mut ConstantId> {
        match &mut self.element {
            Element::Quantized(Quantized { scheme: Scheme::PerChannel { scales, .. }, .. })
            | Element::Quantized(Quantized { scheme: Scheme::PerGroup { scales, .. }, .. }) => Some(scales),
            _ => None,
        }
    }
}
