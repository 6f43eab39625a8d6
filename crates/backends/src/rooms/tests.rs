//! Rooms of the host and of a device.

use super::Room;
use crate::testing::{Own, Toy};
use sconce_graph::engine::{Operand, OperandMut};

fn bytes(room: &Room) -> Vec<u8> {
    match room.read() {
        Operand::Host(bytes) => bytes.to_vec(),
        Operand::Device(buffer) => buffer.downcast_ref::<Own>().expect("a toy's buffer").0.clone(),
    }
}

fn is_on_device(room: &Room) -> bool {
    matches!(room.read(), Operand::Device(_))
}

#[test]
fn what_outlives_a_call_begins_with_its_bytes_and_zeros() {
    let (device, host) = (Toy::taking("device", &[]), Toy::last("host"));
    for (engine, on_device) in [(None, false), (Some(&*host), false), (Some(&*device), true)] {
        let room = Room::new(engine, 4, &[1, 2]).unwrap();
        assert_eq!((bytes(&room), is_on_device(&room)), (vec![1, 2, 0, 0], on_device));
        // What there is no room for is left out.
        assert_eq!(bytes(&Room::new(engine, 1, &[1, 2]).unwrap()), [1]);
    }
}

#[test]
fn memory_is_taken_once_for_sizes_that_change() {
    let place = |room: &Room| match room.read() {
        Operand::Host(bytes) => bytes.as_ptr().addr(),
        Operand::Device(buffer) => buffer.downcast_ref::<Own>().unwrap().0.as_ptr().addr(),
    };
    let (device, host) = (Toy::taking("device", &[]), Toy::last("host"));
    for engine in [None, Some(&*host), Some(&*device)] {
        let mut room = Room::default();
        room.resize(engine, 64).unwrap();
        let first = place(&room);
        for bytes in [8, 64, 0, 63] {
            room.resize(engine, bytes).unwrap();
            assert_eq!(place(&room), first);
        }
        assert_eq!(is_on_device(&room), engine.is_some_and(|engine| engine.name() == "device"));
        room.resize(engine, 65).unwrap();
        assert!(bytes(&room).len() >= 65);
    }
}

#[test]
fn copies_lead_to_the_host_and_fit() {
    let device = Toy::taking("device", &[]);
    let mut from = Room::new(Some(&*device), 4, &[]).unwrap();
    let OperandMut::Device(buffer) = from.write() else { panic!("the room is on the device") };
    buffer.downcast_mut::<Own>().unwrap().0 = vec![1, 2, 3, 4];
    let mut host = Room::new(None, 4, &[]).unwrap();
    host.copy_from(&from).unwrap();
    assert_eq!(bytes(&host), [1, 2, 3, 4]);
    // A buffer may be larger than the value.
    let mut part = [0; 3];
    from.copy_to(&mut part).unwrap();
    assert_eq!(part, [1, 2, 3]);
    for room in [&from, &host, &Room::default()] {
        assert!(room.copy_to(&mut [0; 5]).is_err());
    }
    assert!(from.copy_from(&host).is_err(), "a copy does not lead to a device");
}

#[test]
fn too_much_is_an_error() {
    assert!(Room::new(None, usize::MAX / 2, &[]).is_err());
    assert!(Room::default().resize(None, usize::MAX / 2).is_err());
}
