//! Bundled programs, `.bpte`: a whole program file inside a FlatBuffer, with inputs and expected outputs per method.
//! They serve tests, so the file is read whole.

use crate::flatbuf::tables;
use crate::pte::{check_identifier, ensure, number, shape};
use crate::{Error, FileKind, Place, Rule, ScalarType};

#[cfg(feature = "write")]
pub mod model;

tables! {
    /// The root.
    table BundledProgram { 0 version: u32, 1 method_test_suites: [BundledMethodTestSuite], 2 program: [u8] }
    /// The test cases of one method.
    table BundledMethodTestSuite { 0 method_name: str, 1 test_cases: [BundledMethodTestCase] }
    /// Inputs, and what they must give.
    table BundledMethodTestCase { 0 inputs: [Value], 1 expected_outputs: [Value] }
    /// One input or output.
    table Value { 0 val: union ValueUnion }
    /// What an input or output can be.
    union ValueUnion { 1 Tensor, 2 Int, 3 Bool, 4 Double }
    /// A tensor with its data.
    table Tensor { 0 scalar_type: i8, 1 sizes: [i32], 2 data: [u8], 3 dim_order: [u8] }
    /// An integer.
    table Int { 0 int_val: i64 }
    /// A truth value.
    table Bool { 0 bool_val: bool }
    /// A floating-point number.
    table Double { 0 double_val: f64 }
}

impl Tensor<'_> {
    /// The element type. (`Byte`, the format's default, on bytes that were not checked.)
    pub fn dtype(self) -> ScalarType {
        ScalarType::from_i8(self.scalar_type()).unwrap_or(ScalarType::Byte)
    }
}

/// A bundled program.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    root: BundledProgram<'a>,
}

impl<'a> File<'a> {
    /// Verifies the bundle. The program inside is a file of its own, to be parsed by [`crate::pte`].
    pub fn parse(bytes: &'a [u8]) -> Result<File<'a>, Error> {
        check_identifier(bytes, u64::try_from(bytes.len()).unwrap_or(u64::MAX), FileKind::Bundle)?;
        BundledProgram::verify(bytes)?;
        let file = File::reopen(bytes);
        file.check()?;
        Ok(file)
    }

    /// A view over bytes that [`File::parse`] accepted before, at no cost.
    pub fn reopen(bytes: &'a [u8]) -> File<'a> {
        File { root: BundledProgram::root(bytes) }
    }

    /// The root table.
    pub fn root(&self) -> BundledProgram<'a> {
        self.root
    }

    /// The program file.
    pub fn program(&self) -> &'a [u8] {
        self.root.program().bytes()
    }

    /// The test suites, one per method.
    pub fn suites(&self) -> crate::flatbuf::Vector<'a, BundledMethodTestSuite<'a>> {
        self.root.method_test_suites()
    }

    /// The test suite of a method.
    pub fn suite(&self, method: &str) -> Option<BundledMethodTestSuite<'a>> {
        self.suites().iter().find(|suite| suite.method_name() == Some(method))
    }

    fn check(&self) -> Result<(), Error> {
        ensure(self.root.program().is_present(), Place::File, Rule::ProgramMissing)?;
        for (i, suite) in self.suites().iter().enumerate() {
            ensure(suite.method_name().is_some(), Place::TestSuite(number(i)), Rule::NameMissing)?;
            for (j, case) in suite.test_cases().iter().enumerate() {
                let place = Place::TestCase { suite: number(i), case: number(j) };
                case.inputs().iter().chain(case.expected_outputs().iter()).try_for_each(|value| check(value, place))?;
            }
        }
        Ok(())
    }
}

fn check(value: Value<'_>, place: Place) -> Result<(), Error> {
    let val = value.val();
    if !val.table().is_present() {
        return Err(Error::invalid(place, Rule::PayloadMissing, val.code(), 0));
    }
    let ValueUnion::Tensor(tensor) = val else {
        return Ok(());
    };
    let nbytes = shape(tensor.scalar_type(), tensor.sizes(), tensor.dim_order(), place)?;
    match u64::try_from(tensor.data().len()) {
        Ok(len) if len == nbytes => Ok(()),
        len => Err(Error::invalid(place, Rule::DataSize, len.unwrap_or(u64::MAX), nbytes)),
    }
}

#[cfg(all(test, feature = "write"))]
mod tests;
