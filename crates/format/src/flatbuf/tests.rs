#![allow(unreachable_pub, dead_code)]

use super::*;
use crate::mutation::mutations;
use flatbuffers::FlatBufferBuilder;
use std::vec::Vec;

tables! {
    /// Every kind of field.
    table All {
        0 flag: bool,
        1 tiny: i8 = -3,
        2 byte: u8 = 255,
        3 short: i16,
        4 half: u16,
        5 count: i32 = -1,
        6 size: u32,
        7 long: i64,
        8 huge: u64,
        9 ratio: f32 = 0.5,
        10 scale: f64,
        11 name: str,
        12 sizes: [i32],
        13 flags: [bool],
        14 names: [str],
        15 part: Part,
        16 parts: [Part],
        17 choice: union Choice,
        19 raw: [u8],
    }
    /// A table in a table.
    table Part { 0 weight: f64, 1 label: str }
    /// Another.
    table Other { 0 id: u32 }
    /// Either.
    union Choice { 1 Part, 7 Other }
}

/// Where the vtable entry of a field is.
fn slot(id: u16) -> u16 {
    4 + 2 * id
}

/// A buffer with every field of [`All`] stored, by the official writer.
fn full(number: u8) -> Vec<u8> {
    let mut b = FlatBufferBuilder::new();
    let name = b.create_string("näme");
    let sizes = b.create_vector(&[1i32, -2, i32::MAX]);
    let flags = b.create_vector(&[true, false, true]);
    let texts = ["", "x", "yy"].map(|text| b.create_string(text));
    let names = b.create_vector(&texts);
    let label = b.create_string("label");
    let start = b.start_table();
    b.push_slot_always(slot(0), 2.5f64);
    b.push_slot_always(slot(1), label);
    let part = b.end_table(start);
    let start = b.start_table();
    let bare = b.end_table(start);
    let parts = b.create_vector(&[part, bare]);
    let start = b.start_table();
    b.push_slot_always(slot(0), 77u32);
    let other = b.end_table(start);
    let raw = b.create_vector(&[9u8, 8, 7]);
    let start = b.start_table();
    b.push_slot_always(slot(0), true);
    b.push_slot_always(slot(1), 5i8);
    b.push_slot_always(slot(2), 6u8);
    b.push_slot_always(slot(3), -300i16);
    b.push_slot_always(slot(4), 60_000u16);
    b.push_slot_always(slot(5), i32::MIN);
    b.push_slot_always(slot(6), u32::MAX);
    b.push_slot_always(slot(7), i64::MIN);
    b.push_slot_always(slot(8), u64::MAX);
    b.push_slot_always(slot(9), 1.25f32);
    b.push_slot_always(slot(10), -0.125f64);
    b.push_slot_always(slot(11), name);
    b.push_slot_always(slot(12), sizes);
    b.push_slot_always(slot(13), flags);
    b.push_slot_always(slot(14), names);
    b.push_slot_always(slot(15), part);
    b.push_slot_always(slot(16), parts);
    b.push_slot_always(slot(17), number);
    b.push_slot_always(slot(18), other);
    b.push_slot_always(slot(19), raw);
    let root = b.end_table(start);
    b.finish(root, Some("TEST"));
    b.finished_data().to_vec()
}

