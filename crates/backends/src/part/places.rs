//! Where values are while a part runs: arguments of the call, or rooms of the session.

use super::border::bytes_of;
use crate::cut::Piece;
use sconce_graph::engine::{Engine, Error};
use sconce_graph::payload::{Binding, Function};
use sconce_graph::{Shape, Type, ValueId};
use std::collections::HashMap;
use std::sync::Arc;

/// Where a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// In an input of the call, or in an output of it.
    Argument(usize),
    /// In a room of the session.
    Room(usize),
}

impl Place {
    pub(super) fn room(self) -> Option<usize> {
        match self {
            Self::Argument(_) => None,
            Self::Room(room) => Some(room),
        }
    }

    fn argument(self) -> Option<usize> {
        match self {
            Self::Argument(number) => Some(number),
            Self::Room(_) => None,
        }
    }
}

/// Memory that every session has for a value.
#[derive(Clone, Default)]
pub(super) struct RoomPlan {
    /// The engine that is alone in touching it.
    pub(super) engine: Option<Arc<dyn Engine>>,
    /// For what outlives a call: its sizes, its bytes, and what it holds before the first call.
    pub(super) state: Option<(Shape, usize, Vec<u8>)>,
}

/// The border of a function: what its graph takes and gives, and where that is.
pub(super) struct Border {
    inputs: Vec<(ValueId, Type, Place)>,
    outputs: Vec<(ValueId, Type, Place)>,
    states: Vec<Vec<u8>>,
}

/// The places of all values that pieces take and give.
pub(super) struct Places {
    /// By piece.
    pub(super) inputs: Vec<Vec<Place>>,
    pub(super) outputs: Vec<Vec<Place>>,
    pub(super) rooms: Vec<RoomPlan>,
    /// Rooms that are copied when all pieces have run, and where to.
    pub(super) copies: Vec<(usize, Place)>,
}

/// The rooms of something that outlives a call: one is read, the other is written for the next call.
pub(super) const ROOMS_OF_STATE: usize = 2;

impl Border {
    pub(super) fn of(function: &Function) -> Result<Self, Error> {
        let Function { graph, inputs, outputs, state, .. } = function;
        let refused = |text: &str| Error::Refused(format!("the function {} {text}", function.name));
        let known = |binding: &Binding| !matches!(binding, Binding::State(number) if *number >= state.len());
        if inputs.len() != graph.inputs.len() || outputs.len() != graph.outputs.len() {
            return Err(refused("binds another number of values than its graph has"));
        }
        if !inputs.iter().chain(outputs).all(known) {
            return Err(refused("binds a value to a state that it does not have"));
        }
        let bound = |ids: &[ValueId], bindings: &[Binding], room: usize| {
            let places = bindings.iter().map(|binding| match *binding {
                Binding::Argument(number) => Place::Argument(number),
                Binding::State(number) => Place::Room(ROOMS_OF_STATE * number + room),
            });
            ids.iter().zip(places).map(|(&id, place)| (id, graph.ty(id).clone(), place)).collect()
        };
        let own = Self {
            inputs: bound(&graph.inputs, inputs, 0),
            outputs: bound(&graph.outputs, outputs, 1),
            states: state.iter().map(|state| state.initial.clone()).collect(),
        };
        let whole = |values: &[(ValueId, Type, Place)]| {
            let mut numbers: Vec<_> = values.iter().filter_map(|(_, _, place)| place.argument()).collect();
            numbers.sort_unstable();
            let count = numbers.len();
            numbers.into_iter().eq(0..count)
        };
        match whole(&own.inputs) && whole(&own.outputs) {
            true => Ok(own),
            false => Err(refused("does not bind every argument of its call once")),
        }
    }

    /// The types of the call's inputs.
    pub(super) fn input_types(&self) -> Vec<Type> {
        types(&self.inputs)
    }

    /// The types of the call's outputs.
    pub(super) fn output_types(&self) -> Vec<Type> {
        types(&self.outputs)
    }

