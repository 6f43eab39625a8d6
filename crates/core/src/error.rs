//! What can go wrong, as codes, indices and numbers; the layers above make sentences with names out of them.
//!
//! A [`Fault`] is one fact about one argument, found by a kernel, a backend or the runtime itself. Its text is a
//! template whose `{}` are filled from three numbers when it is printed, so that an error can carry values without a
//! heap. An [`Error`] says where in the program the fault happened.
use crate::memory::{Block, Growth};
use core::fmt;

/// The numbers by which the C++ runtime reports errors, kept for the C ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Code {
    /// Something inside the runtime or a backend broke.
    Internal = 0x01,
    /// The object is not in a state that allows this.
    InvalidState = 0x02,
    /// `step` was called after the last instruction.
    EndOfMethod = 0x03,
    /// The operation is known but cannot be done.
    NotSupported = 0x10,
    /// The operation is not implemented.
    NotImplemented = 0x11,
    /// The caller passed something wrong.
    InvalidArgument = 0x12,
    /// A value has another type than needed.
    InvalidType = 0x13,
    /// Operators of the program are not registered.
    OperatorMissing = 0x14,
    /// A name was not found.
    NotFound = 0x20,
    /// Memory was too small or could not be had.
    MemoryAllocationFailed = 0x21,
    /// Data could not be read.
    AccessFailed = 0x22,
    /// The program contradicts itself.
    InvalidProgram = 0x23,
    /// External data does not fit the program.
    InvalidExternalData = 0x24,
    /// A limit was reached.
    OutOfResources = 0x25,
    /// A backend does not understand its payload.
    DelegateInvalidCompatibility = 0x30,
    /// A backend ran out of memory.
    DelegateMemoryAllocationFailed = 0x31,
    /// A delegate was used that does not exist.
    DelegateInvalidHandle = 0x32,
}

/// One thing found wrong, with up to three numbers in its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The error's number.
    pub code: Code,
    /// The argument it is about, counted from 0, if it is about one.
    pub argument: Option<u8>,
    /// A sentence in which each `{}` stands for the next number.
    pub text: &'static str,
    /// The numbers.
    pub values: [i64; 3],
}

impl Fault {
    /// A fault with a plain text.
    pub const fn new(code: Code, text: &'static str) -> Self {
        Self { code, argument: None, text, values: [0; 3] }
    }

    /// An argument that does not fit what the operator needs.
    pub const fn argument(index: usize, text: &'static str) -> Self {
        Self { code: Code::InvalidArgument, argument: Some(clamp_u8(index)), text, values: [0; 3] }
    }

    /// The same fault with the numbers of its text.
    pub fn with<const N: usize>(mut self, values: [usize; N]) -> Self {
        for (slot, value) in self.values.iter_mut().zip(values) {
            *slot = i64::try_from(value).unwrap_or(i64::MAX);
        }
        self
    }

    /// The same fault with signed numbers.
    pub fn with_signed<const N: usize>(mut self, values: [i64; N]) -> Self {
        for (slot, value) in self.values.iter_mut().zip(values) {
            *slot = value;
        }
        self
    }

    /// The same fault, about argument `index`.
    pub const fn at(mut self, index: usize) -> Self {
        self.argument = Some(clamp_u8(index));
        self
    }
}

const fn clamp_u8(index: usize) -> u8 {
    if index > u8::MAX as usize { u8::MAX } else { index as u8 }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(argument) = self.argument {
            write!(f, "argument {argument}: ")?;
        }
        let mut values = self.values.iter();
        let mut pieces = self.text.split("{}").peekable();
        while let Some(piece) = pieces.next() {
            f.write_str(piece)?;
            if pieces.peek().is_some() {
                match values.next() {
                    Some(value) => write!(f, "{value}")?,
                    None => f.write_str("?")?,
                }
            }
        }
        Ok(())
    }
}

/// Where in a program something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// The method as a whole.
    Method,
    /// A value of the method's table.
    Value(u32),
    /// An input, counted from 0.
    Input(u32),
    /// An output, counted from 0.
    Output(u32),
    /// An entry of the method's delegate list.
    Delegate(u32),
    /// An instruction of a chain.
    Instruction {
        /// The chain.
        chain: u32,
        /// The instruction's index in it.
        index: u32,
    },
}

