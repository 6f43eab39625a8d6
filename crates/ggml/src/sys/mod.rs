//! ggml as safe types. All unsafe code of the crate is here.
//!
//! A [`Context`] owns the descriptions of tensors; a [`Tensor`] is one of them and lives as long as it. Making a tensor
//! checks what ggml would otherwise check by ending the process: sizes, types, room in the context. What is made here can
//! therefore be computed, whoever wrote the graph.
//!
//! Memory: constants are in a [`Buffer`] that sessions share and never write; what a session keeps is in a buffer of its
//! own; everything else is placed by the scheduler of a [`Plan`].
#![allow(unsafe_code, reason = "the bindings of a C library")]

mod device;

pub(crate) use device::{Buffer, Device, Ends, Plan, Workers};

use llama_cpp_sys_2 as ffi;
use sconce_format::ggml::{Element, MOST};
use std::cell::Cell;
use std::ffi::c_int;
use std::ptr::{self, NonNull};

/// Sizes, the innermost first.
pub(crate) type Sizes = [i64; 4];

/// Descriptions of tensors.
pub(crate) struct Context {
    raw: NonNull<ffi::ggml_context>,
    /// Tensors that it has room for.
    left: Cell<usize>,
}

impl Context {
    /// With room for n tensors and a graph of them.
    pub(crate) fn new(tensors: usize) -> Result<Self, String> {
        // SAFETY: plain questions about sizes.
        let (each, graph) = unsafe { (ffi::ggml_tensor_overhead(), ffi::ggml_graph_overhead_custom(tensors, false)) };
        let params = ffi::ggml_init_params {
            mem_size: each * (tensors + 1) + graph,
            mem_buffer: ptr::null_mut(),
            no_alloc: true,
        };
        // SAFETY: ggml allocates the memory of the context itself, for descriptions only.
        let raw = NonNull::new(unsafe { ffi::ggml_init(params) }).ok_or("ggml has no memory for a graph")?;
        Ok(Self { raw, left: Cell::new(tensors) })
    }

    /// Takes the room of tensors.
    fn take(&self, tensors: usize) -> Result<*mut ffi::ggml_context, String> {
        let left = self.left.get().checked_sub(tensors).ok_or("the graph has more tensors than it said")?;
        self.left.set(left);
        Ok(self.raw.as_ptr())
    }

    fn wrap(&self, raw: *mut ffi::ggml_tensor) -> Result<Tensor<'_>, String> {
        let raw = NonNull::new(raw).ok_or("ggml could not make a tensor")?;
        Ok(Tensor { raw, context: self })
    }

    /// A tensor that is not computed.
    pub(crate) fn leaf(&self, element: Element, sizes: Sizes) -> Result<Tensor<'_>, String> {
        let inner = usize::try_from(sizes[0]).unwrap_or(0);
        if sizes.iter().any(|&size| size < 1) || inner % element.block().0 != 0 || volume(sizes).is_none() {
            return Err(format!("a tensor of {} cannot have the sizes {sizes:?}", element.name()));
        }
        let kind = kind(element);
        // SAFETY: the sizes are positive and whole blocks, and there is room.
        self.wrap(unsafe { ffi::ggml_new_tensor_4d(self.take(1)?, kind, sizes[0], sizes[1], sizes[2], sizes[3]) })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it is the context's own, and no tensor outlives it.
        unsafe { ffi::ggml_free(self.raw.as_ptr()) };
    }
}

/// What ggml calls an element type here: truth values are computed with as numbers, indices as int32.
fn kind(element: Element) -> ffi::ggml_type {
    match element {
        Element::Bool => Element::F32.ggml(),
        Element::I64 => Element::I32.ggml(),
        other => other.ggml(),
    }
}

/// How many elements there are.
fn volume(sizes: Sizes) -> Option<usize> {
    let count = |all: usize, size: &i64| all.checked_mul(usize::try_from(*size).ok()?);
    sizes.iter().try_fold(1, count).filter(|&count| count <= MOST)
}

/// Checks that a tensor of these sizes can be described.
fn describable(sizes: Sizes) -> Result<(), String> {
    volume(sizes).map(drop).ok_or_else(|| format!("a tensor of the sizes {sizes:?} is too large"))
}

/// A tensor of a context.
#[derive(Clone, Copy)]
pub(crate) struct Tensor<'c> {
    raw: NonNull<ffi::ggml_tensor>,
    context: &'c Context,
}

