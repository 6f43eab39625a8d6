//! Archives that are the same bytes whenever the same files are packed: entries in the order of their names, with one
//! fixed time, owner and mode; `.zip` for Windows, `.tar.gz` for the others. Beside each, its hash.

use crate::Result;
use crate::tables::Target;
use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io::{Cursor, Read, Write};
use std::path::{Path, PathBuf};

/// 1980-01-01, the first moment that both formats know.
const TIME: u64 = 315_532_800;

/// Packs the files of `staged` as `name` with its ending and hash into the folder `out`.
pub(crate) fn pack(staged: &Path, out: &Path, name: &str, target: &Target) -> Result<PathBuf> {
    let files = files(staged)?;
    let (file, bytes) = match target.platform.as_str() {
        "windows" => (format!("{name}.zip"), zip(&files)?),
        _ => (format!("{name}.tar.gz"), tar_gz(&files)?),
    };
    std::fs::create_dir_all(out)?;
    std::fs::write(out.join(&file), &bytes)?;
    std::fs::write(out.join(format!("{file}.sha256")), format!("{}  {file}\n", sha256(&bytes)))?;
    Ok(out.join(file))
}

/// The files of an archive, by name, with their sizes.
pub(crate) fn contents(path: &Path) -> Result<Vec<(String, u64)>> {
    let bytes = std::fs::read(path)?;
    if path.extension().is_some_and(|ending| ending == "zip") {
        let mut archive = zip::ZipArchive::new(Cursor::new(bytes))?;
        let mut contents = Vec::new();
        for index in 0..archive.len() {
            let file = archive.by_index(index)?;
            contents.push((file.name()?.into_owned(), file.size()));
        }
        return Ok(contents);
    }
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&bytes[..]));
    let mut contents = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let size = std::io::copy(&mut entry.by_ref(), &mut std::io::sink())?;
        contents.push((entry.path()?.to_string_lossy().into_owned(), size));
    }
    Ok(contents)
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Every file under a folder: its name in the archive, with slashes, and its bytes.
fn files(folder: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let parts: Vec<_> = path.strip_prefix(folder)?.iter().map(|part| part.to_string_lossy()).collect();
            files.push((parts.join("/"), std::fs::read(&path)?));
        }
    }
    files.sort();
    Ok(files)
}

/// Libraries that are loaded are executable, by custom; everything else is not.
fn mode(name: &str) -> u32 {
    if [".so", ".dylib", ".dll"].iter().any(|ending| name.ends_with(ending)) { 0o755 } else { 0o644 }
}

fn tar_gz(files: &[(String, Vec<u8>)]) -> Result<Vec<u8>> {
    // No name, no time, and "unknown" as the operating system.
    let gzip = GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::best());
    let mut archive = tar::Builder::new(gzip);
    for (name, bytes) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len().try_into()?);
        header.set_mode(mode(name));
        header.set_mtime(TIME);
        header.set_uid(0);
        header.set_gid(0);
        archive.append_data(&mut header, name, &bytes[..])?;
    }
    Ok(archive.into_inner()?.finish()?)
}

fn zip(files: &[(String, Vec<u8>)]) -> Result<Vec<u8>> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        let options = zip::write::SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Deflated)
            .compression_level(Some(9))
            .last_modified_time(zip::DateTime::default())
            .unix_permissions(mode(name));
        archive.start_file(name.as_str(), options)?;
        archive.write_all(bytes)?;
    }
    Ok(archive.finish()?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::Tables;

    #[test]
    fn the_same_files_give_the_same_bytes() {
        let tables = Tables::read(&crate::workspace()).unwrap();
        let folder = std::env::temp_dir().join(format!("xtask-archive-{}", std::process::id()));
        let staged = folder.join("staged");
        for triple in ["x86_64-unknown-linux-gnu", "x86_64-pc-windows-gnu"] {
            let packed: Vec<Vec<u8>> = [["lib/b.so", "a.txt"], ["a.txt", "lib/b.so"]]
                .iter()
                .map(|names| {
                    let _ = std::fs::remove_dir_all(&staged);
                    std::fs::create_dir_all(staged.join("lib")).unwrap();
                    for name in names {
                        std::fs::write(staged.join(name), name.repeat(1000)).unwrap();
                    }
                    let path = pack(&staged, &folder, "name", tables.target(triple).unwrap()).unwrap();
                    let expected = [("a.txt".to_owned(), 5000), ("lib/b.so".to_owned(), 8000)];
                    assert_eq!(contents(&path).unwrap(), expected);
                    std::fs::read(path).unwrap()
                })
                .collect();
            assert_eq!(packed[0], packed[1]);
        }
        let line = std::fs::read_to_string(folder.join("name.zip.sha256")).unwrap();
        let hash = sha256(&std::fs::read(folder.join("name.zip")).unwrap());
        assert_eq!(line, format!("{hash}  name.zip\n"));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn hashes_are_those_of_the_standard() {
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
