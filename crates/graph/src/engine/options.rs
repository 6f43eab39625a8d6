//! What can be chosen about how graphs are run, whichever engine runs them.

/// Options of a load, for all engines.
#[derive(Clone, Debug)]
pub struct Options {
    /// Most bytes that a run may take for what it computes in.
    pub memory: usize,
    /// Leaves out methods that round more than plain sums of products do, such as Winograd's.
    pub exact: bool,
    /// Where numbers go that lie between two bytes.
    pub rounding: Rounding,
    /// The numbers that graphs of a device are computed in.
    pub precision: Precision,
    /// Threads that runs are expected to have.
    pub width: usize,
    /// Whether runs may come with other sizes than those of the graph's types. If not, less has to be kept for them.
    pub varies: bool,
    /// The instruction set, by its name, where the processor has several; the best one without.
    pub instructions: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory: usize::try_from(8u64 << 30).unwrap_or(usize::MAX / 4),
            exact: false,
            rounding: Rounding::default(),
            precision: Precision::default(),
            width: 1,
            varies: true,
            instructions: None,
        }
    }
}

/// How sums, products and means of int8 are rounded to int8. What is no operation on int8 in the graph is not touched by
/// this: its numbers are computed and converted as PyTorch does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rounding {
    /// As XNNPACK, so that outputs are those of the official runtime: sums in integers with halves up, means with the zero
    /// point added before they are rounded to even.
    #[default]
    Xnnpack,
    /// As PyTorch, so that outputs are those of the quantised program in Python: in `float32`, to even, then the zero point
    /// is added.
    PyTorch,
}

/// The numbers that a graph is computed in which was made for a device with shorter ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// As the device computes.
    #[default]
    Device,
    /// In `float32` throughout.
    Full,
}
