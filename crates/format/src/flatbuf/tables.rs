//! Rows in, typed views and typed writers out.

/// Declares tables and unions as rows, in the words of the format's schema.
///
/// ```text
/// tables! {
///     /// A thing with a default, a list and a choice.
///     table Thing {
///         0 count: i32 = -1,          // number with a default: `count() -> i32`
///         1 name: str,                // `name() -> Option<&'a str>`
///         2 sizes: [i32],             // `sizes() -> Scalars<'a, i32>`
///         3 parts: [Part],            // `parts() -> Vector<'a, Part<'a>>`, likewise `[str]`
///         4 first: Part,              // `first() -> Option<Part<'a>>`
///         5 shape: union Shape,       // ids 5 and 6: `shape() -> Shape<'a>`
///     }
///     /// One of two.
///     union Shape { 1 Circle, 2 Square }
///     /// Members that share a table.
///     union Sum { 1 Add as Pair, 2 Subtract as Pair }
/// }
/// ```
///
/// Each table becomes a `Copy` struct with one accessor per row, `root` (a view over a buffer), `verify` (the check of a
/// buffer) and `is_present`. Each union becomes an enum with a variant per member and `None`.
///
/// With the feature `write`, `fields()` begins a table to be written, by the same names: numbers as they are, the rest as what
/// the builder gave for it, a union as a member and its table.
///
/// ```text
/// let shape = Circle::fields().radius(2).write(b);
/// Thing::fields().count(3).name(name).shape(Shape::Circle, shape).write(b)
/// ```
macro_rules! tables {
    () => {};
    (
        $(#[$meta:meta])* table $name:ident {
            $($(#[$note:meta])* $id:literal $field:ident : $kind:tt $($arg:ident)? $(= $default:literal)?),* $(,)?
        }
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<'a>($crate::flatbuf::Table<'a>);

        impl<'a> $crate::flatbuf::View<'a> for $name<'a> {
            const SCHEMA: &'static $crate::flatbuf::Schema = {
                static ROWS: $crate::flatbuf::Schema = $crate::flatbuf::Schema {
                    fields: &[$($crate::flatbuf::Field {
                        id: $id,
                        kind: $crate::flatbuf::class!(kind () $kind $($arg)?),
                    }),*],
                };
                &ROWS
            };

            fn over(table: $crate::flatbuf::Table<'a>) -> Self {
                $name(table)
            }

            fn table(self) -> $crate::flatbuf::Table<'a> {
                self.0
            }
        }

        impl<'a> $name<'a> {
            /// The view of a buffer whose root is this table.
            pub fn root(bytes: &'a [u8]) -> Self {
                $name($crate::flatbuf::Table::root(bytes))
            }

            /// Checks a buffer whose root is this table.
            pub fn verify(bytes: &[u8]) -> Result<(), $crate::Error> {
                $crate::flatbuf::verify(bytes, <Self as $crate::flatbuf::View>::SCHEMA)
            }

            /// Whether there is a table under the view. (A union may name a member and leave its table out.)
            pub fn is_present(self) -> bool {
                self.0.is_present()
            }

            /// A table of this kind, to be written.
            #[cfg(feature = "write")]
            #[allow(dead_code)]
            pub(crate) fn fields() -> $crate::builder::Fields<$name<'static>> {
                $crate::builder::Fields::new()
            }

            $($crate::flatbuf::class! {
                accessor (
                    #[doc = concat!("The field `", stringify!($field), "`, id ", $id, ".")] $(#[doc = ""] #[$note])*
                    $id $field $($default)?
                ) $kind $($arg)?
            })*
        }

        #[cfg(feature = "write")]
        #[allow(dead_code, clippy::wrong_self_convention)]
        impl $crate::builder::Fields<$name<'static>> {
            $($crate::flatbuf::class! { setter ($id $field $($default)?) $kind $($arg)? })*
        }

        $crate::flatbuf::tables! { $($rest)* }
    };
    (
        $(#[$meta:meta])* union $name:ident { $($number:literal $member:ident),* $(,)? }
        $($rest:tt)*
    ) => {
        $crate::flatbuf::tables! { $(#[$meta])* union $name { $($number $member as $member),* } $($rest)* }
    };
    (
        $(#[$meta:meta])* union $name:ident { $($number:literal $member:ident as $table:ident),* $(,)? }
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        pub enum $name<'a> {
            /// No member.
            None,
            $(#[doc = concat!("Member ", $number, ", a [`", stringify!($table), "`](struct@", stringify!($table), ").")]
            $member($table<'a>),)*
        }

        impl<'a> $name<'a> {
            /// The members' tables by number.
            pub const MEMBERS: &'static [(u8, &'static $crate::flatbuf::Schema)] =
                &[$(($number, <$table<'static> as $crate::flatbuf::View<'static>>::SCHEMA)),*];

            /// The member's number in the file, 0 for none.
            pub fn code(self) -> u8 {
                match self {
                    $name::None => 0,
                    $($name::$member(_) => $number,)*
                }
            }

            /// The member's table; not present for `None` and for a member that the file leaves out.
            pub fn table(self) -> $crate::flatbuf::Table<'a> {
                match self {
                    $name::None => $crate::flatbuf::Table::ABSENT,
                    $($name::$member(member) => member.0,)*
                }
            }

            fn member(number: u8, table: $crate::flatbuf::Table<'a>) -> Self {
                match number {
                    $($number => $name::$member($table(table)),)*
                    _ => $name::None,
                }
            }
        }

        $crate::flatbuf::tables! { $($rest)* }
    };
}

/// Sorts the type of a row into scalar, text, table and union, alone or (in the plural) in a vector, and passes it on to
/// `$then!` as `scalar i32 (row)`, `tables Part (row)` and so on.
macro_rules! class {
    ($then:ident $row:tt bool) => {
        $crate::flatbuf::$then! { scalar bool $row }
    };
    ($then:ident $row:tt u8) => {
        $crate::flatbuf::$then! { scalar u8 $row }
    };
    ($then:ident $row:tt i8) => {
        $crate::flatbuf::$then! { scalar i8 $row }
    };
    ($then:ident $row:tt u16) => {
        $crate::flatbuf::$then! { scalar u16 $row }
    };
    ($then:ident $row:tt i16) => {
        $crate::flatbuf::$then! { scalar i16 $row }
    };
    ($then:ident $row:tt u32) => {
        $crate::flatbuf::$then! { scalar u32 $row }
    };
    ($then:ident $row:tt i32) => {
        $crate::flatbuf::$then! { scalar i32 $row }
    };
    ($then:ident $row:tt u64) => {
        $crate::flatbuf::$then! { scalar u64 $row }
    };
    ($then:ident $row:tt i64) => {
        $crate::flatbuf::$then! { scalar i64 $row }
    };
    ($then:ident $row:tt f32) => {
        $crate::flatbuf::$then! { scalar f32 $row }
    };
    ($then:ident $row:tt f64) => {
        $crate::flatbuf::$then! { scalar f64 $row }
    };
    ($then:ident $row:tt str) => {
        $crate::flatbuf::$then! { text $row }
    };
    ($then:ident $row:tt union $name:ident) => {
        $crate::flatbuf::$then! { union $name $row }
    };
    ($then:ident $row:tt [bool]) => {
        $crate::flatbuf::$then! { scalars bool $row }
    };
    ($then:ident $row:tt [u8]) => {
        $crate::flatbuf::$then! { scalars u8 $row }
    };
    ($then:ident $row:tt [i8]) => {
        $crate::flatbuf::$then! { scalars i8 $row }
    };
    ($then:ident $row:tt [u16]) => {
        $crate::flatbuf::$then! { scalars u16 $row }
    };
    ($then:ident $row:tt [i16]) => {
        $crate::flatbuf::$then! { scalars i16 $row }
    };
    ($then:ident $row:tt [u32]) => {
        $crate::flatbuf::$then! { scalars u32 $row }
    };
    ($then:ident $row:tt [i32]) => {
        $crate::flatbuf::$then! { scalars i32 $row }
    };
    ($then:ident $row:tt [u64]) => {
        $crate::flatbuf::$then! { scalars u64 $row }
    };
    ($then:ident $row:tt [i64]) => {
        $crate::flatbuf::$then! { scalars i64 $row }
    };
    ($then:ident $row:tt [f32]) => {
        $crate::flatbuf::$then! { scalars f32 $row }
    };
    ($then:ident $row:tt [f64]) => {
        $crate::flatbuf::$then! { scalars f64 $row }
    };
    ($then:ident $row:tt [str]) => {
        $crate::flatbuf::$then! { texts $row }
    };
    ($then:ident $row:tt [$name:ident]) => {
        $crate::flatbuf::$then! { tables $name $row }
    };
    ($then:ident $row:tt $name:ident) => {
        $crate::flatbuf::$then! { table $name $row }
    };
}

/// The [`Kind`](super::Kind) of a row.
macro_rules! kind {
    (scalar $t:ident ()) => {
        $crate::flatbuf::Kind::Scalar(size_of::<$t>())
    };
    (scalars $t:ident ()) => {
        $crate::flatbuf::Kind::Scalars(size_of::<$t>())
    };
    (text ()) => {
        $crate::flatbuf::Kind::Text
    };
    (texts ()) => {
        $crate::flatbuf::Kind::Texts
    };
    (union $t:ident ()) => {
        $crate::flatbuf::Kind::Union($t::MEMBERS)
    };
    (table $t:ident ()) => {
        $crate::flatbuf::Kind::Table(<$t<'static> as $crate::flatbuf::View<'static>>::SCHEMA)
    };
    (tables $t:ident ()) => {
        $crate::flatbuf::Kind::Tables(<$t<'static> as $crate::flatbuf::View<'static>>::SCHEMA)
    };
}

/// The accessor of a row.
macro_rules! accessor {
    (scalar $t:ident ($(#[$doc:meta])* $id:literal $field:ident)) => {
        $(#[$doc])* pub fn $field(self) -> $t { self.0.scalar($id, <$t>::default()) }
    };
    (scalar $t:ident ($(#[$doc:meta])* $id:literal $field:ident $default:literal)) => {
        $(#[$doc])* pub fn $field(self) -> $t { self.0.scalar($id, $default) }
    };
    (scalars $t:ident ($(#[$doc:meta])* $id:literal $field:ident)) => {
        $(#[$doc])* pub fn $field(self) -> $crate::flatbuf::Scalars<'a, $t> { self.0.scalars($id) }
    };
    (text ($(#[$doc:meta])* $id:literal $field:ident)) => {
        $(#[$doc])* pub fn $field(self) -> Option<&'a str> { self.0.string($id) }
    };
    (texts ($(#[$doc:meta])* $id:literal $field:ident)) => {
        $(#[$doc])* pub fn $field(self) -> $crate::flatbuf::Vector<'a, &'a str> { self.0.vector($id) }
    };
    (union $t:ident ($(#[$doc:meta])* $id:literal $field:ident)) => {
        $(#[$doc])* pub fn $field(self) -> $t<'a> {
            $t::member(self.0.scalar($id, 0u8), self.0.table($id + 1).unwrap_or($crate::flatbuf::Table::ABSENT))
        }
    };
    (table $t:ident ($(#[$doc:meta])* $id:literal $field:ident)) => {
        $(#[$doc])* pub fn $field(self) -> Option<$t<'a>> { self.0.table($id).map($t) }
    };
    (tables $t:ident ($(#[$doc:meta])* $id:literal $field:ident)) => {
        $(#[$doc])* pub fn $field(self) -> $crate::flatbuf::Vector<'a, $t<'a>> { self.0.vector($id) }
    };
}

/// What writes a row. Zero is what readers take for an absent field, unless the row has another default.
#[cfg(feature = "write")]
macro_rules! setter {
    (scalar $t:ident ($id:literal $field:ident)) => {
        pub(crate) fn $field(self, value: $t) -> Self {
            self.unless_zero($id, value.into())
        }
    };
    (scalar $t:ident ($id:literal $field:ident $default:literal)) => {
        pub(crate) fn $field(self, value: $t) -> Self {
            self.field($id, value.into())
        }
    };
    (union $t:ident ($id:literal $field:ident)) => {
        pub(crate) fn $field<V: $crate::flatbuf::View<'static>>(
            self,
            member: fn(V) -> $t<'static>,
            table: $crate::builder::Slot,
        ) -> Self {
            let code = member(V::over($crate::flatbuf::Table::ABSENT)).code();
            self.field($id, code.into()).field($id + 1, table)
        }
    };
    ($class:ident $($t:ident)? ($id:literal $field:ident)) => {
        pub(crate) fn $field(self, value: $crate::builder::Slot) -> Self {
            self.field($id, value)
        }
    };
}

#[cfg(feature = "write")]
pub(crate) use setter;
pub(crate) use {accessor, class, kind, tables};
