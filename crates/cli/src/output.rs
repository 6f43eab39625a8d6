//! Files that appear whole or not at all.
//!
//! What is to be written goes to a file of another name beside the one that is asked for, and takes its place in the end. An
//! error, or an interrupt, removes it. What is no file of its own, such as `/dev/null`, is written directly.
use crate::failure::Failure;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};

/// Drafts that an interrupt removes.
static DRAFTS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A file that is not there yet.
#[derive(Debug)]
pub(crate) struct Output<'b> {
    asked: PathBuf,
    bytes: &'b [u8],
    /// Where it lies until it is kept; nowhere if it is written directly.
    draft: Option<PathBuf>,
}

impl<'b> Output<'b> {
    /// Writes what will be in a file.
    pub(crate) fn new(asked: &Path, bytes: &'b [u8]) -> Result<Self, Failure> {
        let mut output = Self { asked: asked.to_owned(), bytes, draft: None };
        let there = fs::metadata(asked);
        if there.as_ref().is_ok_and(|there| there.is_dir()) {
            return Err(output.failed("it is a folder"));
        }
        if there.as_ref().is_ok_and(|there| !there.is_file()) {
            return Ok(output);
        }
        // A link stays, and what it leads to is replaced.
        output.asked = fs::canonicalize(asked).unwrap_or_else(|_| asked.to_owned());
        let name = output.asked.file_name().ok_or_else(|| output.failed("it has no name"))?.to_string_lossy();
        let draft = output.asked.with_file_name(format!(".{name}.{}.part", std::process::id()));
        watch();
        lock().insert(draft.clone());
        output.draft = Some(draft.clone());
        fs::write(&draft, bytes).map_err(|error| output.failed(error))?;
        if let Ok(there) = there {
            // A system without such permissions has nothing to keep.
            let _ = fs::set_permissions(&draft, there.permissions());
        }
        Ok(output)
    }

    /// Where the bytes lie now, if they do.
    pub(crate) fn draft(&self) -> Option<&Path> {
        self.draft.as_deref()
    }

    /// What is written.
    pub(crate) fn bytes(&self) -> &'b [u8] {
        self.bytes
    }

    /// A sentence about the file by the name that was asked for.
    pub(crate) fn rename(&self, sentence: impl std::fmt::Display) -> String {
        let (sentence, asked) = (sentence.to_string(), self.asked.display().to_string());
        self.draft().map_or(sentence.clone(), |draft| sentence.replace(&draft.display().to_string(), &asked))
    }

    /// Puts it where it was asked for.
    pub(crate) fn keep(mut self) -> Result<(), Failure> {
        let kept = match &self.draft {
            Some(draft) => fs::rename(draft, &self.asked),
            None => fs::write(&self.asked, self.bytes),
        };
        kept.map_err(|error| self.failed(error))?;
        self.draft.take().into_iter().for_each(|draft| _ = lock().remove(&draft));
        Ok(())
    }

    fn failed(&self, error: impl std::fmt::Display) -> Failure {
        Failure::new(format!("cannot write {}: {error}", self.asked.display()))
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        if let Some(draft) = self.draft.take() {
            let _ = fs::remove_file(&draft);
            lock().remove(&draft);
        }
    }
}

/// Writes a file.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    Output::new(path, bytes)?.keep()
}

fn lock() -> std::sync::MutexGuard<'static, BTreeSet<PathBuf>> {
    DRAFTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on, an interrupt removes drafts before it ends the process.
fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // Where there are no signals, nothing can be removed.
        let _ = ctrlc::set_handler(|| {
            lock().iter().for_each(|draft| _ = fs::remove_file(draft));
            // As a shell reports a program that an interrupt ended.
            std::process::exit(130)
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_is_there_when_it_is_kept() {
        let folder = std::env::temp_dir().join(format!("sconce-output-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("x.pte");
        let output = Output::new(&path, b"old").unwrap();
        assert!(!path.exists() && fs::read(output.draft().unwrap()).unwrap() == b"old");
        output.keep().unwrap();
        drop(Output::new(&path, b"new").unwrap());
        assert!(fs::read(&path).unwrap() == b"old" && names(&folder) == ["x.pte"]);
        write(&path, b"new").unwrap();
        assert!(fs::read(&path).unwrap() == b"new" && names(&folder) == ["x.pte"]);
        let refused = [folder.clone(), folder.join("none/x.pte")].map(|path| write(&path, b"").unwrap_err());
        assert!(refused[0].message().contains("it is a folder") && refused[1].message().contains("cannot write"));
        fs::remove_dir_all(folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn links_and_devices_stay_what_they_are() {
        let folder = std::env::temp_dir().join(format!("sconce-links-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (file, link) = (folder.join("file"), folder.join("link"));
        fs::write(&file, b"old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write(&link, b"new").unwrap();
        assert!(fs::read(&file).unwrap() == b"new" && fs::read_link(&link).unwrap() == file);
        fs::remove_dir_all(folder).unwrap();
        let null = Output::new(Path::new("/dev/null"), b"x").unwrap();
        assert_eq!(null.draft(), None);
        null.keep().unwrap();
    }
}
