//! Where planned tensors lie.
//!
//! A [`Planner`] gets what every tensor needs (what it is, how many bytes, from which instruction to which) and says
//! where each one lies: in which arena, and where in that. Arenas are blocks of memory that the device sets apart for
//! the program; they count from 1, and are the program's memory ids. [`Smallest`] is the default and has one; [`Tiers`]
//! fills a small fast one before a large slow one. A user's own planner implements the trait.
//!
//! A [`Plan`] is what came out. It is made only if no two tensors of one time overlap and every arena is within its
//! limit, whoever planned it, and it can be drawn.

mod draw;
mod tiers;

pub use tiers::Tiers;

use crate::Error;
use sconce_graph::memory::Buffer;

/// A tensor that needs memory from one instruction to another, both included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its name in the export, or that of what it was made from.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// How many bytes.
    pub bytes: u64,
    /// The instruction that first touches them.
    pub first: usize,
    /// The instruction that last does.
    pub last: usize,
}

impl Wanted {
    /// Whether there is an instruction at which both are wanted.
    pub fn meets(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// The bytes up to where another tensor may start.
    fn aligned(&self) -> u64 {
        self.bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX)
    }
}

/// What a tensor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The caller writes it.
    Input,
    /// The caller reads it.
    Output,
    /// The method keeps it from run to run.
    State,
    /// It lies between instructions.
    Between,
}

/// Where a tensor lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The arena, from 1: the memory id in the program.
    pub arena: u32,
    /// The first byte there.
    pub offset: u64,
}

/// Decides where tensors lie.
pub trait Planner {
    /// A place for each tensor. Two of one arena that are wanted at the same time must not overlap; offsets must be
    /// multiples of [`ALIGNMENT`]. An arena is as large as its tensors take and `beyond` bytes, which backends may read.
    fn place(&self, wanted: &[Wanted], beyond: u64) -> Result<Vec<Place>, Error>;

    /// The most bytes of the arenas 1, 2, ...; those without a limit may have any number.
    fn limits(&self) -> &[u64] {
        &[]
    }
}

/// What every offset is a multiple of.
pub const ALIGNMENT: u64 = 16;

/// The most arenas a program may have.
pub const MOST_ARENAS: u32 = 256;

/// The default: one arena, the largest first, each at the lowest place that is free as long as it is wanted. On the nets
/// at hand no plan of the official exporter is smaller.
#[derive(Clone, Copy, Debug, Default)]
pub struct Smallest;

impl Planner for Smallest {
    fn place(&self, wanted: &[Wanted], _beyond: u64) -> Result<Vec<Place>, Error> {
        let offsets = packed(wanted.iter()).into_iter();
        Ok(offsets.map(|offset| Place { arena: 1, offset }).collect())
    }
}

/// Offsets in one arena, the largest tensor first.
fn packed<'w>(wanted: impl Iterator<Item = &'w Wanted>) -> Vec<u64> {
    let bytes = |own: &Wanted| usize::try_from(own.aligned()).unwrap_or(usize::MAX).min(usize::MAX / 2);
    let buffers: Vec<Buffer> =
        wanted.map(|own| Buffer { bytes: bytes(own), first: own.first, last: own.last }).collect();
    let (offsets, _) = sconce_graph::memory::place(&buffers, ALIGNMENT as usize);
    offsets.into_iter().map(|offset| offset as u64).collect()
}

/// Where the tensors of a method lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The method.
    pub method: String,
    /// What each tensor needs.
    pub wanted: Vec<Wanted>,
    /// Where each one lies.
    pub places: Vec<Place>,
    /// The bytes of the arenas 1, 2, ...; there is at least one.
    pub arenas: Vec<u64>,
    /// Where tensors lie that nothing bounds: each at the start of one of the arenas after those, which grow.
    pub growing: Vec<Place>,
}

impl Plan {
    /// What a planner says, checked. Arenas that are not empty have `beyond` bytes after their last tensor.
    pub fn new(method: &str, wanted: Vec<Wanted>, planner: &dyn Planner, beyond: u64) -> Result<Self, Error> {
        let places = planner.place(&wanted, beyond)?;
        let mut plan = Self { method: method.to_owned(), wanted, places, arenas: vec![0], growing: Vec::new() };
        plan.check_places()?;
        for (own, place) in plan.wanted.iter().zip(&plan.places) {
            let index = place.arena as usize - 1;
            if plan.arenas.len() <= index {
                plan.arenas.resize(index + 1, 0);
            }
            let end = place.offset.saturating_add(own.aligned()).saturating_add(beyond);
            plan.arenas[index] = plan.arenas[index].max(end);
        }
        plan.check_overlaps()?;
        plan.check_limits(planner.limits())?;
        Ok(plan)
    }