/// A function of one tensor.
type Unary = unsafe extern "C" fn(*mut ffi::ggml_context, *mut ffi::ggml_tensor) -> *mut ffi::ggml_tensor;

/// A function of two tensors.
type Binary =
    unsafe extern "C" fn(*mut ffi::ggml_context, *mut ffi::ggml_tensor, *mut ffi::ggml_tensor) -> *mut ffi::ggml_tensor;

macro_rules! functions {
    ($(#[$meta:meta])* $name:ident: $kind:ty { $($(#[$doc:meta])* $member:ident $function:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name { $($(#[$doc])* $member,)* }

        impl $name {
            fn function(self) -> $kind {
                match self { $(Self::$member => ffi::$function,)* }
            }
        }
    };
}

functions! {
    /// What ggml computes for each element, or for each row, of a tensor whose elements lie one after the other.
    Map: Unary {
        Negate ggml_neg, Abs ggml_abs, Square ggml_sqr, SquareRoot ggml_sqrt, Log ggml_log, Exp ggml_exp,
        ExpMinusOne ggml_expm1, Cos ggml_cos, Sin ggml_sin, Sigmoid ggml_sigmoid, Silu ggml_silu, Relu ggml_relu,
        Tanh ggml_tanh, Gelu ggml_gelu_erf, Elu ggml_elu, HardSwish ggml_hardswish, HardSigmoid ggml_hardsigmoid,
        Floor ggml_floor, Ceil ggml_ceil, Trunc ggml_trunc, Softmax ggml_soft_max, CumulativeSum ggml_cumsum,
    }
}

functions! {
    /// What ggml computes for two elements that meet.
    Meet: Binary { Add ggml_add, Subtract ggml_sub, Multiply ggml_mul, Divide ggml_div, }
}

impl<'c> Tensor<'c> {
    fn get(&self) -> &ffi::ggml_tensor {
        // SAFETY: the context lives, and with it the description; it is not written while it is read, because all calls
        // that write one go through the thread that has the context.
        unsafe { self.raw.as_ref() }
    }

    /// Its sizes.
    pub(crate) fn sizes(&self) -> Sizes {
        self.get().ne
    }

    /// How many elements it has.
    pub(crate) fn count(&self) -> usize {
        volume(self.sizes()).unwrap_or(0)
    }

    /// Whether elements of a row lie one after the other.
    pub(crate) fn has_rows(&self) -> bool {
        // SAFETY: a plain question about a type.
        self.get().nb[0] == unsafe { ffi::ggml_type_size(self.get().type_) }
    }

    /// Whether all elements lie one after the other, and the description says so along dimensions of size 1 too: some of
    /// ggml's functions insist on that.
    pub(crate) fn is_contiguous(&self) -> bool {
        let (sizes, strides) = (self.sizes(), self.get().nb);
        let plain = |dim: usize| usize::try_from(sizes[dim]).is_ok_and(|size| strides[dim + 1] == strides[dim] * size);
        self.is_in_order() && plain(1) && plain(2)
    }

    /// Whether all elements lie one after the other.
    fn is_in_order(&self) -> bool {
        // SAFETY: the description lives.
        unsafe { ffi::ggml_is_contiguous(self.raw.as_ptr()) && self.has_rows() }
    }

    fn is(&self, element: Element) -> bool {
        self.get().type_ == kind(element)
    }

    /// Whether it holds plain numbers.
    pub(crate) fn is_f32(&self) -> bool {
        self.is(Element::F32)
    }

    fn f32(&self) -> Result<*mut ffi::ggml_tensor, String> {
        if self.is_f32() { Ok(self.raw.as_ptr()) } else { Err("ggml computes this with float32 only".to_owned()) }
    }

    fn packed(&self) -> Result<*mut ffi::ggml_tensor, String> {
        if self.is_contiguous() { self.f32() } else { Err("the elements do not lie one after the other".to_owned()) }
    }

    /// A function of each element or row.
    pub(crate) fn map(self, map: Map) -> Result<Self, String> {
        let (raw, context) = (self.packed()?, self.context);
        // SAFETY: any contiguous tensor of float32 will do.
        context.wrap(unsafe { map.function()(context.take(1)?, raw) })
    }

    /// A function of two elements; `other` is repeated along dimensions where it has fewer.
    pub(crate) fn meet(self, meet: Meet, other: Self) -> Result<Self, String> {
        let repeats = self.sizes().iter().zip(other.sizes()).all(|(all, one)| all % one == 0);
        if !repeats {
            return Err(format!("the sizes {:?} and {:?} do not meet", self.sizes(), other.sizes()));
        }
        let (a, b, context) = (self.packed()?, other.packed()?, self.context);
        // SAFETY: both are contiguous tensors of float32, and the second repeats into the first.
        context.wrap(unsafe { meet.function()(context.take(1)?, a, b) })
    }

    /// A straight line of each element.
    pub(crate) fn scale(self, by: f32, plus: f32) -> Result<Self, String> {
        let (raw, context) = (self.packed()?, self.context);
        // SAFETY: any contiguous tensor of float32 will do.
        context.wrap(unsafe { ffi::ggml_scale_bias(context.take(1)?, raw, by, plus) })
    }

    /// Each element within limits. (ggml does it in place; here a copy is changed.)
    pub(crate) fn clamp(self, low: f32, high: f32) -> Result<Self, String> {
        let (raw, context) = (self.copy()?.packed()?, self.context);
        // SAFETY: the copy is a contiguous tensor of float32 that nothing else reads.
        context.wrap(unsafe { ffi::ggml_clamp(context.take(1)?, raw, low, high) })
    }

    /// Each element, times the slope below zero.
    pub(crate) fn leaky_relu(self, slope: f32) -> Result<Self, String> {
        let (raw, context) = (self.packed()?, self.context);
        // SAFETY: any contiguous tensor of float32 will do.
        context.wrap(unsafe { ffi::ggml_leaky_relu(context.take(1)?, raw, slope, false) })
    }

    /// Rows of zero mean and unit variance.
    pub(crate) fn norm(self, epsilon: f32) -> Result<Self, String> {
        let (raw, context) = (self.packed()?, self.context);
        if epsilon.is_nan() || epsilon < 0.0 {
            return Err(format!("a norm with the epsilon {epsilon}"));
        }
        // SAFETY: any contiguous tensor of float32 will do, and epsilon is not negative.
        context.wrap(unsafe { ffi::ggml_norm(context.take(1)?, raw, epsilon) })
    }

    /// Rows of unit mean square.
    pub(crate) fn rms_norm(self, epsilon: f32) -> Result<Self, String> {
        let (raw, context) = (self.packed()?, self.context);
        if epsilon.is_nan() || epsilon < 0.0 {
            return Err(format!("a norm with the epsilon {epsilon}"));
        }
        // SAFETY: any contiguous tensor of float32 will do, and epsilon is not negative.
        context.wrap(unsafe { ffi::ggml_rms_norm(context.take(1)?, raw, epsilon) })
    }

    /// The sum of each row.
    pub(crate) fn sum_rows(self) -> Result<Self, String> {
        let (raw, context) = (self.packed()?, self.context);
        // SAFETY: any contiguous tensor of float32 will do.
        context.wrap(unsafe { ffi::ggml_sum_rows(context.take(1)?, raw) })
    }

    /// The same elements in other sizes.
    pub(crate) fn reshape(self, sizes: Sizes) -> Result<Self, String> {
        if self.sizes() == sizes && self.is_contiguous() {
            return Ok(self);
        }
        if !self.is_in_order() || volume(sizes) != Some(self.count()) {
            return Err(format!("{:?} cannot be seen as {sizes:?}", self.sizes()));
        }
        let ([a, b, c, d], context) = (sizes, self.context);
        // SAFETY: it is contiguous and has as many elements.
        context.wrap(unsafe { ffi::ggml_reshape_4d(context.take(1)?, self.raw.as_ptr(), a, b, c, d) })
    }

    /// Dimensions in another order, without moving anything: dimension `i` goes to place `to[i]`.
    pub(crate) fn permute(self, to: [usize; 4]) -> Result<Self, String> {
        if to == [0, 1, 2, 3] {
            return Ok(self);
        }
        if (0..4).any(|dim| !to.contains(&dim)) {
            return Err(format!("{to:?} is not an order of four dimensions"));
        }
        let ([a, b, c, d], context) = (to.map(|place| place as c_int), self.context);
        // SAFETY: it is a permutation.
        context.wrap(unsafe { ffi::ggml_permute(context.take(1)?, self.raw.as_ptr(), a, b, c, d) })
    }

    /// A part of it, without moving anything: `sizes` from `start`, in steps along the second dimension. The tensor must
    /// be contiguous.
    pub(crate) fn part(self, sizes: [i64; 3], start: i64, step: i64) -> Result<Self, String> {
        let [inner, count, outer] = sizes;
        let [own_inner, own_count, own_outer, one] = self.sizes();
        let last = (count - 1).checked_mul(step).and_then(|last| last.checked_add(start));
        let inside = last.is_some_and(|last| start >= 0 && last < own_count);
        let same = inner == own_inner && outer == own_outer && one == 1;
        if !inside || !same || step < 1 || count < 1 || !self.is_contiguous() || !self.has_plain_elements() {
            return Err(format!("{count} slices from {start} by {step} of {:?}", self.sizes()));
        }
        let [_, row, plane, _] = self.get().nb;
        let (start, step) = (start as usize * row, step as usize * row);
        let context = self.context;
        // SAFETY: the part lies inside of the tensor.
        context.wrap(unsafe {
            ffi::ggml_view_3d(context.take(1)?, self.raw.as_ptr(), inner, count, outer, step, plane, start)
        })
    }

    fn has_plain_elements(&self) -> bool {
        // SAFETY: a plain question about a type.
        unsafe { ffi::ggml_blck_size(self.get().type_) == 1 }
    }

    /// The same, with elements one after the other.
    pub(crate) fn contiguous(self) -> Result<Self, String> {
        if self.is_in_order() { self.reshape(self.sizes()) } else { self.copy() }
    }

    /// A copy with elements one after the other.
    pub(crate) fn copy(self) -> Result<Self, String> {
        if !self.is_f32() && !self.is(Element::I32) {
            return Err("ggml copies float32 and int32 only".to_owned());
        }
        let context = self.context;
        // SAFETY: ggml copies any strides of these types.
        context.wrap(unsafe { ffi::ggml_cont(context.take(1)?, self.raw.as_ptr()) })
    }

    /// Repeated to these sizes.
    pub(crate) fn repeat(self, sizes: Sizes) -> Result<Self, String> {
        if self.sizes() == sizes {
            return Ok(self);
        }
        let repeats = sizes.iter().zip(self.sizes()).all(|(all, one)| *all > 0 && all % one == 0);
        if !repeats || volume(sizes).is_none() {
            return Err(format!("{:?} cannot be repeated to {sizes:?}", self.sizes()));
        }
        let (raw, [a, b, c, d], context) = (self.packed()?, sizes, self.context);
        // SAFETY: the sizes are multiples.
        context.wrap(unsafe { ffi::ggml_repeat_4d(context.take(1)?, raw, a, b, c, d) })
    }

    /// One after the other along a dimension.
    pub(crate) fn concat(self, other: Self, dim: usize) -> Result<Self, String> {
        let (own, others) = (self.sizes(), other.sizes());
        if dim > 3 || (0..4).any(|place| place != dim && own[place] != others[place]) {
            return Err(format!("{own:?} and {others:?} cannot follow each other along {dim}"));
        }
        let mut joined = own;
        joined[dim] += others[dim];
        describable(joined)?;
        let (a, b, context) = (self.packed()?, other.packed()?, self.context);
        // SAFETY: all other sizes are equal.
        context.wrap(unsafe { ffi::ggml_concat(context.take(1)?, a, b, dim as c_int) })
    }

    /// Zeros after each dimension, and before it.
    pub(crate) fn pad(self, around: [[i32; 2]; 4]) -> Result<Self, String> {
        let grown: Option<Vec<i64>> = self
            .sizes()
            .iter()
            .zip(around)
            .map(|(size, [before, after])| {
                (before >= 0 && after >= 0).then(|| size + i64::from(before) + i64::from(after))
            })
            .collect();
        let fits = grown.and_then(|sizes| volume([sizes[0], sizes[1], sizes[2], sizes[3]]));
        let (raw, context) = (self.packed()?, self.context);
        fits.ok_or_else(|| format!("{:?} cannot be padded by {around:?}", self.sizes()))?;
        let [[a, b], [c, d], [e, f], [g, h]] = around;
        // SAFETY: nothing is negative and nothing overflows.
        context.wrap(unsafe { ffi::ggml_pad_ext(context.take(1)?, raw, a, b, c, d, e, f, g, h) })
    }

    /// The products of the rows of both: `[rows of self, rows of other]`, repeated along the outer dimensions of self.
    pub(crate) fn mul_mat(self, other: Self) -> Result<Self, String> {
        let (own, others) = (self.sizes(), other.sizes());
        let fits = own[0] == others[0] && others[2] % own[2] == 0 && others[3] % own[3] == 0;
        if !fits || !self.has_rows() || !other.has_rows() || self.get().nb[0] > self.get().nb[1] {
            return Err(format!("rows of {own:?} and {others:?} cannot be multiplied"));
        }
        if self.is(Element::I32) {
            return Err("ggml multiplies no integers".to_owned());
        }
        describable([own[1], others[1], others[2], others[3]])?;
        let (b, context) = (other.f32()?, self.context);
        // SAFETY: rows have the same length, outer sizes are multiples, and elements of rows lie one after the other.
        let product = context.wrap(unsafe { ffi::ggml_mul_mat(context.take(1)?, self.raw.as_ptr(), b) })?;
        // SAFETY: it is the result of a product. Sums are kept in float32.
        unsafe { ffi::ggml_mul_mat_set_prec(product.raw.as_ptr(), ffi::GGML_PREC_F32) };
        Ok(product)
    }

    /// Rows by their numbers, which the caller keeps in range.
    pub(crate) fn rows(self, numbers: Self) -> Result<Self, String> {
        let (own, [_, a, b, c]) = (self.sizes(), numbers.sizes());
        if own[2] != 1 || own[3] != 1 || a != 1 || b != 1 || c != 1 || !numbers.is(Element::I32) {
            return Err(format!("rows of {own:?} by numbers of {:?}", numbers.sizes()));
        }
        if !self.is_contiguous() || !numbers.is_contiguous() {
            return Err("the elements do not lie one after the other".to_owned());
        }
        describable([own[0], numbers.sizes()[0], 1, 1])?;
        let context = self.context;
        // SAFETY: a table and a list of int32.
        context.wrap(unsafe { ffi::ggml_get_rows(context.take(1)?, self.raw.as_ptr(), numbers.raw.as_ptr()) })
    }

    /// Writes rows by their numbers, which the caller keeps in range, into the tensor itself; the result is it, afterwards.
    pub(crate) fn put_rows(self, values: Self, numbers: Self) -> Result<Self, String> {
        let (own, new, [count, a, b, c]) = (self.sizes(), values.sizes(), numbers.sizes());
        let fits = own[0] == new[0] && own[2..] == new[2..] && new[1] == count && a == 1 && b == 1 && c == 1;
        if !fits || !numbers.is(Element::I32) || !numbers.is_contiguous() {
            return Err(format!("rows of {new:?} put into {own:?} by numbers of {:?}", numbers.sizes()));
        }
        let (to, from, context) = (self.packed()?, values.packed()?, self.context);
        // SAFETY: rows have the same length, and there is a number for each.
        context.wrap(unsafe { ffi::ggml_set_rows(context.take(1)?, to, from, numbers.raw.as_ptr()) })
    }

    /// Attention of queries `[element, query, head, batch]`; the result is `[element, head, query, batch]`. The mask is
    /// float16.
    pub(crate) fn attention(self, key: Self, value: Self, mask: Option<Self>, scale: f32) -> Result<Self, String> {
        let ([d, t, heads, batch], [_, s, of_key, _], of_value) = (self.sizes(), key.sizes(), value.sizes());
        let fits = key.sizes() == [d, s, of_key, batch] && of_value == [of_value[0], s, of_key, batch];
        if !fits || heads % of_key != 0 || ![self, key, value].iter().all(|each| each.has_rows() && each.is_f32()) {
            let sizes = (self.sizes(), key.sizes(), value.sizes());
            return Err(format!("attention of {sizes:?}"));
        }
        let fits = |mask: &Self| {
            let [keys, queries, of_heads, of_batch] = mask.sizes();
            keys == s && queries == t && heads % of_heads == 0 && batch % of_batch == 0 && mask.is(Element::F16)
        };
        if mask.is_some_and(|mask| !fits(&mask) || !mask.is_contiguous()) {
            return Err("the mask of an attention does not fit".to_owned());
        }
        let (q, k, v) = (self.raw.as_ptr(), key.raw.as_ptr(), value.raw.as_ptr());
        let (mask, context) = (mask.map_or(ptr::null_mut(), |mask| mask.raw.as_ptr()), self.context);
        // SAFETY: sizes and types were checked.
        let result =
            context.wrap(unsafe { ffi::ggml_flash_attn_ext(context.take(1)?, q, k, v, mask, scale, 0.0, 0.0) })?;
        // SAFETY: it is the result of an attention. Sums are kept in float32.
        unsafe { ffi::ggml_flash_attn_ext_set_prec(result.raw.as_ptr(), ffi::GGML_PREC_F32) };
        Ok(result)
    }

    /// The softmax of each row, times `scale`, plus the mask.
    pub(crate) fn masked_softmax(self, mask: Self, scale: f32) -> Result<Self, String> {
        let (own, of_mask) = (self.sizes(), mask.sizes());
        let fits = own[..2] == of_mask[..2] && own[2] % of_mask[2] == 0 && own[3] % of_mask[3] == 0;
        if !fits {
            return Err(format!("a mask of {of_mask:?} for scores of {own:?}"));
        }
        let (scores, mask, context) = (self.packed()?, mask.packed()?, self.context);
        // SAFETY: sizes and types were checked.
        context.wrap(unsafe { ffi::ggml_soft_max_ext(context.take(1)?, scores, mask, scale, 0.0) })
    }

    /// Other elements: float32 or float16.
    pub(crate) fn cast(self, element: Element) -> Result<Self, String> {
        if self.is(element) {
            return Ok(self);
        }
        let plain = |tensor: &Self| tensor.is_f32() || tensor.is(Element::F16) || tensor.is(Element::Bf16);
        if !plain(&self) || !matches!(element, Element::F32 | Element::F16 | Element::Bf16) {
            return Err(format!("ggml does not convert this to {}", element.name()));
        }
        let context = self.context;
        // SAFETY: ggml converts between these types.
        context.wrap(unsafe { ffi::ggml_cast(context.take(1)?, self.raw.as_ptr(), kind(element)) })
    }

    /// A convolution of images `[w, h, c, n]`, the weights `[w, h, c, out]`; stride, padding and dilation per dimension.
    pub(crate) fn conv(self, weight: Self, window: &Window) -> Result<Self, String> {
        let (own, of_weight) = (self.sizes(), weight.sizes());
        let [height, width] = window.output(own, of_weight)?;
        let inner = of_weight[0].saturating_mul(of_weight[1]).saturating_mul(of_weight[2]);
        describable([inner, width, height, own[3]])?;
        describable([width, height, of_weight[3], own[3]])?;
        let depthwise = of_weight[2] == 1 && of_weight[3] == own[2];
        if !depthwise && of_weight[2] != own[2] {
            return Err(format!("weights of {of_weight:?} for an image of {own:?}"));
        }
        let (image, kernel, context) = (self.packed()?, weight.packed()?, self.context);
        let ([s1, s0], [p1, p0], [d1, d0]) = (window.stride, window.padding, window.dilation);
        if depthwise {
            // SAFETY: channels agree, the result has a size, and both are contiguous tensors of float32.
            return context
                .wrap(unsafe { ffi::ggml_conv_2d_dw_direct(context.take(1)?, kernel, image, s0, s1, p0, p1, d0, d1) });
        }
        // ggml's own convolution rounds the windows to half precision; these are float32.
        // SAFETY: as above.
        let windows = context.wrap(unsafe {
            ffi::ggml_im2col(context.take(1)?, kernel, image, s0, s1, p0, p1, d0, d1, true, Element::F32.ggml())
        })?;
        let (images, out) = (own[3], of_weight[3]);
        let rows = windows.reshape([inner, width * height * images, 1, 1])?;
        let sums = rows.mul_mat(weight.reshape([inner, out, 1, 1])?)?;
        sums.reshape([width * height, images, out, 1])?
            .permute([0, 2, 1, 3])?
            .contiguous()?
            .reshape([width, height, out, images])
    }

    /// The largest value of each window, or the mean.
    pub(crate) fn pool(self, kernel: [i32; 2], window: &Window, largest: bool) -> Result<Self, String> {
        let sizes = [kernel[1].into(), kernel[0].into(), 1, 1];
        window.output(self.sizes(), sizes)?;
        let (image, context) = (self.packed()?, self.context);
        let ([k1, k0], [s1, s0], [p1, p0]) = (kernel, window.stride, window.padding.map(|padding| padding as f32));
        let op = if largest { ffi::GGML_OP_POOL_MAX } else { ffi::GGML_OP_POOL_AVG };
        // SAFETY: the result has a size.
        context.wrap(unsafe { ffi::ggml_pool_2d(context.take(1)?, image, op, k0, k1, s0, s1, p0, p1) })
    }

    /// Groups of channels of zero mean and unit variance, of images `[w, h, c, n]`.
    pub(crate) fn group_norm(self, groups: i32, epsilon: f32) -> Result<Self, String> {
        let channels = self.sizes()[2];
        if groups < 1 || channels % i64::from(groups) != 0 || epsilon.is_nan() || epsilon < 0.0 {
            return Err(format!("{groups} groups of {channels} channels"));
        }
        let (raw, context) = (self.packed()?, self.context);
        // SAFETY: the groups divide the channels.
        context.wrap(unsafe { ffi::ggml_group_norm(context.take(1)?, raw, groups, epsilon) })
    }

    /// Pairs of elements turned by angles that follow from positions; the tensor is `[element, head, position, batch]`.
    pub(crate) fn rope(self, positions: Self, dims: i32, mode: i32, base: f32) -> Result<Self, String> {
        let [elements, _, count, _] = self.sizes();
        let even = dims > 0 && dims % 2 == 0 && i64::from(dims) <= elements;
        if !even || !(mode == 0 || mode == 2) || positions.sizes() != [count, 1, 1, 1] || !positions.is(Element::I32) {
            return Err(format!("a rotation of {dims} elements in mode {mode} of {:?}", self.sizes()));
        }
        let (raw, context) = (self.packed()?, self.context);
        // SAFETY: there is a position for each row, and pairs are whole.
        context.wrap(unsafe {
            let (take, positions) = (context.take(1)?, positions.raw.as_ptr());
            ffi::ggml_rope_ext(take, raw, positions, ptr::null_mut(), dims, mode, 0, base, 1.0, 0.0, 1.0, 0.0, 0.0)
        })
    }
}

/// How a window moves: rows, columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) stride: [i32; 2],
    pub(crate) padding: [i32; 2],
    pub(crate) dilation: [i32; 2],
}

