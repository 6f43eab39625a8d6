//! Files made by hand, and what is refused.

use super::*;
use crate::mutation::mutations;
use std::borrow::ToOwned;
use std::string::{String, ToString};

fn text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

/// A file of these metadata (encoded: kind and value) and tensors (sizes innermost first, type, offset), then `data`.
fn file(metadata: &[(&str, Vec<u8>)], tensors: &[(&str, &[u64], u32, u64)], data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::from(*b"GGUF\x03\0\0\0");
    bytes.extend((tensors.len() as u64).to_le_bytes());
    bytes.extend((metadata.len() as u64).to_le_bytes());
    for (name, value) in metadata {
        text(&mut bytes, name);
        bytes.extend(value);
    }
    for (name, sizes, kind, offset) in tensors {
        text(&mut bytes, name);
        bytes.extend((sizes.len() as u32).to_le_bytes());
        bytes.extend(sizes.iter().flat_map(|size| size.to_le_bytes()));
        bytes.extend(kind.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
    }
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    bytes.extend(data);
    bytes
}

fn number(kind: u32, bytes: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes(), bytes].concat()
}

fn words(words: &[&str]) -> Vec<u8> {
    let mut bytes = [&9u32.to_le_bytes()[..], &8u32.to_le_bytes(), &(words.len() as u64).to_le_bytes()].concat();
    words.iter().for_each(|word| text(&mut bytes, word));
    bytes
}

/// Two tensors: 2 rows of 3 numbers, and a row of 32 in a block.
fn example() -> Vec<u8> {
    let mut name = Vec::from(8u32.to_le_bytes());
    text(&mut name, "llama");
    let metadata = [
        ("general.architecture", name),
        ("general.alignment", number(4, &32u32.to_le_bytes())),
        ("llama.rope.freq_base", number(6, &1e4f32.to_le_bytes())),
        ("truth", number(7, &[1])),
        ("less", number(11, &(-2i64).to_le_bytes())),
        ("tokens", words(&["a", "", "ccc"])),
    ];
    let data: Vec<u8> = (0..32 + 34).collect();
    file(&metadata, &[("a.weight", &[3, 2], 0, 0), ("b.weight", &[32, 1], 8, 32)], &data)
}

#[test]
fn metadata_have_types() {
    let bytes = example();
    let file = File::parse(&bytes).unwrap();
    assert_eq!((file.version(), file.metadata().len()), (3, 6));
    assert_eq!(file.value("general.architecture").and_then(Value::text), Some("llama"));
    assert_eq!(file.value("general.alignment").and_then(Value::natural), Some(32));
    assert_eq!(file.value("llama.rope.freq_base"), Some(Value::F32(1e4)));
    assert_eq!(file.value("truth"), Some(Value::Bool(true)));
    assert_eq!((file.value("less"), file.value("less").and_then(Value::natural)), (Some(Value::I64(-2)), None));
    let Some(Value::Array(tokens)) = file.value("tokens") else { panic!("no array") };
    let tokens: Vec<_> = tokens.iter().filter_map(Value::text).collect();
    assert_eq!(tokens, ["a", "", "ccc"]);
    assert_eq!(file.value("nothing"), None);
}

#[test]
fn tensors_are_slices_of_the_file() {
    let bytes = example();
    let file = File::parse(&bytes).unwrap();
    let [a, b] = file.tensors() else { panic!("two tensors") };
    assert_eq!((a.name, &a.sizes[..], a.element()), ("a.weight", &[2, 3][..], Some(Element::F32)));
    assert_eq!((b.name, &b.sizes[..], b.element()), ("b.weight", &[1, 32][..], Some(Element::Q8_0)));
    assert_eq!(file.data(a).unwrap(), (0..24).collect::<Vec<u8>>());
    assert_eq!(file.data(b).unwrap(), (32..66).collect::<Vec<u8>>());
    assert_eq!((file.tensor("b.weight"), file.tensor("c")), (Some(b), None));
}

