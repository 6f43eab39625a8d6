//! Calls that many rules make, each with the type that its result has.

use super::Site;
use crate::Error;
use crate::ir::{Arg, TensorType, ValueId};
use crate::size::Size;
use sconce_format::ScalarType;

impl Site<'_, '_> {
    /// The same elements with other sizes.
    pub fn view(&mut self, value: ValueId, sizes: Vec<Size>) -> ValueId {
        let ty = self.ty(value);
        if ty.sizes == sizes {
            return value;
        }
        self.call("aten::view", [("self", value.into()), ("size", sizes.clone().into())], ty.with_sizes(sizes))
    }

    /// Dimension `i` of the result is dimension `order[i]` of the value.
    pub fn permute(&mut self, value: ValueId, order: &[usize]) -> ValueId {
        if order.is_sorted() {
            return value;
        }
        let ty = self.ty(value);
        let sizes: Vec<Size> = order.iter().map(|&dim| ty.size(dim)).collect();
        // Where only dimensions of one element move, no element does.
        if order.iter().filter(|&&dim| ty.size(dim).number() != Some(1)).is_sorted() {
            return self.view(value, sizes);
        }
        let dims: Vec<i64> = order.iter().map(|&dim| dim as i64).collect();
        self.call("aten::permute", [("self", value.into()), ("dims", dims.into())], ty.with_sizes(sizes))
    }

    /// The same numbers as another type.
    pub fn cast(&mut self, value: ValueId, dtype: ScalarType) -> ValueId {
        let ty = self.ty(value);
        if ty.dtype == dtype {
            return value;
        }
        self.call("aten::_to_copy", [("self", value.into()), ("dtype", dtype.into())], ty.with_dtype(dtype))
    }

    /// A function of each element.
    pub fn unary(&mut self, operator: &'static str, value: ValueId) -> ValueId {
        let ty = self.ty(value);
        self.call(operator, [("self", value.into())], TensorType::new(ty.dtype, ty.sizes))
    }

    /// The absolute values: real numbers, of complex ones too.
    pub fn magnitude(&mut self, value: ValueId) -> ValueId {
        let ty = self.plain_type(value);
        self.call("aten::abs", [("self", value.into())], ty.with_dtype(ty.dtype.real()))
    }

    /// Complex numbers mirrored at the real axis; other numbers as they are.
    pub fn conjugate(&mut self, value: ValueId) -> ValueId {
        if self.ty(value).dtype.is_complex() { self.unary("aten::_conj_physical", value) } else { value }
    }

    /// Complex numbers as pairs of real ones, in a new last dimension.
    pub fn pairs(&mut self, value: ValueId) -> ValueId {
        let ty = self.ty(value);
        let sizes = [&ty.sizes[..], &[2.into()]].concat();
        self.call("aten::view_as_real", [("self", value.into())], TensorType::new(ty.dtype.real(), sizes))
    }

    /// Pairs of real numbers along the last dimension as complex ones.
    pub fn numbers_of(&mut self, pairs: ValueId) -> ValueId {
        let ty = self.ty(pairs);
        let dtype = if ty.dtype == ScalarType::Double { ScalarType::ComplexDouble } else { ScalarType::ComplexFloat };
        let sizes = &ty.sizes[..ty.rank().saturating_sub(1)];
        self.call("aten::view_as_complex", [("self", pairs.into())], TensorType::new(dtype, sizes))
    }

    /// A function of elements that meet; the result has the type `ty`.
    pub fn binary(&mut self, operator: &'static str, left: ValueId, right: impl Into<Arg>, ty: &TensorType) -> ValueId {
        self.call(operator, [("self", left.into()), ("other", right.into())], ty.clone())
    }

    /// A function of each element and a number that keeps the element type.
    pub fn scalar_call(&mut self, operator: &'static str, value: ValueId, number: impl Into<Arg>) -> ValueId {
        let ty = self.plain_type(value);
        self.binary(operator, value, number, &ty)
    }

    /// Whether each element compares with a number or the elements of another tensor as `operator` asks.
    pub fn compare(&mut self, operator: &'static str, value: ValueId, other: impl Into<Arg>) -> ValueId {
        let other = other.into();
        let sizes = match &other {
            Arg::Value(other) => broadcast(&self.ty(value).sizes, &self.ty(*other).sizes),
            _ => self.ty(value).sizes,
        };
        self.binary(operator, value, other, &TensorType::new(ScalarType::Bool, sizes))
    }

