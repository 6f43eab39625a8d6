//! Opening programs, with a word about the files that people pass by mistake.
use crate::arguments;
use crate::compile;
use crate::failure::Failure;
use sconce::format::FileKind;
use sconce::{Error, Module, Options};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// How programs are loaded; every command that runs one has these.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Loading {
    /// External data file of the program; may be given several times
    #[arg(long, value_name = "FILE.ptd|.gguf")]
    pub(crate) data: Vec<PathBuf>,
    /// Threads of a run; 0 stands for one per physical core
    #[arg(long, value_name = "N", default_value = "0", value_parser = arguments::threads)]
    pub(crate) threads: usize,
    /// Who runs the calls of kernels: the CPU engine wherever it can, or each operator by itself
    #[arg(long, value_name = "ENGINE", default_value = "auto")]
    pub(crate) engine: Engine,
    /// Leaves out Winograd's method, which rounds more than plain sums of products do and takes more memory
    #[arg(long)]
    pub(crate) exact: bool,
    /// How sums, products and means of bytes are rounded in what was delegated to XNNPACK
    #[arg(long, value_name = "LIKE", default_value = "xnnpack")]
    pub(crate) rounding: Rounding,
    /// Most bytes that a session may take, with what grows while it runs: 4096, 64K, 2M or 16G [default: 8G]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) memory_limit: Option<usize>,
    /// For an exported program (.pt2): a backend that it is compiled for; several choose in this order
    #[arg(long, value_name = "NAME")]
    pub(crate) backend: Vec<String>,
}

/// Who runs the calls of kernels.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Engine {
    /// The CPU engine, wherever it can.
    #[default]
    Auto,
    /// Each operator by itself.
    Reference,
}

/// Whose rounding.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// That of the official runtime.
    #[default]
    Xnnpack,
    /// That of the quantised program in Python.
    Pytorch,
}

impl Loading {
    /// As options of the runtime.
    pub(crate) fn options(&self) -> Options {
        let options = Options::new().plan(self.engine == Engine::Auto).exact(self.exact).threads(self.threads);
        let options = options.rounding(match self.rounding {
            Rounding::Xnnpack => sconce::Rounding::Xnnpack,
            Rounding::Pytorch => sconce::Rounding::PyTorch,
        });
        let options = self.memory_limit.into_iter().fold(options, Options::memory_limit);
        self.data.iter().fold(options, Options::data)
    }

    /// The same, with the `.ptd` beside a program where none is named.
    pub(crate) fn or_beside(&self, program: &Path) -> Self {
        let beside = program.with_extension("ptd");
        let data = if self.data.is_empty() && beside.is_file() { vec![beside] } else { self.data.clone() };
        Self { data, ..self.clone() }
    }
}

/// A number of bytes, perhaps in units.
fn bytes(text: &str) -> Result<usize, String> {
    let (digits, unit) = match text.char_indices().next_back() {
        Some((end, 'K')) => (&text[..end], 1 << 10),
        Some((end, 'M')) => (&text[..end], 1 << 20),
        Some((end, 'G')) => (&text[..end], 1usize << 30),
        _ => (text, 1),
    };
    let bytes = digits.parse().ok().and_then(|number: usize| number.checked_mul(unit));
    bytes.ok_or_else(|| "write bytes as 4096, 64K, 2M or 16G".to_owned())
}

/// How a zip archive begins, such as an exported program (.pt2).
const ZIP: &[u8] = b"PK\x03\x04";

/// Loads a program; an exported one is compiled first, for backends.
pub(crate) fn load(path: &Path, options: Options, backends: &[String]) -> Result<Module, Failure> {
    if path.is_dir() {
        return Err(folder(path));
    }
    let module = match options.clone().load(path) {
        Err(Error::Format { .. }) if head(path).is_ok_and(|head| head.starts_with(ZIP)) => {
            options.load(&compile::compile(path, backends)?)?
        }
        loaded => {
            let module = loaded.map_err(|error| explain(path, error))?;
            refuse_backends(path, backends)?;
            module
        }
    };
    module.warnings().iter().for_each(|warning| warn(warning));
    Ok(module)
}

