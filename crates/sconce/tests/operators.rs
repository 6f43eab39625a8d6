//! Every operator of the official runtime is here and has a golden program, and the page about operators is true.
//!
//! `crates/schema/operators.txt` lists what the official runtime can register. What is checked of an operator is read from the
//! golden programs themselves: who calls it, with which element types. `docs/operators.md` is made from that; after a
//! change, `UPDATE_DOCS=1 cargo test -p sconce --test operators` writes it anew.
use sconce::Registry;
use sconce::format::pte::{ExecutionPlan, File, Header, InstructionArguments, KernelTypes};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The names of `crates/schema/operators.txt`.
fn official() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("crates/schema/operators.txt")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| line.split('(').next().unwrap().trim().to_owned()).collect()
}

/// How golden programs use an operator.
#[derive(Default)]
struct Use {
    programs: BTreeSet<String>,
    types: BTreeSet<String>,
}

/// All golden programs in a folder and those inside it.
fn programs(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            programs(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "pte") {
            found.push(path);
        }
    }
}

fn golden_uses() -> BTreeMap<String, Use> {
    let mut files = Vec::new();
    programs(&root().join("tests/golden"), &mut files);
    assert!(!files.is_empty(), "there are golden programs");
    let mut uses = BTreeMap::new();
    for path in files {
        let bytes = std::fs::read(&path).unwrap();
        let size = bytes.len() as u64;
        let header = Header::parse(&bytes, size).unwrap();
        let file = File::parse(&bytes[..header.program_size as usize], header, size).unwrap();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        file.program().execution_plan().iter().for_each(|plan| note(&name, plan, &mut uses));
    }
    uses
}

/// Notes the operators that a method calls.
fn note(program: &str, plan: ExecutionPlan<'_>, uses: &mut BTreeMap<String, Use>) {
    for instruction in plan.chains().iter().flat_map(|chain| chain.instructions().iter()) {
        let InstructionArguments::KernelCall(call) = instruction.instr_args() else { continue };
        let operator = plan.operators().get(call.op_index() as usize).unwrap();
        let used = uses.entry(operator.to_string()).or_default();
        used.programs.insert(program.to_owned());
        for argument in call.args().iter() {
            let value = plan.values().get(argument as usize).unwrap();
            if let KernelTypes::Tensor(tensor) = value.val() {
                used.types.insert(tensor.scalar_type().to_string());
            }
        }
    }
}

fn list(names: impl IntoIterator<Item = String>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}

#[test]
fn every_official_operator_is_registered() {
    let here: BTreeSet<_> = Registry::with_defaults().operator_names().into_iter().collect();
    let missing = list(official().difference(&here).cloned());
    assert!(missing.is_empty(), "not registered: {missing}");
}

#[test]
fn every_official_operator_has_a_golden_program() {
    let uses = golden_uses();
    let missing = list(official().into_iter().filter(|name| !uses.contains_key(name)));
    assert!(missing.is_empty(), "no golden program calls: {missing}");
}

#[test]
fn the_page_about_operators_is_current() {
    let path = root().join("docs/operators.md");
    let page = page(&golden_uses());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(path, page).unwrap();
    }
    let current = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(page == current, "docs/operators.md is not what the tables and golden programs say: see this test's file");
}

fn page(uses: &BTreeMap<String, Use>) -> String {
    let (names, official) = (Registry::with_defaults().operator_names(), official());
    let checked = names.iter().filter(|name| uses.contains_key(*name)).count();
    let mut page = format!(
        "# Operators\n\nMade by the test `operators` of the crate `sconce` from the operator tables and the golden \
         programs; do not edit.\n\n{} operators, {checked} of them called by golden programs. A star marks those that \
         the official runtime does not have. The types are those of the tensors in the golden calls; an operator may \
         take more.\n\n| operator | types checked | golden programs |\n|---|---|---|\n",
        names.len()
    );
    for name in names {
        let star = if official.contains(&name) { "" } else { " *" };
        let none = Use::default();
        let used = uses.get(&name).unwrap_or(&none);
        let mut programs: Vec<_> = used.programs.iter().take(3).map(|program| format!("`{program}`")).collect();
        if used.programs.len() > programs.len() {
            programs.push(format!("{} more", used.programs.len() - programs.len()));
        }
        let types = list(used.types.iter().cloned());
        writeln!(page, "| `{name}`{star} | {types} | {} |", programs.join(", ")).unwrap();
    }
    page
}
