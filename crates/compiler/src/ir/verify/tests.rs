//! Each rule broken once.

use super::*;
use crate::ir::{Origin, ValueId, parse};

/// What is wrong with a program of one method that has an input `%0`; constants stand before `---`.
fn wrong(text: &str) -> String {
    let (before, text) = text.split_once("---\n").unwrap_or(("", text));
    let text = format!("{before}method \"f\"\nsymbol s0 in 1..8\n%0: float32[s0, 4] \"x\" = input\n{text}");
    match verify(&parse(&text).unwrap()) {
        Ok(()) => panic!("nothing is wrong with\n{text}"),
        Err(error) => error.to_string(),
    }
}

fn each(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(wrong(text), format!("in the method \"f\" {expected}"), "{text}");
    }
}

#[test]
fn values_are_made_once_and_before_they_are_read() {
    each(&[
        (
            "%1: float32[4] = cond(condition: true, inputs: [])\nblock\n%2: float32[4] \"a\" = my::make()\ngive %2\n\
             block\n%3: float32[4] \"b\" = my::make()\ngive %3\noutput %2",
            "%2: float32[4] \"a\" is read as a result and not made",
        ),
        (
            "%1: float32[4] = cond(condition: true, inputs: [])\nblock\n%2: float32[4] \"a\" = my::make()\ngive %2\n\
             block\n%3: float32[4] \"b\" = aten::abs(self: %2)\ngive %3\noutput %1",
            "%2: float32[4] \"a\" is read by aten::abs as self and not made",
        ),
    ]);
    let mut program = parse("method \"f\"\n%0: int = my::a()\n%1: int = my::b(a: %0)\noutput %1").unwrap();
    program.functions[0].body.calls.swap(0, 1);
    let error = verify(&program).unwrap_err().to_string();
    assert_eq!(error, "in the method \"f\" %0: int is read by my::b as a and not made");
    program.functions[0].body.calls[0].outputs = vec![ValueId(0)];
    let error = verify(&program).unwrap_err().to_string();
    assert_eq!(error, "in the method \"f\" %0: int is read by my::b as a and not made");
    program.functions[0].body.calls[0].args.clear();
    assert_eq!(verify(&program).unwrap_err().to_string(), "in the method \"f\" %0: int is made twice");
    program.functions[0].values[0].origin = Origin::Input;
    let error = verify(&program).unwrap_err().to_string();
    assert_eq!(error, "in the method \"f\" my::b makes %0: int, which comes from elsewhere");
}

#[test]
fn numbers_name_what_is_there() {
    each(&[
        ("%1: float32[1] = constant @0\noutput %1", "%1: float32[1] is the constant @0, which is not there"),
        ("%1: float32[1] = delegate 0(inputs: [%0])", "there is no delegate 0"),
    ]);
    let mut program = parse("method \"f\"\n%0: int = my::a()\noutput %0").unwrap();
    program.functions[0].body.calls[0].set("self", ValueId(7));
    assert_eq!(verify(&program).unwrap_err().to_string(), "in the method \"f\" %7 is no value");
    program.functions[0].body.calls[0].set("self", crate::size::Size::from(crate::size::Symbol(2)));
    let error = verify(&program).unwrap_err().to_string();
    assert_eq!(error, "in the method \"f\" a symbol is read by my::a as self that is not there");
    let program = parse("delegate 0 \"Mine\" [] data \"w\" @3").unwrap();
    let error = verify(&program).unwrap_err().to_string();
    assert_eq!(error, "the data \"w\" of a delegate is the constant @3, which is not there");
}

#[test]
fn the_body_has_the_borders_of_the_method() {
    let mut program = parse("method \"f\"\n%0: int = input\noutput %0").unwrap();
    let good = program.clone();
    program.functions[0].body.inputs.clear();
    assert_eq!(verify(&program).unwrap_err().to_string(), "in the method \"f\" the inputs of the body are ");
    program = good.clone();
    program.functions[0].body.outputs.push(ValueId(0));
    assert_eq!(verify(&program).unwrap_err().to_string(), "in the method \"f\" the outputs of the body are %0, %0");
    each(&[("output [%0]", "a value goes in or out as something known")]);
}

#[test]
fn tensors_have_sizes_orders_and_bytes() {
    each(&[
        (
            "%1: float32[2, 3] in order [0, 0] = input",
            "the dimensions of %1: float32[2, 3] in order [0, 0] cannot lie in the order [0, 0]",
        ),
        (
            "%1: float32[2, 3] in order [1, 0] = my::make()",
            "%1: float32[2, 3] in order [1, 0], which is no input, does not lie row by row",
        ),
        ("%1: float32[-2] = my::make()", "a size of %1: float32[-2] is negative"),
        ("@0 = [1, 2]\n---\n%1: float32[1] = constant @0", "%1: float32[1] is the constant @0 of 2 bytes"),
        ("@0 = [1, 2]\n---\n%1: int8[s0] = state @0", "%1: int8[s0] is the constant @0 of 2 bytes"),
        ("@0 = [1, 2]\n---\n%1: int = constant @0", "%1: int is a constant and no tensor"),
    ]);
}

