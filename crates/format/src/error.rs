//! Why a file was refused.
//!
//! One enum without heap data: where ([`Place`]), which rule ([`Rule`]) and the two numbers that disagree. The sentence
//! is made on `Display` only, so a build that never prints errors carries no text formatting.

use core::fmt;

/// The kinds of file, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// `.pte`
    Program,
    /// `.ptd`
    Tensors,
    /// `.bpte`
    Bundle,
    /// The payload of an XNNPACK delegate.
    Xnnpack,
    /// The payload of a ggml delegate.
    Ggml,
}

impl FileKind {
    /// The four bytes at offset 4 of such a file.
    pub const fn identifier(self) -> [u8; 4] {
        match self {
            FileKind::Program => *b"ET12",
            FileKind::Tensors => *b"FT01",
            FileKind::Bundle => *b"BP08",
            FileKind::Xnnpack => *b"XN01",
            FileKind::Ggml => *b"GG01",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            FileKind::Program => "an ExecuTorch program (.pte)",
            FileKind::Tensors => "an ExecuTorch data file (.ptd)",
            FileKind::Bundle => "an ExecuTorch bundled program (.bpte)",
            FileKind::Xnnpack => "an XNNPACK delegate payload",
            FileKind::Ggml => "a ggml delegate payload",
        }
    }
}

/// The part of a file that breaks a rule. Methods are counted in file order, as `execution_plan` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// The file as a whole.
    File,
    /// Entry of `segments`.
    Segment(u32),
    /// Entry of `named_data`.
    NamedData(u32),
    /// A method.
    Method(u32),
    /// Entry of a method's value table.
    Value {
        /// Which method.
        method: u32,
        /// Which value.
        value: u32,
    },
    /// Entry of a method's operator table.
    Operator {
        /// Which method.
        method: u32,
        /// Which operator.
        operator: u32,
    },
    /// Entry of a method's delegate table.
    Delegate {
        /// Which method.
        method: u32,
        /// Which delegate.
        delegate: u32,
    },
    /// An instruction.
    Instruction {
        /// Which method.
        method: u32,
        /// Which chain of the method.
        chain: u32,
        /// Which instruction of the chain.
        instruction: u32,
    },
    /// The test cases of one method in a bundle.
    TestSuite(u32),
    /// A test case of a bundle.
    TestCase {
        /// Which suite.
        suite: u32,
        /// Which case of the suite.
        case: u32,
    },
    /// A value of a delegate's graph.
    GraphValue(u32),
    /// A node of a delegate's graph.
    GraphNode(u32),
    /// A constant of a delegate's graph.
    GraphConstant(u32),
    /// A key of a file with its value.
    Metadata(u32),
    /// A tensor of a file.
    Tensor(u32),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Place::File => f.write_str("the file"),
            Place::Segment(index) => write!(f, "segment {index}"),
            Place::NamedData(index) => write!(f, "named data {index}"),
            Place::Method(method) => write!(f, "method {method}"),
            Place::Value { method, value } => write!(f, "method {method}, value {value}"),
            Place::Operator { method, operator } => write!(f, "method {method}, operator {operator}"),
            Place::Delegate { method, delegate } => write!(f, "method {method}, delegate {delegate}"),
            Place::Instruction { method, chain, instruction } => {
                write!(f, "method {method}, chain {chain}, instruction {instruction}")
            }
            Place::TestSuite(suite) => write!(f, "test suite {suite}"),
            Place::TestCase { suite, case } => write!(f, "test suite {suite}, case {case}"),
            Place::GraphValue(value) => write!(f, "graph value {value}"),
            Place::GraphNode(node) => write!(f, "graph node {node}"),
            Place::GraphConstant(constant) => write!(f, "graph constant {constant}"),
            Place::Metadata(index) => write!(f, "metadata {index}"),
            Place::Tensor(index) => write!(f, "tensor {index}"),
        }
    }
}

macro_rules! rules {
    ($($rule:ident $sentence:literal,)*) => {
        /// What a well-formed file must still obey. The sentences leave room for the number found and its limit.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Rule {
            $(#[doc = $sentence] $rule,)*
        }

        impl Rule {
            const fn sentence(self) -> &'static str {
                match self {
                    $(Rule::$rule => $sentence,)*
                }
            }
        }
    };
}

