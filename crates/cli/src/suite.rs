//! Which golden files belong to which program, and what their names mean.
//!
//! ```text
//! NAME.npz                 one call of `forward`
//! NAME.METHOD.npz          one call of another method, if the program has one of that name
//! NAME.LABEL.npz           one of several independent calls of `forward`
//! NAME.stepN.npz           calls that follow one another on one session, in the order of N
//! NAME.METHOD.stepN.npz    the same for another method; LABEL likewise
//! ```
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A program and the golden files beside it, with the part of their names that follows the program's.
#[derive(Debug, PartialEq)]
pub(crate) struct Suite {
    /// The program.
    pub(crate) program: PathBuf,
    /// Golden files with their suffix, which is empty for `NAME.npz`.
    pub(crate) goldens: Vec<(String, PathBuf)>,
}

/// One call with its golden file.
#[derive(Debug, PartialEq)]
pub(crate) struct Case {
    /// What distinguishes it from the program's other cases; may be empty.
    pub(crate) label: String,
    /// The golden file.
    pub(crate) file: PathBuf,
}

/// Calls on one session.
#[derive(Debug, PartialEq)]
pub(crate) struct Sequence {
    /// The method; `None` stands for `forward`.
    pub(crate) method: Option<String>,
    /// The calls in order.
    pub(crate) cases: Vec<Case>,
}

/// Numbered cases by method and label.
type Steps = BTreeMap<(Option<String>, String), Vec<(u64, Case)>>;

/// All programs of a folder with their golden files, by name.
pub(crate) fn in_folder(folder: &Path) -> io::Result<Vec<Suite>> {
    let mut files = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    files.sort();
    Ok(assign(&files))
}

/// The golden files beside one program.
pub(crate) fn beside(program: &Path) -> io::Result<Suite> {
    let folder = program.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let found = in_folder(folder)?.into_iter().find(|suite| suite.program.file_name() == program.file_name());
    let goldens = found.map(|suite| suite.goldens).unwrap_or_default();
    Ok(Suite { program: program.to_owned(), goldens })
}

/// Golden files that were named one by one. The name counts where it begins with the program's.
pub(crate) fn named(program: &Path, goldens: &[PathBuf]) -> Suite {
    let suffix = |file: &PathBuf| suffix(file, &stem(program)).unwrap_or_else(|| stem(file));
    Suite { program: program.to_owned(), goldens: goldens.iter().map(|file| (suffix(file), file.clone())).collect() }
}

fn assign(files: &[PathBuf]) -> Vec<Suite> {
    let of =
        |extension: &'static str| files.iter().filter(move |file| file.extension().is_some_and(|e| e == extension));
    let mut suites: Vec<Suite> =
        of("pte").chain(of("pt2")).map(|program| Suite { program: program.clone(), goldens: Vec::new() }).collect();
    for golden in of("npz") {
        let owners = suites.iter_mut().filter_map(|suite| Some((suffix(golden, &stem(&suite.program))?, suite)));
        if let Some((suffix, suite)) = owners.min_by_key(|(suffix, _)| suffix.len()) {
            suite.goldens.push((suffix, golden.clone()));
        }
    }
    suites
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// What follows the program's name in a golden file's.
fn suffix(golden: &Path, name: &str) -> Option<String> {
    let golden = stem(golden);
    let rest = golden.strip_prefix(name)?;
    if rest.is_empty() { Some(String::new()) } else { rest.strip_prefix('.').map(str::to_owned) }
}

impl Suite {
    /// The calls to make, given the program's methods.
    pub(crate) fn sequences(&self, methods: &[String]) -> Vec<Sequence> {
        let mut steps = Steps::new();
        let mut sequences = Vec::new();
        for (suffix, file) in &self.goldens {
            let case = Case { label: suffix.clone(), file: file.clone() };
            let (first, rest) = suffix.split_once('.').unwrap_or((suffix, ""));
            let (method, rest) = match methods.iter().find(|method| *method == first) {
                Some(method) => (Some(method.clone()), rest),
                None => (None, suffix.as_str()),
            };
            let (before, last) = rest.rsplit_once('.').unwrap_or(("", rest));
            match last.strip_prefix("step").and_then(|number| number.parse().ok()) {
                Some(step) => {
                    steps.entry((method, before.to_owned())).or_default().push((step, case));
                }
                None => sequences.push(Sequence { method, cases: vec![case] }),
            }
        }
        for ((method, _), mut cases) in steps {
            cases.sort_by_key(|(step, _)| *step);
            sequences.push(Sequence { method, cases: cases.into_iter().map(|(_, case)| case).collect() });
        }
        sequences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suites(files: &[&str]) -> Vec<(String, Vec<String>)> {
        let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        let names =
            |suite: Suite| (stem(&suite.program), suite.goldens.into_iter().map(|(suffix, _)| suffix).collect());
        assign(&files).into_iter().map(names).collect()
    }

    fn sequences(goldens: &[&str], methods: &[&str]) -> Vec<(Option<String>, Vec<String>)> {
        let goldens: Vec<PathBuf> = goldens.iter().map(PathBuf::from).collect();
        let methods: Vec<String> = methods.iter().map(|method| method.to_string()).collect();
        let plain = |sequence: Sequence| {
            (sequence.method, sequence.cases.into_iter().map(|case| case.label).collect::<Vec<_>>())
        };
        named(Path::new("d/net.pte"), &goldens).sequences(&methods).into_iter().map(plain).collect()
    }

    #[test]
    fn goldens_go_to_the_longest_name() {
        let found = suites(&["a.npz", "a.pte", "a.b.pte", "a.b.npz", "a.b.c.npz", "a.d.npz", "ab.npz", "a.ptd"]);
        let want = |name: &str, suffixes: &[&str]| {
            (name.to_owned(), suffixes.iter().map(|suffix| suffix.to_string()).collect::<Vec<_>>())
        };
        assert_eq!(found, [want("a", &["", "d"]), want("a.b", &["", "c"])]);
    }

    #[test]
    fn methods_labels_and_steps() {
        let only = |method: Option<&str>, labels: &[&str]| {
            (method.map(str::to_owned), labels.iter().map(|label| label.to_string()).collect::<Vec<_>>())
        };
        assert_eq!(sequences(&["net.npz"], &["forward"]), [only(None, &[""])]);
        assert_eq!(
            sequences(&["net.decode.npz", "net.b3.npz"], &["forward", "decode"]),
            [only(Some("decode"), &["decode"]), only(None, &["b3"])]
        );
        // Steps follow one another by number, not by spelling.
        assert_eq!(
            sequences(&["net.step10.npz", "net.step9.npz", "net.step0.npz"], &["forward"]),
            [only(None, &["step0", "step9", "step10"])]
        );
        assert_eq!(
            sequences(&["net.decode.step1.npz", "net.decode.step0.npz", "net.step0.npz"], &["decode"]),
            [only(None, &["step0"]), only(Some("decode"), &["decode.step0", "decode.step1"])]
        );
        assert_eq!(sequences(&["a/x.npz", "b/x.npz"], &["forward"]), [only(None, &["x"]), only(None, &["x"])]);
    }
}
