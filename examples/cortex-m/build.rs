//! Puts the board's memory map where the linker looks for it.
fn main() {
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::copy("memory.x", format!("{out}/memory.x")).expect("memory.x is beside this file");
    println!("cargo:rustc-link-search={out}");
    println!("cargo:rerun-if-changed=memory.x");
}