// In each sentence the first `#` is the number found and the second its limit.
rules! {
    PlansMissing "the program has no list of methods (execution_plan)",
    NameMissing "it has no name",
    ValuesMissing "it has no value table",
    InputsMissing "it has no list of inputs",
    OutputsMissing "it has no list of outputs",
    BufferSizesMissing "it has no list of planned buffer sizes (non_const_buffer_sizes)",
    DelegatesMissing "it has no list of delegates",
    ChainsMissing "it has no chain of instructions",
    InputIndex "input refers to value #, but there are # values",
    OutputIndex "output refers to value #, but there are # values",
    BufferSizeNegative "the planned buffer size # is negative",
    PayloadMissing "a value of kind # has no content",
    SizesMissing "the tensor has no sizes",
    SizeNegative "the tensor has the negative size #",
    RankTooLarge "the tensor has # dimensions, and at most # are supported",
    DimOrderLength "dim_order has # entries for # dimensions",
    DimOrderEntry "the order of dimensions is not a permutation: entry # is out of range or repeated among # dimensions",
    DtypeUnknown "the element type # is unknown; the last known one is #",
    StorageOffset "the storage offset is #, and only # is supported",
    TensorTooLarge "the tensor's sizes multiply to more bytes than can be addressed",
    DynamismUnknown "the shape dynamism # is unknown; the last known one is #",
    LocationUnknown "the data location # is unknown; the last known one is #",
    MemoryId "memory id # does not name a planned buffer: ids start at 1 and end before #",
    AllocationTooLarge "the planned memory offset # and the tensor's # bytes do not add up to an address",
    ConstantMissing "constant # of # bytes is not in the file's constant data",
    InitialStateMissing "initial state # of # bytes is not in the file's mutable data",
    ExternalNameMissing "the tensor is external but has no fully qualified name",
    ListIndex "the list refers to value #, but there are # values",
    ListOrder "the tensor list refers to value #, and tensors of a list must come before it, at #",
    ListItemKind "the tensor list refers to a value of kind #, and a Tensor is kind #",
    OperatorIndex "the call refers to operator #, but there are # operators",
    DelegateIndex "the call refers to delegate #, but there are # delegates",
    ArgumentIndex "an argument refers to value #, but there are # values",
    JumpTarget "the jump goes to instruction #, but there are # instructions",
    InstructionEmpty "the step says nothing (kind #)",
    BackendIdMissing "the delegate has no backend id",
    PayloadReferenceMissing "the delegate does not say where its payload is",
    PayloadsShared "payloads that its delegates share come to # bytes in all, where # are the most",
    ListsShared "lists that its calls share come to # items in all, where # are the most",
    InlinePayload "the delegate's payload is inline data #, but there are #",
    SegmentIndex "it refers to segment #, but there are # segments",
    SegmentOutside "it ends at byte #, but the file has # bytes",
    SegmentUnreachable "it has # bytes, but the file does not say where segments begin",
    ConstantsTwice "constants are both in a segment (# of them) and inline (# of them)",
    KeyMissing "it has no key",
    SegmentsMissing "the file has no list of segments",
    NamedDataMissing "the file has no list of named data",
    LayoutSize "the segment has # bytes, but the tensor layout needs #",
    ProgramMissing "the bundle contains no program",
    DataSize "the tensor has # bytes of data, but its sizes need #",
    NodesMissing "it has no list of nodes",
    ExternCount "the graph has # inputs and outputs, and at most # are supported",
    ConstantOutside "it ends at byte # of the constant data, which has # bytes",
    ValueId "its id is #, and only ids that are positions in the list of values (here #) are supported",
    ValueFlags "it has the flags #, and only the bits of # are known",
    DynamicInput "it is to be quantised to element type # on the way in, as old exporters wrote it: export the model again",
    DimensionCount "a list has # entries for # dimensions",
    ConstantIndex "it refers to constant #, but there are # constants",
    ConstantExternal "it is constant, but also an input or output of the graph",
    ExternalId "its external id is #, but there are # inputs and outputs",
    ExternalIdTwice "its external id # is that of an earlier value too",
    QuantizationKind "quantisation parameters of kind # do not go with element type #",
    ScaleInvalid "a scale is not a positive finite number",
    ScaleCount "it has # scales and needs #",
    ScaleConstant "its scales are constant #, but there are # constants",
    ZeroPoint "the zero point # does not go with element type #",
    ChannelDimension "the channels are dimension #, but there are # dimensions",
    TokenDimensions "it is quantised over the last # dimensions, but there are # dimensions",
    GroupRank "it is quantised in groups and has # dimensions, and only # are supported",
    GroupDimension "it is quantised in groups with channels in dimension #, and only dimension # is supported",
    GroupSize "the group size is #, and must be a positive multiple of 32 that divides the # columns",
    AttentionNode "scaled dot product attention as one node is not supported: export it as the operators it is made of",
    OutputFixed "it writes value #, which is a constant or an input of the graph",
    GgufVersion "it is GGUF of version #, and versions 2 to # of the usual byte order are supported",
    ValueKind "a value is of kind #, and the last known kind is #",
    ArrayDepth "arrays lie in arrays more than # deep, and at most # are supported",
    Alignment "general.alignment is #, and must be a power of two of 32 bits",
    TensorUnaligned "its data begin at byte # of all data, which is no multiple of the alignment #",
    TensorRows "its rows have # elements, which are no whole blocks of #",
    NameTwice "it has the name of tensor # too",
    OutputRange "the lower limit of its output is above the upper limit, or one of them is not a number",
}

