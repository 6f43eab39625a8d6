use super::model::{Data, Entry, Layout};
use super::*;
use crate::mutation::mutations;
use std::vec;
use std::vec::Vec;

fn sample() -> Data<'static> {
    let layout = |sizes: &[i32]| Layout {
        dtype: ScalarType::Short,
        sizes: sizes.to_vec(),
        dim_order: (0..sizes.len() as u8).collect(),
    };
    let entry = |key: &str, len, layout| Entry { key: key.into(), data: vec![len as u8; len].into(), layout };
    Data {
        version: 0,
        entries: vec![
            entry("l.weight", 12, Some(layout(&[2, 3]))),
            entry("blob", 5, None),
            entry("twin", 12, Some(layout(&[6]))),
            entry("nothing", 0, Some(layout(&[0]))),
        ],
    }
}

fn parse(bytes: &[u8]) -> Result<File<'_>, Error> {
    let header = Header::parse(&bytes[..bytes.len().min(HEAD_BYTES)], bytes.len() as u64)?;
    File::parse(bytes, header, bytes.len() as u64)
}

#[test]
fn models_survive_writing() {
    let data = sample();
    let file = data.write();
    assert_eq!(Data::read(&file).as_ref(), Ok(&data));
    assert_eq!(data.write(), file);
    assert_eq!(Data::read(&data.write_aligned(4096)).as_ref(), Ok(&data));
    let empty = Data::default();
    assert_eq!(Data::read(&empty.write()), Ok(empty));
}

#[test]
fn lookup() {
    let file = sample().write();
    let view = parse(&file).unwrap();
    assert_eq!(view.len(), 4);
    let weight = view.find("l.weight").unwrap();
    let range = view.range(weight);
    assert_eq!(range.start % 128, 0);
    assert_eq!(file[range.start as usize..range.end as usize], [12; 12]);
    assert_eq!(view.range(view.find("twin").unwrap()), range);
    assert_eq!(view.layout(weight).unwrap().sizes().iter().collect::<Vec<_>>(), [2, 3]);
    assert!(view.layout(view.find("blob").unwrap()).is_none());
    assert_eq!((view.find("none"), view.key(9), view.range(9)), (None, "", 0..0));
    assert_eq!(view.header().flatbuffer_offset, 48);
}

#[test]
fn errors() {
    let file = sample().write();
    let size = file.len() as u64;
    assert_eq!(Header::parse(&file, size - 1), Err(Error::Truncated { expected: size, actual: size - 1 }));
    let mut headless = file.clone();
    headless[8] = 0;
    assert!(matches!(Header::parse(&headless, size), Err(Error::Corrupt { offset: 8, .. })));
    headless[4] = b'X';
    assert!(matches!(Header::parse(&headless, size), Err(Error::NotAProgram { expected: FileKind::Tensors, .. })));
    assert_eq!(Header::parse(&file[..40], 40), Err(Error::Truncated { expected: 48, actual: 40 }));

    let mut large = sample();
    large.entries[0].layout.as_mut().unwrap().sizes[0] = 3;
    let place = Place::NamedData(0);
    let error = Error::Invalid { place, rule: Rule::LayoutSize, found: 12, limit: 18 };
    assert_eq!(parse(&large.write()).err(), Some(error));
    let header = Header::parse(&file, size).unwrap();
    let error = File::parse(&file, header, header.segment_base + 1).err();
    assert!(matches!(error, Some(Error::Invalid { rule: Rule::SegmentOutside, .. })));
}

#[test]
fn no_bytes_can_harm() {
    let file = sample().write();
    let (mut good, mut bad) = (0, 0);
    mutations(&file, 4000, |bytes| match parse(bytes) {
        Ok(view) => {
            good += 1;
            for index in 0..view.len() {
                assert_eq!(view.key(index), view.key(view.find(view.key(index)).unwrap()));
                assert!(view.range(index).end <= bytes.len() as u64);
                assert!(view.layout(index).is_none_or(|layout| layout.sizes().len() == layout.dim_order().len()));
            }
        }
        Err(_) => bad += 1,
    });
    assert!(good > 0 && bad > 0, "{good} accepted, {bad} refused");
}
