//! Compiles C programs against the library that cargo has just built, and runs them.
#![allow(dead_code, reason = "each test uses a part of it")]
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A file of the repository.
pub(crate) fn file(path: &str) -> String {
    let path = root().join(path);
    assert!(path.exists(), "{} is missing", path.display());
    path.display().to_string()
}

/// Where this test may write, by the name of a file.
pub(crate) fn temporary(name: &str) -> String {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name).display().to_string()
}

/// Where the shared library is: beside the tests.
pub(crate) fn library() -> PathBuf {
    let directory = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    assert!(directory.join("libexecutorch_ffi.so").exists(), "no library in {}", directory.display());
    directory
}

/// Compiles a C or C++ file; `link` says whether it uses the library.
pub(crate) fn compile(source: &str, name: &str, link: bool) -> String {
    let program = temporary(name);
    let cpp = source.ends_with(".cpp");
    let mut command = Command::new(if cpp { "c++" } else { "cc" });
    command.args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", if cpp { "-std=c++17" } else { "-std=c11" }]);
    command.arg("-I").arg(root().join("crates/ffi/include")).arg(source).args(["-o", &program]);
    if link {
        let library = library();
        command.arg("-L").arg(&library).arg(format!("-Wl,-rpath,{}", library.display()));
        command.args(["-lexecutorch_ffi", "-lm", "-lpthread"]);
    }
    let output = command.output().expect("a C compiler named cc and a C++ compiler named c++");
    assert!(output.status.success(), "{source}:\n{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Runs a program, which must end well, and gives what it printed.
pub(crate) fn run(program: &str, arguments: &[&str]) -> (String, String) {
    let output = Command::new(program).args(arguments).output().unwrap();
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{printed}{errors}", output.status);
    (printed.into_owned(), errors.into_owned())
}

/// Compiles a test program and runs it.
pub(crate) fn run_c(name: &str, arguments: &[&str]) -> (String, String) {
    let source = format!("{}/tests/c/{name}.c", env!("CARGO_MANIFEST_DIR"));
    run(&compile(&source, name, true), arguments)
}

/// The elements of an array in a golden file, as a file of raw numbers.
pub(crate) fn array(golden: &str, name: &str) -> String {
    let mut archive = zip::ZipArchive::new(std::fs::File::open(file(golden)).unwrap()).unwrap();
    let mut bytes = Vec::new();
    archive.by_name(&format!("{name}.npy")).unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let header = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let path = temporary(&format!("{}.{name}.raw", golden.replace('/', "_")));
    std::fs::write(&path, &bytes[10 + header..]).unwrap();
    path
}
