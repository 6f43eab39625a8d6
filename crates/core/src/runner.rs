//! Payloads that are run as they are: commands over bytes.
//!
//! A [`Runner`] knows one kind of commands and nothing of programs: it tells what it takes and gives, and how much scratch it
//! needs, and gets bytes. [`Commands`] makes a delegate of a payload; it checks every call before the runner sees it. Both work
//! without a heap. With one, [`RunnerBackend`] is all that a registry needs.
use crate::backend::State;
use crate::{Call, Code, Delegate, Fault, InitContext, Owned, Part, Program, ScalarType, Shape};
use core::any::Any;
use core::array;

/// Most inputs of a payload, and most outputs.
pub const MOST_ARGUMENTS: usize = 32;

/// Runs payloads of one kind.
pub trait Runner: Any + Clone + Send + Sync {
    /// The name of the backend that programs ask for.
    fn backend(&self) -> &str;

    /// Checks a payload, once when it is loaded, and tells what it needs.
    fn read(&self, payload: &[u8]) -> Result<Needs, Fault>;

    /// What an argument is, inputs before outputs, of a payload that was read.
    fn argument(&self, payload: &[u8], index: usize) -> Result<Argument, Fault>;

    /// Runs a payload that was read.
    fn run(&self, payload: &[u8], memory: Operands<'_, '_>) -> Result<(), Fault>;
}

/// What a payload needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// How many arguments it reads.
    pub inputs: usize,
    /// How many it writes.
    pub outputs: usize,
    /// Bytes that it computes in.
    pub scratch: usize,
}

/// A tensor that a payload takes or gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Element type.
    pub dtype: ScalarType,
    /// Sizes, and the order in which the dimensions lie in memory.
    pub shape: Shape,
}

/// The memory of a run: as many inputs and outputs as the payload needs, with as many bytes as each has.
#[derive(Debug)]
pub struct Operands<'r, 'c> {
    /// What is read.
    pub inputs: &'r [&'c [u8]],
    /// What is written.
    pub outputs: &'r mut [&'c mut [u8]],
    /// Aligned to 64 bytes. It holds anything.
    pub scratch: &'c mut [u8],
}

impl Argument {
    fn check(&self, dtype: ScalarType, shape: &Shape) -> Result<(), Fault> {
        let inside = |shape: &Shape| (0..shape.rank()).filter(|&dim| shape.sizes()[dim] != 1).count();
        // Where a dimension of one element lies makes no difference.
        let order = |shape: &Shape, place: usize| {
            let mut dims = shape.order().iter().filter(|&&dim| shape.sizes()[usize::from(dim)] != 1);
            dims.nth(place).copied()
        };
        let unlike = |place: &usize| order(shape, *place) != order(&self.shape, *place);
        if dtype != self.dtype {
            return Err(Fault::new(Code::InvalidType, "the delegate has another element type here"));
        }
        if shape.sizes() != self.shape.sizes() {
            let text =
                "the delegate has {} dimensions and {} elements here, in other sizes than the tensor of {} elements";
            let elements = |shape: &Shape| shape.numel().unwrap_or(usize::MAX);
            let values = [self.shape.rank(), elements(&self.shape), elements(shape)];
            return Err(Fault::new(Code::InvalidArgument, text).with(values));
        }
        match (0..inside(shape)).find(unlike) {
            Some(_) => Err(Fault::new(Code::InvalidArgument, "the delegate has another order of dimensions here")),
            None => Ok(()),
        }
    }
}

/// A payload and its runner, as a delegate.
pub struct Commands<R> {
    runner: R,
    payload: Place,
    needs: Needs,
}

/// Where a payload is after it was loaded.
enum Place {
    /// In the program's file.
    Program { start: u64, len: u64 },
    /// Here.
    #[cfg(feature = "alloc")]
    Own(alloc::boxed::Box<[u8]>),
}

impl<R: Runner> Commands<R> {
    /// Reads a payload. It stays where it is; one that is not in the program's file is copied, if there is a heap.
    pub fn new(runner: R, context: &InitContext<'_>, payload: &[u8]) -> Result<Self, Fault> {
        let needs = runner.read(payload)?;
        if needs.inputs > MOST_ARGUMENTS || needs.outputs > MOST_ARGUMENTS {
            let text = "the payload has {} inputs and {} outputs, more than {}";
            let values = [needs.inputs, needs.outputs, MOST_ARGUMENTS];
            return Err(Fault::new(Code::DelegateInvalidCompatibility, text).with(values));
        }
        let place = context.position().zip(u64::try_from(payload.len()).ok());
        let payload = match place {
            Some((start, len)) => Place::Program { start, len },
            #[cfg(feature = "alloc")]
            None => Place::Own(payload.into()),
            #[cfg(not(feature = "alloc"))]
            None => {
                return Err(Fault::new(Code::NotSupported, "the payload is not in the program's file as it is run"));
            }
        };
        Ok(Self { runner, payload, needs })
    }

