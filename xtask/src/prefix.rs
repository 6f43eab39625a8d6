//! The folder that is packed: `include/`, `lib/` with the libraries, CMake's and pkg-config's package files, and the
//! licences. `crates/ffi/cmake/source.cmake` lays out the same from the same templates.

use crate::Result;
use crate::tables::{Tables, Target};
use std::path::Path;

/// Where the templates of `crates/ffi/cmake` go.
const TEMPLATES: [(&str, &str); 3] = [
    ("executorch_ffi-config.cmake", "lib/cmake/executorch_ffi"),
    ("executorch_ffi-config-version.cmake", "lib/cmake/executorch_ffi"),
    ("executorch_ffi.pc", "lib/pkgconfig"),
];
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Makes `staged` anew from the libraries in `built`, which have these features.
pub(crate) fn stage(built: &Path, staged: &Path, target: &Target, tables: &Tables, features: &[String]) -> Result<()> {
    let workspace = crate::workspace();
    if staged.exists() {
        std::fs::remove_dir_all(staged)?;
    }
    let libraries = &target.libraries;
    for file in [Some(&libraries.shared), libraries.import.as_ref(), Some(&libraries.static_)].into_iter().flatten() {
        copy(&built.join(file), &staged.join("lib").join(file))?;
    }
    copy(&workspace.join("crates/ffi/include/executorch_ffi.h"), &staged.join("include/executorch_ffi.h"))?;
    for licence in LICENCES {
        copy(&workspace.join(licence), &staged.join("share/licenses/executorch_ffi").join(licence))?;
    }
    for (name, folder) in TEMPLATES {
        let template = workspace.join("crates/ffi/cmake").join(format!("{name}.in"));
        let text = fill(&read(&template)?, target, &tables.version, features)?;
        let path = staged.join(folder).join(name);
        make_parent(&path)?;
        std::fs::write(&path, text)?;
    }
    Ok(())
}

/// A template with its `@NAMES@` replaced.
fn fill(template: &str, target: &Target, version: &str, features: &[String]) -> Result<String> {
    let libraries = &target.libraries;
    let system = libraries.system(features);
    let flags: Vec<String> = system.iter().map(|library| format!("-l{library}")).collect();
    let values = [
        ("@VERSION@", version),
        ("@SHARED@", &libraries.shared),
        ("@IMPORT@", libraries.import.as_deref().unwrap_or("-")),
        ("@STATIC@", &libraries.static_),
        ("@SYSTEM_LIBRARIES@", &system.join(";")),
        ("@SYSTEM_LINK_FLAGS@", &flags.join(" ")),
    ];
    let text = values.iter().fold(template.to_owned(), |text, (name, value)| text.replace(name, value));
    match text.lines().find(|line| line.contains('@')) {
        Some(line) => Err(format!("a package template has a name that nothing is known for: {line}").into()),
        None => Ok(text),
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    make_parent(to)?;
    std::fs::copy(from, to).map_err(|error| format!("{} cannot be copied: {error}", from.display()))?;
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    Ok(std::fs::read_to_string(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?)
}

fn make_parent(path: &Path) -> Result<()> {
    Ok(path.parent().map_or(Ok(()), std::fs::create_dir_all)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_filled() {
        let tables = Tables::read(&crate::workspace()).unwrap();
        let target = tables.target("x86_64-pc-windows-gnu").unwrap();
        let template = "@SHARED@ @IMPORT@ @SYSTEM_LIBRARIES@|@SYSTEM_LINK_FLAGS@ @VERSION@";
        let text = fill(template, target, "7.8.9", &[]).unwrap();
        assert!(text.starts_with("executorch_ffi.dll libexecutorch_ffi.dll.a kernel32;"), "{text}");
        assert!(text.contains("|-lkernel32 -l") && text.ends_with(" 7.8.9"), "{text}");
        let with_ggml = fill(template, target, "7.8.9", &["ggml".to_owned()]).unwrap();
        assert!(with_ggml.contains(" stdc++;kernel32;") && with_ggml.contains("|-lstdc++ -l"), "{with_ggml}");
        assert!(fill("@OTHER@", target, "", &[]).is_err());
    }
}
