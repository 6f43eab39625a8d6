//! Two backends of one name.

use sconce_core::{Backend, Code, CompileSpecs, Delegate, Fault, InitContext, Owned};
use std::cell::RefCell;
use std::fmt::Display;

/// A backend, and another one of the same name for what the first cannot run: a vendor's library, say, and engines where the
/// library is not there. Where neither can, both say why.
#[derive(Clone, Debug)]
pub struct OrElse<A, B>(pub A, pub B);

impl<A: Backend, B: Backend> Backend for OrElse<A, B> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn is_available(&self) -> bool {
        self.0.is_available() || self.1.is_available()
    }

    fn init(
        &self,
        context: &InitContext<'_>,
        processed: &[u8],
        specs: CompileSpecs<'_>,
    ) -> Result<Owned<dyn Delegate>, Fault> {
        let backends: [&dyn Backend; 2] = [&self.0, &self.1];
        let (mut said, mut last) = (String::new(), None);
        for backend in backends.into_iter().filter(|backend| backend.is_available()) {
            let explained = RefCell::new(String::new());
            let explain = |sentence: &dyn Display| *explained.borrow_mut() = sentence.to_string();
            match backend.init(&context.with_explain(&explain), processed, specs) {
                Ok(delegate) => return Ok(delegate),
                Err(fault) => {
                    let sentence = explained.take();
                    said.push_str(if said.is_empty() { "" } else { "; and " });
                    said.push_str(&if sentence.is_empty() { fault.to_string() } else { sentence });
                    last = Some(fault);
                }
            }
        }
        context.explain(&said);
        Err(last.unwrap_or(Fault::new(Code::NotFound, "neither backend can run on this machine")))
    }
}
