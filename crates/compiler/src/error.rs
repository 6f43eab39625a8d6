//! Why a program could not be compiled.

use std::fmt;

/// Why a program could not be compiled.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The file is not what it should be.
    File(sconce_pt2::Error),
    /// The graph mentions a name that nothing has.
    MissingTensor(String),
    /// Something that cannot be compiled.
    Unsupported(String),
    /// Operators that no runtime has and no rule rewrites; all of them at once.
    Operators {
        /// Their names.
        names: Vec<String>,
        /// Whether the export was taken apart into core operators already.
        decomposed: bool,
    },
    /// A rule of this compiler, or of a user, made something else than it had to.
    Broken(String),
    /// Tensors cannot lie where they are to.
    Memory {
        /// The method they are of.
        method: String,
        /// What is wrong.
        what: String,
    },
    /// Where another error happened.
    At {
        /// The operator of the export.
        operator: String,
        /// The line of Python it came from; may be empty.
        place: String,
        /// What happened.
        error: Box<Error>,
    },
}

impl Error {
    /// Something that cannot be compiled.
    pub fn unsupported(what: impl Into<String>) -> Self {
        Self::Unsupported(what.into())
    }

    /// Adds the operator and the last place of a stack trace, unless the error has them.
    #[must_use]
    pub fn at(self, operator: &str, stack_trace: &str) -> Self {
        if let Self::At { .. } = self {
            return self;
        }
        let place = stack_trace.lines().rev().find(|line| line.trim_start().starts_with("File ")).unwrap_or("");
        Self::At { operator: operator.to_owned(), place: place.trim().to_owned(), error: Box::new(self) }
    }
}

impl From<sconce_pt2::Error> for Error {
    fn from(error: sconce_pt2::Error) -> Self {
        Self::File(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::MissingTensor(name) => write!(f, "the export mentions {name:?} but has no such tensor or number"),
            Self::Unsupported(what) => write!(f, "{what} cannot be compiled"),
            Self::Operators { names, decomposed } => {
                let (all, them) = (names.join(", "), if names.len() == 1 { "it" } else { "them" });
                write!(f, "no runtime has {all} and no rule rewrites {them}: ")?;
                match names.iter().any(|name| name.starts_with("aten::")) && !decomposed {
                    true => write!(f, "run_decompositions() on the export may take {them} apart"),
                    false => {
                        write!(f, "compute the same with other operators, or rewrite {them} with a pass of your own")
                    }
                }
            }
            Self::Broken(what) => write!(f, "a rewriting rule is wrong: {what}"),
            Self::Memory { method, what } => write!(f, "the memory of {method}: {what}"),
            Self::At { operator, place, error } if place.is_empty() => write!(f, "{operator}: {error}"),
            Self::At { operator, place, error } => write!(f, "{operator} ({place}): {error}"),
        }
    }
}

impl std::error::Error for Error {}