    fn payload<'p>(&'p self, program: Program<'p>) -> Result<&'p [u8], Fault> {
        match &self.payload {
            Place::Program { start, len } => program
                .loader()
                .load(*start, *len, Part::Delegate)
                .ok_or(Fault::new(Code::AccessFailed, "the payload cannot be read any more")),
            #[cfg(feature = "alloc")]
            Place::Own(bytes) => Ok(bytes),
        }
    }
}

impl<R: Runner> Delegate for Commands<R> {
    fn outputs(&self) -> usize {
        self.needs.outputs
    }

    fn scratch(&self) -> usize {
        self.needs.scratch
    }

    fn new_state(&self) -> Result<Owned<dyn State>, Fault> {
        Ok(Owned::empty())
    }

    fn copy_state(&self, _: &dyn State) -> Result<Owned<dyn State>, Fault> {
        self.new_state()
    }

    fn execute(&self, _: &mut dyn State, call: &mut Call<'_>) -> Result<(), Fault> {
        let (payload, Needs { inputs, outputs, scratch }) = (self.payload(call.program())?, self.needs);
        if call.len() != inputs + outputs {
            let count = Fault::new(Code::InvalidProgram, "the delegate takes {} arguments, the call passes {}");
            return Err(count.with([inputs + outputs, call.len()]));
        }
        let argument = |index: usize| self.runner.argument(payload, index).map_err(|fault| fault.at(index));
        let mut read: [&[u8]; MOST_ARGUMENTS] = [&[]; MOST_ARGUMENTS];
        for (index, slot) in read.iter_mut().enumerate().take(inputs) {
            let tensor = call.tensor(index)?;
            argument(index)?.check(tensor.dtype, &tensor.shape).map_err(|fault| fault.at(index))?;
            *slot = tensor.data;
        }
        let mut written: [&mut [u8]; MOST_ARGUMENTS] = array::from_fn(|_| &mut [][..]);
        for (index, slot) in (inputs..).zip(&mut written).take(outputs) {
            let own = argument(index)?;
            let output = call.out(index, own.shape.sizes())?;
            own.check(output.dtype, &output.shape).map_err(|fault| fault.at(index))?;
            *slot = output.data;
        }
        let (inputs, outputs) = (&read[..inputs], &mut written[..outputs]);
        self.runner.run(payload, Operands { inputs, outputs, scratch: call.scratch(scratch)? })
    }
}

/// A runner as a backend, with a heap.
#[cfg(feature = "alloc")]
#[derive(Clone, Debug)]
pub struct RunnerBackend<R>(pub R);

#[cfg(feature = "alloc")]
impl<R: Runner> crate::Backend for RunnerBackend<R> {
    fn name(&self) -> &str {
        self.0.backend()
    }

    fn init(
        &self,
        context: &InitContext<'_>,
        processed: &[u8],
        _: crate::CompileSpecs<'_>,
    ) -> Result<Owned<dyn Delegate>, Fault> {
        let commands = Commands::new(self.0.clone(), context, processed)?;
        Ok(Owned::from_box(alloc::boxed::Box::new(commands)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_are_compared_by_type_sizes_and_order() {
        let shape = |sizes: &[usize], order: &[u8]| Shape::new(sizes, order).unwrap();
        let own = Argument { dtype: ScalarType::Char, shape: shape(&[1, 4, 3], &[0, 1, 2]) };
        let check =
            |dtype, sizes: &[usize], order: &[u8]| own.check(dtype, &shape(sizes, order)).map_err(|fault| fault.code);
        assert_eq!(check(ScalarType::Char, &[1, 4, 3], &[0, 1, 2]), Ok(()));
        assert_eq!(check(ScalarType::Char, &[1, 4, 3], &[1, 0, 2]), Ok(()));
        assert_eq!(check(ScalarType::Char, &[1, 4, 3], &[0, 2, 1]), Err(Code::InvalidArgument));
        assert_eq!(check(ScalarType::Char, &[4, 3], &[0, 1]), Err(Code::InvalidArgument));
        assert_eq!(check(ScalarType::Byte, &[1, 4, 3], &[0, 1, 2]), Err(Code::InvalidType));
    }
}
