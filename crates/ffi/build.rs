//! How the shared library is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let system = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if ["linux", "android", "freebsd"].contains(&system.as_str()) {
        // Threads of the library may sleep in it when somebody closes it: it stays in memory.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libexecutorch_ffi.so");
    }
    if system == "android" {
        // Newer devices have pages of 16 KiB.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,max-page-size=16384");
    }
    if ["macos", "ios"].contains(&system.as_str()) {
        // Programs look for it where their own rpath says, not where it was built.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-install_name,@rpath/libexecutorch_ffi.dylib");
    }
}
