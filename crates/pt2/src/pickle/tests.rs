//! Pickles written by hand, good ones and bad ones.

use super::*;

/// What a pickle holds, with the bytes of one storage, `0`.
fn samples(pickle: &[u8]) -> Option<Vec<Sample<'_>>> {
    let floats: &'static [u8] = &[0, 0, 128, 63, 0, 0, 0, 64, 0, 0, 64, 64, 0, 0, 128, 64];
    read(pickle, &BTreeMap::from([("0".to_owned(), floats)]))
}

/// The instructions that leave a tensor of float32 on the stack; strides and sizes are small.
fn tensor_of(sizes: [u8; 2], strides: [u8; 2], offset: u8) -> Vec<u8> {
    let pair = |[a, b]: [u8; 2]| [b'K', a, b'K', b, 0x86];
    let storage = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x04tQ";
    let start = b"ctorch._utils\n_rebuild_tensor_v2\n(";
    [start, &storage[..], &[b'K', offset], &pair(sizes), &pair(strides), b"\x89ccollections\nOrderedDict\n)RtR"]
        .concat()
}

#[test]
fn plain_objects_are_laid_out_flat() {
    // (None, True, [False, 7, 515, -2], {"k": 1.5, "l": "word"}, 2**40)
    let pickle = b"\x80\x02(N\x88](\x89K\x07M\x03\x02J\xfe\xff\xff\xffe}(X\x01\0\0\0kG\x3f\xf8\0\0\0\0\0\0\
                   X\x01\0\0\0lX\x04\0\0\0wordu\x8a\x06\0\0\0\0\0\x01t.";
    let expected = [
        Sample::None,
        Sample::Bool(true),
        Sample::Bool(false),
        Sample::Int(7),
        Sample::Int(515),
        Sample::Int(-2),
        Sample::Float(1.5),
        Sample::Text("word".to_owned()),
        Sample::Int(1 << 40),
    ];
    assert_eq!(samples(pickle).unwrap(), expected);
}

#[test]
fn objects_that_are_remembered_come_again() {
    assert_eq!(samples(b"K\x03q\x05h\x05\x86.").unwrap(), [Sample::Int(3), Sample::Int(3)]);
    assert_eq!(samples(b"K\x03r\0\0\x01\0j\0\0\x01\0\x86.").unwrap(), [Sample::Int(3), Sample::Int(3)]);
    assert_eq!(samples(b"K\x03h\x05\x86."), None);
}

#[test]
fn tensors_lie_row_by_row() {
    let pickle = |tensor: Vec<u8>| [&tensor[..], b"."].concat();
    let floats = |sample: &Sample<'_>| match sample {
        Sample::Tensor(own) => {
            let (elements, _) = own.bytes.as_chunks();
            (own.sizes.clone(), elements.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect::<Vec<_>>())
        }
        other => panic!("{other:?}"),
    };
    let read = |tensor| samples(&pickle(tensor)).map(|found| floats(&found[0]));
    assert_eq!(read(tensor_of([2, 2], [2, 1], 0)), Some((vec![2, 2], vec![1.0, 2.0, 3.0, 4.0])));
    assert_eq!(read(tensor_of([2, 2], [1, 2], 0)), Some((vec![2, 2], vec![1.0, 3.0, 2.0, 4.0])));
    assert_eq!(read(tensor_of([1, 2], [2, 1], 2)), Some((vec![1, 2], vec![3.0, 4.0])));
    assert_eq!(samples(&pickle(tensor_of([2, 2], [2, 1], 1))), None, "beyond the storage");
}

#[test]
fn functions_that_stand_for_no_tensor_are_not_called() {
    assert_eq!(samples(b"cos\nsystem\nX\x04\0\0\0true\x85R."), None);
    assert_eq!(samples(b"cbuiltins\neval\n."), None);
}

#[test]
fn what_is_endless_is_refused() {
    // A tuple in a tuple, without end; a tuple of the same tuple twice, and so on; a list that holds itself.
    let deep = [b")", &vec![0x85; 200_000][..], b"."].concat();
    assert_eq!(samples(&deep), None);
    let wide = [b")", &b"q\0h\0\x86".repeat(60)[..], b"."].concat();
    assert_eq!(samples(&wide), None);
    let list = [b"]q\0", &b"h\0a".repeat(70)[..], b"."].concat();
    assert_eq!(samples(&list), Some(Vec::new()));
    let many = [b"(", &b"N".repeat(1025)[..], b"t."].concat();
    assert_eq!(samples(&many), None);
    assert_eq!(samples(&vec![b'N'; MOST_BYTES + 1]), None);
}

/// No bytes can harm: pickles that end early, and pickles of which one byte is another.
#[test]
fn broken_pickles_are_refused_or_read() {
    let whole = [b"\x80\x02(", &tensor_of([2, 2], [1, 2], 0)[..], b"K\x01\x8a\x01\x05]K\x02aX\x01\0\0\0at."].concat();
    assert_eq!(samples(&whole).unwrap().len(), 5);
    for end in 0..whole.len() {
        assert_eq!(samples(&whole[..end]), None, "{end} bytes");
    }
    for place in 0..whole.len() {
        for byte in 0..=u8::MAX {
            let mut changed = whole.clone();
            changed[place] = byte;
            assert!(samples(&changed).is_none_or(|found| found.len() <= MOST_SAMPLES));
        }
    }
}
