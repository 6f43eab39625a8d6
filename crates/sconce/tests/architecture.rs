//! `docs/architecture.md` names files that are there, and what each of them is said to have.
use std::path::Path;

/// What stands between backticks in a line.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

#[test]
fn the_page_names_what_there_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/architecture.md")).unwrap();
    let (mut files, mut names) = (0, 0);
    for line in page.lines().filter(|line| line.starts_with('|')) {
        let (paths, words): (Vec<_>, Vec<_>) = quoted(line).partition(|word| word.starts_with("crates/"));
        let mut text = String::new();
        for path in &paths {
            let path = root.join(path);
            assert!(path.exists(), "{} is not there: {line}", path.display());
            text += &std::fs::read_to_string(path).unwrap_or_default();
            files += 1;
        }
        if text.is_empty() {
            continue;
        }
        for word in words.iter().flat_map(|word| word.split("::")) {
            let has = |name: &str| {
                let mut parts = text.split(|c: char| !c.is_alphanumeric() && c != '_');
                parts.any(|part| part == name)
            };
            assert!(has(word), "no file of the line has `{word}`: {line}");
            names += 1;
        }
    }
    assert!(files > 30 && names > 25, "{files} files, {names} names");
    // Every crate has a line.
    for entry in std::fs::read_dir(root.join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(page.contains(&format!("| `crates/{name}` |")), "`{name}` has no line");
    }
}
