//! What `models/NAME.json` says: torch's export schema, version 8, as plain data.
//!
//! Names are those of the JSON, so that a reader of a file finds them here. Unions are objects with one key, which is
//! what serde calls an externally tagged enum. Fields that older releases of torch do not write have defaults; fields
//! that newer ones add are passed over. Nothing here is checked beyond its form: names may refer to nothing.

use sconce_format::ScalarType;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use std::collections::BTreeMap;

/// One exported program.
#[derive(Clone, Debug, Deserialize)]
pub struct ExportedProgram {
    /// The graph and what its inputs and outputs stand for.
    pub graph_module: GraphModule,
    /// The least and the largest value of each symbol.
    #[serde(default)]
    pub range_constraints: BTreeMap<String, RangeConstraint>,
    /// Of the file.
    pub schema_version: SchemaVersion,
    /// Dialects of the graph, such as `TRAINING` or `ATEN`.
    #[serde(default)]
    pub verifiers: Vec<String>,
    /// Who wrote it.
    #[serde(default)]
    pub torch_version: String,
}

/// The version of the form of the file.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct SchemaVersion {
    /// Changes when old readers cannot read new files.
    pub major: u64,
    /// Changes when something is added.
    pub minor: u64,
}

/// Values that a symbol can have.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct RangeConstraint {
    /// The least.
    pub min_val: Option<i64>,
    /// The largest; none if it has no bound.
    pub max_val: Option<i64>,
}

/// A graph with its signature.
#[derive(Clone, Debug, Deserialize)]
pub struct GraphModule {
    /// The nodes.
    pub graph: Graph,
    /// What inputs and outputs stand for.
    pub signature: GraphSignature,
    /// How the whole (the entry with an empty name) and its parts are called.
    #[serde(default)]
    pub module_call_graph: Vec<ModuleCallEntry>,
}

/// How a module is called.
#[derive(Clone, Debug, Deserialize)]
pub struct ModuleCallEntry {
    /// The module's name.
    pub fqn: String,
    /// Its arguments and results, if known.
    #[serde(default)]
    pub signature: Option<ModuleCallSignature>,
}

/// How arguments and results nest.
#[derive(Clone, Debug, Deserialize)]
pub struct ModuleCallSignature {
    /// The nesting of `(args, kwargs)`, JSON in a string.
    pub in_spec: String,
    /// The nesting of the result.
    pub out_spec: String,
    /// The names of the arguments.
    #[serde(default)]
    pub forward_arg_names: Option<Vec<String>>,
}

/// Nodes in the order in which they run.
#[derive(Clone, Debug, Deserialize)]
pub struct Graph {
    /// What the caller passes, in the order of the signature.
    pub inputs: Vec<Argument>,
    /// What the caller gets.
    pub outputs: Vec<Argument>,
    /// What is computed.
    pub nodes: Vec<Node>,
    /// Types of tensors by name.
    pub tensor_values: BTreeMap<String, TensorMeta>,
    /// Integers that are not known before the program runs.
    #[serde(default)]
    pub sym_int_values: BTreeMap<String, SymInt>,
    /// Truth values of that kind.
    #[serde(default)]
    pub sym_bool_values: BTreeMap<String, SymBool>,
    /// Floating-point numbers of that kind.
    #[serde(default)]
    pub sym_float_values: BTreeMap<String, SymFloat>,
}

/// One call.
#[derive(Clone, Debug, Deserialize)]
pub struct Node {
    /// The operator, such as `torch.ops.aten.add.Tensor`.
    pub target: String,
    /// Arguments that were given; the others have their defaults.
    pub inputs: Vec<NamedArgument>,
    /// Results.
    pub outputs: Vec<Argument>,
    /// Where it came from: `stack_trace`, `nn_module_stack` and others.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// Its name; older releases write none.
    #[serde(default)]
    pub name: Option<String>,
}

/// An argument with its name in the operator's signature.
#[derive(Clone, Debug, Deserialize)]
pub struct NamedArgument {
    /// The name; empty for calls that have no signature.
    pub name: String,
    /// What is passed.
    pub arg: Argument,
}

/// A floating-point number. What JSON cannot write is a string: `Infinity`, `-Infinity`, `NaN`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Float(pub f64);

impl<'de> Deserialize<'de> for Float {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(f64),
            Word(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(number) => Ok(Self(number)),
            Written::Word(word) => match word.as_str() {
                "Infinity" => Ok(Self(f64::INFINITY)),
                "-Infinity" => Ok(Self(f64::NEG_INFINITY)),
                "NaN" => Ok(Self(f64::NAN)),
                other => Err(D::Error::custom(std::format!("{other:?} is not a number"))),
            },
        }
    }
}

