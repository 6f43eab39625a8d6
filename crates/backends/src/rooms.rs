//! Where values are between engines, and between calls.

use sconce_graph::engine::{Buffer, Engine, Error, Operand, OperandMut};

/// Memory for one value.
pub(crate) enum Room {
    /// Of the host.
    Host(Vec<u8>),
    /// Of the device of the only engine that touches it, and its size.
    Device(Box<dyn Buffer>, usize),
}

impl Default for Room {
    fn default() -> Self {
        Self::Host(Vec::new())
    }
}

impl Room {
    /// Room for `bytes` bytes, which begin with these. An engine that is the only one to touch it may have it on its device.
    pub(crate) fn new(engine: Option<&dyn Engine>, bytes: usize, initial: &[u8]) -> Result<Self, Error> {
        let mut room = match engine.map(|engine| engine.buffer(bytes)).transpose()?.flatten() {
            Some(buffer) => Self::Device(buffer, bytes),
            None => Self::Host(zeroed(bytes)?),
        };
        match &mut room {
            Self::Host(memory) => memory.iter_mut().zip(initial).for_each(|(to, from)| *to = *from),
            Self::Device(buffer, _) => {
                let mut all = zeroed(bytes)?;
                all.iter_mut().zip(initial).for_each(|(to, from)| *to = *from);
                buffer.write(&all)?;
            }
        }
        Ok(room)
    }

    /// Makes it as large as that. What it holds is gone.
    pub(crate) fn resize(&mut self, engine: Option<&dyn Engine>, bytes: usize) -> Result<(), Error> {
        match self {
            Self::Host(memory) if memory.capacity() >= bytes && engine.is_none() => memory.resize(bytes, 0),
            Self::Device(_, size) if *size == bytes => {}
            _ => *self = Self::new(engine, bytes, &[])?,
        }
        Ok(())
    }

    pub(crate) fn read(&self) -> Operand<'_> {
        match self {
            Self::Host(memory) => Operand::Host(memory),
            Self::Device(buffer, _) => Operand::Device(&**buffer),
        }
    }

    pub(crate) fn write(&mut self) -> OperandMut<'_> {
        match self {
            Self::Host(memory) => OperandMut::Host(memory),
            Self::Device(buffer, _) => OperandMut::Device(&mut **buffer),
        }
    }

    /// Copies another room of as many bytes into this one, which is of the host.
    pub(crate) fn copy_from(&mut self, other: &Self) -> Result<(), Error> {
        match self {
            Self::Host(memory) => other.copy_to(memory),
            Self::Device(..) => Err(Error::Failed("a copy leads to memory of a device".to_owned())),
        }
    }

    /// Copies it to the host.
    pub(crate) fn copy_to(&self, into: &mut [u8]) -> Result<(), Error> {
        match self {
            Self::Host(memory) if memory.len() == into.len() => into.copy_from_slice(memory),
            Self::Host(memory) => {
                return Err(Error::Failed(format!("a value has {} bytes, its output {}", memory.len(), into.len())));
            }
            Self::Device(buffer, _) => buffer.read(into)?,
        }
        Ok(())
    }
}

fn zeroed(bytes: usize) -> Result<Vec<u8>, Error> {
    let mut memory = Vec::new();
    let lacks = |_| Error::Memory(format!("there is no memory for a value of {bytes} bytes"));
    memory.try_reserve_exact(bytes).map_err(lacks)?;
    memory.resize(bytes, 0);
    Ok(memory)
}
