//! Where values are while a part runs: arguments of the call, or rooms of the session.

use super::border::bytes_of;
use crate::cut::Piece;
use sconce_graph::engine::{Engine, Error};
use sconce_graph::payload::{Binding, Function};
use sconce_graph::{Element, Shape, Type, ValueId};
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
pub(super) struct RoomPlan {
    pub(super) element: Element,
    /// The engine that is alone in touching it.
    pub(super) engine: Option<Arc<dyn Engine>>,
    /// For what outlives a call.
    pub(super) state: Option<StatePlan>,
}

/// What outlives a call.
#[derive(Clone)]
pub(super) struct StatePlan {
    pub(super) sizes: Shape,
    pub(super) bytes: usize,
    /// What it holds before the first call; zeros where it ends early.
    pub(super) initial: Arc<[u8]>,
}

/// The border of a function: what its graph takes and gives, and where that is.
pub(super) struct Border {
    inputs: Vec<(ValueId, Type, Place)>,
    outputs: Vec<(ValueId, Type, Place)>,
    states: Vec<Arc<[u8]>>,
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
    /// Of a function that holds to the rules.
    pub(super) fn of(function: &Function) -> Self {
        let Function { graph, inputs, outputs, state, .. } = function;
        let bound = |ids: &[ValueId], bindings: &[Binding], room: usize| {
            let places = bindings.iter().map(|binding| match *binding {
                Binding::Argument(number) => Place::Argument(number),
                Binding::State(number) => Place::Room(ROOMS_OF_STATE * number + room),
            });
            ids.iter().zip(places).map(|(&id, place)| (id, graph.ty(id).clone(), place)).collect()
        };
        Self {
            inputs: bound(&graph.inputs, inputs, 0),
            outputs: bound(&graph.outputs, outputs, 1),
            states: state.iter().map(|state| state.initial.as_slice().into()).collect(),
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
        let mut wanted: HashMap<ValueId, Vec<Place>> = HashMap::new();
        self.outputs.iter().for_each(|(id, _, to)| wanted.entry(*id).or_default().push(*to));
        let reads =
            pieces.iter().enumerate().flat_map(|(number, piece)| piece.inputs.iter().map(move |id| (*id, number)));
        let last_reads: HashMap<ValueId, usize> = reads.collect();
        for (number, piece) in pieces.iter().enumerate() {
            let inputs = piece.inputs.iter().map(|id| at.get(id).copied());
            let lost = || Error::Refused("a piece of the graph reads what nobody makes before it".to_owned());
            places.inputs.push(inputs.collect::<Option<_>>().ok_or_else(lost)?);
            if pieces.len() == 1 && self.outputs.iter().map(|(id, ..)| id).eq(&piece.outputs) {
                places.outputs.push(self.outputs.iter().map(|(_, _, to)| *to).collect());
                break;
            }
            let mut outputs = Vec::new();
            for (id, element) in piece.outputs.iter().zip(&piece.elements) {
                let is_read = last_reads.get(id).is_some_and(|last| *last > number);
                let place = match wanted.get(id).map(Vec::as_slice) {
                    Some(&[alone]) if !is_read => alone,
                    wanted => places.new_room(element.clone(), wanted.unwrap_or_default()),
                };
                at.insert(*id, place);
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
            let nothing = || Error::Refused(format!("nothing is bound to state {number}"));
            let (_, ty, _) = bound.next().ok_or_else(nothing)?;
            let sizes = ty.sizes();
            let bytes =
                bytes_of(&ty.element, &sizes).ok_or_else(|| Error::Memory(format!("state {number} is too large")))?;
            let state = StatePlan { sizes, bytes, initial: initial.clone() };
            let room = || RoomPlan { element: ty.element.clone(), engine: None, state: Some(state.clone()) };
            rooms.extend([room(), room()]);
        }
        Ok(rooms)
    }
}

impl Places {
    /// A room for a value that is copied to these places when all pieces have run.
    fn new_room(&mut self, element: Element, wanted: &[Place]) -> Place {
        let room = self.rooms.len();
        self.rooms.push(RoomPlan { element, engine: None, state: None });
        self.copies.extend(wanted.iter().map(|to| (room, *to)));
        Place::Room(room)
    }

    /// Lets a room be on the device of an engine that is alone in touching it.
    fn settle_devices(&mut self, pieces: &[Piece], engines: &[Arc<dyn Engine>]) {
        let mut users: Vec<Vec<usize>> = vec![Vec::new(); self.rooms.len()];
        for (piece, (inputs, outputs)) in pieces.iter().zip(self.inputs.iter().zip(&self.outputs)) {
            for place in inputs.iter().chain(outputs) {
                place.room().into_iter().for_each(|room| users[room].push(piece.engine));
            }
        }
        let mut filled = vec![false; self.rooms.len()];
        self.copies.iter().filter_map(|(_, to)| to.room()).for_each(|room| filled[room] = true);
        // Both rooms of a state change places after each run.
        let states = self.rooms.iter().filter(|room| room.state.is_some()).count();
        let (users, filled) = (&mut users[..], &mut filled[..]);
        for (users, filled) in
            users[..states].chunks_exact_mut(ROOMS_OF_STATE).zip(filled.chunks_exact_mut(ROOMS_OF_STATE))
        {
            let all = users.concat();
            users.fill(all);
            let any = filled.contains(&true);
            filled.fill(any);
        }
        for (room, (users, filled)) in self.rooms.iter_mut().zip(users.iter().zip(&*filled)) {
            room.engine = match users[..] {
                [first, ref others @ ..] if others.iter().all(|other| *other == first) && !filled => {
                    Some(engines[first].clone())
                }
                _ => None,
            };
        }
    }
}

/// The types of arguments, by number.
fn types(values: &[(ValueId, Type, Place)]) -> Vec<Type> {
    let mut numbered: Vec<_> = values.iter().filter_map(|(_, ty, place)| Some((place.argument()?, ty))).collect();
    numbered.sort_unstable_by_key(|(number, _)| *number);
    numbered.into_iter().map(|(_, ty)| ty.clone()).collect()
}

#[cfg(test)]
mod tests;
