//! Compiles C programs against the library that cargo has just built, and runs them.
#![allow(dead_code, reason = "each test uses a part of it")]
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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
    let name = format!("{}executorch_ffi{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    assert!(directory.join(&name).exists(), "no {name} in {}", directory.display());
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

/// Runs a program, which must end well and in time, and gives what it printed.
pub(crate) fn run(program: &str, arguments: &[&str]) -> (String, String) {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Cargo points it at an older library, which would come before the one that the program was linked with.
    command.env_remove("LD_LIBRARY_PATH");
    let mut child = command.spawn().unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(240) {
            child.kill().unwrap();
            panic!("{program} {arguments:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
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
    // Tests run side by side, and each reads its own.
    let test = std::thread::current().name().unwrap_or("").replace(':', "_");
    let path = temporary(&format!("{test}-{}-{name}.raw", golden.replace('/', "_")));
    std::fs::write(&path, &bytes[10 + header..]).unwrap();
    path
}
