//! How the shared library is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let system = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if ["linux", "android", "freebsd"].contains(&system.as_str()) {
        // Threads of the library may sleep in it when somebody closes it: it stays in memory.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libexecutorch_ffi.so");
    }
}
