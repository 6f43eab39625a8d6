//! Why a `.pt2` file was refused.

use std::fmt;

/// Why a `.pt2` file was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Not a zip archive, or a broken one.
    Zip(String),
    /// An entry is compressed, which torch never does.
    Compressed(String),
    /// An entry lies outside the file.
    Outside(String),
    /// No `models/NAME.json`.
    NoModel,
    /// An entry that another one mentions is missing.
    Missing(String),
    /// An entry does not say what it must.
    Json {
        /// The entry.
        path: String,
        /// What is wrong with it.
        message: String,
    },
    /// A version of the schema that is not known.
    Version(u64, u64),
    /// A tensor does not fit its bytes.
    Tensor(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zip(message) => write!(f, "not a .pt2 archive as torch.export.save writes it: {message}"),
            Self::Compressed(path) => write!(f, "{path} is compressed: write the archive with torch.export.save"),
            Self::Outside(path) => write!(f, "{path} does not lie inside the file, which was cut short or changed"),
            Self::NoModel => f.write_str("the archive has no models/NAME.json: is it a .pt2 of torch.export.save?"),
            Self::Missing(path) => write!(f, "the archive mentions {path} but does not have it"),
            Self::Json { path, message } => write!(f, "{path}: {message}"),
            Self::Version(major, minor) => {
                write!(f, "the export schema {major}.{minor} is not known, only 8.x: export with torch 2.15")
            }
            Self::Tensor(name) => write!(f, "the tensor {name:?} does not fit its bytes"),
        }
    }
}

impl std::error::Error for Error {}
