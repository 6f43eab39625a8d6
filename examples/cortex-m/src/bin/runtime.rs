//! The runtime alone: reader, loader and executor without a single operator. Built to see how large it is.
#![no_std]
#![no_main]

use cortex_m::singleton;
use cortex_m_rt::entry;
use sconce_core::{Arena, Bytes, Environment, Error, Execution, KernelId, NoData, Program, Quiet, Regions, Serial, Tables, Value};

/// Where a program would be put; the linker cannot know what is there.
const PROGRAM: *const u8 = 0x0010_0000 as *const u8;

#[entry]
fn main() -> ! {
    let blocks = singleton!(: ([u64; 512], [u8; 4096], [u64; 512]) = ([0; 512], [0; 4096], [0; 512])).expect("once");
    // SAFETY: flash from this address on belongs to the program and is never written.
    let bytes = unsafe { core::slice::from_raw_parts(PROGRAM, 1 << 20) };
    let status = run(bytes, &mut blocks.0, &mut blocks.1, &mut blocks.2);
    loop {
        core::hint::black_box(&status);
    }
}

fn run(bytes: &[u8], state: &mut [u64], arena: &mut [u8], scratch: &mut [u64]) -> Result<usize, Error> {
    let loader = Bytes(bytes);
    let program = Program::load(&loader, &NoData)?;
    let method = program.method("forward")?;
    let registry = Tables::default();
    let mut kernels = [KernelId::NONE; 16];
    method.resolve(&registry, &mut kernels)?;
    method.init_state(state)?;
    let mut arenas = [Arena::new(&mut []), Arena::new(arena)];
    method.init_arenas(&mut arenas)?;
    let needed = method.scratch_words(state, &registry, &kernels, &[], Regions::default(), &Serial);
    let environment =
        Environment { registry: &registry, parallel: &Serial, platform: &Quiet, instruction_limit: 1_000_000 };
    let mut execution =
        Execution::new(method, environment, &kernels, &[], &mut [], state, &mut arenas, scratch);
    execution.set_inputs(&[Value::None])?;
    execution.execute()?;
    match execution.output(0)? {
        Value::Tensor(tensor) => Ok(tensor.data.len() + needed),
        _ => Ok(needed),
    }
}

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
