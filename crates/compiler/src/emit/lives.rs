//! From when to when each tensor's memory is wanted, and where it comes to lie.
//!
//! A tensor that lies in another's memory (a view, an input of a block) makes that live longer; a placeholder, whose
//! place an instruction decides, all those in whose memory it may be. What stands for memory of its own is a *root*.
//! Roots that nothing bounds have arenas that grow, one at a time in each; the planner places all others.

use super::Emitter;
use crate::Error;
use crate::ir::{Origin, Program, ValueId};
use crate::memory::{self, Place, Planner, Role, Wanted};
use sconce_format::pte::model::{Dynamism, Memory, Storage, Tensor, Value};
use std::collections::{BTreeSet, HashMap};

/// When memory is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    first: usize,
    last: usize,
}

impl From<Place> for Memory {
    fn from(place: Place) -> Self {
        Self { id: place.arena, offset: place.offset }
    }
}

impl<'p> Emitter<'_, '_, 'p> {
    /// Notes that a tensor's memory is wanted at the next instruction.
    pub(super) fn use_now(&mut self, value: ValueId) {
        let (root, now) = (self.root(value), self.now());
        for place in self.placeholders.get(&root).cloned().unwrap_or_else(|| vec![root]) {
            let life = self.lives.entry(place).or_insert(Life { first: now, last: now });
            life.last = life.last.max(now);
        }
    }

    /// Keeps everything that was wanted before `start` and since then until now: a loop may read it again.
    pub(super) fn keep_over(&mut self, start: usize) {
        let now = self.now();
        for life in self.lives.values_mut().filter(|life| life.first < start && life.last >= start) {
            life.last = now;
        }
    }

