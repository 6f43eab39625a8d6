//! Typed values, and how one is read after the other.

use crate::{Error, Place, Rule};

/// How deep arrays may lie in arrays.
const MOST_DEPTH: u32 = 4;

/// The kinds that are no numbers.
const BOOL: u32 = 7;
const TEXT: u32 = 8;
const ARRAY: u32 = 9;
const LAST: u32 = 12;

/// One thing after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn take(&mut self, count: u64) -> Result<&'a [u8], Error> {
        let end = usize::try_from(count).ok().and_then(|count| self.at.checked_add(count));
        let Some((end, taken)) = end.and_then(|end| Some((end, self.bytes.get(self.at..end)?))) else {
            let expected = size(self.at).saturating_add(count);
            return Err(Error::Truncated { expected, actual: size(self.bytes.len()) });
        };
        self.at = end;
        Ok(taken)
    }

    fn exactly<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let short = Error::Truncated { expected: size(self.at.saturating_add(N)), actual: size(self.bytes.len()) };
        self.take(size(N))?.try_into().map_err(|_| short)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Error> {
        self.exactly().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Error> {
        self.exactly().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Result<&'a [u8], Error> {
        let count = self.u64()?;
        self.take(count)
    }

    /// The name of something.
    pub(super) fn name(&mut self) -> Result<&'a str, Error> {
        let offset = size(self.at);
        core::str::from_utf8(self.text()?).map_err(|_| Error::Corrupt { offset, what: "a name is not UTF-8" })
    }

    fn array(&mut self, place: Place, depth: u32) -> Result<Array<'a>, Error> {
        if depth == MOST_DEPTH {
            return Err(Error::invalid(place, Rule::ArrayDepth, depth, MOST_DEPTH));
        }
        let (kind, count) = (self.u32()?, self.u64()?);
        let start = *self;
        match width(kind) {
            Some(width) => drop(self.take(count.saturating_mul(width))?),
            // Each has 8 bytes at least, so this ends with the file.
            None => {
                for _ in 0..count {
                    self.value(kind, place, depth + 1)?;
                }
            }
        }
        Ok(Array { kind, count, items: start })
    }
}

/// Bytes as the numbers of errors.
pub(super) fn size(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

macro_rules! values {
    ($($kind:literal $name:ident $type:ident $bytes:literal;)*) => {
        /// A value of the metadata.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum Value<'a> {
            $(#[doc = concat!("A number: `", stringify!($type), "`.")] $name($type),)*
            /// A truth value.
            Bool(bool),
            /// Text; UTF-8 is promised, but tokens may be parts of characters.
            Text(&'a [u8]),
            /// Several of one kind.
            Array(Array<'a>),
        }

        /// The bytes of a value of this kind, if all have as many.
        fn width(kind: u32) -> Option<u64> {
            match kind { $($kind => Some($bytes),)* BOOL => Some(1), _ => None }
        }

        impl<'a> Cursor<'a> {
            /// A value of this kind.
            pub(super) fn value(&mut self, kind: u32, place: Place, depth: u32) -> Result<Value<'a>, Error> {
                Ok(match kind {
                    $($kind => Value::$name($type::from_le_bytes(self.exactly()?)),)*
                    BOOL => Value::Bool(self.exactly()? != [0]),
                    TEXT => Value::Text(self.text()?),
                    ARRAY => Value::Array(self.array(place, depth)?),
                    _ => return Err(Error::invalid(place, Rule::ValueKind, kind, LAST)),
                })
            }
        }

        impl<'a> Value<'a> {
            /// A whole number that is not negative.
            pub fn natural(self) -> Option<u64> {
                match self { $(Self::$name(number) => natural::$type(number),)* _ => None }
            }
        }
    };
}

values! {
    0 U8 u8 1;
    1 I8 i8 1;
    2 U16 u16 2;
    3 I16 i16 2;
    4 U32 u32 4;
    5 I32 i32 4;
    6 F32 f32 4;
    10 U64 u64 8;
    11 I64 i64 8;
    12 F64 f64 8;
}

/// Numbers of all types as whole ones.
mod natural {
    macro_rules! whole {
        ($($type:ident)*) => { $(pub(super) fn $type(number: $type) -> Option<u64> { u64::try_from(number).ok() })* };
    }
    whole!(u8 i8 u16 i16 u32 i32 u64 i64);

    pub(super) fn f32(_: f32) -> Option<u64> {
        None
    }

    pub(super) fn f64(_: f64) -> Option<u64> {
        None
    }
}

impl<'a> Value<'a> {
    /// Text in UTF-8.
    pub fn text(self) -> Option<&'a str> {
        match self {
            Self::Text(text) => core::str::from_utf8(text).ok(),
            _ => None,
        }
    }
}

/// Several values of one kind, still encoded: a vocabulary has hundreds of thousands.
#[derive(Clone, Copy, Debug)]
pub struct Array<'a> {
    kind: u32,
    count: u64,
    items: Cursor<'a>,
}

impl<'a> Array<'a> {
    /// How many.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The values.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let (kind, mut items) = (self.kind, self.items);
        (0..self.count).map_while(move |_| items.value(kind, Place::File, 0).ok())
    }
}

impl PartialEq for Array<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.count == other.count && self.iter().eq(other.iter())
    }
}
