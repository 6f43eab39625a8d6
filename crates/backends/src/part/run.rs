//! A call of a part.
//!
//! All pieces are planned before the first one runs, because outputs are resized before they are written. A call takes no
//! memory but what its sizes ask for anew: its lists lie where those of the call before were.

use super::border::{bytes_of, check_input, check_output, in_memory, logical, produced, widen};
use super::places::{Place, ROOMS_OF_STATE, RoomPlan, StatePlan};
use super::{Part, Planned};
use crate::constants::InProgram;
use crate::rooms::Room;
use sconce_core::{Call, Code, Fault, TensorMut};
use sconce_graph::Shape;
use sconce_graph::engine::{Error, Operand, OperandMut, Run, Session, reuse};
use std::mem::take;

/// Checks that values of so many bytes are not more than a session may take.
fn within(most: usize, values: impl Iterator<Item = Option<usize>>) -> Result<(), Error> {
    let sum = values.into_iter().try_fold(0usize, |sum, bytes| sum.checked_add(bytes?));
    match sum.is_some_and(|sum| sum <= most) {
        true => Ok(()),
        false => Err(Error::Memory(format!("what a session keeps in memory takes more than the {most} bytes it may"))),
    }
}

/// What a session keeps of a part.
pub(super) struct Running {
    pub(super) sessions: Vec<Box<dyn Session>>,
    rooms: Vec<Room>,
    sizes: Sizes,
    /// Why the last run failed.
    pub(super) reason: String,
    lists: Lists,
}

/// The sizes of values in a call, by place.
struct Sizes {
    inputs: Vec<Shape>,
    outputs: Vec<Shape>,
    rooms: Vec<Shape>,
}

impl Sizes {
    fn read(&self, place: Place) -> &Shape {
        match place {
            Place::Argument(number) => &self.inputs[number],
            Place::Room(number) => &self.rooms[number],
        }
    }

    fn written(&mut self, place: Place) -> &mut Shape {
        match place {
            Place::Argument(number) => &mut self.outputs[number],
            Place::Room(number) => &mut self.rooms[number],
        }
    }
}

/// Lists of a call.
#[derive(Default)]
struct Lists {
    sizes: Vec<&'static [usize]>,
    inputs: Vec<&'static [u8]>,
    outputs: Vec<TensorMut<'static>>,
    values: Vec<(u32, &'static [u8])>,
    /// The memory of outputs, until a piece takes it.
    slots: Vec<Option<&'static mut [u8]>>,
    /// What a piece reads, and writes.
    reads: Vec<Operand<'static>>,
    writes: Vec<OperandMut<'static>>,
    /// The rooms that it writes.
    rooms: Vec<Room>,
}

impl Running {
    pub(super) fn new(part: &Part) -> Result<Self, Error> {
        let states = part.rooms.iter().filter_map(|plan| plan.state.as_ref());
        within(part.memory, states.map(|state| Some(state.bytes)))?;
        let room = |plan: &RoomPlan| match &plan.state {
            Some(state) => Room::new(plan.engine.as_deref(), state.bytes, &state.initial),
            None => Ok(Room::default()),
        };
        let state_sizes = |plan: &RoomPlan| plan.state.as_ref().map_or(Shape::new(), |state| state.sizes.clone());
        Ok(Self {
            sessions: part.pieces.iter().map(|piece| piece.model.clone().session()).collect(),
            rooms: part.rooms.iter().map(room).collect::<Result<_, _>>()?,
            sizes: Sizes {
                inputs: vec![Shape::new(); part.inputs.len()],
                outputs: vec![Shape::new(); part.outputs.len()],
                rooms: part.rooms.iter().map(state_sizes).collect(),
            },
            reason: String::new(),
            lists: Lists::default(),
        })
    }

    /// Another session, with the same in what outlives a call.
    pub(super) fn copy(&self, part: &Part) -> Result<Self, Error> {
        let mut copy = Self::new(part)?;
        for ((plan, from), to) in part.rooms.iter().zip(&self.rooms).zip(&mut copy.rooms) {
            if let Some(state) = &plan.state {
                let mut held = vec![0; state.bytes];
                from.copy_to(&mut held)?;
                *to = Room::new(plan.engine.as_deref(), state.bytes, &held)?;
            }
        }
        Ok(copy)
    }

    pub(super) fn run(&mut self, part: &Part, call: &mut Call<'_>) -> Result<(), Fault> {
        let arguments = part.inputs.len() + part.outputs.len();
        if call.len() != arguments {
            let count = Fault::new(Code::InvalidProgram, "the delegate takes {} arguments, the call passes {}");
            return Err(count.with([arguments, call.len()]));
        }
        let mut inputs = reuse(take(&mut self.lists.inputs));
        for (index, (ty, sizes)) in part.inputs.iter().zip(&mut self.sizes.inputs).enumerate() {
            let tensor = call.tensor(index)?;
            sizes.clone_from(&in_memory(&tensor.shape));
            check_input(ty, sizes, &tensor).map_err(|fault| fault.at(index))?;
            inputs.push(tensor.data);
        }
        let planned = self.plan(part, call.parallel().width());
        planned.map_err(|error| {
            self.explained(error, Code::InvalidArgument, "the sizes of the inputs do not suit the delegate")
        })?;
        let mut outputs = reuse(take(&mut self.lists.outputs));
        for (index, (ty, sizes)) in part.outputs.iter().zip(&self.sizes.outputs).enumerate() {
            let argument = inputs.len() + index;
            let (_, declared) = call.tensor_type(argument)?;
            let mut output = call.out(argument, &logical(&declared, sizes))?;
            check_output(ty, sizes, &mut output).map_err(|fault| fault.at(argument))?;
            outputs.push(output);
        }
        let mut values = reuse(take(&mut self.lists.values));
        values.extend(part.values.iter().filter_map(|&value| Some((value, call.constant_value(value)?))));
        let constants = InProgram { program: call.program(), names: &part.names, values: &values };
        let run = Run { parallel: call.parallel(), constants: &constants };
        let ran = self.run_pieces(part, &run, &inputs, &mut outputs);
        ran.map_err(|error| self.explained(error, Code::Internal, "the delegate's plan does not fit its arguments"))?;
        part.outputs.iter().zip(&mut outputs).for_each(|(ty, output)| widen(ty, output));
        self.lists.inputs = reuse(inputs);
        self.lists.outputs = reuse(outputs);
        self.lists.values = reuse(values);
        Ok(())
    }

