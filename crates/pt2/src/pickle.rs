//! The inputs that a module was exported with: a file of `torch.save`.
//!
//! That is a zip archive with a pickle, a small program that builds Python objects on a stack, and the bytes of tensors.
//! A pickle can name any function of Python and call it. This reader calls nothing: it knows the few instructions that
//! build tuples, lists, dictionaries and numbers, and of all functions only those that stand for a tensor, which it
//! recognises by name. Anything else ends the reading. What is read is limited: a pickle can refer to the same object
//! again and again, so objects are shared here, and counted when they are laid out flat.

use super::Tensor;
use sconce_format::ScalarType;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

/// One of the inputs, in the order in which torch lays out nested ones.
#[derive(Clone, Debug, PartialEq)]
pub enum Sample<'a> {
    /// Nothing.
    None,
    /// A tensor.
    Tensor(Tensor<'a>),
    /// A number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A word.
    Text(String),
}

/// The longest pickle, the most inputs or items of a list, the most objects that are laid out, and the deepest nesting that
/// are read.
const MOST_BYTES: usize = 1 << 18;
const MOST_SAMPLES: usize = 1024;
const MOST_OBJECTS: usize = 1 << 16;
const DEPTH: usize = 64;

/// An object of Python.
#[derive(Clone)]
enum Object<'a> {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(&'a str),
    /// A function or class, by the names of its module and of itself.
    Name(&'a str, &'a str),
    /// Its items, and how deep they nest.
    Sequence(Rc<Vec<Object<'a>>>, usize),
    Dictionary(Rc<Vec<(Object<'a>, Object<'a>)>>, usize),
    /// What a tensor's elements are, and its bytes.
    Storage(ScalarType, &'a [u8]),
    Tensor(Rc<Tensor<'a>>),
    Mark,
}

impl<'a> Object<'a> {
    /// A list or tuple, if it does not nest too deep: deeper ones could not even be dropped.
    fn sequence(items: Vec<Self>) -> Option<Self> {
        let depth = deeper(0, &items)?;
        Some(Object::Sequence(Rc::new(items), depth))
    }

    fn depth(&self) -> usize {
        match self {
            Object::Sequence(_, depth) | Object::Dictionary(_, depth) => *depth,
            _ => 0,
        }
    }
}

/// How deep something nests that holds these items, too.
fn deeper(depth: usize, items: &[Object<'_>]) -> Option<usize> {
    let inner = items.iter().map(Object::depth).max().unwrap_or(0);
    Some(depth.max(inner + 1)).filter(|depth| *depth <= DEPTH)
}

/// The inputs that a pickle holds; `data` has the bytes of tensors by name. `None` if it holds anything else.
pub(super) fn read<'a>(pickle: &'a [u8], data: &BTreeMap<String, &'a [u8]>) -> Option<Vec<Sample<'a>>> {
    (pickle.len() <= MOST_BYTES).then_some(())?;
    let mut machine = Machine { rest: pickle, stack: Vec::new(), memory: BTreeMap::new(), data };
    while machine.step()? {}
    let (mut samples, mut room) = (Vec::new(), MOST_OBJECTS);
    flatten(&machine.stack.pop()?, &mut samples, &mut room)?;
    Some(samples)
}

/// Lays out an object flat. `room` is the number of objects that may still come: one that is shared counts each time.
fn flatten<'a>(object: &Object<'a>, samples: &mut Vec<Sample<'a>>, room: &mut usize) -> Option<()> {
    *room = room.checked_sub(1)?;
    let sample = match object {
        Object::Sequence(items, _) => return items.iter().try_for_each(|item| flatten(item, samples, room)),
        Object::Dictionary(items, _) => return items.iter().try_for_each(|(_, item)| flatten(item, samples, room)),
        Object::None => Sample::None,
        Object::Bool(truth) => Sample::Bool(*truth),
        Object::Int(number) => Sample::Int(*number),
        Object::Float(number) => Sample::Float(*number),
        Object::Text(text) => Sample::Text((*text).into()),
        Object::Tensor(tensor) => Sample::Tensor((**tensor).clone()),
        Object::Name(..) | Object::Storage(..) | Object::Mark => return None,
    };
    samples.push(sample);
    (samples.len() <= MOST_SAMPLES).then_some(())
}

struct Machine<'m, 'a> {
    rest: &'a [u8],
    stack: Vec<Object<'a>>,
    memory: BTreeMap<u32, Object<'a>>,
    data: &'m BTreeMap<String, &'a [u8]>,
}

impl<'a> Machine<'_, 'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn length(&mut self) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(self.bytes()?)).ok()
    }

    fn line(&mut self) -> Option<&'a str> {
        let end = self.rest.iter().position(|&byte| byte == b'\n')?;
        let line = self.take(end)?;
        self.take(1)?;
        std::str::from_utf8(line).ok()
    }

    fn push(&mut self, object: Object<'a>) -> Option<()> {
        self.stack.push(object);
        Some(())
    }

    /// What was pushed since the last mark.
    fn marked(&mut self) -> Option<Vec<Object<'a>>> {
        let mark = self.stack.iter().rposition(|object| matches!(object, Object::Mark))?;
        let items = self.stack.split_off(mark + 1);
        self.stack.pop();
        Some(items)
    }

    fn tuple(&mut self, count: usize) -> Option<()> {
        let start = self.stack.len().checked_sub(count)?;
        let items = self.stack.split_off(start);
        self.push(Object::sequence(items)?)
    }

    fn remember(&mut self, place: u32) -> Option<()> {
        let object = self.stack.last()?.clone();
        self.memory.insert(place, object);
        Some(())
    }

    fn recall(&mut self, place: u32) -> Option<()> {
        let object = self.memory.get(&place)?.clone();
        self.push(object)
    }

    /// Follows one instruction; false at the end.
    fn step(&mut self) -> Option<bool> {
        let [instruction] = self.bytes()?;
        match instruction {
            b'.' => return Some(false),
            0x80 => self.take(1).map(drop)?,
            b'(' => self.push(Object::Mark)?,
            b'N' => self.push(Object::None)?,
            0x88 => self.push(Object::Bool(true))?,
            0x89 => self.push(Object::Bool(false))?,
            b'K' => {
                let [number] = self.bytes()?;
                self.push(Object::Int(number.into()))?;
            }
            b'M' => {
                let number = u16::from_le_bytes(self.bytes()?);
                self.push(Object::Int(number.into()))?;
            }
            b'J' => {
                let number = i32::from_le_bytes(self.bytes()?);
                self.push(Object::Int(number.into()))?;
            }
            0x8a => self.long()?,
            b'G' => {
                let number = f64::from_be_bytes(self.bytes()?);
                self.push(Object::Float(number))?;
            }
            b'X' => {
                let length = self.length()?;
                let text = std::str::from_utf8(self.take(length)?).ok()?;
                self.push(Object::Text(text))?;
            }
            b')' => self.tuple(0)?,
            0x85 => self.tuple(1)?,
            0x86 => self.tuple(2)?,
            0x87 => self.tuple(3)?,
            b't' => {
                let items = self.marked()?;
                self.push(Object::sequence(items)?)?;
            }
            b']' => self.tuple(0)?,
            b'a' => {
                let item = self.stack.pop()?;
                self.append(Vec::from([item]))?;
            }
            b'e' => {
                let items = self.marked()?;
                self.append(items)?;
            }
            b'}' => self.push(Object::Dictionary(Rc::default(), 1))?,
            b's' => {
                let (value, key) = (self.stack.pop()?, self.stack.pop()?);
                self.insert(Vec::from([key, value]))?;
            }
            b'u' => {
                let items = self.marked()?;
                self.insert(items)?;
            }
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.push(Object::Name(module, name))?;
            }
            b'q' => {
                let [place] = self.bytes()?;
                self.remember(place.into())?;
            }
            b'r' => {
                let place = u32::from_le_bytes(self.bytes()?);
                self.remember(place)?;
            }
            b'h' => {
                let [place] = self.bytes()?;
                self.recall(place.into())?;
            }
            b'j' => {
                let place = u32::from_le_bytes(self.bytes()?);
                self.recall(place)?;
            }
            b'Q' => self.storage()?,
            b'R' => self.built()?,
            _ => return None,
        }
        Some(true)
    }

    /// An integer of a few bytes.
    fn long(&mut self) -> Option<()> {
        let [length] = self.bytes()?;
        let bytes = self.take(length.into())?;
        let mut wide = [if bytes.last().is_some_and(|&byte| byte > 127) { 255 } else { 0 }; 8];
        wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
        self.push(Object::Int(i64::from_le_bytes(wide)))
    }

    /// Puts items at the end of the list on the stack. Whoever else holds that list keeps it as it is: lists that hold
    /// themselves, which no input does, cannot come about.
    fn append(&mut self, items: Vec<Object<'a>>) -> Option<()> {
        let Object::Sequence(list, depth) = self.stack.last_mut()? else { return None };
        *depth = deeper(*depth, &items)?;
        Rc::make_mut(list).extend(items);
        (list.len() <= MOST_SAMPLES).then_some(())
    }

    fn insert(&mut self, items: Vec<Object<'a>>) -> Option<()> {
        let Object::Dictionary(dictionary, depth) = self.stack.last_mut()? else { return None };
        *depth = deeper(*depth, &items)?;
        let (pairs, []) = items.as_chunks::<2>() else { return None };
        Rc::make_mut(dictionary).extend(pairs.iter().map(|[key, value]| (key.clone(), value.clone())));
        (dictionary.len() <= MOST_SAMPLES).then_some(())
    }

    /// The bytes of a tensor: `("storage", class, name, device, count)`.
    fn storage(&mut self) -> Option<()> {
        let Object::Sequence(id, _) = self.stack.pop()? else { return None };
        let [Object::Text("storage"), Object::Name("torch", class), Object::Text(name), ..] = id.as_slice() else {
            return None;
        };
        let dtype = STORAGES.iter().find(|(known, _)| known == class).map(|(_, dtype)| *dtype)?;
        let bytes = *self.data.get(*name)?;
        self.push(Object::Storage(dtype, bytes))
    }

    /// The result of a call, if it is one of those that stand for a tensor.
    fn built(&mut self) -> Option<()> {
        let Object::Sequence(arguments, _) = self.stack.pop()? else { return None };
        let Object::Name(module, name) = self.stack.pop()? else { return None };
        let object = match (module, name) {
            ("collections", "OrderedDict") => Object::Dictionary(Rc::default(), 1),
            ("torch._utils", "_rebuild_tensor_v2") => tensor(&arguments)?,
            ("torch._utils", "_rebuild_parameter") => arguments.first()?.clone(),
            _ => return None,
        };
        self.push(object)
    }
}

