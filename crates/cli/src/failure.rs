//! What the command says when it cannot go on: a sentence, a way out where there is one, and an exit code.
use sconce::Code;
use sconce::core::{Fault, Site};
use std::fmt::Display;
use std::io;
use std::process::ExitCode;

/// The end of a command that did not do what it was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
    code: u8,
}

impl Failure {
    /// Something failed: exit code 1.
    pub(crate) fn new(message: impl Display) -> Self {
        Self { message: message.to_string(), hint: None, code: 1 }
    }

    /// The command was called in a way that cannot work: exit code 2.
    pub(crate) fn usage(message: impl Display) -> Self {
        Self { message: message.to_string(), hint: None, code: 2 }
    }

    /// The same with a way out.
    pub(crate) fn hint(mut self, hint: impl Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// The sentence alone.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Says it on the error stream.
    pub(crate) fn report(&self) -> ExitCode {
        if !self.message.is_empty() {
            eprintln!("error: {}", self.message);
        }
        if let Some(hint) = &self.hint {
            eprintln!("hint: {hint}");
        }
        ExitCode::from(self.code)
    }
}

/// Standard output went away. Whoever closed it, such as `head`, has seen enough.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self { message: String::new(), hint: None, code: 0 },
            _ => Self::new(format!("cannot write: {error}")),
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::from(io::Error::from(error))
    }
}

impl From<sconce::Error> for Failure {
    fn from(error: sconce::Error) -> Self {
        use sconce::Error::*;
        use sconce::core::Error::At;
        let failure = Self::new(&error);
        match &error {
            MissingOperators { .. } => {
                failure.hint("`sconce inspect` shows what the program asks for and what this build has")
            }
            MissingBackends { .. } => failure.hint(
                "`sconce compile MODEL.pt2 --backend xnnpack` makes a program of the export that runs here; `sconce inspect` \
                 shows what this one asks for",
            ),
            // A value of the program that cannot be found is one that another file keeps.
            Core(At { site: Site::Value(_), fault: Fault { code: Code::NotFound, .. } }) => {
                failure.hint("the program keeps tensors in a .ptd file: pass it with `--data FILE.ptd`")
            }
            InputCount { .. } => failure.hint("give one `--input FILE` per tensor input, in order"),
            MethodNotFound { .. } => failure.hint("choose one with `--method NAME`"),
            _ => failure,
        }
    }
}
