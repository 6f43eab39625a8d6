//! Whether what was compiled can be loaded, and gives what it should.
use super::calibration;
use crate::compare::{self, Tolerances};
use crate::failure::Failure;
use crate::golden;
use crate::output::Output;
use crate::print;
use sconce::compile::Archive;
use sconce::{Error, Module, Options, Source};
use std::io::Write;

/// Loads a program from where it lies now and makes a session of each method. Backends that this build lacks are no fault of
/// the program: then it is only read, and they are named.
pub(super) fn load(output: &Output<'_>, options: Options) -> Result<Option<String>, Failure> {
    let source = || output.draft().map_or(Source::Bytes(output.bytes()), Source::from);
    let load = |method: &String, module: &Module| module.method_session(method).map(drop);
    let loaded = match options.clone().load(source()) {
        Err(Error::MissingBackends { names, .. }) => options.lazy(true).load(source()).map(|_| Some(names.join(", "))),
        Err(error) => Err(error),
        Ok(module) => module.methods().iter().try_for_each(|method| load(method, &module)).map(|()| None),
    };
    loaded.map_err(|error| {
        let text = format!("the compiled program cannot be loaded, and is not written: {}", output.rename(&error));
        Failure::new(text)
            .hint("`--backend portable` leaves everything to operators; `--explain` tells what each backend refused")
    })
}

/// The two programs that are to give the same.
pub(super) struct Pair {
    /// The one that was compiled.
    pub(super) compiled: Module,
    /// Each operator by itself, without backends.
    pub(super) plain: Module,
}

impl Pair {
    /// Runs both on the inputs of the export, and says whether they agree.
    pub(super) fn compare(
        self,
        archive: &Archive<'_>,
        tolerances: &Tolerances,
        out: &mut dyn Write,
    ) -> Result<bool, Failure> {
        let inputs = archive.models.iter().map(|model| Some((model.method(), calibration::samples(model)?)));
        let Some(inputs) = inputs.collect::<Option<Vec<_>>>() else {
            let hint = "use `sconce check` with golden files";
            return Err(Failure::new("the export does not tell its inputs").hint(hint));
        };
        let outputs = |module: Module| -> Result<_, Failure> {
            let mut outputs = Vec::new();
            for (method, inputs) in &inputs {
                let mut session = module.method_session(method)?;
                let bound = golden::bind(session.view(), inputs.clone()).map_err(Failure::new)?;
                outputs.extend(session.run(&golden::borrow(&bound))?.iter().filter_map(golden::as_array));
            }
            Ok(outputs)
        };
        let (found, plain) = (outputs(self.compiled)?, outputs(self.plain)?);
        let mut failed = found.len() != plain.len();
        for (number, (found, plain)) in found.iter().zip(&plain).enumerate() {
            if let Err(complaint) = compare::compare(found, plain, tolerances) {
                writeln!(out, "FAIL out{number} {complaint}")?;
                failed = true;
            }
        }
        let verdict = match (failed, found.len()) {
            (true, _) => "differ from",
            (false, 1) => "agrees with",
            (false, _) => "agree with",
        };
        writeln!(out, "{} {verdict} each operator run by itself", print::counted(found.len(), "output"))?;
        Ok(!failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const PROGRAM: &[u8] = include_bytes!("../../../../examples/digits/digits.pte");

    #[test]
    fn a_program_that_cannot_be_loaded_is_not_there_afterwards() {
        let folder = std::env::temp_dir().join(format!("sconce-proof-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("x.pte");
        let prove = |bytes: &[u8], options: Options| {
            let output = Output::new(&path, bytes)?;
            let missing = load(&output, options)?;
            output.keep().map(|()| missing)
        };
        let refused = prove(&PROGRAM[..9000], Options::new()).unwrap_err();
        let words = format!("cannot be loaded, and is not written: {}: ", path.display());
        assert!(refused.message().contains(&words), "{}", refused.message());
        // More memory than a session may take is found out with a session.
        let refused = prove(PROGRAM, Options::new().memory_limit(100)).unwrap_err();
        assert!(refused.message().contains("the limit is 100"), "{}", refused.message());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        assert_eq!(prove(PROGRAM, Options::new()).unwrap(), None);
        assert_eq!(fs::read(&path).unwrap(), PROGRAM);
        fs::remove_dir_all(folder).unwrap();
    }
}
