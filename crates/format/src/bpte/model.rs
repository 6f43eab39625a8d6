//! A bundled program as owned values, to be made, changed and written.

use super::{BundledMethodTestCase, BundledMethodTestSuite, BundledProgram, File, ValueUnion};
use crate::builder::{Builder, Slot};
use crate::{Error, FileKind, ScalarType};
use std::borrow::{Cow, ToOwned};
use std::string::String;
use std::vec::Vec;

/// A whole bundled program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bundle<'a> {
    /// Always 0 so far.
    pub version: u32,
    /// The program file.
    pub program: Cow<'a, [u8]>,
    /// The test suites, one per method.
    pub suites: Vec<Suite<'a>>,
}

/// The test cases of one method.
#[derive(Clone, Debug, PartialEq)]
pub struct Suite<'a> {
    /// The method's name.
    pub method: String,
    /// Its cases.
    pub cases: Vec<Case<'a>>,
}

/// Inputs, and what they must give.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Case<'a> {
    /// The inputs in order.
    pub inputs: Vec<Value<'a>>,
    /// The outputs in order.
    pub outputs: Vec<Value<'a>>,
}

/// One input or output.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// A tensor.
    Tensor(Tensor<'a>),
    /// An integer.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A floating-point number.
    Double(f64),
}

/// A tensor with its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor<'a> {
    /// Element type.
    pub dtype: ScalarType,
    /// Sizes.
    pub sizes: Vec<i32>,
    /// Dimensions from outermost to innermost.
    pub dim_order: Vec<u8>,
    /// The elements, as they lie in memory.
    pub data: Cow<'a, [u8]>,
}

impl<'a> Bundle<'a> {
    /// Reads and checks a whole bundled program; the program inside is not looked into.
    pub fn read(bytes: &'a [u8]) -> Result<Bundle<'a>, Error> {
        let file = File::parse(bytes)?;
        let suite = |suite: super::BundledMethodTestSuite<'a>| Suite {
            method: suite.method_name().unwrap_or_default().to_owned(),
            cases: suite.test_cases().iter().map(case).collect(),
        };
        Ok(Bundle {
            version: file.root().version(),
            program: Cow::Borrowed(file.program()),
            suites: file.suites().iter().map(suite).collect(),
        })
    }

    /// The bundle as a file, the program in it aligned to 32 bytes.
    pub fn write(&self) -> Vec<u8> {
        let mut b = Builder::new();
        let suites = b.tables(&self.suites, |b, suite| {
            let name = b.string(&suite.method);
            let cases = b.tables(&suite.cases, |b, case| {
                let inputs = b.tables(&case.inputs, write_value);
                let outputs = b.tables(&case.outputs, write_value);
                BundledMethodTestCase::fields().inputs(inputs).expected_outputs(outputs).write(b)
            });
            BundledMethodTestSuite::fields().method_name(name).test_cases(cases).write(b)
        });
        let program = b.bytes(&self.program, 32);
        let root =
            BundledProgram::fields().version(self.version).method_test_suites(suites).program(program).write(&mut b);
        b.finish(root, FileKind::Bundle.identifier())
    }
}

fn case(case: BundledMethodTestCase<'_>) -> Case<'_> {
    Case {
        inputs: case.inputs().iter().filter_map(|v| read_value(v.val())).collect(),
        outputs: case.expected_outputs().iter().filter_map(|v| read_value(v.val())).collect(),
    }
}

fn read_value(value: ValueUnion<'_>) -> Option<Value<'_>> {
    Some(match value {
        ValueUnion::None => return None,
        ValueUnion::Int(value) => Value::Int(value.int_val()),
        ValueUnion::Bool(value) => Value::Bool(value.bool_val()),
        ValueUnion::Double(value) => Value::Double(value.double_val()),
        ValueUnion::Tensor(tensor) => Value::Tensor(Tensor {
            dtype: tensor.dtype(),
            sizes: tensor.sizes().iter().collect(),
            dim_order: tensor.dim_order().bytes().to_vec(),
            data: Cow::Borrowed(tensor.data().bytes()),
        }),
    })
}

fn write_value(b: &mut Builder, value: &Value<'_>) -> Slot {
    let whole = super::Value::fields();
    match value {
        Value::Tensor(tensor) => {
            let data = b.bytes(&tensor.data, 16);
            let (sizes, dim_order) = (b.scalars(&tensor.sizes), b.scalars(&tensor.dim_order));
            let table = super::Tensor::fields().scalar_type(tensor.dtype.code() as i8);
            whole.val(ValueUnion::Tensor, table.sizes(sizes).data(data).dim_order(dim_order).write(b))
        }
        Value::Int(value) => whole.val(ValueUnion::Int, super::Int::fields().int_val(*value).write(b)),
        Value::Bool(value) => whole.val(ValueUnion::Bool, super::Bool::fields().bool_val(*value).write(b)),
        Value::Double(value) => whole.val(ValueUnion::Double, super::Double::fields().double_val(*value).write(b)),
    }
    .write(b)
}
