//! Functions as texts, and where their values are.

use super::{Border, Place, Places};
use crate::cut::{Cut, Piece, cut};
use crate::testing::Toy;
use sconce_graph::engine::Engine;
use sconce_graph::parse;
use sconce_graph::payload::Binding::{self, Argument, State as OfState};
use sconce_graph::payload::{Function, State};
use std::fmt::Write as _;
use std::sync::Arc;

fn function(text: &str, inputs: &[Binding], outputs: &[Binding]) -> Function {
    let graph = parse(text).unwrap();
    let bound = inputs.iter().chain(outputs);
    let states = bound.filter_map(|bound| if let OfState(number) = bound { Some(number + 1) } else { None }).max();
    let state = vec![State { initial: vec![7] }; states.unwrap_or(0)];
    Function { graph, inputs: inputs.into(), outputs: outputs.into(), state, ..Function::default() }
}

/// Where the pieces read and write, what is copied, and whose the rooms are.
fn places(function: Function, engines: &[Arc<dyn Engine>]) -> String {
    function.verify().unwrap();
    let border = Border::of(&function);
    let pieces = match engines {
        [_] => vec![Piece::whole(function.graph, 0)],
        _ => {
            let offered: Vec<_> = (0..engines.len()).collect();
            let Cut { pieces, .. } = cut(&function.graph, engines, &offered);
            pieces
        }
    };
    let Places { inputs, outputs, rooms, copies } = border.places(&pieces, engines).unwrap();
    let name = |place: &Place| match place {
        Place::Argument(number) => format!(" argument {number}"),
        Place::Room(number) => format!(" room {number}"),
    };
    let mut told = String::new();
    for ((piece, inputs), outputs) in pieces.iter().zip(inputs).zip(outputs) {
        let names = |places: &[Place]| places.iter().map(name).collect::<Vec<_>>().join(",");
        writeln!(told, "{}:{} ->{}", engines[piece.engine].name(), names(&inputs), names(&outputs)).unwrap();
    }
    copies.iter().for_each(|(from, to)| writeln!(told, "room {from} ->{}", name(to)).unwrap());
    for (number, room) in rooms.iter().enumerate() {
        let engine = room.engine.as_ref().map_or("the host", |engine| engine.name());
        let bytes = room.state.as_ref().map_or("", |_| ", outlives a call");
        writeln!(told, "room {number} of {engine}{bytes}").unwrap();
    }
    told
}

fn both() -> [Arc<dyn Engine>; 2] {
    [Toy::taking("a", &["abs", "add"]), Toy::last("c")]
}

const COUNTS: &str = "%0: float32[4] = input\n\
                      %1: float32[4] = input\n\
                      %2: float32[4] = add %0, %1\n\
                      output %2\n";

#[test]
fn arguments_come_in_the_order_of_their_bindings() {
    let text = "%0: float32[4] = input\n\
                %1: int32[4] = input\n\
                %2: float32[4] = abs %0\n\
                %3: int32[4] = abs %1\n\
                output %2, %3\n";
    let function = function(text, &[Argument(1), Argument(0)], &[Argument(1), Argument(0)]);
    let border = Border::of(&function);
    let types = |types: Vec<sconce_graph::Type>| types.iter().map(|ty| ty.to_string()).collect::<Vec<_>>();
    assert_eq!(types(border.input_types()), ["int32[4]", "float32[4]"]);
    assert_eq!(types(border.output_types()), ["int32[4]", "float32[4]"]);
    let expected = "c: argument 1, argument 0 -> argument 1, argument 0\n";
    assert_eq!(places(function, &both()[1..]), expected);
}

#[test]
fn a_whole_graph_writes_where_its_outputs_are() {
    let text = "%0: float32[4] = input\n%1: float32[4] = abs %0\noutput %1, %0, %1\n";
    let function = || Function::of(parse(text).unwrap());
    assert_eq!(places(function(), &both()[1..]), "c: argument 0 -> argument 0, argument 1, argument 2\n");
    // Of several pieces, each gives a value once; it is copied where it is wanted twice.
    let expected = "a: argument 0 -> room 0\n\
                    c: argument 0 -> argument 1\n\
                    room 0 -> argument 0\n\
                    room 0 -> argument 2\n\
                    room 0 of a\n";
    assert_eq!(places(function(), &both()), expected);
}

#[test]
fn an_output_that_is_read_later_has_a_room() {
    let text = "%0: float32[4] = input\n\
                %1: float32[4] = abs %0\n\
                %2: float32[4] = sin %1\n\
                output %1, %2\n";
    let expected = "a: argument 0 -> room 0\n\
                    c: room 0 -> argument 1\n\
                    room 0 -> argument 0\n\
                    room 0 of the host\n";
    assert_eq!(places(Function::of(parse(text).unwrap()), &both()), expected);
}

#[test]
fn what_one_engine_gives_itself_stays_on_its_device() {
    let text = "%0: float32[4] = input\n\
                %1: float32[4] = abs %0\n\
                %2: float32[4] = sin %1\n\
                %3: float32[4] = add %1, %2\n\
                %4: float32[4] = add %0, %2\n\
                %5: float32[4] = sin %4\n\
                %6: float32[4] = add %5, %3\n\
                output %6\n";
    let expected = "a: argument 0 -> room 0\n\
                    c: room 0 -> room 1\n\
                    a: room 0, room 1, argument 0 -> room 2, room 3\n\
                    c: room 3 -> room 4\n\
                    a: room 4, room 2 -> argument 0\n\
                    room 0 of the host\n\
                    room 1 of the host\n\
                    room 2 of a\n\
                    room 3 of the host\n\
                    room 4 of the host\n";
    assert_eq!(places(Function::of(parse(text).unwrap()), &both()), expected);
}

#[test]
fn what_outlives_a_call_is_read_in_one_room_and_written_in_another() {
    let counts = || function(COUNTS, &[OfState(0), Argument(0)], &[OfState(0)]);
    let expected = |engine| {
        format!(
            "{engine}: room 0, argument 0 -> room 1\n\
             room 0 of {engine}, outlives a call\n\
             room 1 of {engine}, outlives a call\n"
        )
    };
    assert_eq!(places(counts(), &both()), expected("a"));
    assert_eq!(places(counts(), &both()[1..]), expected("c"));
}

/// Both rooms of a state are on one side, because they change places: a copy leads to the second one, so neither is on the
/// device, though the engine is alone in touching them.
#[test]
fn a_state_that_is_returned_too_is_on_the_host() {
    let text = COUNTS.replace("output %2", "output %2, %2");
    let expected = "a: room 0, argument 0 -> room 2\n\
                    room 2 -> room 1\n\
                    room 2 -> argument 0\n\
                    room 0 of the host, outlives a call\n\
                    room 1 of the host, outlives a call\n\
                    room 2 of a\n";
    let function = function(&text, &[OfState(0), Argument(0)], &[OfState(0), Argument(0)]);
    assert_eq!(places(function, &both()), expected);
}
