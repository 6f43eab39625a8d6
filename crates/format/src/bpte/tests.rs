use super::model::{Bundle, Case, Suite, Tensor as TensorModel, Value as ValueModel};
use super::*;
use crate::mutation::mutations;
use std::vec;

fn sample() -> Bundle<'static> {
    let tensor = |len: usize| {
        ValueModel::Tensor(TensorModel {
            dtype: ScalarType::Int,
            sizes: vec![len as i32, 1],
            dim_order: vec![1, 0],
            data: vec![len as u8; 4 * len].into(),
        })
    };
    let case = Case { inputs: vec![tensor(3), ValueModel::Int(-1)], outputs: vec![tensor(1), tensor(0)] };
    let other = Case { inputs: vec![ValueModel::Bool(true), ValueModel::Double(0.5)], outputs: vec![] };
    let suites = vec![
        Suite { method: "forward".into(), cases: vec![case, other] },
        Suite { method: "empty".into(), cases: vec![] },
    ];
    Bundle { version: 0, program: vec![1; 77].into(), suites }
}

#[test]
fn models_survive_writing() {
    let bundle = sample();
    let file = bundle.write();
    assert_eq!(Bundle::read(&file).as_ref(), Ok(&bundle));
    assert_eq!(bundle.write(), file);
    let view = File::parse(&file).unwrap();
    assert_eq!(view.program(), [1; 77]);
    assert_eq!((view.program().as_ptr() as usize - file.as_ptr() as usize) % 32, 0);
    assert_eq!(view.suite("forward").map(|suite| suite.test_cases().len()), Some(2));
    assert!(view.suite("backward").is_none());
}

#[test]
fn errors() {
    let mut bundle = sample();
    let ValueModel::Tensor(tensor) = &mut bundle.suites[0].cases[0].outputs[0] else { panic!("a tensor") };
    tensor.sizes[0] = 2;
    let place = Place::TestCase { suite: 0, case: 0 };
    let error = Error::Invalid { place, rule: Rule::DataSize, found: 4, limit: 8 };
    assert_eq!(File::parse(&bundle.write()).err(), Some(error));
    let mut program = sample().write();
    program[4..8].copy_from_slice(b"BP07");
    assert!(matches!(File::parse(&program), Err(Error::IncompatibleVersion { expected: FileKind::Bundle, .. })));
    assert_eq!(File::parse(&[]).err(), Some(Error::Truncated { expected: 8, actual: 0 }));
}

#[test]
fn no_bytes_can_harm() {
    let file = sample().write();
    let (mut good, mut bad) = (0, 0);
    mutations(&file, 4000, |bytes| match Bundle::read(bytes) {
        Ok(bundle) => {
            good += 1;
            let rewritten = bundle.write();
            let again = Bundle::read(&rewritten).unwrap();
            assert_eq!(std::format!("{again:?}"), std::format!("{bundle:?}"));
        }
        Err(_) => bad += 1,
    });
    assert!(good > 0 && bad > 0, "{good} accepted, {bad} refused");
}