    /// Elements of the first tensor where the condition holds, else of the second, as the type `ty`.
    pub fn choose(&mut self, condition: ValueId, yes: ValueId, no: ValueId, ty: &TensorType) -> ValueId {
        let args = [("condition", condition.into()), ("self", yes.into()), ("other", no.into())];
        self.call("aten::where.self", args, TensorType::new(ty.dtype, ty.sizes.clone()))
    }

    /// The tensor with a number where the condition holds.
    pub fn fill_where(&mut self, value: ValueId, mask: ValueId, number: impl Into<Arg>) -> ValueId {
        let ty = self.plain_type(value);
        let args = [("self", value.into()), ("mask", mask.into()), ("value", number.into())];
        self.call("aten::masked_fill.Scalar", args, ty)
    }

    /// Says that a size, if it is a symbol, is not larger than another, and that one could be the largest.
    pub fn limit(&mut self, size: &Size, most: &Size) {
        let most = self.function.symbols.most(most);
        self.function.symbols.limit(size, most);
    }

    /// The type of a tensor with the last dimension innermost.
    pub fn plain_type(&self, value: ValueId) -> TensorType {
        let ty = self.ty(value);
        TensorType::new(ty.dtype, ty.sizes)
    }

    /// The tensor repeated along dimensions of size one, and along new ones in front.
    pub fn expand(&mut self, value: ValueId, sizes: &[Size]) -> ValueId {
        let ty = self.ty(value);
        if ty.sizes == sizes {
            return value;
        }
        self.call("aten::expand", [("self", value.into()), ("size", sizes.to_vec().into())], ty.with_sizes(sizes))
    }

    /// The indices `start..end` of a dimension.
    pub fn slice(&mut self, value: ValueId, dim: usize, start: Size, end: Size) -> ValueId {
        let ty = self.ty(value);
        let whole = start.number() == Some(0) && ty.sizes.get(dim) == Some(&end);
        if whole {
            return value;
        }
        let mut sizes = ty.sizes.clone();
        sizes.iter_mut().skip(dim).take(1).for_each(|size| *size = end.minus(&start));
        let range = [("dim", (dim as i64).into()), ("start", start.into()), ("end", end.into())];
        self.call("aten::slice.Tensor", [("self", value.into())].into_iter().chain(range), ty.with_sizes(sizes))
    }

    /// One index of a dimension, which goes.
    pub fn select(&mut self, value: ValueId, dim: usize, index: Size) -> ValueId {
        let ty = self.ty(value);
        let sizes = reduced(&ty.sizes, &[dim], false);
        let args = [("self", value.into()), ("dim", (dim as i64).into()), ("index", index.into())];
        self.call("aten::select.int", args, ty.with_sizes(sizes))
    }

    /// Tensors one after another along a dimension.
    pub fn cat(&mut self, values: &[ValueId], dim: usize) -> ValueId {
        let [first, rest @ ..] = values else { return ValueId(0) };
        if rest.is_empty() {
            return *first;
        }
        let ty = self.ty(*first);
        let mut sizes = ty.sizes.clone();
        for value in rest {
            if let (Some(sum), Some(size)) = (sizes.get_mut(dim), self.ty(*value).sizes.get(dim)) {
                *sum = sum.plus(size);
            }
        }
        let args = [("tensors", values.to_vec().into()), ("dim", (dim as i64).into())];
        self.call("aten::cat", args, ty.with_sizes(sizes))
    }

    /// A tensor of one number.
    pub fn full(&mut self, ty: &TensorType, number: impl Into<Arg>) -> ValueId {
        let args = [("size", ty.sizes.clone().into()), ("fill_value", number.into())];
        self.call("aten::full", args, TensorType::new(ty.dtype, ty.sizes.clone()))
    }

    /// A number as a tensor without dimensions.
    pub fn number(&mut self, number: impl Into<Arg>, dtype: ScalarType) -> ValueId {
        self.full(&TensorType::fixed(dtype, &[]), number)
    }

