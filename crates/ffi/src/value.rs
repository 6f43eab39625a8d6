//! Inputs and outputs that may be tensors, numbers, strings or nothing.
use crate::arguments::{missing, text};
use crate::status::{Failure, Outcome, c_string};
use crate::tensor::{ETTensor, et_tensor_free};
use sconce::core::Value;
use sconce::{Input, Outputs, ScalarType};
use std::ffi::{CString, c_char};
use std::ops::Range;
use std::ptr;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum ETValueKind {
    /// Nothing.
    None = 0,
    /// A tensor.
    Tensor = 1,
    /// An integer.
    Int = 2,
    /// A floating-point number.
    Double = 3,
    /// A truth value.
    Bool = 4,
    /// A string.
    String = 5,
    /// A list.
    List = 6,
}

impl ETValueKind {
    const ALL: [Self; 7] = [Self::None, Self::Tensor, Self::Int, Self::Double, Self::Bool, Self::String, Self::List];

    fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as i32 == number)
    }
}

/// A value; the kind says which member of the union counts.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ETValue {
    /// An [`ETValueKind`].
    pub kind: i32,
    /// The value itself.
    pub content: ETValueContent,
}

/// The member of a value, which the header calls `as`.
#[derive(Clone, Copy)]
#[repr(C)]
pub union ETValueContent {
    /// A tensor.
    pub tensor: *mut ETTensor,
    /// An integer.
    pub integer: i64,
    /// A floating-point number.
    pub number: f64,
    /// A truth value.
    pub boolean: i32,
    /// A string.
    pub string: *const c_char,
}

// SAFETY: the header asks that what a queued call's inputs point to lives, and is left alone, until the call is done.
unsafe impl Send for ETValue {}

/// Values of the caller as inputs.
pub(crate) unsafe fn inputs<'a>(values: &[ETValue]) -> Outcome<Vec<Input<'a>>> {
    let input = |(index, value): (usize, &ETValue)| {
        let content = &value.content;
        // SAFETY: the kind says which member the caller has set; pointers in it are NULL or valid.
        Ok(unsafe {
            match ETValueKind::from_number(value.kind) {
                Some(ETValueKind::None) => Input::None,
                Some(ETValueKind::Tensor) => match content.tensor.as_ref() {
                    Some(tensor) => Input::View(tensor.view()),
                    None => return Err(missing(&format!("the tensor of input {index}"))),
                },
                Some(ETValueKind::Int) => Input::Int(content.integer),
                Some(ETValueKind::Double) => Input::Double(content.number),
                Some(ETValueKind::Bool) => Input::Bool(content.boolean != 0),
                Some(ETValueKind::String) => Input::Str(text(content.string, "the string of an input")?),
                Some(ETValueKind::List) | None => {
                    let kind = value.kind;
                    return Err(Failure::argument(format_args!("input {index} is of kind {kind}; see ETValueKind")));
                }
            }
        })
    };
    values.iter().enumerate().map(input).collect()
}

/// Tensors of the caller as inputs.
pub(crate) unsafe fn tensor_inputs<'a>(tensors: &[*const ETTensor]) -> Outcome<Vec<Input<'a>>> {
    let input = |(index, tensor): (usize, &*const ETTensor)| {
        // SAFETY: NULL or a tensor of this library, as the header asks.
        let tensor = unsafe { tensor.as_ref() }.ok_or_else(|| missing(&format!("input {index}")))?;
        Ok(Input::View(tensor.view()))
    };
    tensors.iter().enumerate().map(input).collect()
}

/// The memory that inputs occupy.
pub(crate) fn spans(inputs: &[Input<'_>]) -> Vec<Range<usize>> {
    let span = |input: &Input<'_>| match input {
        Input::View(tensor) => {
            let range = tensor.data.as_ptr_range();
            Some(range.start.addr()..range.end.addr())
        }
        _ => None,
    };
    inputs.iter().filter_map(span).collect()
}

/// An output on its way out; dropped, it frees what it has.
pub(crate) enum Output {
    None,
    Tensor(Box<ETTensor>),
    Int(i64),
    Double(f64),
    Bool(bool),
    String(CString),
}

impl Output {
    /// A copy of a result.
    fn copy_of(value: Value<'_>) -> Outcome<Self> {
        Ok(match value {
            Value::None => Output::None,
            Value::Tensor(tensor) => Output::Tensor(ETTensor::copy_of(&tensor)?),
            Value::Int(value) => Output::Int(value),
            Value::Double(value) => Output::Double(value),
            Value::Bool(value) => Output::Bool(value),
            Value::Str(value) => Output::String(c_string(value)),
        })
    }

    fn give(self) -> ETValue {
        let value = |kind: ETValueKind, content| ETValue { kind: kind as i32, content };
        match self {
            Output::None => value(ETValueKind::None, ETValueContent { integer: 0 }),
            Output::Tensor(tensor) => value(ETValueKind::Tensor, ETValueContent { tensor: Box::into_raw(tensor) }),
            Output::Int(integer) => value(ETValueKind::Int, ETValueContent { integer }),
            Output::Double(number) => value(ETValueKind::Double, ETValueContent { number }),
            Output::Bool(boolean) => value(ETValueKind::Bool, ETValueContent { boolean: boolean.into() }),
            Output::String(string) => value(ETValueKind::String, ETValueContent { string: string.into_raw() }),
        }
    }
}

/// Copies of all results.
pub(crate) fn outputs(results: &Outputs<'_, '_>) -> Outcome<Vec<Output>> {
    (0..results.len()).map(|index| Output::copy_of(results.get(index)?)).collect()
}

/// Copies of all results as tensors; numbers are tensors of rank 0.
pub(crate) fn tensor_outputs(results: &Outputs<'_, '_>) -> Outcome<Vec<Box<ETTensor>>> {
    let tensor = |index| match results.get(index)? {
        Value::Tensor(tensor) => ETTensor::copy_of(&tensor),
        Value::Int(value) => ETTensor::number(ScalarType::Long, &value.to_ne_bytes()),
        Value::Double(value) => ETTensor::number(ScalarType::Double, &value.to_ne_bytes()),
        Value::Bool(value) => ETTensor::number(ScalarType::Bool, &[value.into()]),
        Value::None | Value::Str(_) => {
            let sentence = format!("output {index} is no tensor and no number: use et_module_run");
            Err(Failure::new(crate::ETErrorCode::Unsupported, sentence))
        }
    };
    let mut tensors = Vec::with_capacity(results.len());
    for index in 0..results.len() {
        tensors.push(tensor(index)?);
    }
    Ok(tensors)
}

/// Gives an array of values to C.
pub(crate) fn give(outputs: Vec<Output>) -> *mut ETValue {
    let values: Box<[ETValue]> = outputs.into_iter().map(Output::give).collect();
    Box::into_raw(values).cast()
}

/// Frees an array that a run returned, with its tensors and strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_value_array_free(values: *mut ETValue, count: i32) {
    let Ok(length) = usize::try_from(count) else { return };
    if values.is_null() {
        return;
    }
    // SAFETY: the array comes from `give`, with this length; its tensors come from boxes and its strings from
    // `CString::into_raw`, as the kinds say.
    unsafe {
        for value in Box::from_raw(ptr::slice_from_raw_parts_mut(values, length)) {
            match ETValueKind::from_number(value.kind) {
                Some(ETValueKind::Tensor) => et_tensor_free(value.content.tensor),
                Some(ETValueKind::String) => crate::et_string_free(value.content.string.cast_mut()),
                _ => {}
            }
        }
    }
}
