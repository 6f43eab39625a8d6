//! Element types of ggml, in its payloads and in GGUF files: one table.

use crate::ScalarType;

macro_rules! elements {
    ($($(#[$doc:meta])* $code:literal $name:ident $text:literal ggml $ggml:literal block $block:literal of $bytes:literal;)*) => {
        /// What a tensor is made of.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Element { $($(#[$doc])* $name,)* }

        impl Element {
            /// All of them.
            pub const ALL: &'static [Element] = &[$(Self::$name,)*];

            /// Its number in payloads.
            pub fn code(self) -> i32 {
                match self { $(Self::$name => $code,)* }
            }

            /// The one of this number in payloads.
            pub fn of(code: i32) -> Option<Self> {
                match code { $($code => Some(Self::$name),)* _ => None }
            }

            /// What people call it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Its number in ggml and in GGUF files.
            pub fn ggml(self) -> u32 {
                match self { $(Self::$name => $ggml,)* }
            }

            /// Elements in a block, and bytes of one.
            pub fn block(self) -> (usize, usize) {
                match self { $(Self::$name => ($block, $bytes),)* }
            }
        }
    };
}

elements! {
    /// float32
    0 F32 "f32" ggml 0 block 1 of 4;
    /// float16
    1 F16 "f16" ggml 1 block 1 of 2;
    /// int64: indices; ggml gets them as int32, after a check.
    2 I64 "i64" ggml 27 block 1 of 8;
    /// int32
    3 I32 "i32" ggml 26 block 1 of 4;
    /// Truth values; ggml computes with 0 and 1 in float32.
    4 Bool "bool" ggml 24 block 1 of 1;
    /// bfloat16
    5 Bf16 "bf16" ggml 30 block 1 of 2;
    /// 32 integers of 8 bits and a scale.
    6 Q8_0 "q8_0" ggml 8 block 32 of 34;
    /// 256 integers of 6 bits with scales of groups of 16.
    7 Q6K "q6_k" ggml 14 block 256 of 210;
    /// 32 integers of 4 bits and a scale.
    8 Q4_0 "q4_0" ggml 2 block 32 of 18;
    /// 256 integers of 4 bits with scales and offsets of groups of 32.
    9 Q4K "q4_k" ggml 12 block 256 of 144;
    /// 256 integers of 5 bits with scales and offsets of groups of 32.
    10 Q5K "q5_k" ggml 13 block 256 of 176;
    /// 32 integers of 4 bits, a scale and an offset.
    11 Q4_1 "q4_1" ggml 3 block 32 of 20;
    /// 32 integers of 5 bits and a scale.
    12 Q5_0 "q5_0" ggml 6 block 32 of 22;
    /// 32 integers of 5 bits, a scale and an offset.
    13 Q5_1 "q5_1" ggml 7 block 32 of 24;
}

impl Element {
    /// Whether elements come in blocks that share scales.
    pub fn is_quantized(self) -> bool {
        self.block().0 > 1
    }

    /// The one of this number in ggml and in GGUF files.
    pub fn of_ggml(number: u32) -> Option<Self> {
        Self::ALL.iter().copied().find(|element| element.ggml() == number && *element != Self::Bool)
    }

    /// The quantised one that people call so.
    pub fn quantized(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|element| element.is_quantized() && element.name().eq_ignore_ascii_case(name))
    }

    /// How torch calls it, if it knows it.
    pub fn scalar(self) -> Option<ScalarType> {
        Some(match self {
            Self::F32 => ScalarType::Float,
            Self::F16 => ScalarType::Half,
            Self::I64 => ScalarType::Long,
            Self::I32 => ScalarType::Int,
            Self::Bool => ScalarType::Bool,
            Self::Bf16 => ScalarType::BFloat16,
            _ => return None,
        })
    }

    /// The bytes of a tensor of these sizes, the innermost last; `None` if rows are no whole blocks or it is too large.
    pub fn bytes(self, sizes: &[usize]) -> Option<usize> {
        let (block, bytes) = self.block();
        let (&row, outer) = sizes.split_last().unwrap_or((&1, &[]));
        let rows = outer.iter().try_fold(1usize, |all, &size| all.checked_mul(size))?;
        (row % block == 0).then(|| (row / block).checked_mul(bytes)?.checked_mul(rows))?
    }
}
