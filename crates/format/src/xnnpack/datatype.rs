//! The element types of values, as one table of code, size, name and the parameters a quantised type needs.

/// Which quantisation parameters go with an element type. The numbers are those of the members of
/// [`Quantization`](super::Quantization).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Scheme {
    /// None: the elements are numbers as they are.
    Plain = 0,
    /// A scale for every channel.
    PerChannel = 1,
    /// One scale and zero point.
    PerTensor = 2,
    /// Scale and zero point for every row, found when the program runs.
    PerToken = 3,
    /// A scale for every group of elements in a channel.
    PerChannelGroup = 4,
}

macro_rules! datatypes {
    ($($code:literal $variant:ident $bits:literal $name:literal $scheme:ident,)*) => {
        /// The type of a value's elements, by the codes of the format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Datatype {
            $(#[doc = concat!("`", $name, "`, code ", $code, ".")] $variant = $code,)*
        }

        /// Bits, name and scheme by code.
        static ROWS: &[(Datatype, u8, &str, Scheme)] = &[$((Datatype::$variant, $bits, $name, Scheme::$scheme)),*];
    };
}

datatypes! {
    0 Invalid 0 "invalid" Plain,
    1 Fp32 32 "fp32" Plain,
    2 Fp16 16 "fp16" Plain,
    3 QInt8 8 "qint8" PerTensor,
    4 QUInt8 8 "quint8" PerTensor,
    5 QInt32 32 "qint32" PerTensor,
    6 QCInt8 8 "qcint8" PerChannel,
    7 QCInt32 32 "qcint32" PerChannel,
    8 QCInt4 4 "qcint4" PerChannel,
    9 QDInt8 8 "qdint8" PerToken,
    10 QBInt4 4 "qbint4" PerChannelGroup,
    11 QPInt8 8 "qpint8" PerToken,
    12 Int32 32 "int32" Plain,
    13 PFp32 32 "pfp32" Plain,
    14 BF16 16 "bf16" Plain,
}

impl Datatype {
    /// The code of the last type.
    pub const LAST: u8 = Datatype::BF16.code();

    /// All types, in the order of their codes.
    pub fn all() -> impl ExactSizeIterator<Item = Datatype> {
        ROWS.iter().map(|row| row.0)
    }

    /// The type with this code, as the files store it.
    pub fn from_i16(code: i16) -> Option<Datatype> {
        usize::try_from(code).ok().and_then(|code| ROWS.get(code)).map(|row| row.0)
    }

    /// The code in files.
    pub const fn code(self) -> u8 {
        self as u8
    }

    fn row(self) -> &'static (Datatype, u8, &'static str, Scheme) {
        &ROWS[usize::from(self.code())]
    }

    /// Bits of one element.
    pub fn bits(self) -> u8 {
        self.row().1
    }

    /// The format's name, such as `fp32`.
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// The quantisation parameters that go with it.
    pub fn scheme(self) -> Scheme {
        self.row().3
    }
}

impl core::fmt::Display for Datatype {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_positions() {
        assert_eq!(Datatype::all().len(), 15);
        for (code, datatype) in Datatype::all().enumerate() {
            assert_eq!(usize::from(datatype.code()), code);
            assert_eq!(Datatype::from_i16(code as i16), Some(datatype));
        }
        assert_eq!((Datatype::from_i16(15), Datatype::from_i16(-1)), (None, None));
        assert_eq!((Datatype::LAST, Datatype::QBInt4.bits(), Datatype::BF16.name()), (14, 4, "bf16"));
    }
}