/// Why a file was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The identifier is that of some other kind of file.
    NotAProgram {
        /// The kind that was expected.
        expected: FileKind,
        /// Bytes 4 to 8 of the file.
        found: [u8; 4],
    },
    /// The identifier is of the right kind, but of a version with another layout.
    IncompatibleVersion {
        /// The kind that was expected.
        expected: FileKind,
        /// Bytes 4 to 8 of the file.
        found: [u8; 4],
    },
    /// The file is shorter than it says.
    Truncated {
        /// Bytes the file should have.
        expected: u64,
        /// Bytes that are there.
        actual: u64,
    },
    /// The encoding is broken at a byte offset.
    Corrupt {
        /// Where, in bytes from the start of the encoded part.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// The encoding is sound, but what it says breaks a rule.
    Invalid {
        /// Which part.
        place: Place,
        /// Which rule.
        rule: Rule,
        /// The number in the file, where the rule is about one.
        found: i64,
        /// The number it must be held against, where there is one.
        limit: i64,
    },
}

impl Error {
    /// A rule broken by a number; a number beyond 63 bits shows as the largest.
    #[cold]
    pub(crate) fn invalid(place: Place, rule: Rule, found: impl TryInto<i64>, limit: impl TryInto<i64>) -> Error {
        Error::Invalid {
            place,
            rule,
            found: found.try_into().unwrap_or(i64::MAX),
            limit: limit.try_into().unwrap_or(i64::MAX),
        }
    }

    /// A rule that has no numbers.
    #[cold]
    pub(crate) fn broken(place: Place, rule: Rule) -> Error {
        Error::Invalid { place, rule, found: 0, limit: 0 }
    }
}

/// Writes an identifier so that unprintable bytes cannot disturb a terminal.
fn write_identifier(f: &mut fmt::Formatter<'_>, bytes: [u8; 4]) -> fmt::Result {
    use fmt::Write;
    bytes.iter().try_for_each(|&b| f.write_char(if b.is_ascii_graphic() { char::from(b) } else { '.' }))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Error::NotAProgram { expected, found } => {
                write!(f, "this is not {}: bytes 4..8 are '", expected.name())?;
                write_identifier(f, found)?;
                f.write_str("', expected '")?;
                write_identifier(f, expected.identifier())?;
                f.write_str("'")
            }
            Error::IncompatibleVersion { expected, found } => {
                write!(f, "this is {} of version '", expected.name())?;
                write_identifier(f, found)?;
                f.write_str("', but only '")?;
                write_identifier(f, expected.identifier())?;
                f.write_str("' can be read: export the model again with a matching exporter")
            }
            Error::Truncated { expected, actual } => {
                write!(f, "the file says it has {expected} bytes but only {actual} are there: it is truncated")
            }
            Error::Corrupt { offset, what } => write!(f, "the file is corrupt at byte {offset}: {what}"),
            Error::Invalid { place, rule, found, limit } => {
                write!(f, "{place}: ")?;
                let mut numbers = [found, limit].into_iter();
                for (i, part) in rule.sentence().split('#').enumerate() {
                    if i > 0 {
                        write!(f, "{}", numbers.next().unwrap_or_default())?;
                    }
                    f.write_str(part)?;
                }
                Ok(())
            }
        }
    }
}

impl core::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn sentences() {
        let zip = Error::NotAProgram { expected: FileKind::Program, found: *b"PK\x03\x04" };
        assert_eq!(zip.to_string(), "this is not an ExecuTorch program (.pte): bytes 4..8 are 'PK..', expected 'ET12'");
        assert_eq!(
            Error::Truncated { expected: 10, actual: 3 }.to_string(),
            "the file says it has 10 bytes but only 3 are there: it is truncated"
        );
        let place = Place::Value { method: 1, value: 17 };
        assert_eq!(
            Error::invalid(place, Rule::RankTooLarge, 20, 16).to_string(),
            "method 1, value 17: the tensor has 20 dimensions, and at most 16 are supported"
        );
        assert_eq!(Error::broken(Place::File, Rule::KeyMissing).to_string(), "the file: it has no key");
        assert_eq!(
            Error::invalid(Place::Segment(0), Rule::SegmentOutside, u64::MAX, 5u8),
            Error::Invalid { place: Place::Segment(0), rule: Rule::SegmentOutside, found: i64::MAX, limit: 5 }
        );
    }
}
