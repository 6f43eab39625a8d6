//! A payload that is handed whole to a vendor's library; where the library is not there, engines run it.
//!
//! The library here is a function that takes a payload of [`graphs`](crate::graphs) and says whether it can run it.
use crate::graphs::{Polish, RUNNING};
use sconce::core::{Backend, Code, CompileSpecs, Delegate, Fault, InitContext, Owned};
use sconce::graph::engine::Options as EngineOptions;
use sconce::{Error, Options, Registry, ScalarType};
use sconce_backends::{Engines, GraphBackend, OrElse};
use sconce_cpu::Cpu;
use std::sync::Arc;

/// What a library makes of a payload, or its reason why not.
type Library = fn(&[u8]) -> Result<Box<dyn Delegate>, String>;

struct Vendor(Option<Library>);

impl Backend for Vendor {
    fn name(&self) -> &str {
        "PolishBackend"
    }

    fn init(
        &self,
        context: &InitContext<'_>,
        processed: &[u8],
        _: CompileSpecs<'_>,
    ) -> Result<Owned<dyn Delegate>, Fault> {
        let library = self.0.ok_or_else(|| "the vendor's library is not on this machine".to_owned());
        library.and_then(|library| library(processed)).map(Owned::from_box).map_err(|reason| {
            context.explain(&reason);
            Fault::new(Code::DelegateInvalidCompatibility, "the vendor's library cannot run its payload")
        })
    }
}

/// The vendor's library, or engines.
fn backend(library: Option<Library>) -> OrElse<Vendor, GraphBackend> {
    let engines = Engines { list: vec![Arc::new(Cpu)], options: EngineOptions::default() };
    OrElse(Vendor(library), GraphBackend::new(Polish, engines))
}

/// What a program with this payload gives.
fn outcome(library: Option<Library>, payload: &[u8]) -> Result<Vec<f32>, Error> {
    let mut registry = Registry::empty();
    registry.add_backend(backend(library));
    let file = crate::program("PolishBackend", payload, ScalarType::Float, 1, 16);
    let mut session = Options::new().registry(registry).threads(1).load(&file)?.session()?;
    crate::call(&mut session, &[&[1.0f32, 2.0, 3.0]])
}

pub(crate) fn run() -> Result<Vec<String>, Error> {
    let broken = outcome(None, b"\x10x?").map_or_else(|error| error.to_string(), |_| String::new());
    Ok(vec![format!("without the library, engines give {:?}", outcome(None, RUNNING)?), broken])
}

#[cfg(test)]
mod tests {
    use super::*;
    use sconce::core::{Call, DelegateState};

    /// The library's own part of a program: it negates its input.
    struct Negated;

    impl Delegate for Negated {
        fn outputs(&self) -> usize {
            1
        }

        fn new_state(&self) -> Result<Owned<dyn DelegateState>, Fault> {
            Ok(Owned::empty())
        }

        fn execute(&self, _: &mut dyn DelegateState, call: &mut Call<'_>) -> Result<(), Fault> {
            let x = call.tensor(0)?;
            let out = call.out(1, x.sizes())?;
            for (to, from) in out.data.as_chunks_mut().0.iter_mut().zip(x.data.as_chunks().0) {
                *to = (-f32::from_le_bytes(*from)).to_le_bytes();
            }
            Ok(())
        }
    }

    #[test]
    fn engines_run_what_the_library_does_not() {
        let lines = run().unwrap();
        assert_eq!(lines[0], "without the library, engines give [7.0, 14.0, 21.0]");
        let both = "the vendor's library is not on this machine; and byte 2: there is no word 63";
        assert!(lines[1].contains(both), "{}", lines[1]);
        assert_eq!(outcome(Some(|_| Err("it is too old".to_owned())), RUNNING).unwrap(), [7.0, 14.0, 21.0]);
    }

    #[test]
    fn the_library_comes_first() {
        assert_eq!(outcome(Some(|_| Ok(Box::new(Negated))), RUNNING).unwrap(), [-1.0, -2.0, -3.0]);
    }
}
