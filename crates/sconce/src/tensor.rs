//! Tensors and values that an application owns.
use crate::buffer::Buffer;
use crate::{Error, ScalarType, layout};
use sconce_core::Shape;
use sconce_kernels::view::{Plain, bytes_of, view, view_mut};
use sconce_kernels::{Bool, Complex};

/// A Rust type that tensors hold.
pub trait Element: Plain {
    /// The element type it stands for.
    const DTYPE: ScalarType;
}

macro_rules! elements {
    ($($type:ty => $dtype:ident),* $(,)?) => { $(impl Element for $type { const DTYPE: ScalarType = ScalarType::$dtype; })* };
}
elements! {
    u8 => Byte, i8 => Char, i16 => Short, i32 => Int, i64 => Long, u16 => UInt16, u32 => UInt32, u64 => UInt64,
    f32 => Float, f64 => Double, half::f16 => Half, half::bf16 => BFloat16, Bool => Bool,
    Complex<f32> => ComplexFloat, Complex<f64> => ComplexDouble,
}

/// A tensor that owns its elements.
#[derive(Clone, Debug)]
pub struct Tensor {
    dtype: ScalarType,
    shape: Shape,
    data: Buffer,
}

impl Tensor {
    /// A row-major tensor with these elements.
    pub fn from_slice<T: Element>(elements: &[T], sizes: &[usize]) -> Result<Self, Error> {
        Self::from_bytes(T::DTYPE, sizes, bytes_of(elements))
    }

    /// A row-major tensor of truth values.
    pub fn from_bools(elements: &[bool], sizes: &[usize]) -> Result<Self, Error> {
        let bytes: Vec<u8> = elements.iter().map(|&value| u8::from(value)).collect();
        Self::from_bytes(ScalarType::Bool, sizes, &bytes)
    }

    /// A row-major tensor from the bytes of its elements, in this machine's byte order.
    pub fn from_bytes(dtype: ScalarType, sizes: &[usize], bytes: &[u8]) -> Result<Self, Error> {
        let shape = Shape::contiguous(sizes).ok_or(Error::Rank { rank: sizes.len() })?;
        Self::with_shape(dtype, shape, bytes)
    }

    /// A tensor whose dimensions lie in memory in another order, from the outermost to the innermost.
    pub fn with_dim_order(dtype: ScalarType, sizes: &[usize], order: &[u8], bytes: &[u8]) -> Result<Self, Error> {
        let invalid = || Error::DimOrder { sizes: sizes.to_vec(), order: order.to_vec() };
        Self::with_shape(dtype, Shape::new(sizes, order).ok_or_else(invalid)?, bytes)
    }

    /// A row-major tensor of zeros.
    pub fn zeros(dtype: ScalarType, sizes: &[usize]) -> Result<Self, Error> {
        let shape = Shape::contiguous(sizes).ok_or(Error::Rank { rank: sizes.len() })?;
        let len = shape.numel().and_then(|numel| numel.checked_mul(dtype.size())).unwrap_or(usize::MAX);
        let data = Buffer::zeroed(len).ok_or(Error::OutOfMemory { bytes: len })?;
        Ok(Self { dtype, shape, data })
    }

    pub(crate) fn with_shape(dtype: ScalarType, shape: Shape, bytes: &[u8]) -> Result<Self, Error> {
        let expected = shape.numel().and_then(|numel| numel.checked_mul(dtype.size()));
        if expected != Some(bytes.len()) {
            return Err(Error::TensorSize { dtype, sizes: shape.sizes().to_vec(), bytes: bytes.len() });
        }
        let data = Buffer::copy_of(bytes).ok_or(Error::OutOfMemory { bytes: bytes.len() })?;
        Ok(Self { dtype, shape, data })
    }

    /// Element type.
    pub fn dtype(&self) -> ScalarType {
        self.dtype
    }

    /// Sizes.
    pub fn sizes(&self) -> &[usize] {
        self.shape.sizes()
    }

    /// Dimensions from the outermost to the innermost in memory.
    pub fn dim_order(&self) -> &[u8] {
        self.shape.order()
    }

    /// Number of elements.
    pub fn numel(&self) -> usize {
        self.bytes().len() / self.dtype.size()
    }

    /// The elements' bytes, in memory order.
    pub fn bytes(&self) -> &[u8] {
        self.data.as_ref()
    }