#[test]
fn the_file_chooses_its_alignment() {
    let wide = [("general.alignment", number(4, &64u32.to_le_bytes()))];
    let mut bytes = file(&wide, &[("a", &[1], 0, 64)], &[]);
    let start = bytes.len().next_multiple_of(64) + 64;
    bytes.resize(start, 0);
    bytes.extend(2.5f32.to_le_bytes());
    let file = File::parse(&bytes).unwrap();
    assert_eq!(file.data(&file.tensors()[0]), Some(&2.5f32.to_le_bytes()[..]));
}

#[test]
fn types_that_are_not_known_have_names_and_no_data() {
    let bytes = file(&[], &[("a", &[256], 16, 0)], &[]);
    let file = File::parse(&bytes).unwrap();
    let tensor = file.tensor("a").unwrap();
    assert_eq!((tensor.kind, tensor.element(), file.data(tensor)), (16, None, None));
}

fn refused(bytes: &[u8]) -> String {
    File::parse(bytes).unwrap_err().to_string()
}

#[test]
fn broken_rules_are_named() {
    let one = |sizes: &[u64], kind, offset| refused(&file(&[], &[("a", sizes, kind, offset)], &[0; 64]));
    let with = |name: &str, value: Vec<u8>| refused(&file(&[(name, value)], &[], &[]));
    let long = one(&[17], 0, 0);
    assert!(long.contains("tensor 0: it ends at byte") && long.contains("but the file has"), "{long}");
    assert_eq!(
        one(&[1], 0, 33),
        "tensor 0: its data begin at byte 33 of all data, which is no multiple of the alignment 32"
    );
    assert_eq!(one(&[33], 8, 0), "tensor 0: its rows have 33 elements, which are no whole blocks of 32");
    assert!(one(&[1; 9], 0, 0).contains("9 dimensions, and at most 8"));
    assert!(one(&[u64::MAX, 2], 0, 0).contains("more bytes than can be addressed"));
    assert!(one(&[1], 0, u64::MAX - 31).contains("addressed") || one(&[1], 0, u64::MAX - 31).contains("ends at byte"));
    let twice = file(&[], &[("a", &[1], 0, 0), ("b", &[1], 0, 0), ("a", &[1], 0, 0)], &[0; 4]);
    assert_eq!(refused(&twice), "tensor 2: it has the name of tensor 0 too");
    assert!(with("general.alignment", number(4, &24u32.to_le_bytes())).contains("general.alignment is 24"));
    assert!(with("general.alignment", number(4, &0u32.to_le_bytes())).contains("general.alignment is 0"));
    assert!(with("x", number(13, &[0; 8])).starts_with("metadata 0: a value is of kind 13"));
    assert!(with("x", number(9, &[8, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255])).contains("truncated"));
    let nested = number(9, &[9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0].repeat(9));
    assert!(with("x", nested).contains("more than 4 deep"));
}

#[test]
fn other_files_are_told_from_these() {
    assert!(refused(b"PK\x03\x04").contains("begins with the letters GGUF"));
    assert!(refused(b"GGUF\x01\0\0\0").contains("version 1, and versions 2 to 3"));
    assert!(refused(b"GGUF\0\0\0\x03").contains("version 50331648"));
    let mut counts = b"GGUF\x03\0\0\0".to_owned().to_vec();
    counts.extend([0xff; 16]);
    assert!(refused(&counts).contains("truncated"));
}

#[test]
fn shortened_files_are_refused() {
    let bytes = example();
    for end in 0..bytes.len() {
        assert!(File::parse(&bytes[..end]).is_err(), "{end}");
    }
}

#[test]
fn changed_files_are_read_or_refused() {
    mutations(&example(), 20_000, |bytes| match File::parse(bytes) {
        Ok(file) => {
            for tensor in file.tensors() {
                let data = file.data(tensor);
                assert_eq!(data.is_some(), tensor.element().is_some());
                let wanted = tensor.element().and_then(|element| element.bytes(&tensor.sizes));
                assert_eq!(data.map(<[u8]>::len), wanted);
            }
            for (_, value) in file.metadata() {
                if let Value::Array(array) = value {
                    assert_eq!(array.iter().count() as u64, array.len());
                }
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    });
}
