//! Payloads of each of the three kinds, run in programs.
//!
//! ```sh
//! cargo run -p sconce --example payloads
//! ```
//!
//! | module | kind | it is |
//! |---|---|---|
//! | `graphs` | a graph in a format of its own | a sum in reverse Polish notation, whose state outlives a call |
//! | `commands` | commands that are run as they are | a machine with one register of bytes |
//! | `vendor` | handed whole to a vendor's library | the same sums; engines run them where the library is not there |
mod commands;
mod graphs;
mod vendor;

use sconce::format::pte::model::{
    Delegate, Dynamism, Instruction, Memory, Plan, Program, Storage, Tensor as Described,
};
use sconce::{Element, Error, Input, ScalarType, Session, Tensor};

fn main() -> Result<(), Error> {
    for (kind, lines) in [("graph", graphs::run()?), ("commands", commands::run()?), ("vendor", vendor::run()?)] {
        println!("{kind}:");
        lines.iter().for_each(|line| println!("  {line}"));
    }
    Ok(())
}

/// A program that hands its inputs to one delegate, which makes its output; all are lists of n elements, or fewer.
fn program(backend: &str, payload: &[u8], dtype: ScalarType, inputs: usize, most: i32) -> Vec<u8> {
    let mut plan = Plan::new("forward");
    let bytes = most as u64 * dtype.size() as u64;
    let tensor = |place: u64| {
        let storage = Storage::Planned(Memory { id: 1, offset: place * bytes.next_multiple_of(16) });
        Described { dynamism: Dynamism::Bound, ..Described::new(dtype, [most], storage) }
    };
    let args: Vec<u32> = (0..=inputs as u64).map(|place| plan.value(tensor(place))).collect();
    plan.delegates.push(Delegate {
        backend: backend.to_owned(),
        payload: payload.to_vec().into(),
        inline: false,
        specs: Vec::new(),
    });
    plan.push(Instruction::Delegate { delegate: 0, args: args.clone() });
    (plan.inputs, plan.outputs) = (args[..inputs].to_vec(), vec![args[inputs]]);
    plan.buffer_sizes = vec![0, (inputs as u64 + 1) * bytes.next_multiple_of(16)];
    Program { plans: vec![plan], ..Program::default() }.write()
}

/// What a session gives for these lists.
fn call<E: Element>(session: &mut Session, lists: &[&[E]]) -> Result<Vec<E>, Error> {
    let tensors = lists.iter().map(|list| Tensor::from_slice(list, &[list.len()])).collect::<Result<Vec<_>, _>>()?;
    let inputs: Vec<Input<'_>> = tensors.iter().map(Input::Tensor).collect();
    Ok(session.run(&inputs)?[0].tensor()?.as_slice::<E>()?.to_vec())
}
