//! Commands that are run as they are, over bytes: nothing here needs a heap, or knows what a program is.
//!
//! A machine with one register, a list of `n` bytes. The payload is `[n, inputs]` and pairs of bytes: `<` reads input `k` into
//! the register, `+` adds input `k` to it, saturating, `-` shifts its bytes right by `k`. The register is the output in the
//! end.
use sconce::core::{Argument, Code, Fault, Needs, Operands, Runner, RunnerBackend, Shape};
use sconce::{Error, Options, Registry, ScalarType};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine;

impl Runner for Machine {
    fn backend(&self) -> &str {
        "MachineBackend"
    }

    fn read(&self, payload: &[u8]) -> Result<Needs, Fault> {
        let invalid = |text, byte| Fault::new(Code::DelegateInvalidCompatibility, text).with([byte]);
        let [n, inputs, commands @ ..] = payload else {
            return Err(invalid("byte {}: the payload ends", payload.len()));
        };
        let (pairs, []) = commands.as_chunks() else { return Err(invalid("byte {}: a command ends", payload.len())) };
        for ([command, k], place) in pairs.iter().zip((2..).step_by(2)) {
            match command {
                b'<' | b'+' if k < inputs => {}
                b'<' | b'+' => return Err(invalid("byte {}: there is no such input", place + 1)),
                b'-' if *k < 8 => {}
                _ => return Err(invalid("byte {}: there is no such command", place)),
            }
        }
        Ok(Needs { inputs: usize::from(*inputs), outputs: 1, scratch: usize::from(*n) })
    }

    fn argument(&self, payload: &[u8], _index: usize) -> Result<Argument, Fault> {
        let n = payload.first().copied().map_or(0, usize::from);
        Ok(Argument { dtype: ScalarType::Byte, shape: Shape::contiguous(&[n]).unwrap_or(Shape::SCALAR) })
    }

    fn run(&self, payload: &[u8], memory: Operands<'_, '_>) -> Result<(), Fault> {
        let register = memory.scratch;
        register.fill(0);
        for [command, k] in payload.get(2..).unwrap_or_default().as_chunks().0 {
            match command {
                b'<' => register.copy_from_slice(memory.inputs[usize::from(*k)]),
                b'+' => {
                    let bytes = register.iter_mut().zip(memory.inputs[usize::from(*k)]);
                    bytes.for_each(|(sum, byte)| *sum = sum.saturating_add(*byte));
                }
                _ => register.iter_mut().for_each(|byte| *byte >>= k),
            }
        }
        memory.outputs[0].copy_from_slice(register);
        Ok(())
    }
}

/// The mean of two lists of four bytes, each halved first.
const MEAN: &[u8] = b"\x04\x02<\x00+\x01-\x01";

pub(crate) fn run() -> Result<Vec<String>, Error> {
    let mut registry = Registry::empty();
    registry.add_backend(RunnerBackend(Machine));
    let file = crate::program("MachineBackend", MEAN, ScalarType::Byte, 2, 4);
    let mut session = Options::new().registry(registry).threads(1).load(&file)?.session()?;
    let (a, b) = ([2u8, 4, 100, 255], [4u8, 4, 50, 255]);
    let mean = crate::call(&mut session, &[&a, &b])?;
    let short =
        crate::call(&mut session, &[&a[..2], &b[..2]]).map_or_else(|error| error.to_string(), |_| String::new());
    Ok(vec![format!("{a:?} and {b:?} give {mean:?}"), short])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_run_and_calls_are_checked() {
        let lines = run().unwrap();
        // 255 + 255 is 255 here, and half of it 127.
        assert_eq!(lines[0], "[2, 4, 100, 255] and [4, 4, 50, 255] give [3, 4, 75, 127]");
        assert!(
            lines[1].contains("backend MachineBackend: argument 0: the delegate has 1 dimensions and 4"),
            "{}",
            lines[1]
        );
    }

    #[test]
    fn broken_payloads_are_told_with_their_place() {
        for (payload, expected) in [
            (&b""[..], "byte 0: the payload ends"),
            (b"\x04", "byte 1: the payload ends"),
            (b"\x04\x01<", "byte 3: a command ends"),
            (b"\x04\x01<\x01", "byte 3: there is no such input"),
            (b"\x04\x01<\x00?\x00", "byte 4: there is no such command"),
        ] {
            assert_eq!(Machine.read(payload).unwrap_err().to_string(), expected);
        }
    }
}
