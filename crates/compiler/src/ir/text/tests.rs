//! Programs to text and back.

use crate::ir::{Call, Program, parse, verify};
use crate::{import, lower};
use sconce_pt2::Archive;
use std::collections::HashMap;
use std::path::Path;

/// One statement of every kind, and one argument.
const EVERYTHING: &str = r#"decomposed
@0 = "weight" [0, 0, 128, 63]
@1 = [0, 0, 0, 0, 0, 0, 0, 0]
@2 = "cache" 4096 bytes
delegate 0 "Mine" 64 bytes option "level" [3] data "weight" @0 data "made" [1, 2] beyond 64
known "get_max_len" 128, "text", [0.5, -inf]
method "forward"
symbol s0 in 1..8 = size 0 of %0
symbol s1 in 0..
symbol u0 in -1..16 = %8
%0: float32[s0, 4] "x" = input
fixed none
%1: float32[1, 3, 4, 4] in order [0, 2, 3, 1] = input
%2: float32[1] "weight" = constant @0
%3: int64[] = constant @1
%4: float32[1024] "cache" = state @2
%5: bool[s0, 4] "mask" = aten::lt.Tensor(self: %0, other: %2)
%6: float32[s0, 4] "mul", %7: bool "flag" = my::mul.several(a: [%0, none, %2], b: values [], c: 3, d: -1.5, e: 1e-20, f: [s0, -1 + 2*s0*s1], g: [], h: [0.1, inf], i: floats [], j: [true, false], k: bools [], l: "a \"word\"", m: int64, n: channels_last, o: none)
%8: int "u0" = aten::item(self: %3)
%9: float "ratio" = python::_operator.truediv(a: %8, b: floor_div(3 + s0, max(2, s1)) + mod(s0, min(3, s1)))
%10: float32[s0, 4] "cond" = cond(condition: %7, inputs: [%0])
  block %11: float32[s0, 4] "left"
    %12: float32[s0, 4] "inner" = map(inputs: [%11])
      block %13: float32[4]
      give %13
  give %12
  block %14: float32[s0, 4] "right"
  give %14
%15: float32[s0, 4] "delegated", %16: float32[1024] "next" = delegate 0(inputs: [%10, %4])
update %4 = %16
output %15 "result"
output 1 + s0 ""
output none
nesting "[1, null]" "[]"
method "encode"
"#;

#[test]
fn every_statement_reads_back() {
    let program = parse(EVERYTHING).unwrap();
    assert_eq!(program.to_string(), EVERYTHING);
    assert_eq!(parse(&program.to_string()), Ok(program));
}

#[test]
fn errors_name_line_and_place() {
    for (text, expected) in [
        ("method \"f\"\n%0: float32[1] = fly %1", "line 2: expected '::', found '%1'"),
        (
            "method \"f\"\n%0: float32[1] = aten::abs(self: %1)",
            "line 2: expected a value that is made before this, found '%1)'",
        ),
        ("method \"f\"\n%0: float32[s0] = input", "line 2: expected a size, found 's0] = input'"),
        ("method \"f\"\n%0: float3[1] = input", "line 2: expected a type, found 'float3[1] = input'"),
        (
            "method \"f\"\n%0: int = input\n%0: int = input",
            "line 3: expected a value that is not made yet, found '%0: int = input'",
        ),
        ("method \"f\"\ngive", "line 2: expected a block before this, found ''"),
        ("method \"f\"\nblock\ngive", "line 3: expected a call with blocks before this, found ''"),
        ("method \"f\"\nsymbol s0 in 1", "line 2: expected a range such as 0..16, found '1'"),
        ("method \"f\"\nsymbol s0 in 1..2 = %3", "line 2: expected a value that is made somewhere, found '%3'"),
        ("method \"f\"\noutput [1, 0.5]", "line 2: expected a list of one kind, found '[1, 0.5]'"),
        ("@1 = [0]", "line 1: expected the number 0, found '1 = [0]'"),
        ("output %0", "line 1: expected a constant, a delegate or a method, found 'output %0'"),
    ] {
        assert_eq!(parse(text).unwrap_err().to_string(), expected);
    }
}

/// The same text with values numbered in the order in which they are mentioned.
fn renumbered(text: &str) -> String {
    let mut numbers = HashMap::new();
    let mut parts = text.split('%');
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        let next = numbers.len();
        let number = *numbers.entry(&part[..end]).or_insert(next);
        result += &format!("%{number}{}", &part[end..]);
    }
    result
}

fn reads_back(program: &Program<'_>, file: &Path) {
    assert_eq!(verify(program), Ok(()), "{}", file.display());
    let text = program.to_string();
    let again = parse(&text).unwrap_or_else(|error| panic!("{}: {error} in\n{text}", file.display()));
    assert_eq!(renumbered(&again.to_string()), renumbered(&text), "{}", file.display());
    assert_eq!(verify(&again), Ok(()), "{}", file.display());
    let calls = |program: &Program<'_>| {
        let mut all: Vec<Call> = Vec::new();
        program.functions.iter().for_each(|function| function.body.walk(&mut |call| all.push(call.clone())));
        all.len()
    };
    assert_eq!(calls(&again), calls(program));
}

/// What the compiler makes of real exports is in the text, before and after all rules.
#[test]
fn exports_read_back() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/pt2");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|kind| kind != "pt2") {
            continue;
        }
        let file = std::fs::read(&path).unwrap();
        let mut program = import(&Archive::read(&file).unwrap()).unwrap();
        reads_back(&program, &path);
        let Program { functions, constants, .. } = &mut program;
        functions.iter_mut().for_each(|function| lower::lower(function, constants).unwrap());
        reads_back(&program, &path);
        count += 1;
    }
    assert!(count > 50, "{count} exports");
}
