//! What a program keeps from run to run, and how a caller goes back.
use sconce::core::ValueInfo;
use sconce::{Input, Module, ScalarType, Session, Tensor};

/// Golden programs that keep something.
const PROGRAMS: [&str; 3] = ["initial_state", "kv_cache", "kv_cache_inplace"];

fn load(name: &str) -> Module {
    Module::load(format!("{}/../../tests/golden/{name}.pte", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// Ones for numbers with a point, the number of the run for others, such as positions.
fn inputs(session: &Session, run: u8) -> Vec<Tensor> {
    let view = session.view();
    let tensor = |index: usize| {
        let Some(ValueInfo::Tensor { dtype, shape, .. }) = view.input(index) else { panic!("a tensor") };
        let mut tensor = Tensor::zeros(dtype, shape.sizes()).unwrap();
        match dtype {
            ScalarType::Float => tensor.as_mut_slice::<f32>().unwrap().fill(1.0 + f32::from(run)),
            ScalarType::Long => tensor.as_mut_slice::<i64>().unwrap().fill(run.into()),
            other => panic!("no numbers of type {}", other.name()),
        }
        tensor
    };
    (0..view.inputs()).map(tensor).collect()
}

/// The bytes of all outputs of some runs.
fn runs(session: &mut Session, numbers: std::ops::Range<u8>) -> Vec<Vec<u8>> {
    let run = |number: u8| {
        let inputs = inputs(session, number);
        let outputs = session.run(&inputs.iter().map(Input::from).collect::<Vec<_>>()).unwrap();
        outputs.iter().flat_map(|output| output.tensor().unwrap().bytes().to_vec()).collect()
    };
    numbers.map(run).collect()
}

#[test]
fn a_session_goes_back_to_its_beginning_and_to_snapshots() {
    for name in PROGRAMS {
        let module = load(name);
        let mut session = module.session().unwrap();
        let first = runs(&mut session, 0..3);
        assert_ne!(runs(&mut module.session().unwrap(), 2..3), first[2..], "{name} keeps nothing");
        session.reset().unwrap();
        assert_eq!(runs(&mut session, 0..2), first[..2], "{name}");
        let snapshot = session.snapshot().unwrap();
        let mut other = module.session().unwrap();
        for _ in 0..2 {
            assert_eq!(runs(&mut session, 2..3), first[2..], "{name}");
            session.restore(&snapshot).unwrap();
            other.restore(&snapshot).unwrap();
            assert_eq!(runs(&mut other, 2..3), first[2..], "{name}");
        }
        let refused = load(name).session().unwrap().restore(&snapshot).unwrap_err();
        assert!(refused.to_string().contains("one method of one module"), "{refused}");
    }
}

#[test]
fn refused_inputs_change_nothing() {
    for name in PROGRAMS {
        let module = load(name);
        let mut session = module.session().unwrap();
        let expected = runs(&mut session, 0..3);
        session.reset().unwrap();
        assert_eq!(runs(&mut session, 0..1), expected[..1]);
        let wrong = Tensor::zeros(ScalarType::Bool, &[1]).unwrap();
        let wrong = vec![Input::from(&wrong); session.view().inputs()];
        session.run(&wrong).unwrap_err();
        session.run(&wrong[1..]).unwrap_err();
        assert_eq!(runs(&mut session, 1..3), expected[1..], "{name}");
    }
}

/// [`Module::run`] and [`Module::forward`] are one session.
#[test]
fn the_easy_doors_keep_state_alike() {
    for name in PROGRAMS {
        let module = load(name);
        let mut session = module.session().unwrap();
        let expected = runs(&mut session, 0..3);
        let easy = (0..3u8).map(|number| {
            let inputs = inputs(&session, number);
            let inputs: Vec<_> = inputs.iter().map(Input::from).collect();
            let outputs = if number % 2 == 0 { module.run("forward", &inputs) } else { module.forward(&inputs) };
            outputs.unwrap().iter().flat_map(|output| output.tensor().unwrap().bytes().to_vec()).collect::<Vec<_>>()
        });
        assert_eq!(easy.collect::<Vec<_>>(), expected, "{name}");
    }
}