/// A program has its backends; others can only be chosen for an exported one.
pub(crate) fn refuse_backends(path: &Path, backends: &[String]) -> Result<(), Failure> {
    if backends.is_empty() {
        return Ok(());
    }
    let text =
        format!("{} is compiled, and its backends were chosen then: --backend has no effect on it", path.display());
    Err(Failure::usage(text).hint("leave --backend out, or give the exported program (.pt2)"))
}

/// Says a warning, unless an earlier program had the same.
fn warn(warning: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(warning.to_owned()) {
        eprintln!("warning: {warning}");
    }
}

/// An error of loading, with a hint from what the file looks like.
fn explain(path: &Path, error: Error) -> Failure {
    let hint = match &error {
        Error::Format { file, error } if *file == path.display().to_string() => mistake(path, error),
        _ => None,
    };
    let failure = Failure::from(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// What a file that is no program may be instead.
fn mistake(path: &Path, error: &sconce::format::Error) -> Option<String> {
    use sconce::format::Error::*;
    let head = head(path).unwrap_or_default();
    Some(match error {
        Truncated { .. } if !head.is_empty() && !is_text(&head) => {
            "the copy or download stopped early: get the file again".to_owned()
        }
        NotAProgram { .. } | Truncated { .. } | Corrupt { .. } => match kind(&head) {
            Some(FileKind::Tensors) => "this is a data file: pass it with `--data` beside its program".to_owned(),
            Some(FileKind::Bundle) => {
                "this is a bundled program: `sconce check` and `sconce inspect` take it".to_owned()
            }
            _ if head.is_empty() => "the file is empty".to_owned(),
            _ if head.starts_with(b"version https://git-lfs") => {
                "this is a Git LFS pointer: fetch the file itself with `git lfs pull`".to_owned()
            }
            _ if head.starts_with(b"PK") => {
                "this is a zip archive, such as a .pt2 or .pt file: export it to a .pte program first".to_owned()
            }
            _ if is_text(&head) => {
                "this looks like a text file: a .pte program is what ExecuTorch's exporter writes".to_owned()
            }
            _ => return None,
        },
        _ => return None,
    })
}

fn is_text(head: &[u8]) -> bool {
    let end = std::str::from_utf8(head).map_or_else(|error| error.valid_up_to(), str::len);
    // A character may be cut in two at the end.
    head.len() - end < 4 && !head.contains(&0)
}

/// The first bytes of a file.
pub(crate) fn head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)?.take(64).read_to_end(&mut head)?;
    Ok(head)
}

/// The kind of file that begins so.
pub(crate) fn kind(head: &[u8]) -> Option<FileKind> {
    let identifier = head.get(4..8)?;
    [FileKind::Program, FileKind::Tensors, FileKind::Bundle].into_iter().find(|kind| kind.identifier() == identifier)
}

/// A folder where a file should be.
pub(crate) fn folder(path: &Path) -> Failure {
    let hint = format!("`sconce check {}` checks the programs in a folder", path.display());
    Failure::new(format!("{} is a folder", path.display())).hint(hint)
}

/// Reads a whole file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| unreadable(path, &error))
}

/// A file that cannot be opened.
pub(crate) fn unreadable(path: &Path, error: &io::Error) -> Failure {
    if path.is_dir() {
        return folder(path);
    }
    Failure::new(format!("cannot read {}: {error}", path.display()))
}

/// The method to run: the one asked for, else `forward`, else the only one.
pub(crate) fn method_name(module: &Module, asked: Option<&str>) -> String {
    let methods = module.methods();
    match (asked, methods.as_slice()) {
        (Some(name), _) => name.to_owned(),
        (None, [only]) => only.clone(),
        _ => "forward".to_owned(),
    }
}
