//! The header and the library say the same.
#![cfg(unix)]
#![allow(unsafe_code, reason = "calls the library as C does")]
mod support;
use executorch_ffi::*;
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fmt::Write;
use std::mem::offset_of;

/// What the library says, in the words of `layout.c`.
fn layout() -> String {
    let mut text = String::new();
    macro_rules! structure {
        ($type:ident { $($field:ident $(as $name:literal)?),* }) => {
            writeln!(text, "size {} {}", stringify!($type), size_of::<$type>()).unwrap();
            $({
                #[allow(unused_mut, unused_assignments)]
                let mut name = stringify!($field);
                $(name = $name;)?
                writeln!(text, "at {}.{name} {}", stringify!($type), offset_of!($type, $field)).unwrap();
            })*
        };
    }
    macro_rules! constants {
        ($($name:literal $value:expr),* $(,)?) => { $(writeln!(text, "is {} {}", $name, $value as i64).unwrap();)* };
    }
    structure!(ETStatus { code, message, location });
    structure!(ETValue { kind, content as "as" });
    structure!(ETValueInfo { size, kind, dtype, rank, dynamic, minimum, maximum, name });
    structure!(ETLoadOptions {
        size,
        threads,
        engine,
        exact,
        copy,
        memory_limit,
        instruction_limit,
        data_paths,
        data_path_count,
        rounding
    });
    structure!(ETCandidate { path, options });
    structure!(ETMemoryEstimate { size, file_bytes, weight_bytes, session_bytes });
    structure!(ETTaskOptions { size, priority, timeout_ms });
    structure!(ETBackendPayload {
        size,
        method,
        data,
        data_size,
        spec_count,
        spec_keys,
        spec_values,
        spec_sizes,
        named_data,
        context,
        explain
    });
    structure!(ETBackendDefinition { size, name, is_available, init, execute, destroy, user_data });
    structure!(ETDelegateOptions { size, threads, device });
    structure!(ETEvent { name, chain, instruction, start_ns, duration_ns });
    constants! {
        "ET_OK" ETErrorCode::Ok, "ET_INVALID_ARGUMENT" ETErrorCode::InvalidArgument,
        "ET_OUT_OF_MEMORY" ETErrorCode::OutOfMemory, "ET_MODEL_LOAD_FAILED" ETErrorCode::ModelLoadFailed,
        "ET_INFERENCE_FAILED" ETErrorCode::InferenceFailed, "ET_INVALID_STATE" ETErrorCode::InvalidState,
        "ET_UNSUPPORTED" ETErrorCode::Unsupported, "ET_IO_ERROR" ETErrorCode::IoError,
        "ET_INTERNAL" ETErrorCode::Internal,
        "ET_VALUE_NONE" ETValueKind::None, "ET_VALUE_TENSOR" ETValueKind::Tensor, "ET_VALUE_INT" ETValueKind::Int,
        "ET_VALUE_DOUBLE" ETValueKind::Double, "ET_VALUE_BOOL" ETValueKind::Bool,
        "ET_VALUE_STRING" ETValueKind::String, "ET_VALUE_LIST" ETValueKind::List,
        "ET_ENGINE_AUTO" ETEngine::Auto, "ET_ENGINE_REFERENCE" ETEngine::Reference,
        "ET_ROUNDING_XNNPACK" ETRounding::Xnnpack, "ET_ROUNDING_PYTORCH" ETRounding::PyTorch,
        "ET_ABI_VERSION" et_abi_version(),
    }
    text
}

fn header() -> String {
    std::fs::read_to_string(support::file("crates/ffi/include/executorch_ffi.h")).unwrap()
}

#[test]
fn structures_and_constants_are_the_same() {
    let source = format!("{}/tests/c/layout.c", env!("CARGO_MANIFEST_DIR"));
    let (printed, _) = support::run(&support::compile(&source, "layout", false), &[]);
    assert_eq!(printed, layout());
}

/// A C++ compiler takes the header too.
#[test]
fn the_header_is_also_cpp() {
    let source = support::temporary("header.cpp");
    std::fs::write(&source, "#include <executorch_ffi.h>\nint main() { return 0; }\n").unwrap();
    support::run(&support::compile(&source, "header-cpp", false), &[]);
}

/// The names after `start` in a text, up to an opening parenthesis.
fn names(text: &str, start: &str) -> BTreeSet<String> {
    let found = text.split(start).skip(1).filter_map(|rest| rest.split(['(', '<']).next());
    let name = |declaration: &str| declaration.rsplit([' ', '*']).next().unwrap_or("").to_owned();
    found.map(name).filter(|name| name.starts_with("et_")).collect()
}

#[test]
fn every_function_of_the_header_is_in_the_library_and_the_other_way_round() {
    let declared = names(&header(), "\nET_API ");
    let sources = std::fs::read_dir(format!("{}/src", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let sources: String = sources.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
    let defined = names(&sources, "extern \"C\" fn ");
    assert!(declared.len() > 60, "{declared:?}");
    assert_eq!(declared, defined);
}

/// The dynamic linker sees exactly what the header declares.
#[cfg(target_os = "linux")]
#[test]
fn only_the_functions_of_the_header_are_exported() {
    let declared = names(&header(), "\nET_API ");
    let library = support::library().join("libexecutorch_ffi.so").display().to_string();
    let (listed, _) = support::run("nm", &["-D", "--defined-only", "-f", "posix", &library]);
    let exported: BTreeSet<_> = listed.lines().map(|line| line.split(' ').next().unwrap_or("").to_owned()).collect();
    assert_eq!(exported, declared);
}

#[test]
fn element_types_and_backends_have_the_numbers_of_the_header() {
    let header = header();
    let list = |start: &str| -> Vec<(String, i32)> {
        let body = header.split(start).nth(1).unwrap().split('}').next().unwrap();
        let rows = body.lines().filter_map(|line| line.trim().split_once(" = "));
        rows.map(|(name, rest)| (name.to_owned(), rest.split([',', ' ']).next().unwrap().parse().unwrap())).collect()
    };
    let sizes = [4, 8, 8, 4, 2, 1, 1, 1, 2, 4, 8, 2, 2];
    let types = list("typedef enum ETDType {");
    assert_eq!(types.len(), sizes.len());
    for ((name, number), size) in types.into_iter().zip(sizes) {
        let mut tensor = std::ptr::null_mut();
        let data = [0u8; 8];
        // SAFETY: pointers are valid, and the tensor is freed once.
        unsafe {
            let status = et_tensor_create(data.as_ptr().cast(), size, std::ptr::null(), 0, number, &mut tensor);
            assert_eq!((*status).code, 0, "{name}");
            assert_eq!((et_tensor_dtype(tensor), et_tensor_data_size(tensor)), (number, size), "{name}");
            et_tensor_free(tensor);
        }
    }
    for (name, number) in list("typedef enum ETBackend {") {
        let pointer = et_backend_name(number);
        assert!(!pointer.is_null(), "{name}");
        // SAFETY: a static string.
        let full = unsafe { CStr::from_ptr(pointer) }.to_str().unwrap().to_uppercase();
        assert_eq!(
            Some(full.as_str()),
            name.strip_prefix("ET_BACKEND_").map(|short| format!("{short}BACKEND")).as_deref()
        );
    }
    assert!(et_backend_name(8).is_null() && et_backend_name(-1).is_null());
}
