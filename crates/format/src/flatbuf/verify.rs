//! The walk that accepts or refuses a buffer.
//!
//! One function driven by static rows, instead of code per table, keeps it small on a microcontroller.
//!
//! Time is bounded: a buffer may let many fields share one sub-table or one long vector, and then a small file could ask
//! for a walk that never ends. So every step is charged what it looks at, four bytes for following a distance and the
//! length for strings and vectors of numbers. Without sharing these bytes are all distinct and the sum cannot exceed the
//! buffer; [`SHARING`] says how often over a buffer may share. The same bound then holds for everyone who later walks the
//! accepted buffer element by element.

use super::{Scalar, follow, vector_bytes};
use crate::Error;

/// How many times its own length a buffer may add up to when everything shared is counted at each use.
const SHARING: u64 = 16;

/// The rows of one table. No table can contain itself, directly or not: the compiler refuses such rows as a cycle. So
/// the depth of a walk is bounded by the schema.
#[derive(Debug)]
pub struct Schema {
    pub(crate) fields: &'static [Field],
}

/// One row: where a field lies and what it holds.
#[derive(Debug)]
pub(crate) struct Field {
    /// The field's id (a union takes this one for the member's number and the next for its table).
    pub(crate) id: u16,
    /// What it holds.
    pub(crate) kind: Kind,
}

/// What a field holds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// A number of n bytes.
    Scalar(usize),
    /// A string.
    Text,
    /// A table.
    Table(&'static Schema),
    /// A union, by its members' numbers.
    Union(&'static [(u8, &'static Schema)]),
    /// A vector of numbers of n bytes each.
    Scalars(usize),
    /// A vector of strings.
    #[cfg_attr(not(test), expect(dead_code, reason = "rows may say [str], but no format here does so far"))]
    Texts,
    /// A vector of tables.
    Tables(&'static Schema),
}

/// Checks that everything reachable from the root of `bytes` is sound, taking the root for a `schema` table.
pub fn verify(bytes: &[u8], schema: &'static Schema) -> Result<(), Error> {
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let mut walk = Walk { bytes, budget: length.saturating_mul(SHARING) };
    let root = walk.follow(0)?;
    walk.table(root, schema)
}

#[cold]
fn corrupt(at: usize, what: &'static str) -> Error {
    Error::Corrupt { offset: u64::try_from(at).unwrap_or(u64::MAX), what }
}

struct Walk<'a> {
    bytes: &'a [u8],
    budget: u64,
}

impl<'a> Walk<'a> {
    fn charge(&mut self, at: usize, bytes: usize) -> Result<(), Error> {
        let left = u64::try_from(bytes).ok().and_then(|bytes| self.budget.checked_sub(bytes));
        self.budget = left.ok_or_else(|| corrupt(at, "the same parts are used over and over again"))?;
        Ok(())
    }

    fn follow(&mut self, at: usize) -> Result<usize, Error> {
        match follow(self.bytes, at) {
            Some(target) if target > at && target < self.bytes.len() => self.charge(at, 4).map(|()| target),
            _ => Err(corrupt(at, "an offset points outside the buffer")),
        }
    }

    /// The vtable of the table at `at`, and the size of the table itself, both in bounds.
    fn vtable(&self, at: usize) -> Result<(&'a [u8], usize), Error> {
        let found = || {
            let back = isize::try_from(i32::read(self.bytes, at)?).ok()?.checked_neg()?;
            let vtable = at.checked_add_signed(back)?;
            let size = usize::from(u16::read(self.bytes, vtable)?);
            let table = usize::from(u16::read(self.bytes, vtable.checked_add(2)?)?);
            let vtable = self.bytes.get(vtable..vtable.checked_add(size)?)?;
            self.bytes.get(at..at.checked_add(table)?)?;
            (size >= 4 && size.is_multiple_of(2) && table >= 4).then_some((vtable, table))
        };
        found().ok_or_else(|| corrupt(at, "a table has no sound vtable"))
    }

    fn table(&mut self, at: usize, schema: &'static Schema) -> Result<(), Error> {
        let (vtable, table_size) = self.vtable(at)?;
        let slot = |id: u16, size: usize| match u16::read(vtable, usize::from(id).saturating_mul(2).saturating_add(4)) {
            None | Some(0) => Ok(None),
            Some(offset) if offset >= 4 && usize::from(offset).saturating_add(size) <= table_size => {
                Ok(Some(at.saturating_add(offset.into())))
            }
            Some(_) => Err(corrupt(at, "a field lies outside its table")),
        };
        for field in schema.fields {
            let (id, size) = match field.kind {
                Kind::Scalar(size) => (field.id, size),
                Kind::Union(_) => (field.id.saturating_add(1), 4),
                _ => (field.id, 4),
            };
            let member = if let Kind::Union(_) = field.kind { slot(field.id, 1)? } else { None };
            let Some(place) = slot(id, size)? else {
                continue;
            };
            self.field(place, member, field.kind)?;
        }
        Ok(())
    }

    /// Checks what the field stored at `place` leads to. `member` is where a union's member number is stored.
    fn field(&mut self, place: usize, member: Option<usize>, kind: Kind) -> Result<(), Error> {
        match kind {
            Kind::Scalar(_) => Ok(()),
            Kind::Text => self.text(place),
            Kind::Table(schema) => {
                let target = self.follow(place)?;
                self.table(target, schema)
            }
            Kind::Union(members) => {
                let number = member.and_then(|at| u8::read(self.bytes, at)).unwrap_or(0);
                if number == 0 {
                    return Ok(());
                }
                let Some((_, schema)) = members.iter().find(|member| member.0 == number) else {
                    return Err(corrupt(place, "a union holds a member of an unknown kind"));
                };
                let target = self.follow(place)?;
                self.table(target, schema)
            }
            Kind::Scalars(size) => self.elements(place, size).and_then(|(at, len)| self.charge(at, len)),
            Kind::Texts | Kind::Tables(_) => {
                let (start, len) = self.elements(place, 4)?;
                for slot in (start..start.saturating_add(len)).step_by(4) {
                    match kind {
                        Kind::Tables(schema) => {
                            let target = self.follow(slot)?;
                            self.table(target, schema)?;
                        }
                        _ => self.text(slot)?,
                    }
                }
                Ok(())
            }
        }
    }

    /// The vector that the field at `place` leads to, as position and length in bytes.
    fn elements(&mut self, place: usize, size: usize) -> Result<(usize, usize), Error> {
        let at = self.follow(place)?;
        match vector_bytes(self.bytes, at, size) {
            Some(elements) => Ok((at.saturating_add(4), elements.len())),
            None => Err(corrupt(at, "a vector or string is longer than the buffer")),
        }
    }

    fn text(&mut self, place: usize) -> Result<(), Error> {
        let (start, len) = self.elements(place, 1)?;
        self.charge(start, len)?;
        let text = self.bytes.get(start..start.saturating_add(len)).unwrap_or_default();
        core::str::from_utf8(text).map(|_| ()).map_err(|_| corrupt(start, "a string is not UTF-8"))
    }
}