    /// The integers `0..end`.
    pub fn count_up(&mut self, end: Size) -> ValueId {
        let ty = TensorType::new(ScalarType::Long, [end.clone()]);
        self.call("aten::arange", [("end", end.into())], ty)
    }

    /// One value for all elements along some dimensions.
    pub fn reduce(
        &mut self,
        operator: &'static str,
        value: ValueId,
        dims: &[usize],
        keepdim: bool,
        dtype: ScalarType,
    ) -> ValueId {
        let ty = TensorType::new(dtype, reduced(&self.ty(value).sizes, dims, keepdim));
        let numbers: Vec<i64> = dims.iter().map(|&dim| dim as i64).collect();
        let args = [("self", value.into()), ("dim", numbers.into()), ("keepdim", keepdim.into())];
        self.call(operator, args, ty)
    }

    /// The sum along some dimensions.
    pub fn sum(&mut self, value: ValueId, dims: &[usize], keepdim: bool) -> ValueId {
        let dtype = self.ty(value).dtype;
        self.reduce("aten::sum.dim_IntList", value, dims, keepdim, dtype)
    }

    /// The dimensions that an argument names, counted from the front and sorted; all, if it names none.
    pub fn dims(&self, name: &str, rank: usize) -> Result<Vec<usize>, Error> {
        let named = self.ints(name, &[])?;
        if named.is_empty() {
            return Ok((0..rank).collect());
        }
        let mut dims = Vec::new();
        for dim in named {
            dims.push(super::place(dim, rank).ok_or_else(|| self.missing(name))?);
        }
        dims.sort_unstable();
        // A tensor without dimensions may be reduced along "the" dimension that it has not.
        dims.retain(|&dim| dim < rank);
        Ok(dims)
    }

    /// A product with a matrix of rows, as `torch.nn.functional.linear` takes it.
    pub fn linear(&mut self, input: ValueId, weight: ValueId, bias: Option<ValueId>) -> ValueId {
        let ty = self.ty(input);
        let rows = self.ty(weight).sizes.first().cloned().unwrap_or_default();
        let sizes = [&ty.sizes[..ty.rank().saturating_sub(1)], &[rows]].concat();
        let args = [("input", input.into()), ("weight", weight.into()), ("bias", bias.into())];
        self.call("aten::linear", args, ty.with_sizes(sizes))
    }

    /// A product of two tensors by the rules of `torch.matmul`; the result has the type `ty`.
    pub fn matmul(&mut self, left: ValueId, right: ValueId, ty: TensorType) -> ValueId {
        self.call("aten::matmul", [("self", left.into()), ("other", right.into())], ty)
    }

    /// The tensor with two dimensions exchanged.
    pub fn transposed(&mut self, value: ValueId, a: usize, b: usize) -> ValueId {
        let mut order: Vec<usize> = (0..self.ty(value).rank()).collect();
        if a.max(b) < order.len() {
            order.swap(a, b);
        }
        self.permute(value, &order)
    }

    /// The same elements with a dimension of size one more.
    pub fn unsqueeze(&mut self, value: ValueId, dim: usize) -> ValueId {
        let mut sizes = self.ty(value).sizes;
        sizes.insert(dim.min(sizes.len()), 1.into());
        self.view(value, sizes)
    }
}

/// The sizes that elements have when two tensors meet.
pub(super) fn broadcast(a: &[Size], b: &[Size]) -> Vec<Size> {
    let rank = a.len().max(b.len());
    let size = |own: &[Size], dim: usize| {
        (dim + own.len()).checked_sub(rank).and_then(|dim| own.get(dim)).cloned().unwrap_or_else(|| 1.into())
    };
    (0..rank)
        .map(|dim| Some(size(a, dim)).filter(|size| size.number() != Some(1)).unwrap_or_else(|| size(b, dim)))
        .collect()
}

/// The sizes without some dimensions, or with ones in their place.
pub(super) fn reduced(sizes: &[Size], dims: &[usize], keepdim: bool) -> Vec<Size> {
    let all = sizes.iter().enumerate();
    all.filter(|(dim, _)| keepdim || !dims.contains(dim))
        .map(|(dim, size)| if dims.contains(&dim) { 1.into() } else { size.clone() })
        .collect()
}