impl Window {
    /// How many places a window of these sizes has on an image: rows, columns.
    fn output(&self, image: Sizes, window: Sizes) -> Result<[i64; 2], String> {
        let mut places = [0; 2];
        for (dim, place) in [(1, 0), (0, 1)] {
            let (stride, padding, dilation) = (self.stride[place], self.padding[place], self.dilation[place]);
            let reach = i64::from(dilation).checked_mul(window[dim] - 1).and_then(|reach| reach.checked_add(1));
            let room = image[dim].checked_add(2 * i64::from(padding));
            let fits = reach.zip(room).filter(|(reach, room)| reach <= room && *room < 1 << 31);
            let over = fits.map_or(-1, |(reach, room)| room - reach);
            if over < 0 || stride < 1 || padding < 0 || dilation < 1 || window[dim] < 1 {
                return Err(format!("a window of {window:?} moved by {self:?} over {image:?}"));
            }
            places[place] = over / i64::from(stride) + 1;
        }
        Ok(places)
    }
}

/// Writes rows of numbers as blocks. The lengths must agree and the numbers be finite.
pub(crate) fn quantize(element: Element, row: usize, numbers: &[f32], blocks: &mut [u8]) {
    let (block, bytes) = element.block();
    assert_eq!(numbers.len() / block * bytes, blocks.len(), "room for all blocks");
    assert!(row.is_multiple_of(block) && numbers.len().is_multiple_of(row), "rows of whole blocks");
    let (rows, row) = ((numbers.len() / row) as i64, row as i64);
    // SAFETY: as many numbers are read, and as many blocks written, as the slices have; types without tables of their own
    // need no importance matrix.
    unsafe {
        ffi::ggml_quantize_chunk(
            kind(element),
            numbers.as_ptr(),
            blocks.as_mut_ptr().cast(),
            0,
            rows,
            row,
            ptr::null(),
        );
    }
}
