//! Whether libraries are what an archive's name and its header say: for that machine, and with every function. Read from
//! the libraries themselves.

use crate::Result;
use crate::tables::Target;
use object::read::archive::ArchiveFile;
use object::read::coff::ImportFile;
use object::{Architecture, BinaryFormat, FileKind, Object};
use std::collections::HashSet;
use std::path::Path;

/// Checks the libraries of a staged folder.
pub(crate) fn check(staged: &Path, target: &Target) -> Result<()> {
    let libraries = &target.libraries;
    for file in [Some(&libraries.shared), libraries.import.as_ref(), Some(&libraries.static_)].into_iter().flatten() {
        let path = staged.join("lib").join(file);
        let members = check_library(&std::fs::read(path)?, target).map_err(|problem| format!("{file}: {problem}"))?;
        let (platform, architecture) = (&target.platform, &target.architecture);
        println!("checked {file}: {members} object(s) for {platform}-{architecture}");
    }
    let functions = declared(&std::fs::read_to_string(staged.join("include/executorch_ffi.h"))?);
    check_exports(&std::fs::read(staged.join("lib").join(&libraries.shared))?, &functions)?;
    println!("checked {}: {} functions", libraries.shared, functions.len());
    Ok(())
}

/// The functions that a header declares with `ET_API`.
fn declared(header: &str) -> Vec<String> {
    let declarations = header.split("ET_API ").skip(1).filter_map(|text| text.split('(').next());
    let names = declarations.filter_map(|text| text.split_whitespace().next_back());
    names.map(|name| name.trim_start_matches('*')).filter(|name| name.starts_with("et_")).map(str::to_owned).collect()
}

/// Checks that a shared library exports all these functions.
fn check_exports(bytes: &[u8], functions: &[String]) -> Result<()> {
    let file = object::File::parse(bytes)?;
    let mut exported = HashSet::new();
    for export in file.exports()? {
        let name = String::from_utf8_lossy(export.name()).into_owned();
        // Apple's names start with an underscore.
        exported.insert(name.strip_prefix('_').map(str::to_owned).unwrap_or(name));
    }
    let missing: Vec<&str> = functions.iter().map(String::as_str).filter(|name| !exported.contains(*name)).collect();
    if missing.is_empty() { Ok(()) } else { Err(format!("the shared library lacks {}", missing.join(", ")).into()) }
}

/// How many objects a library is made of, all of them for `target`.
fn check_library(bytes: &[u8], target: &Target) -> Result<usize> {
    if FileKind::parse(bytes)? != FileKind::Archive {
        return check_object(bytes, target).map(|()| 1);
    }
    let archive = ArchiveFile::parse(bytes)?;
    let mut members = 0;
    for member in archive.members() {
        let member = member?;
        let name = String::from_utf8_lossy(member.name());
        check_object(member.data(bytes)?, target).map_err(|problem| format!("{name}: {problem}"))?;
        members += 1;
    }
    if members == 0 { Err("it is empty".into()) } else { Ok(members) }
}

fn check_object(bytes: &[u8], target: &Target) -> Result<()> {
    let (found_format, found) = match FileKind::parse(bytes)? {
        FileKind::CoffImport => (BinaryFormat::Coff, ImportFile::parse(bytes)?.architecture()),
        _ => {
            let file = object::File::parse(bytes)?;
            (file.format(), file.architecture())
        }
    };
    let (formats, expected) = (formats(&target.libraries.kind)?, architecture(&target.architecture)?);
    if !formats.contains(&found_format) || found != expected {
        return Err(format!("it is {found_format:?} for {found:?}, but {formats:?} for {expected:?} is meant").into());
    }
    Ok(())
}

fn formats(kind: &str) -> Result<&'static [BinaryFormat]> {
    Ok(match kind {
        "elf" | "android" => &[BinaryFormat::Elf],
        "macho" => &[BinaryFormat::MachO],
        "mingw" | "msvc" => &[BinaryFormat::Pe, BinaryFormat::Coff],
        _ => return Err(format!("the format of libraries of kind '{kind}' is not known").into()),
    })
}

fn architecture(name: &str) -> Result<Architecture> {
    Ok(match name {
        "x64" | "x86_64" => Architecture::X86_64,
        "arm64" | "arm64-v8a" => Architecture::Aarch64,
        "armeabi-v7a" => Architecture::Arm,
        "x86" => Architecture::I386,
        _ => return Err(format!("the architecture '{name}' is not known").into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::Tables;

    /// The start of an ELF file of 64 bits for a machine by its number.
    fn elf(machine: u16) -> Vec<u8> {
        let mut header = vec![0u8; 64];
        header[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
        header[16] = 3;
        header[18..20].copy_from_slice(&machine.to_le_bytes());
        header[20] = 1;
        header[52] = 64;
        header
    }

    #[test]
    fn a_library_for_another_machine_is_refused() {
        let tables = Tables::read(&crate::workspace()).unwrap();
        let check = |bytes: &[u8], triple| check_library(bytes, tables.target(triple).unwrap());
        let (x64, arm64) = (elf(62), elf(183));
        assert_eq!(check(&x64, "x86_64-unknown-linux-gnu").unwrap(), 1);
        assert_eq!(check(&arm64, "aarch64-linux-android").unwrap(), 1);
        let problem = check(&arm64, "x86_64-unknown-linux-gnu").unwrap_err().to_string();
        assert_eq!(problem, "it is Elf for Aarch64, but [Elf] for X86_64 is meant");
        assert!(check(&x64, "x86_64-pc-windows-gnu").is_err());
        assert!(check(b"!<arch>\n", "x86_64-unknown-linux-gnu").is_err());
        assert!(check(b"nothing of the kind", "x86_64-unknown-linux-gnu").is_err());
    }

    #[test]
    fn functions_of_the_header_must_be_exported() {
        let header =
            "#define ET_API __attribute__((x))\nET_API void et_free(int *a);\nET_API ETStatus *et_load(\n  int b);";
        assert_eq!(declared(header), ["et_free", "et_load"]);
        let problem = check_exports(&elf(62), &declared(header)).unwrap_err().to_string();
        assert_eq!(problem, "the shared library lacks et_free, et_load");
        assert!(check_exports(&elf(62), &[]).is_ok());
    }

    #[test]
    fn every_target_of_the_table_can_be_checked() {
        for target in Tables::read(&crate::workspace()).unwrap().targets {
            assert!(formats(&target.libraries.kind).is_ok() && architecture(&target.architecture).is_ok());
        }
    }
}