/// Classes of storages, and what their elements are.
const STORAGES: &[(&str, ScalarType)] = &[
    ("FloatStorage", ScalarType::Float),
    ("DoubleStorage", ScalarType::Double),
    ("HalfStorage", ScalarType::Half),
    ("BFloat16Storage", ScalarType::BFloat16),
    ("LongStorage", ScalarType::Long),
    ("IntStorage", ScalarType::Int),
    ("ShortStorage", ScalarType::Short),
    ("CharStorage", ScalarType::Char),
    ("ByteStorage", ScalarType::Byte),
    ("BoolStorage", ScalarType::Bool),
    ("ComplexFloatStorage", ScalarType::ComplexFloat),
    ("ComplexDoubleStorage", ScalarType::ComplexDouble),
];

/// A tensor from `(storage, offset, sizes, strides, ...)`.
fn tensor<'a>(arguments: &[Object<'a>]) -> Option<Object<'a>> {
    let [Object::Storage(dtype, bytes), Object::Int(offset), sizes, strides, ..] = arguments else { return None };
    let numbers = |object: &Object<'_>| {
        let Object::Sequence(items, _) = object else { return None };
        let number =
            |item: &Object<'_>| if let Object::Int(number) = item { usize::try_from(*number).ok() } else { None };
        items.iter().map(number).collect::<Option<Vec<_>>>()
    };
    let (sizes, strides) = (numbers(sizes)?, numbers(strides)?);
    let data: Cow<'a, [u8]> = super::tensors::rows(bytes, *dtype, &sizes, &strides, usize::try_from(*offset).ok()?)?;
    let sizes = sizes.iter().map(|&size| i64::try_from(size).ok()).collect::<Option<_>>()?;
    Some(Object::Tensor(Rc::new(Tensor { dtype: *dtype, sizes, bytes: data })))
}

#[cfg(test)]
mod tests;