#[test]
fn every_kind_of_field() {
    let bytes = full(7);
    assert_eq!(All::verify(&bytes), Ok(()));
    assert_eq!(identifier(&bytes), Some(*b"TEST"));
    let all = All::root(&bytes);
    assert!(all.flag());
    assert_eq!((all.tiny(), all.byte(), all.short(), all.half()), (5, 6, -300, 60_000));
    assert_eq!((all.count(), all.size(), all.long(), all.huge()), (i32::MIN, u32::MAX, i64::MIN, u64::MAX));
    assert_eq!((all.ratio(), all.scale()), (1.25, -0.125));
    assert_eq!(all.name(), Some("näme"));
    assert_eq!(all.sizes().iter().collect::<Vec<_>>(), [1, -2, i32::MAX]);
    assert_eq!(all.sizes().iter().next_back(), Some(i32::MAX));
    assert_eq!((all.sizes().get(1), all.sizes().get(3), all.sizes().get(usize::MAX)), (Some(-2), None, None));
    assert_eq!(all.flags().iter().collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(all.names().iter().collect::<Vec<_>>(), ["", "x", "yy"]);
    assert_eq!(all.part().map(|part| (part.weight(), part.label())), Some((2.5, Some("label"))));
    assert_eq!(all.parts().len(), 2);
    assert_eq!(all.parts().iter().map(Part::weight).collect::<Vec<_>>(), [2.5, 0.0]);
    assert!(all.parts().get(2).is_none());
    assert_eq!(all.raw().bytes(), [9, 8, 7]);
    assert_eq!(all.choice().code(), 7);
    assert!(matches!(all.choice(), Choice::Other(other) if other.id() == 77));
}

#[test]
fn defaults_of_absent_fields() {
    let mut b = FlatBufferBuilder::new();
    let start = b.start_table();
    let root = b.end_table(start);
    b.finish_minimal(root);
    let bytes = b.finished_data().to_vec();
    assert_eq!(All::verify(&bytes), Ok(()));
    for all in [All::root(&bytes), All::root(&[]), All(Table::ABSENT)] {
        assert_eq!((all.flag(), all.tiny(), all.byte(), all.count(), all.ratio()), (false, -3, 255, -1, 0.5));
        assert_eq!((all.size(), all.scale(), all.name()), (0, 0.0, None));
        assert!(all.part().is_none() && all.parts().is_empty() && !all.parts().is_present());
        assert!(all.sizes().is_empty() && !all.sizes().is_present());
        assert!(matches!(all.choice(), Choice::None));
        assert!(!all.choice().table().is_present());
    }
}

#[test]
fn unknown_union_members_are_refused() {
    let what = "a union holds a member of an unknown kind";
    assert!(matches!(All::verify(&full(3)), Err(Error::Corrupt { what: found, .. }) if found == what));
    assert!(matches!(All::root(&full(3)).choice(), Choice::None));
    assert_eq!(All::verify(&full(0)), Ok(()));
}

#[test]
fn size_prefix() {
    let bytes = full(7);
    let mut prefixed = (bytes.len() as u32).to_le_bytes().to_vec();
    prefixed.extend_from_slice(&bytes);
    assert_eq!(strip_size_prefix(&prefixed), Ok(&bytes[..]));
    let short = &prefixed[..prefixed.len() - 1];
    let (expected, actual) = (prefixed.len() as u64, short.len() as u64);
    assert_eq!(strip_size_prefix(short), Err(Error::Truncated { expected, actual }));
    assert_eq!(strip_size_prefix(&[1, 0]), Err(Error::Truncated { expected: 4, actual: 2 }));
}

/// The 32-bit numbers of a buffer, for assembling one by hand.
fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn hand_made_errors() {
    let what = |bytes: &[u8]| match Part::verify(bytes) {
        Err(Error::Corrupt { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    // Root offset 12; a vtable of 8 bytes for a table of 8 at offset 4, with field 1 at 4; the table; a string at 20.
    let vtable = [8 | 8 << 16, 4 << 16];
    let sound = words(&[12, vtable[0], vtable[1], 8, 4, 1, u32::from(b'a')]);
    assert_eq!(Part::verify(&sound), Ok(()));
    assert_eq!(Part::root(&sound).label(), Some("a"));

    assert_eq!(what(&[]), "an offset points outside the buffer");
    assert_eq!(what(&words(&[0, 0, 0])), "an offset points outside the buffer");
    assert_eq!(what(&words(&[400, 0, 0])), "an offset points outside the buffer");
    assert_eq!(what(&words(&[12, vtable[0], vtable[1], 800, 4, 1, 97])), "a table has no sound vtable");
    assert_eq!(what(&words(&[12, 2 | 8 << 16, vtable[1], 8, 4, 1, 97])), "a table has no sound vtable");
    assert_eq!(what(&words(&[12, 7 | 8 << 16, vtable[1], 8, 4, 1, 97])), "a table has no sound vtable");
    assert_eq!(what(&words(&[12, 8 | 80 << 16, vtable[1], 8, 4, 1, 97])), "a table has no sound vtable");
    assert_eq!(what(&words(&[12, vtable[0], 5 << 16, 8, 4, 1, 97])), "a field lies outside its table");
    assert_eq!(what(&words(&[12, vtable[0], 2 << 16, 8, 4, 1, 97])), "a field lies outside its table");
    assert_eq!(what(&words(&[12, vtable[0], vtable[1], 8, 0, 1, 97])), "an offset points outside the buffer");
    assert_eq!(what(&words(&[12, vtable[0], vtable[1], 8, 4, 5, 97])), "a vector or string is longer than the buffer");
    assert_eq!(
        what(&words(&[12, vtable[0], vtable[1], 8, 4, u32::MAX, 97])),
        "a vector or string is longer than the buffer"
    );
    assert_eq!(what(&words(&[12, vtable[0], vtable[1], 8, 4, 1, 0xff])), "a string is not UTF-8");
}

#[test]
fn sharing_cannot_blow_up_time() {
    // 4096 entries of `names` that all lead to one string of 4096 bytes: 16 MiB from a file of 20 KiB.
    let make = |len: usize| {
        let mut b = FlatBufferBuilder::new();
        let text = b.create_string(core::str::from_utf8(&std::vec![b'x'; len]).unwrap());
        let names = b.create_vector(&std::vec![text; len]);
        let start = b.start_table();
        b.push_slot_always(slot(14), names);
        let root = b.end_table(start);
        b.finish_minimal(root);
        b.finished_data().to_vec()
    };
    assert!(matches!(All::verify(&make(4096)), Err(Error::Corrupt { what, .. }) if what.contains("over and over")));
    // A little sharing is what writers with shared strings do.
    assert_eq!(All::verify(&make(32)), Ok(()));
}

/// Reads everything there is, and gives a number that depends on it.
fn walk(all: All<'_>) -> usize {
    let part = |part: Part<'_>| part.label().map_or(0, str::len) + part.weight().to_bits().count_ones() as usize;
    all.sizes().iter().filter(|size| *size > 0).count()
        + all.flags().iter().filter(|flag| *flag).count()
        + all.names().iter().map(str::len).sum::<usize>()
        + all.parts().iter().map(part).sum::<usize>()
        + all.part().map_or(0, part)
        + all.raw().bytes().len()
        + match all.choice() {
            Choice::None => 0,
            Choice::Part(it) => part(it),
            Choice::Other(other) => usize::from(other.id() > 0),
        }
}

#[test]
fn no_bytes_can_harm() {
    let file = full(7);
    let (mut good, mut bad) = (0, 0);
    mutations(&file, 5000, |bytes| {
        // Unchecked bytes too: accessors must stay harmless.
        walk(All::root(bytes));
        match All::verify(bytes) {
            Ok(()) => good += 1,
            Err(_) => bad += 1,
        }
    });
    assert!(good > 0 && bad > 0, "{good} accepted, {bad} refused");
}

/// What rows write they read back, in any order of the fields; a default of its own is stored like any other number.
#[cfg(feature = "write")]
#[test]
fn rows_write_what_they_read() {
    use crate::builder::Builder;
    let mut b = Builder::new();
    let (label, name) = (b.string("label"), b.string("name"));
    let part = Part::fields().label(label).weight(-0.0).write(&mut b);
    let other = Other::fields().id(7).write(&mut b);
    let (sizes, flags, parts) = (b.scalars(&[1i32, -2]), b.scalars(&[true, false]), b.vector(&[part, part]));
    let all = All::fields().choice(Choice::Other, other).parts(parts).part(part).flags(flags).sizes(sizes).name(name);
    let all = all.scale(2.5).ratio(0.0).huge(u64::MAX).long(-1).size(0).count(-1).half(9).short(-9).byte(0).flag(true);
    let root = all.write(&mut b);
    let bytes = b.finish(root, *b"TEST");
    All::verify(&bytes).unwrap();
    let all = All::root(&bytes);
    assert_eq!((all.flag(), all.tiny(), all.byte(), all.short(), all.half()), (true, -3, 0, -9, 9));
    assert_eq!((all.count(), all.size(), all.long(), all.huge()), (-1, 0, -1, u64::MAX));
    assert_eq!((all.ratio(), all.scale(), all.name()), (0.0, 2.5, Some("name")));
    assert!(all.sizes().iter().eq([1, -2]) && all.flags().iter().eq([true, false]));
    assert!(all.part().unwrap().weight().is_sign_negative(), "a zero with a sign is stored");
    assert_eq!(all.parts().iter().map(|part| part.label()).collect::<Vec<_>>(), [Some("label"); 2]);
    assert!(matches!(all.choice(), Choice::Other(other) if other.id() == 7));
    assert!(all.raw().is_empty() && all.names().is_empty());
}
