//! Recognises a handwritten digit on a Cortex-M4: the program from flash, every block from static memory, no heap.
//!
//! The operator table has only the rows that the model uses; the linker drops all others. The sizes reserved below are
//! those that `sconce inspect --threads 1 ../digits/digits.pte` prints, and the program checks that they are exact.
#![no_std]
#![no_main]

use cortex_m::singleton;
use cortex_m_rt::entry;
use cortex_m_semihosting::{debug, hprintln};
use sconce_core::{
    Arena, Bytes, Environment, Error, Execution, KernelId, NoData, Op, Program, Quiet, Regions, ScalarType, Serial, Shape,
    Tables, Tensor, Value,
};

/// Words of the state block.
const STATE_WORDS: usize = 219;
/// Bytes of the arena that the exporter planned.
const ARENA_BYTES: usize = 12_288;
/// Words of scratch.
const SCRATCH_WORDS: usize = 4_257;

static OPS: &[Op] = &[
    sconce_ops::op("aten::convolution.out"),
    sconce_ops::op("aten::relu.out"),
    sconce_ops::op("aten::max_pool2d_with_indices.out"),
    sconce_ops::op("aten::permute_copy.out"),
    sconce_ops::op("aten::addmm.out"),
];

/// Data that starts at a multiple of 16, as the file format asks.
#[repr(C, align(16))]
struct Aligned<T: ?Sized>(T);

static MODEL: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../digits/digits.pte"));

/// A handwritten three, in sixteenths of black.
const IMAGE: [[u8; 8]; 8] = [
    [0, 0, 9, 16, 10, 1, 0, 0],
    [0, 0, 8, 3, 16, 4, 0, 0],
    [0, 0, 0, 5, 14, 2, 0, 0],
    [0, 0, 2, 16, 15, 7, 0, 0],
    [0, 0, 0, 0, 3, 15, 2, 0],
    [0, 4, 6, 0, 0, 13, 7, 0],
    [0, 6, 13, 1, 5, 16, 3, 0],
    [0, 0, 10, 16, 15, 5, 0, 0],
];

#[entry]
fn main() -> ! {
    match recognise() {
        Ok(3) => {
            hprintln!("recognised a 3");
            debug::exit(debug::EXIT_SUCCESS);
        }
        Ok(other) => hprintln!("recognised a {}, which is wrong", other),
        Err(error) => hprintln!("error: {}", error),
    }
    debug::exit(debug::EXIT_FAILURE);
    loop {}
}

fn recognise() -> Result<usize, Error> {
    let loader = Bytes(&MODEL.0);
    let program = Program::load(&loader, &NoData)?;
    let method = program.method("forward")?;
    let registry = Tables { ops: &[OPS], backends: &[] };
    let mut kernels = [KernelId::NONE; OPS.len()];
    method.resolve(&registry, &mut kernels)?;

    let state = singleton!(: [u64; STATE_WORDS] = [0; STATE_WORDS]).expect("taken once");
    let arena = singleton!(: Aligned<[u8; ARENA_BYTES]> = Aligned([0; ARENA_BYTES])).expect("taken once");
    let scratch = singleton!(: [u64; SCRATCH_WORDS] = [0; SCRATCH_WORDS]).expect("taken once");
    method.init_state(state)?;
    let needs = [
        (method.state_words(), STATE_WORDS),
        (method.arena_bytes(0).unwrap_or(usize::MAX), 0),
        (method.arena_bytes(1).unwrap_or(usize::MAX), ARENA_BYTES),
        (method.scratch_words(state, &registry, &kernels, &[], Regions::default(), &Serial), SCRATCH_WORDS),
    ];
    for (needed, reserved) in needs {
        if needed != reserved {
            hprintln!("{} are needed and {} reserved; see `sconce inspect`", needed, reserved);
            debug::exit(debug::EXIT_FAILURE);
        }
    }

    let mut pixels = [0u8; 64 * 4];
    for (bytes, &pixel) in pixels.chunks_exact_mut(4).zip(IMAGE.as_flattened()) {
        bytes.copy_from_slice(&(f32::from(pixel) / 16.0).to_le_bytes());
    }
    let shape = Shape::contiguous(&[1, 1, 8, 8]).expect("four dimensions");
    let inputs = [Value::Tensor(Tensor { dtype: ScalarType::Float, shape, data: &pixels })];
    let environment =
        Environment { registry: &registry, parallel: &Serial, platform: &Quiet, instruction_limit: 1_000_000 };
    let mut arenas = [Arena::new(&mut []), Arena::new(&mut arena.0)];
    let mut execution =
        Execution::new(method, environment, &kernels, &[], &mut [], state, &mut arenas, scratch);
    execution.set_inputs(&inputs)?;
    execution.execute()?;
    let Value::Tensor(scores) = execution.output(0)? else { return Ok(usize::MAX) };
    let scores = scores.data.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
    Ok(scores.enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).map_or(usize::MAX, |(digit, _)| digit))
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    hprintln!("{}", info);
    debug::exit(debug::EXIT_FAILURE);
    loop {}
}