    /// The elements' bytes to be changed, in memory order.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.data.as_mut()
    }

    /// The elements, in memory order.
    pub fn as_slice<T: Element>(&self) -> Result<&[T], Error> {
        self.typed::<T>().and_then(|()| view(self.data.as_ref()).ok_or(Error::OutOfMemory { bytes: 0 }))
    }

    /// The elements to be changed, in memory order.
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T], Error> {
        self.typed::<T>()?;
        view_mut(self.data.as_mut()).ok_or(Error::OutOfMemory { bytes: 0 })
    }

    fn typed<T: Element>(&self) -> Result<(), Error> {
        if self.dtype == T::DTYPE { Ok(()) } else { Err(Error::DType { have: self.dtype, want: T::DTYPE }) }
    }

    /// The same values with elements in row-major order.
    pub fn to_contiguous(&self) -> Tensor {
        let shape = Shape::contiguous(self.sizes()).unwrap_or(self.shape);
        let mut copy = self.clone();
        copy.shape = shape;
        layout::reorder(self.dtype.size(), &self.shape, self.bytes(), &shape, copy.data.as_mut());
        copy
    }

    /// A borrowed view for the runtime.
    pub(crate) fn view(&self) -> sconce_core::Tensor<'_> {
        sconce_core::Tensor { dtype: self.dtype, shape: self.shape, data: self.bytes() }
    }
}

/// An output that is owned.
#[derive(Clone, Debug)]
pub enum Value {
    /// Nothing.
    None,
    /// A tensor.
    Tensor(Tensor),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    /// A truth value.
    Bool(bool),
    /// A string.
    Str(String),
}

impl Value {
    /// The tensor, or an error that says what it is instead.
    pub fn tensor(&self) -> Result<&Tensor, Error> {
        match self {
            Value::Tensor(tensor) => Ok(tensor),
            other => Err(Error::Kind { have: other.kind(), want: "a tensor" }),
        }
    }

    /// What kind of value it is, in words.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::None => "none",
            Value::Tensor(_) => "a tensor",
            Value::Int(_) => "an integer",
            Value::Double(_) => "a floating-point number",
            Value::Bool(_) => "a bool",
            Value::Str(_) => "a string",
        }
    }

    pub(crate) fn from_core(value: sconce_core::Value<'_>) -> Result<Self, Error> {
        Ok(match value {
            sconce_core::Value::None => Value::None,
            sconce_core::Value::Tensor(tensor) => {
                Value::Tensor(Tensor::with_shape(tensor.dtype, tensor.shape, tensor.data)?)
            }
            sconce_core::Value::Int(value) => Value::Int(value),
            sconce_core::Value::Double(value) => Value::Double(value),
            sconce_core::Value::Bool(value) => Value::Bool(value),
            sconce_core::Value::Str(value) => Value::Str(value.to_owned()),
        })
    }
}

/// An input, borrowed for one call.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// Nothing.
    None,
    /// A tensor.
    Tensor(&'a Tensor),
    /// A tensor that the caller keeps elsewhere.
    View(sconce_core::Tensor<'a>),
    /// An integer. Numbers are fixed at export; the call checks that it is the same.
    Int(i64),
    /// A floating-point number, fixed at export.
    Double(f64),
    /// A truth value, fixed at export.
    Bool(bool),
    /// A string, fixed at export.
    Str(&'a str),
    /// For inputs that are not tensors: the value that the program recorded.
    Recorded,
}

impl<'a> From<&'a Tensor> for Input<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        Input::Tensor(tensor)
    }
}

impl<'a> From<&'a Value> for Input<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::None => Input::None,
            Value::Tensor(tensor) => Input::Tensor(tensor),
            Value::Int(value) => Input::Int(*value),
            Value::Double(value) => Input::Double(*value),
            Value::Bool(value) => Input::Bool(*value),
            Value::Str(value) => Input::Str(value),
        }
    }
}

impl From<i64> for Input<'_> {
    fn from(value: i64) -> Self {
        Input::Int(value)
    }
}

impl From<f64> for Input<'_> {
    fn from(value: f64) -> Self {
        Input::Double(value)
    }
}

impl From<bool> for Input<'_> {
    fn from(value: bool) -> Self {
        Input::Bool(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_check_their_size_and_type() {
        let mut tensor = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
        assert_eq!(tensor.as_slice::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
        tensor.bytes_mut()[4..8].fill(0);
        assert_eq!(tensor.as_slice::<f32>().unwrap(), [1.0, 0.0, 3.0, 4.0]);
        let error = tensor.as_slice::<i32>().unwrap_err().to_string();
        assert!(error.contains("float32") && error.contains("int32"), "{error}");
        let error = Tensor::from_slice(&[1.0f32], &[2, 2]).unwrap_err().to_string();
        assert!(error.contains("16 bytes") && error.contains("4"), "{error}");
        assert!(Tensor::from_slice(&[1u8], &[1; 17]).is_err());
        assert!(Tensor::zeros(ScalarType::Double, &[usize::MAX, 2]).is_err());
    }

    #[test]
    fn contiguous_copies_undo_the_dimension_order() {
        let with_order = |order| Tensor::with_dim_order(ScalarType::Byte, &[1, 2, 1, 3], order, &[1, 4, 2, 5, 3, 6]);
        assert_eq!(with_order(&[0, 2, 3, 1]).unwrap().to_contiguous().bytes(), [1, 2, 3, 4, 5, 6]);
        let error = with_order(&[0, 2, 3, 3]).unwrap_err().to_string();
        assert!(error.contains("[0, 2, 3, 3]"), "{error}");
    }
}