/// An element type, by torch's numbers for this file (which differ from those in `.pte` files).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dtype(pub ScalarType);

impl<'de> Deserialize<'de> for Dtype {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let code = u64::deserialize(deserializer)?;
        let known = match code {
            1..=12 => u8::try_from(code - 1).ok().and_then(ScalarType::from_u8),
            13 => Some(ScalarType::BFloat16),
            28 => Some(ScalarType::UInt16),
            29 => Some(ScalarType::Float8E4M3FN),
            30 => Some(ScalarType::Float8E5M2),
            31 => Some(ScalarType::Float8E4M3FNUZ),
            32 => Some(ScalarType::Float8E5M2FNUZ),
            34 => Some(ScalarType::UInt32),
            35 => Some(ScalarType::UInt64),
            _ => None,
        };
        known.map(Self).ok_or_else(|| D::Error::custom(std::format!("element type {code} is not known")))
    }
}

/// Declares unions: objects with a single key.
macro_rules! unions {
    ($($(#[$doc:meta])* $name:ident { $($(#[$note:meta])* $key:literal $variant:ident($kind:ty),)* })*) => {
        $($(#[$doc])*
        #[derive(Clone, Debug, Deserialize)]
        pub enum $name {
            $($(#[$note])* #[serde(rename = $key)] $variant($kind),)*
        })*
    };
}

unions! {
    /// What is passed to a call, or comes from it.
    Argument {
        /// Nothing.
        "as_none" None(bool),
        /// A tensor.
        "as_tensor" Tensor(TensorArgument),
        /// Tensors.
        "as_tensors" Tensors(Vec<TensorArgument>),
        /// A tensor or nothing.
        "as_optional_tensor" OptionalTensor(OptionalTensor),
        /// Tensors, some of them missing.
        "as_optional_tensors" OptionalTensors(Vec<OptionalTensor>),
        /// Lists of tensors.
        "as_nested_tensors" NestedTensors(Vec<Vec<TensorArgument>>),
        /// A number.
        "as_int" Int(i64),
        /// Numbers.
        "as_ints" Ints(Vec<i64>),
        /// Lists of numbers.
        "as_int_lists" IntLists(Vec<Vec<i64>>),
        /// A number.
        "as_float" Float(Float),
        /// Numbers.
        "as_floats" Floats(Vec<Float>),
        /// Lists of numbers.
        "as_float_lists" FloatLists(Vec<Vec<Float>>),
        /// A complex number.
        "as_complex" Complex(ComplexValue),
        /// A truth value.
        "as_bool" Bool(bool),
        /// Truth values.
        "as_bools" Bools(Vec<bool>),
        /// A word.
        "as_string" String(String),
        /// Words.
        "as_strings" Strings(Vec<String>),
        /// An integer that is known only when the program runs.
        "as_sym_int" SymInt(SymIntArgument),
        /// Integers, some of them known.
        "as_sym_ints" SymInts(Vec<SymIntArgument>),
        /// A number of that kind.
        "as_sym_float" SymFloat(SymFloatArgument),
        /// Numbers, some of them known.
        "as_sym_floats" SymFloats(Vec<SymFloatArgument>),
        /// A truth value of that kind.
        "as_sym_bool" SymBool(SymBoolArgument),
        /// Truth values, some of them known.
        "as_sym_bools" SymBools(Vec<SymBoolArgument>),
        /// An element type.
        "as_scalar_type" Dtype(Dtype),
        /// 1 contiguous, 2 channels last, 3 the same in 3-D, 4 as the argument is.
        "as_memory_format" MemoryFormat(i64),
        /// 7 is strided, which all tensors here are.
        "as_layout" Layout(i64),
        /// Where a tensor lives.
        "as_device" Device(Device),
        /// A branch or a loop's body.
        "as_graph" Graph(GraphArgument),
        /// An object that only Python knows.
        "as_custom_obj" CustomObject(CustomObject),
        /// An operator by name.
        "as_operator" Operator(String),
        /// Arguments by name.
        "as_string_to_argument" Named(BTreeMap<String, Argument>),
    }
    /// A tensor or nothing.
    OptionalTensor {
        /// A tensor.
        "as_tensor" Tensor(TensorArgument),
        /// Nothing.
        "as_none" None(bool),
    }
    /// An integer.
    SymIntArgument {
        /// By name.
        "as_name" Name(String),
        /// Itself.
        "as_int" Int(i64),
    }
    /// A floating-point number.
    SymFloatArgument {
        /// By name.
        "as_name" Name(String),
        /// Itself.
        "as_float" Float(Float),
    }
    /// A truth value.
    SymBoolArgument {
        /// By name.
        "as_name" Name(String),
        /// Itself.
        "as_bool" Bool(bool),
    }
    /// What an integer is in terms of symbols.
    SymInt {
        /// An expression.
        "as_expr" Expr(SymExpr),
        /// A known number.
        "as_int" Int(i64),
    }
    /// What a floating-point number is in terms of symbols.
    SymFloat {
        /// An expression.
        "as_expr" Expr(SymExpr),
        /// A known number.
        "as_float" Float(Float),
    }
    /// What a truth value is in terms of symbols.
    SymBool {
        /// An expression.
        "as_expr" Expr(SymExpr),
        /// A known one.
        "as_bool" Bool(bool),
    }
    /// A value that was seen at export.
    Hint {
        /// An integer.
        "as_int" Int(i64),
        /// A truth value.
        "as_bool" Bool(bool),
        /// A floating-point number.
        "as_float" Float(Float),
    }
    /// What an input stands for.
    InputSpec {
        /// What the caller passes.
        "user_input" User(UserInput),
        /// A trained tensor.
        "parameter" Parameter(ParameterInput),
        /// A tensor that the module keeps.
        "buffer" Buffer(BufferInput),
        /// A tensor that the module mentions.
        "tensor_constant" Constant(ConstantInput),
        /// An object that only Python knows.
        "custom_obj" CustomObject(CustomObjectInput),
        /// Orders effects; not a value.
        "token" Token(TokenInput),
        /// A caller's argument that was fixed at export.
        "constant_input" Fixed(FixedInput),
    }
    /// A known value.
    ConstantValue {
        /// Nothing.
        "as_none" None(bool),
        /// A number.
        "as_int" Int(i64),
        /// A number.
        "as_float" Float(Float),
        /// A word.
        "as_string" String(String),
        /// A truth value.
        "as_bool" Bool(bool),
    }
    /// What an output stands for.
    OutputSpec {
        /// What the caller gets.
        "user_output" User(UserInput),
        /// What training makes smaller.
        "loss_output" Loss(TensorOutput),
        /// The new state of a buffer.
        "buffer_mutation" Buffer(BufferOutput),
        /// The new state of a parameter.
        "parameter_mutation" Parameter(ParameterOutput),
        /// The new state of a caller's tensor.
        "user_input_mutation" Input(InputOutput),
        /// For training.
        "gradient_to_parameter" ParameterGradient(ParameterOutput),
        /// For training.
        "gradient_to_user_input" InputGradient(InputOutput),
        /// Orders effects; not a value.
        "token" Token(TokenInput),
    }
}

/// Declares plain objects.
macro_rules! objects {
    ($($(#[$doc:meta])* $name:ident { $($(#[$note:meta])* $field:ident: $kind:ty,)* })*) => {
        $($(#[$doc])*
        #[derive(Clone, Debug, Deserialize)]
        pub struct $name {
            $($(#[$note])* pub $field: $kind,)*
        })*
    };
}

objects! {
    /// A tensor by name.
    TensorArgument {
        /// The name.
        name: String,
    }
    /// A branch or a loop's body.
    GraphArgument {
        /// Its name.
        name: String,
        /// Itself.
        graph: Graph,
    }
    /// An object that only Python knows.
    CustomObject {
        /// Its name.
        name: String,
        /// Its class.
        class_fqn: String,
    }
    /// A complex number.
    ComplexValue {
        /// The one part.
        real: Float,
        /// The other.
        imag: Float,
    }
    /// Where a tensor lives.
    Device {
        /// Such as `cpu`.
        r#type: String,
    }
    /// An expression over symbols.
    SymExpr {
        /// As sympy prints it.
        expr_str: String,
        /// Its value at export.
        #[serde(default)]
        hint: Option<Hint>,
    }
    /// The type of a tensor.
    TensorMeta {
        /// Its elements.
        dtype: Dtype,
        /// Its sizes.
        sizes: Vec<SymInt>,
        /// Whether it is trained.
        #[serde(default)]
        requires_grad: bool,
        /// Distances of neighbours along each dimension, in elements.
        strides: Vec<SymInt>,
        /// Where it begins in its storage, in elements.
        storage_offset: SymInt,
    }
    /// What inputs and outputs stand for.
    GraphSignature {
        /// One for each input.
        input_specs: Vec<InputSpec>,
        /// One for each output.
        output_specs: Vec<OutputSpec>,
    }
    /// What the caller passes or gets.
    UserInput {
        /// It.
        arg: Argument,
    }
    /// A trained tensor.
    ParameterInput {
        /// Its name in the graph.
        arg: TensorArgument,
        /// Its name in the module.
        parameter_name: String,
    }
    /// A tensor that the module keeps.
    BufferInput {
        /// Its name in the graph.
        arg: TensorArgument,
        /// Its name in the module.
        buffer_name: String,
        /// Whether it is one of the module's weights.
        #[serde(default)]
        persistent: bool,
    }
    /// A tensor that the module mentions.
    ConstantInput {
        /// Its name in the graph.
        arg: TensorArgument,
        /// Its name in the module.
        tensor_constant_name: String,
    }
    /// An object that only Python knows.
    CustomObjectInput {
        /// Its name in the module.
        custom_obj_name: String,
    }
    /// Orders effects.
    TokenInput {
        /// Its name.
        arg: TensorArgument,
    }
    /// A caller's argument that was fixed at export.
    FixedInput {
        /// Its name.
        name: String,
        /// Its value.
        value: ConstantValue,
    }
    /// A tensor.
    TensorOutput {
        /// Its name in the graph.
        arg: TensorArgument,
    }
    /// The new state of a buffer.
    BufferOutput {
        /// Its name in the graph.
        arg: TensorArgument,
        /// The buffer.
        buffer_name: String,
    }
    /// What belongs to a parameter.
    ParameterOutput {
        /// Its name in the graph.
        arg: TensorArgument,
        /// The parameter.
        parameter_name: String,
    }
    /// What belongs to a caller's tensor.
    InputOutput {
        /// Its name in the graph.
        arg: TensorArgument,
        /// The caller's tensor.
        user_input_name: String,
    }
    /// Tensors in the archive by their names in the module.
    PayloadConfig {
        /// One entry for each.
        config: BTreeMap<String, PayloadMeta>,
    }
    /// Where a tensor's bytes are.
    PayloadMeta {
        /// The file in the folder.
        path_name: String,
        /// Whether it is a pickle, which only Python can read.
        use_pickle: bool,
        /// The tensor's type; its strides and offset are those in the file's bytes.
        tensor_meta: Option<TensorMeta>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_that_were_written() {
        let read = |text: &str| serde_json::from_str::<Float>(text).unwrap().0;
        assert_eq!(read("-3.4028234663852886e+38"), f64::from(f32::MIN));
        assert_eq!(read("0.30000000000000004"), 0.1 + 0.2);
        assert_eq!(read("\"-Infinity\""), f64::NEG_INFINITY);
    }

    #[test]
    fn unions_are_objects_with_one_key() {
        let read = serde_json::from_str::<Argument>;
        assert!(matches!(read(r#"{"as_int": -3}"#), Ok(Argument::Int(-3))));
        assert!(matches!(read(r#"{"as_none": true}"#), Ok(Argument::None(true))));
        let Ok(Argument::SymInts(list)) = read(r#"{"as_sym_ints": [{"as_name": "s0"}, {"as_int": 4}]}"#) else {
            panic!("no list of sizes")
        };
        assert!(matches!(&list[..], [SymIntArgument::Name(name), SymIntArgument::Int(4)] if name == "s0"));
        assert!(read(r#"{"as_int": 1, "as_float": 2.0}"#).is_err());
        assert!(read(r#"{"as_later": 1}"#).unwrap_err().to_string().contains("unknown variant `as_later`"));
    }

    /// torch counts element types from one here; those that `.pte` files do not have are not known.
    #[test]
    fn element_types_have_numbers_of_their_own() {
        let read = |text: &str| serde_json::from_str::<Dtype>(text).map(|dtype| dtype.0);
        assert_eq!(read("1").unwrap(), ScalarType::Byte);
        assert_eq!(read("7").unwrap(), ScalarType::Float);
        assert_eq!(read("12").unwrap(), ScalarType::Bool);
        assert_eq!(read("13").unwrap(), ScalarType::BFloat16);
        for code in ["0", "14", "36", "18446744073709551615"] {
            assert!(read(code).unwrap_err().to_string().contains(&format!("element type {code} is not known")));
        }
    }

    #[test]
    fn older_files_say_less_and_newer_ones_more() {
        let text = r#"{"graph_module": {"graph": {"inputs": [], "outputs": [], "nodes": [], "tensor_values": {}},
            "signature": {"input_specs": [], "output_specs": []}}, "schema_version": {"major": 8, "minor": 1},
            "guards_code": ["later"]}"#;
        let program: ExportedProgram = serde_json::from_str(text).unwrap();
        assert!(program.range_constraints.is_empty() && program.torch_version.is_empty());
        assert!(serde_json::from_str::<ExportedProgram>(&text.replace("nodes", "steps")).is_err());
    }

    /// Branches nest graphs in arguments; too deep is an error, not the end of the stack.
    #[test]
    fn graphs_do_not_nest_without_end() {
        let open = r#"{"as_string_to_argument": {"x": "#;
        let text = open.repeat(100_000) + r#"{"as_int": 1}"# + &"}}".repeat(100_000);
        assert!(serde_json::from_str::<Argument>(&text).unwrap_err().to_string().contains("recursion limit"));
    }
}
