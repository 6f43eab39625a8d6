//! The tables of `crates/ffi/cmake`: columns parted by spaces, `#` starts a comment line.

use crate::Result;
use std::collections::HashMap;
use std::path::Path;

/// A machine that the library is made for.
pub(crate) struct Target {
    pub(crate) platform: String,
    pub(crate) architecture: String,
    pub(crate) triple: String,
    /// The linker when another machine builds for this one; none if that takes more than a linker.
    pub(crate) linker: Option<String>,
    pub(crate) libraries: Libraries,
}

/// What the library's files are called on a kind of machine.
#[derive(Clone)]
pub(crate) struct Libraries {
    pub(crate) kind: String,
    pub(crate) shared: String,
    pub(crate) import: Option<String>,
    pub(crate) static_: String,
    /// What a program that links the static library needs besides.
    system: Vec<String>,
    /// And where a backend in it is C++.
    cpp: Option<String>,
}

impl Libraries {
    /// What a program needs besides the static library with these features.
    pub(crate) fn system(&self, features: &[String]) -> Vec<String> {
        let cpp = self.cpp.iter().filter(|_| !features.is_empty());
        cpp.chain(&self.system).cloned().collect()
    }
}

struct Backend {
    name: String,
    /// "default" if it is always there, none if this version cannot have it.
    feature: Option<String>,
    machines: Vec<String>,
}

pub(crate) struct Tables {
    pub(crate) targets: Vec<Target>,
    backends: Vec<Backend>,
    /// What `et_version()` returns.
    pub(crate) version: String,
}

impl Tables {
    pub(crate) fn read(workspace: &Path) -> Result<Tables> {
        let folder = workspace.join("crates/ffi/cmake");
        let libraries: HashMap<String, Libraries> = rows(&folder, "libraries")?
            .into_iter()
            .map(|[kind, shared, import, static_, system, cpp]| {
                let (import, cpp) = (unless_dash(import), unless_dash(cpp));
                let system = system.split(',').map(str::to_owned).collect();
                (kind.clone(), Libraries { kind, shared, import, static_, system, cpp })
            })
            .collect();
        let targets = rows(&folder, "targets")?
            .into_iter()
            .map(|[platform, architecture, kind, triple, linker]| {
                let libraries =
                    libraries.get(&kind).ok_or(format!("libraries.txt has no row '{kind}' of targets.txt"))?;
                let linker = unless_dash(linker);
                Ok(Target { platform, architecture, triple, linker, libraries: libraries.clone() })
            })
            .collect::<Result<_>>()?;
        let backends = rows(&folder, "backends")?
            .into_iter()
            .map(|[name, feature, machines]| Backend {
                name,
                feature: unless_dash(feature),
                machines: machines.split(',').map(str::to_owned).collect(),
            })
            .collect();
        let versions: HashMap<String, String> = rows(&folder, "versions")?.into_iter().map(<[_; 2]>::into).collect();
        let version = versions.get("library").ok_or("versions.txt has no row 'library'")?.clone();
        Ok(Tables { targets, backends, version })
    }

    pub(crate) fn target(&self, triple: &str) -> Result<&Target> {
        let known = || self.targets.iter().map(|target| target.triple.as_str()).collect::<Vec<_>>().join(", ");
        let found = self.targets.iter().find(|target| target.triple == triple);
        found.ok_or_else(|| format!("no archives are made for '{triple}', only for {}", known()).into())
    }

    /// The wanted backends in the order of archive names, if `target` and this version can have them all.
    pub(crate) fn backends(&self, wanted: &[String], target: &Target) -> Result<Vec<String>> {
        let available: Vec<&Backend> = self.backends.iter().filter(|backend| backend.runs_on(target)).collect();
        let names = available.iter().map(|backend| backend.name.as_str()).collect::<Vec<_>>().join(", ");
        let machine = format!("{}-{}", target.platform, target.architecture);
        if let Some(missing) = wanted.iter().find(|name| !available.iter().any(|backend| backend.name == **name)) {
            return Err(format!("{machine} has no backend '{missing}' in this version; available: {names}").into());
        }
        let always = |backend: &Backend| backend.feature.as_deref() == Some("default");
        if let Some(dropped) = available.iter().find(|backend| always(backend) && !wanted.contains(&backend.name)) {
            return Err(format!("every library has the backend '{}': name it too", dropped.name).into());
        }
        Ok(available.iter().map(|backend| backend.name.clone()).filter(|name| wanted.contains(name)).collect())
    }

    /// The Cargo features that bring these backends.
    pub(crate) fn features(&self, backends: &[String]) -> Vec<String> {
        let chosen = self.backends.iter().filter(|backend| backends.contains(&backend.name));
        chosen.filter_map(|backend| backend.feature.clone()).filter(|feature| feature != "default").collect()
    }
}

impl Backend {
    fn runs_on(&self, target: &Target) -> bool {
        let machine = format!("{}/{}", target.platform, target.architecture);
        let names = ["all", &target.platform, &machine];
        self.feature.is_some() && self.machines.iter().any(|name| names.contains(&name.as_str()))
    }
}

/// What an archive is called, without its ending.
pub(crate) fn artifact_name(target: &Target, backends: &[String], debug: bool) -> String {
    let suffix = if debug { "-debug" } else { "" };
    format!("libexecutorch_ffi-{}-{}-{}{suffix}", target.platform, target.architecture, backends.join("-"))
}

fn rows<const COLUMNS: usize>(folder: &Path, table: &str) -> Result<Vec<[String; COLUMNS]>> {
    let path = folder.join(table).with_extension("txt");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines
        .map(|line| {
            let columns: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let count = columns.len();
            let row = columns.try_into().ok();
            row.ok_or_else(|| format!("{}: '{line}' has {count} columns, not {COLUMNS}", path.display()).into())
        })
        .collect()
}

fn unless_dash(text: String) -> Option<String> {
    (text != "-").then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables() -> Tables {
        Tables::read(&crate::workspace()).unwrap()
    }

    #[test]
    fn names_are_as_published() {
        let tables = tables();
        let name = |triple: &str, debug| artifact_name(tables.target(triple).unwrap(), &["xnnpack".to_owned()], debug);
        assert_eq!(name("x86_64-unknown-linux-gnu", false), "libexecutorch_ffi-linux-x64-xnnpack");
        assert_eq!(name("aarch64-apple-ios-sim", true), "libexecutorch_ffi-ios-simulator-arm64-xnnpack-debug");
        assert_eq!(name("aarch64-linux-android", false), "libexecutorch_ffi-android-arm64-v8a-xnnpack");
    }

    #[test]
    fn unknown_targets_and_backends_are_refused_with_what_there_is() {
        let tables = tables();
        let target = tables.target("x86_64-unknown-linux-gnu").unwrap();
        let problem = tables.target("riscv64gc-unknown-linux-gnu").err().unwrap().to_string();
        assert!(problem.contains("aarch64-unknown-linux-gnu"), "{problem}");
        let problem = tables.backends(&["xnnpack".to_owned(), "coreml".to_owned()], target).unwrap_err().to_string();
        assert_eq!(problem, "linux-x64 has no backend 'coreml' in this version; available: xnnpack, ggml");
        assert!(tables.backends(&[], target).unwrap_err().to_string().contains("every library has"));
        assert_eq!(tables.backends(&["xnnpack".to_owned()], target).unwrap(), ["xnnpack"]);
        assert!(tables.features(&["xnnpack".to_owned()]).is_empty());
    }
}
