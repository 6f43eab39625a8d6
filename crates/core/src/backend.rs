//! Backends: who runs the parts of a program that were delegated ahead of time.
//!
//! A backend is registered under a name. For every delegate of a method, loading calls [`Backend::init`] with the
//! payload and gets a [`Delegate`]: immutable, shared by all sessions, dropped with the module. A delegate makes one
//! [`State`] per session for what a run changes, and `execute` gets both with the call's arguments.
//!
//! The payload's bytes may be released after `init`: a delegate keeps what it needs (weights are best kept as the
//! slices of the file that [`InitContext::named_data`] gives out by copying or packing them).
use crate::{Call, Fault, Owned, Parallel, Program};
use core::any::Any;

/// A named implementation of delegates.
pub trait Backend: Send + Sync {
    /// The name that programs ask for.
    fn name(&self) -> &str;

    /// Whether it can run on this machine.
    fn is_available(&self) -> bool {
        true
    }

    /// Makes a delegate from a payload. An incompatible payload answers `DelegateInvalidCompatibility`.
    fn init(
        &self,
        context: &InitContext<'_>,
        processed: &[u8],
        specs: CompileSpecs<'_>,
    ) -> Result<Owned<dyn Delegate>, Fault>;
}

/// A delegated part of a program, ready to run.
pub trait Delegate: Any + Send + Sync {
    /// How many of a call's last arguments are outputs.
    fn outputs(&self) -> usize;

    /// Bytes of scratch that a call asks for.
    fn scratch(&self) -> usize {
        0
    }

    /// Makes the state of one session.
    fn new_state(&self) -> Result<Owned<dyn State>, Fault>;

    /// A copy of what a session keeps, which another session of this delegate may go on from.
    fn copy_state(&self, _state: &dyn State) -> Result<Owned<dyn State>, Fault> {
        Err(Fault::new(crate::Code::NotSupported, "the backend cannot copy what a session keeps"))
    }

    /// Says in a sentence of any length why the last run of a session failed, and forgets it; the fault says it in short.
    /// Nothing, if there is no more to say.
    fn print_reason(&self, _state: &mut dyn State, _out: &mut dyn core::fmt::Write) -> core::fmt::Result {
        Ok(())
    }

    /// Runs. Arguments are inputs, then outputs; outputs are resized by taking them.
    fn execute(&self, state: &mut dyn State, call: &mut Call<'_>) -> Result<(), Fault>;
}

impl dyn Delegate {
    /// The delegate as the type that its backend made, for those who know more of it than that it runs.
    pub fn downcast_ref<T: 'static>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// What a delegate keeps per session.
pub trait State: Any + Send {}

impl<T: Any + Send> State for T {}

impl dyn State {
    /// The state as the type that the delegate made.
    pub fn downcast<T: 'static>(&mut self) -> Option<&mut T> {
        (self as &mut dyn Any).downcast_mut()
    }

    /// The same, to look at.
    pub fn downcast_ref<T: 'static>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// What a backend may use while it makes a delegate.
pub struct InitContext<'a> {
    pub(crate) program: Program<'a>,
    pub(crate) method: &'a str,
    pub(crate) options: &'a [RuntimeOption<'a>],
    pub(crate) parallel: &'a dyn Parallel,
    pub(crate) explain: &'a dyn Fn(&dyn core::fmt::Display),
    pub(crate) position: Option<u64>,
}

impl<'a> InitContext<'a> {
    /// Says in a sentence of any length why the delegate cannot be made; the fault that follows says it in short.
    pub fn explain(&self, sentence: &dyn core::fmt::Display) {
        (self.explain)(sentence);
    }

    /// The same, but another one hears why the delegate cannot be made.
    pub fn with_explain<'b>(&'b self, explain: &'b dyn Fn(&dyn core::fmt::Display)) -> InitContext<'b> {
        InitContext { explain, ..*self }
    }

    /// The method that is loaded.
    pub fn method(&self) -> &'a str {
        self.method
    }

    /// The program that is loaded.
    pub fn program(&self) -> Program<'a> {
        self.program
    }

    /// Where the payload is in the program's file, if it is there as it was passed: its bytes can be had again.
    pub fn position(&self) -> Option<u64> {
        self.position
    }

    /// Data by name: from external files, then from the program.
    pub fn named_data(&self, key: &str) -> Option<&'a [u8]> {
        self.program.named_data(key)
    }

    /// The options that this load passes to this backend.
    pub fn options(&self) -> &'a [RuntimeOption<'a>] {
        self.options
    }

    /// Threads for work such as packing weights.
    pub fn parallel(&self) -> &'a dyn Parallel {
        self.parallel
    }
}

/// An option of a backend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RuntimeOption<'a> {
    /// Its name.
    pub key: &'a str,
    /// Its value.
    pub value: OptionValue<'a>,
}

/// An option's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionValue<'a> {
    /// A switch.
    Bool(bool),
    /// A number.
    Int(i64),
    /// A text.
    Str(&'a str),
}

/// What the exporter told the backend, by key.
#[derive(Clone, Copy)]
pub struct CompileSpecs<'a>(pub(crate) sconce_format::flatbuf::Vector<'a, sconce_format::pte::CompileSpec<'a>>);

impl<'a> CompileSpecs<'a> {
    /// Those of a delegate.
    pub fn of(delegate: sconce_format::pte::BackendDelegate<'a>) -> Self {
        Self(delegate.compile_specs())
    }

    /// The value under a key.
    pub fn get(&self, key: &str) -> Option<&'a [u8]> {
        self.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        self.0.iter().map(|spec| (spec.key().unwrap_or(""), spec.value().bytes()))
    }
}
