//! Values, calls and what goes wrong with them, in words.
use crate::Error;
use sconce_core::{Error as CoreError, Method, Site, ValueInfo};
use sconce_format::pte::InstructionArguments;

pub(crate) fn input_error(method: Method<'_>, values: &[sconce_core::Value<'_>], error: CoreError) -> Error {
    match error {
        CoreError::At { site: Site::Input(index), fault } => {
            let index = index as usize;
            let want = method.input(index).map_or(String::new(), |info| describe(&info)).into();
            let have = values.get(index).map_or(String::new(), describe_value).into();
            let name = method.input_name(index).map(Box::from);
            Error::Input { method: method.name().into(), index, name, want, have, fault }
        }
        error => run_error(method, error),
    }
}

pub(crate) fn run_error(method: Method<'_>, error: CoreError) -> Error {
    let CoreError::At { site: Site::Instruction { chain, index }, fault } = error else { return Error::Core(error) };
    let callee = callee(method, chain, index).into();
    Error::Run { method: method.name().into(), instruction: index, callee, fault, reason: "".into() }
}

/// What an instruction runs, in words.
pub(crate) fn callee(method: Method<'_>, chain: u32, instruction: u32) -> String {
    let plan = method.plan();
    let chain = plan.chains().get(chain as usize);
    let instruction = chain.and_then(|chain| chain.instructions().get(instruction as usize));
    match instruction.map(|instruction| instruction.instr_args()) {
        Some(InstructionArguments::KernelCall(call)) => usize::try_from(call.op_index())
            .ok()
            .and_then(|index| plan.operators().get(index))
            .map_or(String::new(), |operator| operator.to_string()),
        Some(InstructionArguments::DelegateCall(call)) => usize::try_from(call.delegate_index())
            .ok()
            .and_then(|index| method.backend_name(index))
            .map_or(String::new(), |name| format!("backend {name}")),
        _ => "control flow".to_owned(),
    }
}

/// What a method takes or gives, in words.
pub fn describe(info: &ValueInfo<'_>) -> String {
    match info {
        ValueInfo::None => "none".to_owned(),
        ValueInfo::Tensor { dtype, shape, unbound: true, .. } => {
            format!("{} of {} dimensions, of any size", dtype.name(), shape.rank())
        }
        ValueInfo::Tensor { dtype, shape, dynamic, .. } => {
            let bound = if *dynamic { "at most " } else { "" };
            format!("{} {bound}{:?}", dtype.name(), shape.sizes())
        }
        ValueInfo::Int(value) => format!("the integer {value}"),
        ValueInfo::Double(value) => format!("the number {value}"),
        ValueInfo::Bool(value) => format!("the bool {value}"),
        ValueInfo::Str(value) => format!("the string {value:?}"),
        ValueInfo::List => "a list".to_owned(),
    }
}

fn describe_value(value: &sconce_core::Value<'_>) -> String {
    match value {
        sconce_core::Value::None => "none".to_owned(),
        sconce_core::Value::Tensor(tensor) => format!("{} {:?}", tensor.dtype.name(), tensor.sizes()),
        sconce_core::Value::Int(value) => format!("the integer {value}"),
        sconce_core::Value::Double(value) => format!("the number {value}"),
        sconce_core::Value::Bool(value) => format!("the bool {value}"),
        sconce_core::Value::Str(value) => format!("the string {value:?}"),
    }
}
