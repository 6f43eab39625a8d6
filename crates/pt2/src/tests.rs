//! Archives made by hand.

use super::*;
use sconce_format::ScalarType;
use std::io::Write;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

const MODEL: &str = r#"{"graph_module": {"graph": {"inputs": [], "outputs": [], "nodes": [], "tensor_values": {}},
    "signature": {"input_specs": [], "output_specs": []}}, "schema_version": {"major": 8, "minor": 3}}"#;

/// Two weights in one file, where the second one is seen through strides.
const WEIGHTS: &str = r#"{"config": {
    "bias": {"path_name": "weight_0", "is_param": true, "use_pickle": false, "tensor_meta": {"dtype": 2,
        "sizes": [{"as_int": 2}], "strides": [{"as_int": 1}], "storage_offset": {"as_int": 1}}},
    "weight": {"path_name": "weight_0", "is_param": true, "use_pickle": false, "tensor_meta": {"dtype": 2,
        "sizes": [{"as_int": 2}, {"as_int": 2}], "strides": [{"as_int": 1}, {"as_int": 2}], "storage_offset": {"as_int": 0}}},
    "object": {"path_name": "weight_0", "is_param": false, "use_pickle": true, "tensor_meta": null}}}"#;

/// A zip archive as torch writes it: all entries below one folder, stored.
fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (path, bytes) in entries {
        zip.start_file(std::format!("root/{path}"), options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn whole() -> Vec<u8> {
    archive(&[
        ("models/model.json", MODEL.as_bytes()),
        ("models/encode.json", MODEL.as_bytes()),
        ("models/extra/readme.json", b"not a model"),
        ("data/weights/model_weights_config.json", WEIGHTS.as_bytes()),
        ("data/weights/weight_0", &[1, 2, 3, 4]),
    ])
}

fn refused(entries: &[(&str, &[u8])]) -> Error {
    Archive::read(&archive(entries)).unwrap_err()
}

#[test]
fn an_archive_has_models_and_tensors() {
    let file = whole();
    let archive = Archive::read(&file).unwrap();
    let methods: Vec<&str> = archive.models.iter().map(Model::method).collect();
    assert_eq!(methods, ["encode", "forward"]);
    let model = &archive.models[1];
    assert_eq!(model.names().collect::<Vec<_>>(), ["bias", "weight"]);
    let (bias, weight) = (model.tensor("bias").unwrap(), model.tensor("weight").unwrap());
    assert_eq!((bias.dtype, &bias.sizes[..], &*bias.bytes), (ScalarType::Char, &[2][..], &[2, 3][..]));
    assert_eq!((&weight.sizes[..], &*weight.bytes), (&[2, 2][..], &[1, 3, 2, 4][..]));
    assert!(model.samples.is_none() && archive.models[0].tensor("bias").is_none());
}

#[test]
fn inputs_are_a_file_in_the_file() {
    let inner = archive(&[("data.pkl", b"\x80\x02K\x07K\x08\x86.")]);
    let file = archive(&[("models/model.json", MODEL.as_bytes()), ("data/sample_inputs/model.pt", &inner)]);
    let samples = Archive::read(&file).unwrap().models.remove(0).samples;
    assert_eq!(samples, Some(vec![Sample::Int(7), Sample::Int(8)]));
    let file = archive(&[("models/model.json", MODEL.as_bytes()), ("data/sample_inputs/model.pt", b"cut short")]);
    assert_eq!(Archive::read(&file).unwrap().models.remove(0).samples, None);
}

#[test]
fn what_is_wrong_is_said() {
    assert_eq!(refused(&[("readme", b"")]), Error::NoModel);
    let (model, config) = ("models/model.json", "data/weights/model_weights_config.json");
    let version = MODEL.replace("\"major\": 8", "\"major\": 9");
    assert_eq!(refused(&[(model, version.as_bytes())]), Error::Version(9, 3));
    let missing = refused(&[(model, MODEL.as_bytes()), (config, WEIGHTS.as_bytes())]);
    assert_eq!(missing, Error::Missing("data/weights/weight_0".to_owned()));
    let short = &[(model, MODEL.as_bytes()), (config, WEIGHTS.as_bytes()), ("data/weights/weight_0", &[1, 2])];
    assert_eq!(refused(short), Error::Tensor("bias".to_owned()));
    assert!(matches!(refused(&[(model, b"{")]), Error::Json { path, .. } if path == model));
    assert!(matches!(Archive::read(b"PK"), Err(Error::Zip(_))));
}

#[test]
fn compressed_entries_are_refused() {
    let mut file = archive(&[("models/model.json", MODEL.as_bytes())]);
    // The method of the one entry, in its own header and in the directory.
    let directory = file.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    (file[8], file[directory + 10]) = (8, 8);
    assert_eq!(Archive::read(&file).unwrap_err(), Error::Compressed("models/model.json".to_owned()));
}

/// No bytes can harm: files that end early, and files of which one byte is another.
#[test]
fn broken_archives_are_refused_or_read() {
    let file = whole();
    for end in 0..file.len() {
        assert!(Archive::read(&file[..end]).is_err(), "{end} bytes");
    }
    let mut read = 0;
    for place in 0..file.len() {
        for bit in [1, 64, 255] {
            let mut changed = file.clone();
            changed[place] ^= bit;
            read += usize::from(Archive::read(&changed).is_ok());
        }
    }
    assert!(read > 0 && read < 3 * file.len(), "{read} of {} are read", 3 * file.len());
}