    /// Gives every value that a piece takes or gives a place.
    pub(super) fn places(&self, pieces: &[Piece], engines: &[Arc<dyn Engine>]) -> Result<Places, Error> {
        let mut places =
            Places { inputs: Vec::new(), outputs: Vec::new(), rooms: self.state_rooms()?, copies: Vec::new() };
        let mut at: HashMap<ValueId, Place> = self.inputs.iter().map(|(id, _, place)| (*id, *place)).collect();
        for (number, piece) in pieces.iter().enumerate() {
            let inputs = piece.inputs.iter().map(|id| at.get(id).copied());
            let lost = || Error::Refused("a piece of the graph reads what nobody makes before it".to_owned());
            places.inputs.push(inputs.collect::<Option<_>>().ok_or_else(lost)?);
            if pieces.len() == 1 {
                places.outputs.push(self.outputs.iter().map(|(_, _, place)| *place).collect());
                break;
            }
            let mut outputs = Vec::new();
            for id in &piece.outputs {
                let wanted: Vec<_> =
                    self.outputs.iter().filter(|(own, _, _)| own == id).map(|(_, _, to)| *to).collect();
                let read = pieces[number + 1..].iter().any(|later| later.inputs.contains(id));
                let place = match wanted[..] {
                    [alone] if !read => alone,
                    _ => {
                        let room = places.rooms.len();
                        places.rooms.push(RoomPlan::default());
                        places.copies.extend(wanted.iter().map(|to| (room, *to)));
                        Place::Room(room)
                    }
                };
                if read {
                    at.insert(*id, place);
                }
                outputs.push(place);
            }
            places.outputs.push(outputs);
        }
        places.settle_devices(pieces, engines);
        Ok(places)
    }

    fn state_rooms(&self) -> Result<Vec<RoomPlan>, Error> {
        let mut rooms = Vec::new();
        for (number, initial) in self.states.iter().enumerate() {
            let own = |place: &Place| matches!(place, Place::Room(room) if room / ROOMS_OF_STATE == number);
            let mut bound = self.inputs.iter().chain(&self.outputs).filter(|(_, _, place)| own(place));
            let (_, ty, _) =
                bound.next().ok_or_else(|| Error::Refused(format!("nothing is bound to state {number}")))?;
            let sizes = ty.sizes();
            let bytes = bytes_of(ty, &sizes).ok_or_else(|| Error::Memory(format!("state {number} is too large")))?;
            let state = Some((sizes, bytes, initial.clone()));
            rooms.extend([RoomPlan { engine: None, state: state.clone() }, RoomPlan { engine: None, state }]);
        }
        Ok(rooms)
    }
}

impl Places {
    /// Lets a room be on the device of an engine that is alone in touching it.
    fn settle_devices(&mut self, pieces: &[Piece], engines: &[Arc<dyn Engine>]) {
        let mut users: Vec<Vec<usize>> = vec![Vec::new(); self.rooms.len()];
        for (piece, (inputs, outputs)) in pieces.iter().zip(self.inputs.iter().zip(&self.outputs)) {
            for place in inputs.iter().chain(outputs) {
                place.room().into_iter().for_each(|room| users[room].push(piece.engine));
            }
        }
        // Both rooms of a state change places after each run.
        let pairs = self.rooms.iter().filter(|room| room.state.is_some()).count() / ROOMS_OF_STATE;
        for state in 0..pairs {
            let all: Vec<_> = users[ROOMS_OF_STATE * state..][..ROOMS_OF_STATE].concat();
            users[ROOMS_OF_STATE * state..][..ROOMS_OF_STATE].fill(all);
        }
        let filled = |room: usize| self.copies.iter().any(|(_, to)| *to == Place::Room(room));
        let alone = users.iter().enumerate().map(|(room, users)| match users[..] {
            [first, ref others @ ..] if others.iter().all(|other| *other == first) && !filled(room) => Some(first),
            _ => None,
        });
        let alone: Vec<_> = alone.collect();
        for (room, engine) in self.rooms.iter_mut().zip(alone) {
            room.engine = engine.map(|engine| engines[engine].clone());
        }
    }
}

/// The types of arguments, by number.
fn types(values: &[(ValueId, Type, Place)]) -> Vec<Type> {
    let mut numbered: Vec<_> = values.iter().filter_map(|(_, ty, place)| Some((place.argument()?, ty))).collect();
    numbered.sort_unstable_by_key(|(number, _)| *number);
    numbered.into_iter().map(|(_, ty)| ty.clone()).collect()
}
