//! What is in a module, as C reads it: made once at load, so that pointers into it stay.
use crate::arguments::{self, Place, count, sized, thing};
use crate::entry::{self, here};
use crate::module::ETModule;
use crate::status::{ETStatus, Failure, Outcome, c_string};
use crate::tensor::type_number;
use crate::value::ETValueKind;
use sconce::core::{Method, Shape, ValueInfo};
use std::ffi::{CString, c_char};
use std::ptr;

/// What an input or output is.
#[derive(Debug)]
#[repr(C)]
pub struct ETValueInfo {
    /// The size of this structure, as the caller knows it.
    pub size: usize,
    /// An [`ETValueKind`].
    pub kind: i32,
    /// Element type of a tensor, or -1.
    pub dtype: i32,
    /// Number of dimensions of a tensor.
    pub rank: i32,
    /// Whether the sizes may differ from run to run.
    pub dynamic: i32,
    /// Least sizes.
    pub minimum: *const i64,
    /// Largest sizes.
    pub maximum: *const i64,
    /// Its name, if the program recorded one.
    pub name: *const c_char,
}

/// A method of a module.
pub(crate) struct MethodInfo {
    pub(crate) name: String,
    c_name: CString,
    inputs: Vec<Info>,
    outputs: Vec<Info>,
}

/// An input or output.
struct Info {
    kind: ETValueKind,
    dtype: i32,
    dynamic: bool,
    minimum: Vec<i64>,
    maximum: Vec<i64>,
    name: Option<CString>,
}

impl MethodInfo {
    pub(crate) fn new(method: Method<'_>) -> Self {
        let inputs = (0..method.inputs()).map(|index| Info::new(method.input(index), method.input_name(index)));
        let outputs = (0..method.outputs()).map(|index| Info::new(method.output(index), method.output_name(index)));
        let name = method.name().to_owned();
        Self { c_name: c_string(&name), name, inputs: inputs.collect(), outputs: outputs.collect() }
    }
}

impl Info {
    fn new(value: Option<ValueInfo<'_>>, name: Option<&str>) -> Self {
        let name = name.map(c_string);
        let kind = match value {
            None | Some(ValueInfo::None) => ETValueKind::None,
            Some(ValueInfo::Tensor { dtype, shape, dynamic, unbound }) => {
                let info = Self::tensor(type_number(dtype), &shape, dynamic);
                let maximum = if unbound { vec![-1; shape.rank()] } else { info.maximum };
                return Self { name, maximum, ..info };
            }
            Some(ValueInfo::Int(_)) => ETValueKind::Int,
            Some(ValueInfo::Double(_)) => ETValueKind::Double,
            Some(ValueInfo::Bool(_)) => ETValueKind::Bool,
            Some(ValueInfo::Str(_)) => ETValueKind::String,
            Some(ValueInfo::List) => ETValueKind::List,
        };
        Self { kind, dtype: -1, dynamic: false, minimum: Vec::new(), maximum: Vec::new(), name }
    }

    /// Programs record the largest sizes only; any dimension of a dynamic tensor may be smaller.
    fn tensor(dtype: i32, shape: &Shape, dynamic: bool) -> Self {
        let maximum: Vec<i64> = shape.sizes().iter().map(|&size| i64::try_from(size).unwrap_or(i64::MAX)).collect();
        let minimum = if dynamic { vec![0; maximum.len()] } else { maximum.clone() };
        Self { kind: ETValueKind::Tensor, dtype, dynamic, minimum, maximum, name: None }
    }

    fn fill(&self, size: usize) -> ETValueInfo {
        ETValueInfo {
            size,
            kind: self.kind as i32,
            dtype: self.dtype,
            rank: count(self.maximum.len()),
            dynamic: self.dynamic.into(),
            minimum: self.minimum.as_ptr(),
            maximum: self.maximum.as_ptr(),
            name: self.name.as_ref().map_or(ptr::null(), |name| name.as_ptr()),
        }
    }
}

/// How many inputs `forward` has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_module_input_count(module: *const ETModule) -> i32 {
    // SAFETY: the caller's promise is handed on.
    unsafe { forward_count(module, |method| &method.inputs) }
}

/// How many outputs `forward` has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_module_output_count(module: *const ETModule) -> i32 {
    // SAFETY: the caller's promise is handed on.
    unsafe { forward_count(module, |method| &method.outputs) }
}

unsafe fn forward_count(module: *const ETModule, list: impl FnOnce(&MethodInfo) -> &Vec<Info>) -> i32 {
    // SAFETY: NULL or a module of this library, as the header asks.
    let Some(module) = (unsafe { module.as_ref() }) else { return 0 };
    module.forward().map_or(1, |index| count(list(&module.methods()[index]).len()))
}

/// How many methods a module has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_module_method_count(module: *const ETModule) -> i32 {
    // SAFETY: NULL or a module of this library, as the header asks.
    unsafe { module.as_ref() }.map_or(0, |module| count(module.methods().len()))
}

/// The name of a method.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_module_method_name(module: *const ETModule, index: i32) -> *const c_char {
    // SAFETY: NULL or a module of this library, as the header asks.
    let module = unsafe { module.as_ref() };
    let method = module.zip(usize::try_from(index).ok()).and_then(|(module, index)| module.methods().get(index));
    method.map_or(ptr::null(), |method| method.c_name.as_ptr())
}

/// How many inputs and outputs a method has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_module_method_counts(
    module: *const ETModule,
    method: *const c_char,
    out_inputs: *mut i32,
    out_outputs: *mut i32,
) -> *mut ETStatus {
    entry::status(here!(et_module_method_counts), || {
        let (inputs, outputs) = (Place::new(out_inputs, "out_inputs")?, Place::new(out_outputs, "out_outputs")?);
        // SAFETY: pointers are NULL or valid, as the header asks.
        let method = unsafe { find(module, method) }?;
        inputs.set(count(method.inputs.len()));
        outputs.set(count(method.outputs.len()));
        Ok(())
    })
}

/// What an input of a method is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_module_input_info(
    module: *const ETModule,
    method: *const c_char,
    index: i32,
    out_info: *mut ETValueInfo,
) -> *mut ETStatus {
    // SAFETY: pointers are NULL or valid, as the header asks.
    entry::status(here!(et_module_input_info), || unsafe {
        let method = find(module, method)?;
        fill(&method.inputs, index, "inputs", out_info)
    })
}

/// What an output of a method is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn et_module_output_info(
    module: *const ETModule,
    method: *const c_char,
    index: i32,
    out_info: *mut ETValueInfo,
) -> *mut ETStatus {
    // SAFETY: pointers are NULL or valid, as the header asks.
    entry::status(here!(et_module_output_info), || unsafe {
        let method = find(module, method)?;
        fill(&method.outputs, index, "outputs", out_info)
    })
}

unsafe fn find<'a>(module: *const ETModule, method: *const c_char) -> Outcome<&'a MethodInfo> {
    // SAFETY: the caller's promise is handed on.
    let (module, method) = unsafe { (thing(module, "module")?, arguments::text(method, "method")?) };
    Ok(&module.methods()[module.find(method)?])
}

unsafe fn fill(list: &[Info], index: i32, name: &str, out: *mut ETValueInfo) -> Outcome {
    // SAFETY: the caller's promise is handed on.
    let size = unsafe { sized(out, "out_info") }?.size;
    let Some(info) = usize::try_from(index).ok().and_then(|index| list.get(index)) else {
        return Err(Failure::argument(format_args!("there is no number {index} among {} {name}", list.len())));
    };
    Place::new(out, "out_info")?.set(info.fill(size));
    Ok(())
}