    /// Keeps the whole sentence; the fault says it in short, with the code that the error has of itself, or else this one.
    fn explained(&mut self, error: Error, code: Code, text: &'static str) -> Fault {
        self.reason = error.to_string();
        match error {
            Error::Memory(_) => Fault::new(Code::MemoryAllocationFailed, "there is not enough memory for the delegate"),
            _ => Fault::new(code, text),
        }
    }

    /// Plans all pieces, each for the sizes of what those before it make, and takes room for what passes between them.
    fn plan(&mut self, part: &Part, width: usize) -> Result<(), Error> {
        for (number, piece) in part.pieces.iter().enumerate() {
            let mut sizes = reuse(take(&mut self.lists.sizes));
            sizes.extend(piece.inputs.iter().map(|&place| self.sizes.read(place).as_slice()));
            let made = self.sessions[number].plan(&sizes, width)?;
            self.lists.sizes = reuse(sizes);
            for (&place, sizes) in piece.outputs.iter().zip(made) {
                self.sizes.written(place).clone_from(sizes);
            }
        }
        for &(from, to) in &part.copies {
            let sizes = self.sizes.rooms[from].clone();
            *self.sizes.written(to) = sizes;
        }
        self.take_rooms(part)
    }

    /// Takes room for what passes between pieces. What outlives a call has it.
    fn take_rooms(&mut self, part: &Part) -> Result<(), Error> {
        let rooms = || part.rooms.iter().zip(&self.sizes.rooms);
        within(part.memory, rooms().map(|(plan, sizes)| bytes_of(&plan.element, sizes)))?;
        for (number, (plan, sizes)) in rooms().enumerate() {
            match &plan.state {
                None => {
                    let bytes = bytes_of(&plan.element, sizes).unwrap_or(usize::MAX);
                    self.rooms[number].resize(plan.engine.as_deref(), bytes)?;
                }
                Some(state) if state.sizes == *sizes => {}
                Some(StatePlan { sizes: own, .. }) => {
                    let text = format!("what outlives a call has sizes {own:?}, and would get sizes {sizes:?}");
                    return Err(Error::Sizes(text));
                }
            }
        }
        Ok(())
    }

    fn run_pieces(
        &mut self,
        part: &Part,
        run: &Run<'_>,
        inputs: &[&[u8]],
        outputs: &mut [TensorMut<'_>],
    ) -> Result<(), Error> {
        let mut slots = reuse(take(&mut self.lists.slots));
        slots.extend(part.outputs.iter().zip(outputs).map(|(ty, output)| Some(produced(ty, output))));
        for (number, piece) in part.pieces.iter().enumerate() {
            self.run_piece(number, piece, run, inputs, &mut slots)?;
        }
        for &(from, to) in &part.copies {
            match to {
                Place::Argument(number) => {
                    slots[number].take().map_or(Ok(()), |slot| self.rooms[from].copy_to(slot))?
                }
                Place::Room(room) => {
                    let mut into = take(&mut self.rooms[room]);
                    let copied = into.copy_from(&self.rooms[from]);
                    self.rooms[room] = into;
                    copied?;
                }
            }
        }
        self.lists.slots = reuse(slots);
        // What was written is what the next call reads.
        let states = part.rooms.iter().filter(|plan| plan.state.is_some()).count();
        self.rooms[..states].chunks_exact_mut(ROOMS_OF_STATE).for_each(|rooms| rooms.swap(0, 1));
        Ok(())
    }

    fn run_piece(
        &mut self,
        number: usize,
        piece: &Planned,
        run: &Run<'_>,
        inputs: &[&[u8]],
        slots: &mut [Option<&mut [u8]>],
    ) -> Result<(), Error> {
        // Rooms are taken out while they are written, so that others can be read.
        let mut taken = take(&mut self.lists.rooms);
        taken.extend(piece.outputs.iter().filter_map(|place| place.room()).map(|room| take(&mut self.rooms[room])));
        let mut reads = reuse(take(&mut self.lists.reads));
        reads.extend(piece.inputs.iter().map(|&place| match place {
            Place::Argument(number) => Operand::Host(inputs[number]),
            Place::Room(room) => self.rooms[room].read(),
        }));
        let mut writes = reuse(take(&mut self.lists.writes));
        let mut own = taken.iter_mut();
        for &place in &piece.outputs {
            let write = match place {
                Place::Argument(number) => slots[number].take().map(OperandMut::Host),
                Place::Room(_) => own.next().map(Room::write),
            };
            writes.push(write.ok_or_else(|| Error::Failed("two values have one place".to_owned()))?);
        }
        let session = &mut self.sessions[number];
        let ran = session.submit(run, &reads, &mut writes).and_then(|()| session.wait(&mut writes));
        self.lists.reads = reuse(reads);
        self.lists.writes = reuse(writes);
        let rooms = piece.outputs.iter().filter_map(|place| place.room());
        rooms.zip(taken.drain(..)).for_each(|(room, own)| self.rooms[room] = own);
        self.lists.rooms = taken;
        ran
    }
}