    /// The same plan with tensors that nothing bounds. Of those that are wanted at one time each has an arena of its own.
    #[must_use]
    pub fn with_growing(mut self, wanted: &[Wanted]) -> Self {
        let mut order: Vec<usize> = (0..wanted.len()).collect();
        order.sort_by_key(|&index| wanted[index].first);
        let mut free_after: Vec<usize> = Vec::new();
        self.growing = vec![Place { arena: 0, offset: 0 }; wanted.len()];
        for index in order {
            let own = &wanted[index];
            let arena = free_after.iter().position(|&last| last < own.first).unwrap_or(free_after.len());
            match free_after.get_mut(arena) {
                Some(last) => *last = own.last,
                None => free_after.push(own.last),
            }
            self.growing[index].arena = (self.arenas.len() + arena + 1) as u32;
        }
        self
    }

    /// How many arenas grow.
    pub fn growing_arenas(&self) -> usize {
        let last = self.growing.iter().map(|place| place.arena as usize).max();
        last.map_or(0, |last| last - self.arenas.len())
    }

    /// The bytes of all arenas, without those that grow.
    pub fn total(&self) -> u64 {
        self.arenas.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// The tensors of an arena with their places.
    fn of_arena(&self, arena: u32) -> impl Iterator<Item = (&Wanted, &Place)> {
        self.wanted.iter().zip(&self.places).filter(move |(_, place)| place.arena == arena)
    }

    fn check_places(&self) -> Result<(), Error> {
        let (given, wanted) = (self.places.len(), self.wanted.len());
        if given != wanted {
            return Err(self.wrong(format!("the planner gave {given} places for {wanted} tensors")));
        }
        for (own, &Place { arena, offset }) in self.wanted.iter().zip(&self.places) {
            if arena == 0 || arena > MOST_ARENAS {
                let name = &own.name;
                return Err(self.wrong(format!("{name} lies in arena {arena}; arenas count from 1 to {MOST_ARENAS}")));
            }
            if !offset.is_multiple_of(ALIGNMENT) {
                let name = &own.name;
                return Err(self.wrong(format!("{name} lies at {offset}, which is not a multiple of {ALIGNMENT}")));
            }
        }
        Ok(())
    }

    fn check_overlaps(&self) -> Result<(), Error> {
        let mut order: Vec<(&Wanted, &Place)> = self.wanted.iter().zip(&self.places).collect();
        order.retain(|(own, _)| own.bytes > 0);
        order.sort_by_key(|(own, place)| (place.arena, own.first));
        let mut present: Vec<(&Wanted, &Place)> = Vec::new();
        for (own, place) in order {
            present.retain(|(other, there)| there.arena == place.arena && other.last >= own.first);
            let end = |own: &Wanted, place: &Place| place.offset.saturating_add(own.bytes);
            let overlaps = |(other, there): &&(&Wanted, &Place)| {
                there.offset < end(own, place) && place.offset < end(other, there)
            };
            if let Some((other, there)) = present.iter().find(overlaps) {
                return Err(self.wrong(format!(
                    "{} ({} bytes at {}) and {} ({} bytes at {}) overlap in arena {} at instruction {}",
                    other.name, other.bytes, there.offset, own.name, own.bytes, place.offset, place.arena, own.first
                )));
            }
            present.push((own, place));
        }
        Ok(())
    }

    fn check_limits(&self, limits: &[u64]) -> Result<(), Error> {
        for ((arena, &bytes), &limit) in (1..).zip(&self.arenas).zip(limits) {
            if bytes > limit {
                return Err(self.wrong(format!(
                    "arena {arena} takes {bytes} bytes, {} more than its limit of {limit}; {}: raise the limit, or add \
                     an arena",
                    bytes - limit,
                    self.fullest(arena)
                )));
            }
        }
        Ok(())
    }

    /// The moment at which most is wanted of an arena, in words.
    fn fullest(&self, arena: u32) -> String {
        const SHOWN: usize = 5;
        let at = |instruction: usize| {
            self.of_arena(arena).map(|(own, _)| own).filter(move |own| (own.first..=own.last).contains(&instruction))
        };
        let sum = |instruction: usize| at(instruction).map(|own| own.bytes).fold(0, u64::saturating_add);
        let starts = self.of_arena(arena).map(|(own, _)| own.first);
        let Some(moment) = starts.max_by_key(|&start| (sum(start), std::cmp::Reverse(start))) else {
            return "it is empty".to_owned();
        };
        let mut there: Vec<&Wanted> = at(moment).collect();
        there.sort_by_key(|own| (std::cmp::Reverse(own.bytes), own.first));
        let mut names: Vec<String> =
            there.iter().take(SHOWN).map(|own| format!("{} ({} bytes)", own.name, own.bytes)).collect();
        if there.len() > SHOWN {
            names.push(format!("{} smaller ones", there.len() - SHOWN));
        }
        format!("at instruction {moment} {} bytes are wanted there, by {}", sum(moment), names.join(", "))
    }

    fn wrong(&self, what: String) -> Error {
        Error::Memory { method: self.method.clone(), what }
    }
}

/// The example in the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/memory.md")]
struct Documentation;

#[cfg(test)]
mod tests;