#[test]
fn calls_have_arguments_and_results() {
    each(&[
        ("my::check(self: %0)", "my::check makes nothing"),
        ("%1: int = my::a(self: %0, self: 3)", "my::a has two arguments self"),
        ("%1: int = my::a()\nblock\ngive", "my::a has 1 blocks and runs 0"),
        ("%1: int = while(carry: [])\nblock\ngive", "while has 1 blocks and runs 2"),
        ("%1: float32[s0, 5] = aten::view(size: [s0, 5])", "a view is not one of one tensor"),
        (
            "%1: float32[2, 3] = my::a()\n%2: float32[5] = aten::view(self: %1, size: [5])",
            "%2: float32[5] is a view of %1: float32[2, 3]",
        ),
        ("%1: int32[s0, 4] = aten::view(self: %0)", "%1: int32[s0, 4] is a view of %0: float32[s0, 4] \"x\""),
    ]);
}

#[test]
fn blocks_get_and_give_what_their_calls_say() {
    let sides = "block %1: float32[s0, 4]\ngive %1\nblock %2: float32[s0, 4]\ngive %2";
    each(&[
        (
            &format!("%3: float32[s0, 4] = cond(condition: 1, inputs: [%0])\n{sides}"),
            "the condition of a branch is no truth value",
        ),
        (
            &format!("%3: float32[s0, 4] = cond(condition: true, inputs: [none])\n{sides}"),
            "cond has inputs that are no values",
        ),
        (&format!("%3: float32[s0, 4] = cond(condition: true)\n{sides}"), "cond gets  for %2: float32[s0, 4]"),
        (
            &format!("%3: float32[s0, 5] = cond(condition: true, inputs: [%0])\n{sides}"),
            "cond gives %2: float32[s0, 4] for %1: float32[s0, 5]",
        ),
        (
            "%1: float32[s0, 4] = while(carry: [%0])\nblock %2: float32[s0, 4]\ngive %2\n\
             block %3: float32[s0, 4]\ngive %3",
            "the test of a loop gives no truth value",
        ),
        ("%1: float32[s0, 4] = map(inputs: [%0])\nblock %2: float32[5]\ngive %2", "map takes %2 for slices of %0"),
        ("%1: int32[s0, 4] = map(inputs: [%0])\nblock %2: float32[4]\ngive %2", "map takes %2 for slices of %1"),
        (
            "%1: int = my::a()\n%2: int, %3: float32[s0, 4] = scan(carry: [%1], inputs: [%0])\n\
             block %4: int, %5: float32[4]\ngive %5, %5",
            "scan carries %1: int for %5: float32[4]",
        ),
    ]);
}

#[test]
fn updates_are_of_what_is_kept() {
    let kept = "@0 = [1]\n---\n%1: int8[1] \"state\" = state @0\n";
    each(&[
        ("%1: int = my::a()\nupdate %1 = %1", "%1: int is updated and not kept"),
        (&format!("{kept}update %1 = %1\nupdate %1 = %1"), "%1: int8[1] \"state\" is updated twice"),
        (&format!("{kept}update %1 = %0"), "%1: int8[1] \"state\" is updated with %0: float32[s0, 4] \"x\""),
        (
            &format!("{kept}%2: int8[1] = constant @0\nupdate %1 = %2"),
            "%2: int8[1] is the constant @0, and that is kept elsewhere",
        ),
    ]);
}

#[test]
fn symbols_have_names_ranges_and_places() {
    each(&[
        ("symbol s0 in 1..2", "there are two symbols s0"),
        ("symbol s1 in 4..2", "the symbol s1 is in 4..2"),
        ("symbol s1 in 1..2 = size 0 of %0", "the symbol s1 does not follow from %0: float32[s0, 4] \"x\""),
        ("symbol s1 in 1..2 = %0", "the symbol s1 does not follow from %0: float32[s0, 4] \"x\""),
        (
            "symbol u0 in 1..2 = %2\n%1: float32[u0] = aten::full(size: [u0])\n%2: int \"u0\" = my::count(self: %0)",
            "%2: int \"u0\" is read for a size by aten::full as size and not made",
        ),
    ]);
}

#[test]
fn methods_and_data_have_names_of_their_own() {
    for (text, expected) in [
        ("known \"f\" 3\nmethod \"f\"", "there are two methods \"f\""),
        (
            "delegate 0 \"A\" [] data \"w\" [1]\ndelegate 1 \"A\" [] data \"w\" [2]",
            "the data \"w\" of two delegates differs",
        ),
    ] {
        assert_eq!(verify(&parse(text).unwrap()).unwrap_err().to_string(), expected);
    }
}
