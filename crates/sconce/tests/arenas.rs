//! Programs whose tensors lie in several arenas give the same numbers as those that have one.
use sconce::compile::memory::{ALIGNMENT, Place, Planner, Role, Smallest, Tiers, Wanted};
use sconce::compile::{Archive, Compiled, Error, compile, options, samples};
use sconce::{Input, Options, Value};
use std::path::{Path, PathBuf};

/// A planner as a user would write it: each role has an arena, and nothing is shared.
struct Apart;

impl Planner for Apart {
    fn place(&self, wanted: &[Wanted], beyond: u64) -> Result<Vec<Place>, Error> {
        let mut ends = [0u64; 4];
        let place = |own: &Wanted| {
            let arena = match own.role {
                Role::Between => 1,
                Role::Input => 2,
                Role::State => 3,
                Role::Output => 4,
            };
            let offset = ends[arena - 1];
            ends[arena - 1] = (offset + own.bytes + beyond).next_multiple_of(ALIGNMENT);
            Place { arena: arena as u32, offset }
        };
        Ok(wanted.iter().map(place).collect())
    }
}

fn exports() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/pt2");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|kind| kind == "pt2")).collect();
    files.sort();
    files
}

fn compiled(archive: &Archive<'_>, backend: &str, planner: Box<dyn Planner>) -> Compiled {
    let mut options = options([backend]).unwrap();
    options.planner = planner;
    compile(archive, &options).unwrap()
}

/// What two runs on one session give, so that what the method keeps counts: types and bytes.
fn outputs(program: &[u8], inputs: &[Value], planned: bool) -> Vec<(String, Vec<u8>)> {
    let module = Options::new().threads(1).plan(planned).load(program).unwrap();
    let mut session = module.session().unwrap();
    let inputs: Vec<Input<'_>> = inputs.iter().map(Input::from).collect();
    let mut all = Vec::new();
    for _ in 0..2 {
        all.extend(session.run(&inputs).unwrap().iter().map(|output| match output {
            Value::Tensor(tensor) => (format!("{} {:?}", tensor.dtype(), tensor.sizes()), tensor.bytes().to_vec()),
            other => (format!("{other:?}"), Vec::new()),
        }));
    }
    all
}

#[test]
fn several_arenas_give_the_numbers_of_one() {
    let (mut compared, mut spilled) = (0, 0);
    for path in exports() {
        let file = std::fs::read(&path).unwrap();
        let archive = Archive::read(&file).unwrap();
        let [model] = &archive.models[..] else { continue };
        let Some(inputs) = samples(model) else { continue };
        for backend in ["portable", "xnnpack"] {
            let one = compiled(&archive, backend, Box::new(Smallest));
            let planners: [Box<dyn Planner>; 3] = [
                Box::new(Apart),
                Box::new(Tiers { limits: vec![512, 1024, u64::MAX] }),
                Box::new(Tiers { limits: vec![0, u64::MAX] }),
            ];
            for planner in planners {
                let several = compiled(&archive, backend, planner);
                let arenas = &several.memory[0].arenas;
                spilled += usize::from(arenas.iter().filter(|bytes| **bytes > 0).count() > 1);
                for planned in [false, true] {
                    let [found, expected] =
                        [&several, &one].map(|compiled| outputs(&compiled.program, &inputs, planned));
                    assert!(found == expected, "{} {backend}", path.display());
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 200 && spilled > 50, "{compared} runs, {spilled} programs with several arenas");
}

#[test]
fn a_program_that_does_not_fit_says_what_is_missing() {
    let path = exports().into_iter().find(|path| path.ends_with("encoder.pt2")).unwrap();
    let file = std::fs::read(path).unwrap();
    let archive = Archive::read(&file).unwrap();
    let taken = compiled(&archive, "portable", Box::new(Smallest)).memory[0].total();
    let mut options = options(["portable"]).unwrap();
    options.planner = Box::new(Tiers { limits: vec![taken - 16] });
    let error = compile(&archive, &options).unwrap_err().to_string();
    let expected = format!("arena 1 takes {taken} bytes, 16 more than its limit of {}; at instruction", taken - 16);
    assert!(error.contains(&expected) && error.contains("raise the limit"), "{error}");
}
