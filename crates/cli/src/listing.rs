//! The instructions of a method in words.
use sconce::core::{Method, ValueInfo};
use sconce::format::pte::{ExecutionPlan, Instruction, InstructionArguments, KernelTypes};
use serde::Serialize;

/// One instruction.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    /// Its place: the chain where there are several, and the index.
    chain: usize,
    index: usize,
    /// The operator or backend, or what else it does.
    does: String,
    /// The values it uses.
    arguments: Vec<Argument>,
}

/// A value that an instruction uses.
#[derive(Debug, Serialize)]
struct Argument {
    /// Its index in the value table.
    value: i32,
    /// What it is.
    is: String,
}

/// All instructions of a method.
pub(crate) fn lines(method: Method<'_>) -> Vec<Line> {
    let plan = method.plan();
    let chains = plan.chains().iter().enumerate();
    let instructions = chains.flat_map(|(chain, content)| {
        content.instructions().iter().enumerate().map(move |(index, instruction)| (chain, index, instruction))
    });
    let line = |(chain, index, instruction): (usize, usize, Instruction<'_>)| {
        let argument = |value: i32| Argument { value, is: describe(plan, value) };
        let arguments = values(instruction).into_iter().map(argument).collect();
        Line { chain, index, does: callee(plan, instruction), arguments }
    };
    instructions.map(line).collect()
}

impl Line {
    /// As cells of a table.
    pub(crate) fn row(&self) -> Vec<String> {
        let place = if self.chain == 0 { self.index.to_string() } else { format!("{}:{}", self.chain, self.index) };
        let arguments = self.arguments.iter().map(|argument| format!("%{} {}", argument.value, argument.is));
        vec![place, self.does.clone(), arguments.collect::<Vec<_>>().join(", ")]
    }
}

/// What an instruction runs.
pub(crate) fn callee(plan: ExecutionPlan<'_>, instruction: Instruction<'_>) -> String {
    let named = |name: Option<String>| name.unwrap_or_else(|| "?".to_owned());
    match instruction.instr_args() {
        InstructionArguments::KernelCall(call) => {
            let operator = usize::try_from(call.op_index()).ok().and_then(|index| plan.operators().get(index));
            named(operator.map(|operator| operator.to_string()))
        }
        InstructionArguments::DelegateCall(call) => {
            let delegate = usize::try_from(call.delegate_index()).ok().and_then(|index| plan.delegates().get(index));
            let name = delegate.and_then(|delegate| delegate.id());
            named(name.map(|name| format!("delegate {} ({name})", call.delegate_index())))
        }
        InstructionArguments::MoveCall(_) => "move".to_owned(),
        InstructionArguments::JumpFalseCall(call) => format!("if false go to {}", call.destination_instruction()),
        InstructionArguments::FreeCall(_) => "free".to_owned(),
        InstructionArguments::None => "nothing".to_owned(),
    }
}

fn values(instruction: Instruction<'_>) -> Vec<i32> {
    match instruction.instr_args() {
        InstructionArguments::KernelCall(call) => call.args().iter().collect(),
        InstructionArguments::DelegateCall(call) => call.args().iter().collect(),
        InstructionArguments::MoveCall(call) => vec![call.move_from(), call.move_to()],
        InstructionArguments::JumpFalseCall(call) => vec![call.cond_value_index()],
        InstructionArguments::FreeCall(call) => vec![call.value_index()],
        InstructionArguments::None => Vec::new(),
    }
}

/// A value of the table in a few words.
fn describe(plan: ExecutionPlan<'_>, value: i32) -> String {
    let Some(value) = usize::try_from(value).ok().and_then(|index| plan.values().get(index)) else {
        return "?".to_owned();
    };
    let list = |items: Vec<String>| format!("[{}]", items.join(", "));
    match value.val() {
        KernelTypes::Tensor(tensor) => {
            let sizes = list(tensor.sizes().iter().map(|size| size.to_string()).collect());
            let bound = if tensor.is_dynamic() { "<=" } else { "" };
            let place = if tensor.is_external() || tensor.is_constant() { " constant" } else { "" };
            format!("{}{bound}{sizes}{place}", tensor.dtype())
        }
        KernelTypes::Int(value) => value.int_val().to_string(),
        KernelTypes::Double(value) => format!("{:?}", value.double_val()),
        KernelTypes::Bool(value) => value.bool_val().to_string(),
        KernelTypes::String(value) => format!("{:?}", value.string_val().unwrap_or_default()),
        KernelTypes::IntList(value) => list(value.items().iter().map(|item| integer(plan, item)).collect()),
        KernelTypes::DoubleList(value) => list(value.items().iter().map(|item| format!("{item:?}")).collect()),
        KernelTypes::BoolList(value) => list(value.items().iter().map(|item| item.to_string()).collect()),
        KernelTypes::TensorList(value) => list(value.items().iter().map(|item| format!("%{item}")).collect()),
        KernelTypes::OptionalTensorList(value) => {
            let item = |item: i32| if item < 0 { "none".to_owned() } else { format!("%{item}") };
            list(value.items().iter().map(item).collect())
        }
        KernelTypes::None | KernelTypes::Null(_) => "none".to_owned(),
    }
}

/// An item of a list of integers: the number, or the value that will hold it.
fn integer(plan: ExecutionPlan<'_>, item: i64) -> String {
    match usize::try_from(item).ok().and_then(|index| plan.values().get(index)).map(|value| value.val()) {
        Some(KernelTypes::Int(value)) => value.int_val().to_string(),
        _ => format!("%{item}"),
    }
}

/// An input or output of a method, for JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Port {
    /// What the program calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dtype: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sizes: Option<Vec<usize>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dim_order: Option<Vec<u8>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dynamic: Option<bool>,
    /// In words.
    #[serde(skip)]
    pub(crate) text: String,
}

impl Port {
    /// What a method takes or gives at one place.
    pub(crate) fn new(info: &ValueInfo<'_>, name: Option<&str>) -> Self {
        let name = name.map(str::to_owned);
        let kind = match info {
            ValueInfo::None => "none",
            ValueInfo::Tensor { .. } => "tensor",
            ValueInfo::Int(_) => "int",
            ValueInfo::Double(_) => "float",
            ValueInfo::Bool(_) => "bool",
            ValueInfo::Str(_) => "string",
            ValueInfo::List => "list",
        };
        let text = sconce::describe(info);
        let plain = Self { name, kind, dtype: None, sizes: None, dim_order: None, dynamic: None, text };
        let ValueInfo::Tensor { dtype, shape, dynamic, .. } = info else { return plain };
        let order = shape.order().to_vec();
        let text = match shape.is_contiguous() {
            true => plain.text,
            false => format!("{}, dim order {order:?}", plain.text),
        };
        let sizes = Some(shape.sizes().to_vec());
        Self { dtype: Some(dtype.name()), sizes, dim_order: Some(order), dynamic: Some(*dynamic), text, ..plain }
    }
}
