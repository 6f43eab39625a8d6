//! The element types a tensor in a file can have, as one table of code, size and name.

/// What a type's numbers are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Bool,
    Integer,
    Float,
    Complex,
    /// Quantised values and raw bits: storage without arithmetic of its own.
    Opaque,
}

macro_rules! scalar_types {
    ($($code:literal $variant:ident $size:literal $name:literal $family:ident,)*) => {
        /// The type of a tensor's elements, by the codes that all ExecuTorch files share.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum ScalarType {
            $(#[doc = concat!("`", $name, "`, code ", $code, ".")] $variant = $code,)*
        }

        /// Size, name and family by code.
        static ROWS: &[(ScalarType, u8, &str, Family)] = &[$((ScalarType::$variant, $size, $name, Family::$family)),*];
    };
}

scalar_types! {
    0 Byte 1 "uint8" Integer,
    1 Char 1 "int8" Integer,
    2 Short 2 "int16" Integer,
    3 Int 4 "int32" Integer,
    4 Long 8 "int64" Integer,
    5 Half 2 "float16" Float,
    6 Float 4 "float32" Float,
    7 Double 8 "float64" Float,
    8 ComplexHalf 4 "complex32" Complex,
    9 ComplexFloat 8 "complex64" Complex,
    10 ComplexDouble 16 "complex128" Complex,
    11 Bool 1 "bool" Bool,
    12 QInt8 1 "qint8" Opaque,
    13 QUInt8 1 "quint8" Opaque,
    14 QInt32 4 "qint32" Opaque,
    15 BFloat16 2 "bfloat16" Float,
    16 QUInt4x2 1 "quint4x2" Opaque,
    17 QUInt2x4 1 "quint2x4" Opaque,
    18 Bits1x8 1 "bits1x8" Opaque,
    19 Bits2x4 1 "bits2x4" Opaque,
    20 Bits4x2 1 "bits4x2" Opaque,
    21 Bits8 1 "bits8" Opaque,
    22 Bits16 2 "bits16" Opaque,
    23 Float8E5M2 1 "float8_e5m2" Float,
    24 Float8E4M3FN 1 "float8_e4m3fn" Float,
    25 Float8E5M2FNUZ 1 "float8_e5m2fnuz" Float,
    26 Float8E4M3FNUZ 1 "float8_e4m3fnuz" Float,
    27 UInt16 2 "uint16" Integer,
    28 UInt32 4 "uint32" Integer,
    29 UInt64 8 "uint64" Integer,
}

impl ScalarType {
    /// All types, in the order of their codes.
    pub fn all() -> impl ExactSizeIterator<Item = ScalarType> {
        ROWS.iter().map(|row| row.0)
    }

    /// The type with this code.
    pub fn from_u8(code: u8) -> Option<ScalarType> {
        ROWS.get(usize::from(code)).map(|row| row.0)
    }

    /// The type with this code, as the files store it.
    pub fn from_i8(code: i8) -> Option<ScalarType> {
        u8::try_from(code).ok().and_then(ScalarType::from_u8)
    }

    /// The code in files.
    pub const fn code(self) -> u8 {
        self as u8
    }

    fn row(self) -> &'static (ScalarType, u8, &'static str, Family) {
        &ROWS[usize::from(self.code())]
    }

    /// Bytes of one element.
    pub fn size(self) -> usize {
        usize::from(self.row().1)
    }

    /// PyTorch's name, such as `float32`.
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// Real floating point, 8-bit forms included.
    pub fn is_floating(self) -> bool {
        self.row().3 == Family::Float
    }

    /// Complex.
    pub fn is_complex(self) -> bool {
        self.row().3 == Family::Complex
    }

    /// The type of the parts of complex numbers; other types are their own.
    pub fn real(self) -> ScalarType {
        match self {
            ScalarType::ComplexHalf => ScalarType::Half,
            ScalarType::ComplexFloat => ScalarType::Float,
            ScalarType::ComplexDouble => ScalarType::Double,
            other => other,
        }
    }

    /// Integers, and `bool` if asked for. Quantised types and raw bits are not integers.
    pub fn is_integral(self, include_bool: bool) -> bool {
        match self.row().3 {
            Family::Integer => true,
            Family::Bool => include_bool,
            _ => false,
        }
    }
}

impl core::fmt::Display for ScalarType {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_positions() {
        assert_eq!(ScalarType::all().len(), 30);
        for (code, dtype) in ScalarType::all().enumerate() {
            assert_eq!(usize::from(dtype.code()), code);
            assert_eq!(ScalarType::from_u8(dtype.code()), Some(dtype));
        }
        assert_eq!(ScalarType::from_u8(30), None);
        assert_eq!(ScalarType::from_i8(-1), None);
        assert_eq!(ScalarType::from_i8(6), Some(ScalarType::Float));
    }

    #[test]
    fn families_and_sizes() {
        let count = |f: fn(ScalarType) -> bool| ScalarType::all().filter(|&t| f(t)).count();
        assert_eq!(count(ScalarType::is_floating), 8);
        assert_eq!(count(ScalarType::is_complex), 3);
        assert_eq!(count(|t| t.is_integral(false)), 8);
        assert_eq!(count(|t| t.is_integral(true)), 9);
        assert_eq!(ScalarType::ComplexDouble.size(), 16);
        assert_eq!(ScalarType::BFloat16.name(), "bfloat16");
        // Counted from the list of the format.
        let of = |size| ScalarType::all().filter(|t| t.size() == size).count();
        assert_eq!((of(1), of(2), of(4), of(8), of(16)), (15, 5, 5, 4, 1));
    }
}
