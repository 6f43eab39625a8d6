//! The library by cargo: where it is built, with which linker, and how it loses what only debuggers want.

use crate::Result;
use crate::tables::Target;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The triple of the machine that runs this.
pub(crate) fn host() -> Result<String> {
    let about = output(Command::new("rustc").arg("-vV"))?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc -vV does not name the host")?.to_owned())
}

/// Where cargo builds.
pub(crate) fn target_folder(workspace: &Path) -> Result<PathBuf> {
    let mut metadata = cargo(workspace);
    let text = output(metadata.args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&text)?;
    Ok(metadata["target_directory"].as_str().ok_or("cargo metadata does not name the target folder")?.into())
}

/// Builds the library and returns the folder with its files.
pub(crate) fn library(
    workspace: &Path,
    target: &Target,
    host: &str,
    features: &[String],
    debug: bool,
) -> Result<PathBuf> {
    let mut folder = target_folder(workspace)?;
    let mut build = cargo(workspace);
    build.args(["build", "--locked", "--package", "sconce-ffi"]);
    if !debug {
        build.arg("--release");
    }
    if !features.is_empty() {
        build.arg("--features").arg(features.join(","));
    }
    // Without --target for the host itself: what `cargo build` and the CMake package built there is used.
    if target.triple != host {
        build.args(["--target", &target.triple]);
        folder.push(&target.triple);
        let variable = format!("CARGO_TARGET_{}_LINKER", target.triple.to_uppercase().replace('-', "_"));
        if let (Some(linker), None) = (&target.linker, std::env::var_os(&variable)) {
            build.env(variable, linker_path(linker)?);
        }
    }
    run(&mut build)?;
    Ok(folder.join(if debug { "debug" } else { "release" }))
}

/// A linker by its name in the table of targets: a command, or one of the Android NDK. The whole path, as CMake gives
/// it, so that cargo takes both for the same.
fn linker_path(name: &str) -> Result<PathBuf> {
    let folders: Vec<PathBuf> = match name.strip_prefix("ndk:") {
        None => std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect(),
        Some(_) => {
            let ndk = std::env::var_os("ANDROID_NDK_HOME").ok_or("ANDROID_NDK_HOME does not name the Android NDK")?;
            let machines = Path::new(&ndk).join("toolchains/llvm/prebuilt");
            let entries = std::fs::read_dir(&machines).map_err(|error| format!("{}: {error}", machines.display()))?;
            entries.filter_map(std::result::Result::ok).map(|machine| machine.path().join("bin")).collect()
        }
    };
    let command = name.strip_prefix("ndk:").unwrap_or(name);
    let found = folders.iter().map(|folder| folder.join(command)).find(|path| path.is_file());
    Ok(found.ok_or(format!("the linker {command} is not installed"))?)
}

/// Removes symbols that nobody links to, and debug information, from the libraries in `staged`.
pub(crate) fn strip(staged: &Path, target: &Target, host: &str) -> Result<()> {
    // Rust brings a tool that knows the formats of all platforms, and renews the signatures of Apple's. Microsoft's
    // libraries have their debug information elsewhere.
    let of_shared = match target.libraries.kind.as_str() {
        "elf" | "android" | "mingw" => "--strip-all",
        "macho" => "--discard-all",
        _ => return Ok(()),
    };
    let how = [(&target.libraries.shared, of_shared), (&target.libraries.static_, "--strip-debug")];
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let tool = Path::new(sysroot.trim()).join("lib/rustlib").join(host).join("bin/rust-objcopy");
    for (file, argument) in how {
        let path = staged.join("lib").join(file);
        let before = std::fs::metadata(&path)?.len();
        run(Command::new(&tool).arg(argument).arg(&path))?;
        println!("stripped {file} from {before} to {} bytes", std::fs::metadata(&path)?.len());
    }
    Ok(())
}

fn cargo(workspace: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command.current_dir(workspace);
    command
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|error| format!("{command:?} does not start: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}").into()) }
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output().map_err(|error| format!("{command:?} does not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
