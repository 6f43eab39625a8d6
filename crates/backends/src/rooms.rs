//! Where values are between engines, and between calls.

use sconce_graph::engine::{Buffer, Engine, Error, Operand, OperandMut};

/// Memory for one value.
#[derive(Default)]
pub(crate) enum Room {
    /// Nowhere, until its size is known, and while somebody writes it.
    #[default]
    Nowhere,
    /// Of the host.
    Host(Vec<u8>),
    /// Of the device of the only engine that touches it, and its size.
    Device(Box<dyn Buffer>, usize),
}

impl Room {
    /// Room for `bytes` bytes, which begin with these. An engine that is the only one to touch it may have it on its device.
    pub(crate) fn new(engine: Option<&dyn Engine>, bytes: usize, initial: &[u8]) -> Result<Self, Error> {
        let buffer = engine.map(|engine| engine.buffer(bytes)).transpose()?.flatten();
        let mut memory = zeroed(bytes)?;
        memory.iter_mut().zip(initial).for_each(|(to, from)| *to = *from);
        Ok(match buffer {
            None => Self::Host(memory),
            Some(mut buffer) => {
                buffer.write(&memory)?;
                Self::Device(buffer, bytes)
            }
        })
    }

    /// Makes it as large as that, or larger on a device. What it holds is gone.
    pub(crate) fn resize(&mut self, engine: Option<&dyn Engine>, bytes: usize) -> Result<(), Error> {
        match self {
            Self::Host(memory) if memory.capacity() >= bytes => memory.resize(bytes, 0),
            Self::Host(memory) => *memory = zeroed(bytes)?,
            Self::Device(_, size) if *size >= bytes => {}
            Self::Device(..) | Self::Nowhere => *self = Self::new(engine, bytes, &[])?,
        }
        Ok(())
    }

    pub(crate) fn read(&self) -> Operand<'_> {
        match self {
            Self::Nowhere => Operand::Host(&[]),
            Self::Host(memory) => Operand::Host(memory),
            Self::Device(buffer, _) => Operand::Device(&**buffer),
        }
    }

    pub(crate) fn write(&mut self) -> OperandMut<'_> {
        match self {
            Self::Nowhere => OperandMut::Host(&mut []),
            Self::Host(memory) => OperandMut::Host(memory),
            Self::Device(buffer, _) => OperandMut::Device(&mut **buffer),
        }
    }

    /// Copies another room of as many bytes into this one, which is of the host.
    pub(crate) fn copy_from(&mut self, other: &Self) -> Result<(), Error> {
        match self {
            Self::Host(memory) => other.copy_to(memory),
            Self::Device(..) | Self::Nowhere => {
                Err(Error::Failed("a copy leads elsewhere than to the host".to_owned()))
            }
        }
    }

    /// Copies it to the host.
    pub(crate) fn copy_to(&self, into: &mut [u8]) -> Result<(), Error> {
        let unlike = |bytes| Err(Error::Failed(format!("a value has {bytes} bytes, its output {}", into.len())));
        match self {
            Self::Nowhere => unlike(0),
            Self::Host(memory) if memory.len() != into.len() => unlike(memory.len()),
            Self::Device(_, size) if *size < into.len() => unlike(*size),
            Self::Host(memory) => {
                into.copy_from_slice(memory);
                Ok(())
            }
            Self::Device(buffer, _) => buffer.read(into),
        }
    }
}

fn zeroed(bytes: usize) -> Result<Vec<u8>, Error> {
    let mut memory = Vec::new();
    let lacks = |_| Error::Memory(format!("there is no memory for a value of {bytes} bytes"));
    memory.try_reserve_exact(bytes).map_err(lacks)?;
    memory.resize(bytes, 0);
    Ok(memory)
}

#[cfg(test)]
mod tests;
