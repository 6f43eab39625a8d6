//! What archives weigh: read from the archives themselves, so that a folder of them from several machines gives one
//! report.

use crate::tables::{Tables, Target};
use crate::{Result, archive};
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;

/// An archive and what is in it.
#[derive(Serialize)]
struct Row {
    archive: String,
    platform: String,
    architecture: String,
    backends: Vec<String>,
    build: &'static str,
    bytes: u64,
    sha256: String,
    files: Vec<File>,
}

#[derive(Serialize)]
struct File {
    path: String,
    bytes: u64,
}

/// Prints the report of a folder, and writes it there as `size-report.txt` and `size-report.json`.
pub(crate) fn write(folder: &Path, tables: &Tables) -> Result<()> {
    let mut rows = Vec::new();
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some((target, backends, build)) = parse(&name, tables) {
            rows.push(row(&path, name, target, backends, build)?);
        }
    }
    rows.sort_by(|a, b| a.archive.cmp(&b.archive));
    let text = text(&rows)?;
    std::fs::write(folder.join("size-report.json"), serde_json::to_string_pretty(&rows)? + "\n")?;
    std::fs::write(folder.join("size-report.txt"), &text)?;
    print!("{text}");
    Ok(())
}

/// What an archive's name says: the machine, the backends and the build type.
fn parse<'a>(name: &str, tables: &'a Tables) -> Option<(&'a Target, Vec<String>, &'static str)> {
    let name = name.strip_prefix("libexecutorch_ffi-")?;
    let name = name.strip_suffix(".tar.gz").or(name.strip_suffix(".zip"))?;
    let (name, build) = name.strip_suffix("-debug").map_or((name, "release"), |name| (name, "debug"));
    tables.targets.iter().find_map(|target| {
        let backends = name.strip_prefix(&format!("{}-{}-", target.platform, target.architecture))?;
        Some((target, backends.split('-').map(str::to_owned).collect(), build))
    })
}

fn row(path: &Path, archive: String, target: &Target, backends: Vec<String>, build: &'static str) -> Result<Row> {
    let bytes = std::fs::read(path)?;
    let contents = archive::contents(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Row {
        archive,
        platform: target.platform.clone(),
        architecture: target.architecture.clone(),
        backends,
        build,
        bytes: bytes.len().try_into()?,
        sha256: archive::sha256(&bytes),
        files: contents.into_iter().map(|(path, bytes)| File { path, bytes }).collect(),
    })
}

fn text(rows: &[Row]) -> Result<String> {
    let mut text = String::new();
    for row in rows {
        writeln!(text, "{:>12}  {}", row.bytes, row.archive)?;
        for file in row.files.iter().filter(|file| file.path.starts_with("lib/") && file.bytes > 100_000) {
            writeln!(text, "{:>12}    {}", file.bytes, file.path)?;
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        let tables = Tables::read(&crate::workspace()).unwrap();
        let read = |name: &str| {
            let (target, backends, build) = parse(name, &tables)?;
            Some((target.platform.clone(), target.architecture.clone(), backends.join(" "), build))
        };
        let simulator = read("libexecutorch_ffi-ios-simulator-arm64-xnnpack-coreml-debug.tar.gz").unwrap();
        assert_eq!(simulator, ("ios-simulator".into(), "arm64".into(), "xnnpack coreml".into(), "debug"));
        let phone = read("libexecutorch_ffi-android-arm64-v8a-xnnpack.tar.gz").unwrap();
        assert_eq!(phone, ("android".into(), "arm64-v8a".into(), "xnnpack".into(), "release"));
        assert_eq!(read("libexecutorch_ffi-linux-x64-xnnpack.tar.gz.sha256"), None);
    }
}
