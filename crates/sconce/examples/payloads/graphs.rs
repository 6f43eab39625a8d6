//! A format of payloads that are graphs: it is read into the form that every engine runs.
//!
//! The first byte is the length of the longest list; each of the others does something with a stack: `x` pushes the input,
//! `s` the state, a number that outlives a call; `+` and `*` combine two, `r` sums one up, `=` makes the top the state of the
//! next call. What lies on top in the end is the output.
use sconce::graph::payload::{Binding, Context, Function, Payload, State, Unreadable};
use sconce::graph::{Combine, Dim, Element, Graph, Op, Reduction, Symbol, Type, ValueId};
use sconce::{Error, Options, Registry, ScalarType};

pub(crate) struct Polish;

impl Payload for Polish {
    fn backend(&self) -> &'static str {
        "PolishBackend"
    }

    fn read(&self, payload: &[u8], _: &Context<'_>) -> Result<Vec<Function>, Unreadable> {
        let (most, words) = payload.split_first().ok_or_else(|| Unreadable::at("byte 0", "there is no length"))?;
        let element = Element::Plain(ScalarType::Float);
        let list = Dim::Symbol(Symbol { name: "n".to_owned(), most: usize::from(*most) });
        let of = |dim: &Dim| Type { element: element.clone(), dims: vec![dim.clone()] };
        let (mut graph, number) = (Graph::default(), Dim::Fixed(1));
        let (x, s) = (graph.input(of(&list)), graph.input(of(&number)));
        let (mut stack, mut next): (Vec<ValueId>, _) = (Vec::new(), s);
        for (word, byte) in words.iter().zip(1..) {
            let lacks = || Unreadable::at(format_args!("byte {byte}"), "there is too little on the stack");
            let mut pop = || stack.pop().ok_or_else(lacks);
            let made = match word {
                b'x' => x,
                b's' => s,
                b'+' | b'*' => {
                    let (b, a) = (pop()?, pop()?);
                    let of_numbers = [a, b].iter().all(|&id| graph.ty(id).dims[0] == number);
                    let combine = if *word == b'+' { Combine::Add } else { Combine::Multiply };
                    graph.node(Op::Combine(combine), vec![a, b], of(if of_numbers { &number } else { &list }))
                }
                b'r' => {
                    let sum = Op::Reduce { of: Reduction::Sum, axes: vec![0], keep: true };
                    graph.node(sum, vec![pop()?], of(&number))
                }
                b'=' => {
                    next = pop()?;
                    next
                }
                _ => return Err(Unreadable::at(format_args!("byte {byte}"), format_args!("there is no word {word}"))),
            };
            stack.push(made);
        }
        let output = stack.pop().ok_or_else(|| Unreadable::at("the end", "there is nothing on the stack"))?;
        if graph.ty(next).dims[0] != number {
            return Err(Unreadable::from("the state would be a list".to_owned()));
        }
        graph.outputs = vec![output, next];
        let function = Function {
            graph,
            inputs: vec![Binding::Argument(0), Binding::State(0)],
            outputs: vec![Binding::Argument(0), Binding::State(0)],
            state: vec![State { initial: 1f32.to_le_bytes().to_vec() }],
            ..Function::default()
        };
        function.verify()?;
        Ok(vec![function])
    }
}

/// The state is one more than the sum of all numbers so far; the output is the list times that.
pub(crate) const RUNNING: &[u8] = b"\x10xrs+=x*";

pub(crate) fn run() -> Result<Vec<String>, Error> {
    let mut registry = Registry::empty();
    registry.add_payload(Polish);
    let file = crate::program("PolishBackend", RUNNING, ScalarType::Float, 1, 16);
    let module = Options::new().registry(registry).threads(1).load(&file)?;
    let (mut one, mut other, mut lines) = (module.session()?, module.session()?, Vec::new());
    for list in [&[1.0f32, 2.0, 3.0][..], &[10.0], &[1.0, -1.0]] {
        lines.push(format!("{list:?} gives {:?}", crate::call(&mut one, &[list])?));
    }
    lines.push(format!("another session gives {:?}", crate::call(&mut other, &[&[1.0f32, -1.0]])?));
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_outlives_a_call_and_sizes_change() {
        let expected = [
            "[1.0, 2.0, 3.0] gives [7.0, 14.0, 21.0]",
            "[10.0] gives [170.0]",
            "[1.0, -1.0] gives [17.0, -17.0]",
            "another session gives [1.0, -1.0]",
        ];
        assert_eq!(run().unwrap(), expected);
    }

    #[test]
    fn broken_payloads_are_told_with_their_place() {
        for (payload, expected) in [
            (&b""[..], "byte 0: there is no length"),
            (b"\x04x+", "byte 2: there is too little on the stack"),
            (b"\x04x?", "byte 2: there is no word 63"),
            (b"\x04", "the end: there is nothing on the stack"),
            (b"\x04x=", "the state would be a list"),
        ] {
            assert_eq!(Polish.read(payload, &Context::NONE).unwrap_err().to_string(), expected);
        }
    }
}
