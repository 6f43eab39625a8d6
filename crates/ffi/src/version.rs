//! Which version of what this is.
use std::ffi::{CStr, c_char};

/// Of this library. It follows the library whose interface part 1 of the header is.
const LIBRARY: &CStr = c"2.1.0";
/// Of the exporter whose programs the tests run.
const EXECUTORCH: &CStr = c"1.5.1";
/// Of the interface; `ET_ABI_VERSION` in the header.
const ABI: u32 = 0x0002_0002;

/// The version of this library.
#[unsafe(no_mangle)]
pub extern "C" fn et_version() -> *const c_char {
    LIBRARY.as_ptr()
}

/// The version of the ExecuTorch whose programs it runs.
#[unsafe(no_mangle)]
pub extern "C" fn et_executorch_version() -> *const c_char {
    EXECUTORCH.as_ptr()
}

/// The version of the interface.
#[unsafe(no_mangle)]
pub extern "C" fn et_abi_version() -> u32 {
    ABI
}