    /// Gives all tensors without a place one.
    pub(super) fn place(&mut self, planner: &dyn Planner) -> Result<(), Error> {
        let mut owners: Vec<(ValueId, u32)> = self.entries.iter().map(|(&value, &entry)| (value, entry)).collect();
        owners.sort_by_key(|&(_, entry)| entry);
        let (free, roots): (Vec<_>, Vec<_>) =
            self.wanted_roots()?.into_iter().partition(|&(root, _)| self.is_unbound(root));
        let all = self.wanted_copies(&owners);
        let (free_copies, copies): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|&(entry, _)| self.is_free_entry(entry));
        let wanted = of(&roots).chain(of(&copies)).cloned().collect();
        let beyond = self.delegates.iter().map(|delegate| delegate.reads_beyond).max().unwrap_or(0);
        let growing: Vec<Wanted> = of(&free).chain(of(&free_copies)).cloned().collect();
        let plan = memory::Plan::new(&self.function.name, wanted, planner, beyond)?.with_growing(&growing);
        let (of_roots, of_copies) = plan.places.split_at(roots.len());
        let (of_free, of_free_copies) = plan.growing.split_at(free.len());
        let (roots, copies) = (roots.iter().chain(&free), copies.iter().chain(&free_copies));
        let places: HashMap<ValueId, Place> =
            roots.map(|(root, _)| *root).zip(of_roots.iter().chain(of_free).copied()).collect();
        for (value, entry) in owners {
            if let Some(&place) = places.get(&self.root(value)) {
                self.settle(value, entry, place);
            }
        }
        for (&(entry, _), &place) in copies.zip(of_copies.iter().chain(of_free_copies)) {
            if let Value::Tensor(tensor) = &mut self.plan.values[entry as usize] {
                tensor.storage = Storage::Planned(place.into());
            }
        }
        self.plan.buffer_sizes = std::iter::once(0).chain(plan.arenas.iter().copied()).collect();
        self.plan.buffer_sizes.resize(self.plan.buffer_sizes.len() + plan.growing_arenas(), 0);
        self.shared.memory.push(plan);
        Ok(())
    }

    /// Whether nothing bounds a tensor of the file's table.
    fn is_free_entry(&self, entry: u32) -> bool {
        matches!(&self.plan.values[entry as usize], Value::Tensor(tensor) if tensor.dynamism == Dynamism::Unbound)
    }

    /// What values with memory of their own need.
    fn wanted_roots(&self) -> Result<Vec<(ValueId, Wanted)>, Error> {
        let (function, end) = (self.function, self.now());
        let places =
            |output: &ValueId| self.placeholders.get(output).cloned().unwrap_or_else(|| vec![self.root(*output)]);
        let returned: BTreeSet<ValueId> = function.body.outputs.iter().flat_map(places).collect();
        let mut roots = Vec::new();
        for (&root, &life) in &self.lives {
            let value = function.get(root);
            let Life { mut first, mut last } = life;
            let role = match value.origin {
                _ if function.tensor(root).is_none() => continue,
                Origin::Constant(_) => continue,
                Origin::State(_) => Role::State,
                Origin::Input => Role::Input,
                _ if returned.contains(&root) => Role::Output,
                _ => Role::Between,
            };
            if matches!(role, Role::Input | Role::State) {
                first = 0;
            }
            if role == Role::State || returned.contains(&root) {
                last = end;
            }
            roots.push((root, Wanted { name: value.name.clone(), role, bytes: self.bytes(root)?, first, last }));
        }
        roots.sort_by_key(|(root, _)| *root);
        Ok(roots)
    }

    /// What tensors need that no value of ours stands for; they keep their memory for the whole run.
    fn wanted_copies(&self, owners: &[(ValueId, u32)]) -> Vec<(u32, Wanted)> {
        let owned: BTreeSet<u32> = owners.iter().map(|&(_, entry)| entry).collect();
        let bytes = |tensor: &Tensor| {
            let size = |&size: &i32| u64::try_from(size).unwrap_or(0);
            tensor.sizes.iter().map(size).fold(tensor.dtype.size() as u64, u64::saturating_mul)
        };
        let wanted = |(value, entry): (&Value, u32)| match value {
            Value::Tensor(tensor) if tensor.storage == Storage::Unplanned => {
                let of = self.copies.get(&entry).map_or("nothing", |value| &self.function.get(*value).name);
                let role = if self.plan.outputs.contains(&entry) { Role::Output } else { Role::Between };
                let (name, last) = (format!("copy of {of}"), self.now());
                Some((entry, Wanted { name, role, bytes: bytes(tensor), first: 0, last }))
            }
            _ => None,
        };
        let all = self.plan.values.iter().zip(0u32..).filter(|(_, entry)| !owned.contains(entry));
        all.filter_map(wanted).collect()
    }

    /// Lets a value lie where its root does.
    fn settle(&mut self, value: ValueId, entry: u32, place: Place) {
        let storage = match self.function.get(value).origin {
            Origin::State(id) => self.state(id.0, place.into()),
            _ => Storage::Planned(place.into()),
        };
        if let Value::Tensor(tensor) = &mut self.plan.values[entry as usize]
            && tensor.storage == Storage::Unplanned
            && !self.placeholders.contains_key(&value)
        {
            tensor.storage = storage;
        }
    }

    /// What the method keeps; zeros at first need no bytes in the file.
    fn state(&mut self, id: u32, memory: Memory) -> Storage {
        let program: &'p Program<'p> = self.shared.program;
        let bytes = &*program.constants.0[id as usize].bytes;
        if bytes.iter().all(|&byte| byte == 0) {
            return Storage::Planned(memory);
        }
        let states = &mut self.shared.file.initial_states;
        let index = *self.shared.states.entry(id).or_insert_with(|| {
            states.push(bytes.into());
            states.len() as u32 - 1
        });
        Storage::Initialised(memory, index)
    }
}

/// What is wanted, without who wants it.
fn of<T>(wanted: &[(T, Wanted)]) -> impl Iterator<Item = &Wanted> {
    wanted.iter().map(|(_, own)| own)
}