/// Everything the runtime can answer instead of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The file is not a program, or a broken one.
    Format(sconce_format::Error),
    /// Bytes could not be had from the loader.
    Access {
        /// First byte asked for.
        offset: u64,
        /// Number of bytes asked for.
        len: u64,
    },
    /// No method has this name.
    MethodNotFound,
    /// Operators that the registry lacks; `Method::missing_operators` lists them.
    MissingOperators {
        /// How many.
        count: u32,
    },
    /// No backend is registered under the name that this delegate asks for.
    BackendNotFound {
        /// Index in the method's delegate list.
        delegate: u32,
    },
    /// The backend is registered but says that it cannot run here.
    BackendUnavailable {
        /// Index in the method's delegate list.
        delegate: u32,
    },
    /// The run stopped for want of memory, which a tensor that nothing bounds needs; it can go on with more.
    Growth(Growth),
    /// Something is wrong at one place of the program or with one value.
    At {
        /// Where.
        site: Site,
        /// What.
        fault: Fault,
    },
}

impl Error {
    /// Adds the place to a fault.
    pub fn at(site: Site) -> impl Fn(Fault) -> Self {
        move |fault| Error::At { site, fault }
    }

    /// The number by which the C++ runtime would report it.
    pub fn code(&self) -> Code {
        match self {
            Error::Format(_) => Code::InvalidProgram,
            Error::Access { .. } => Code::AccessFailed,
            Error::MethodNotFound => Code::InvalidArgument,
            Error::MissingOperators { .. } => Code::OperatorMissing,
            Error::BackendNotFound { .. } | Error::BackendUnavailable { .. } => Code::NotFound,
            Error::Growth(_) => Code::MemoryAllocationFailed,
            Error::At { fault, .. } => fault.code,
        }
    }
}

impl From<sconce_format::Error> for Error {
    fn from(error: sconce_format::Error) -> Self {
        Error::Format(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Format(error) => error.fmt(f),
            Error::Access { offset, len } => write!(f, "cannot read {len} bytes at offset {offset}"),
            Error::MethodNotFound => f.write_str("the program has no method of this name"),
            Error::MissingOperators { count } => write!(f, "{count} operators of this method are not registered"),
            Error::BackendNotFound { delegate } => {
                write!(f, "delegate {delegate} asks for a backend that is not registered")
            }
            Error::BackendUnavailable { delegate } => {
                write!(f, "the backend of delegate {delegate} is not available on this machine")
            }
            Error::Growth(Growth { block, bytes }) => {
                match block {
                    Block::Arena(id) => write!(f, "arena {id} must grow to {bytes} bytes")?,
                    Block::Scratch => write!(f, "scratch must grow to {bytes} bytes")?,
                }
                f.write_str(
                    " for tensors that nothing bounds, and memory does not grow here: give their dimensions a bound when \
                     the model is exported",
                )
            }
            Error::At { site, fault } => match site {
                Site::Method => write!(f, "{fault}"),
                Site::Value(index) => write!(f, "value {index}: {fault}"),
                Site::Input(index) => write!(f, "input {index}: {fault}"),
                Site::Output(index) => write!(f, "output {index}: {fault}"),
                Site::Delegate(index) => write!(f, "delegate {index}: {fault}"),
                Site::Instruction { chain, index } => write!(f, "instruction {index} of chain {chain}: {fault}"),
            },
        }
    }
}

impl core::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn texts_are_filled_from_the_numbers_in_order() {
        let fault = Fault::argument(2, "size {} is not {}").with([3, 5]);
        assert_eq!(fault.to_string(), "argument 2: size 3 is not 5");
        let error = Error::At { site: Site::Instruction { chain: 0, index: 7 }, fault };
        assert_eq!(error.to_string(), "instruction 7 of chain 0: argument 2: size 3 is not 5");
        assert_eq!(error.code(), Code::InvalidArgument);
    }

    #[test]
    fn a_text_with_too_many_places_still_prints() {
        assert_eq!(Fault::new(Code::Internal, "{} {} {} {}").to_string(), "0 0 0 ?");
    }
}
