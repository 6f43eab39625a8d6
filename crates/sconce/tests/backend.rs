//! The backend contract, proved with an example backend: shared delegates, a state per session, failure at each step.
//!
//! The example scales its input by a weight and adds how often the session has run. Its payload is the name of the
//! weight in the program's named data.
use sconce::core::{Call, Code, CompileSpecs, Delegate, DelegateState, Fault, InitContext, Owned};
use sconce::format::pte::model::{CompileSpec, Instruction, Memory, NamedData, Plan, Program, Storage};
use sconce::{Error, Module, Options, Registry, ScalarType, Tensor, core::Backend};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// What happened to the delegates and states of one backend.
#[derive(Default)]
struct Log {
    inits: AtomicUsize,
    states: AtomicUsize,
    drops: AtomicUsize,
    weights: std::sync::Mutex<Vec<usize>>,
}

/// Where the example fails on purpose.
#[derive(Clone, Copy, PartialEq)]
enum Fails {
    Never,
    Available,
    State,
    Execute,
}

struct Scale {
    log: Arc<Log>,
    fails: Fails,
}

struct Scaled {
    weights: Vec<f32>,
    log: Arc<Log>,
    fails: Fails,
}

struct Runs(f32);

impl Backend for Scale {
    fn name(&self) -> &str {
        "ScaleBackend"
    }

    fn is_available(&self) -> bool {
        self.fails != Fails::Available
    }

    fn init(
        &self,
        context: &InitContext<'_>,
        processed: &[u8],
        specs: CompileSpecs<'_>,
    ) -> Result<Owned<dyn Delegate>, Fault> {
        assert_eq!((context.method(), specs.get("unit")), ("forward", Some(&b"metre"[..])));
        let incompatible = Fault::new(Code::DelegateInvalidCompatibility, "the payload of {} bytes names no weight");
        let key = std::str::from_utf8(processed).ok();
        let bytes = key.and_then(|key| context.named_data(key)).ok_or(incompatible.with([processed.len()]))?;
        let weights = bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
        self.log.inits.fetch_add(1, SeqCst);
        Ok(Owned::from_box(Box::new(Scaled { weights, log: self.log.clone(), fails: self.fails })))
    }
}

impl Delegate for Scaled {
    fn outputs(&self) -> usize {
        1
    }

    fn new_state(&self) -> Result<Owned<dyn DelegateState>, Fault> {
        if self.fails == Fails::State {
            return Err(Fault::new(Code::DelegateMemoryAllocationFailed, "no room for a state"));
        }
        self.log.states.fetch_add(1, SeqCst);
        Ok(Owned::from_box(Box::new(Runs(0.0))))
    }

    fn execute(&self, state: &mut dyn DelegateState, call: &mut Call<'_>) -> Result<(), Fault> {
        if self.fails == Fails::Execute {
            return Err(Fault::new(Code::Internal, "the device went away"));
        }
        self.log.weights.lock().unwrap().push(self.weights.as_ptr() as usize);
        let runs = state.downcast::<Runs>().expect("the state that new_state made");
        let x = call.tensor(0)?;
        let out = call.out(1, x.sizes())?;
        let inputs = x.data.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()));
        for ((out, x), weight) in out.data.chunks_exact_mut(4).zip(inputs).zip(&self.weights) {
            out.copy_from_slice(&(x * weight + runs.0).to_le_bytes());
        }
        runs.0 += 1.0;
        Ok(())
    }
}

impl Drop for Scaled {
    fn drop(&mut self) {
        self.log.drops.fetch_add(1, SeqCst);
    }
}

/// A program whose one instruction is a delegate with this payload.
fn program(payload: &[u8], inline: bool) -> Vec<u8> {
    use sconce::format::pte::model::{Delegate, Tensor};
    let tensor = |offset| Tensor::new(ScalarType::Float, [4], Storage::Planned(Memory { id: 1, offset }));
    let mut plan = Plan::new("forward");
    let (x, y) = (plan.value(tensor(0)), plan.value(tensor(16)));
    plan.delegates.push(Delegate {
        backend: "ScaleBackend".into(),
        payload: payload.to_vec().into(),
        inline,
        specs: vec![CompileSpec { key: "unit".into(), value: b"metre".to_vec() }],
    });
    plan.push(Instruction::Delegate { delegate: 0, args: vec![x, y] });
    (plan.inputs, plan.outputs, plan.buffer_sizes) = (vec![x], vec![y], vec![0, 32]);
    let weights: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0].iter().flat_map(|w| w.to_le_bytes()).collect();
    let named_data = vec![NamedData { key: "weights".into(), data: weights.into() }];
    Program { plans: vec![plan], named_data, ..Program::default() }.write()
}

fn load(file: &[u8], fails: Fails) -> (Result<Module, Error>, Arc<Log>) {
    let log = Arc::new(Log::default());
    let mut registry = Registry::with_defaults();
    registry.add_backend(Scale { log: log.clone(), fails });
    (Options::new().registry(registry).threads(1).load(file), log)
}

fn run(session: &mut sconce::Session) -> Result<Vec<f32>, Error> {
    let x = Tensor::from_slice(&[1.0f32; 4], &[4])?;
    let outputs = session.run(&[(&x).into()])?;
    Ok(outputs[0].tensor()?.as_slice::<f32>()?.to_vec())
}

#[test]
fn two_sessions_on_two_threads_share_the_weights_and_not_the_state() {
    for inline in [false, true] {
        let (module, log) = load(&program(b"weights", inline), Fails::Never);
        let module = module.unwrap();
        let barrier = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            for runs in [3usize, 5] {
                let (module, barrier) = (&module, &barrier);
                scope.spawn(move || {
                    let mut session = module.session().unwrap();
                    barrier.wait();
                    for run_number in 0..runs {
                        let added = run_number as f32;
                        let expected = [1.0 + added, 2.0 + added, 3.0 + added, 4.0 + added];
                        assert_eq!(run(&mut session).unwrap(), expected);
                    }
                });
            }
        });
        assert_eq!((log.inits.load(SeqCst), log.states.load(SeqCst), log.drops.load(SeqCst)), (1, 2, 0));
        let weights = log.weights.lock().unwrap();
        assert_eq!(weights.len(), 8);
        assert!(weights.iter().all(|&address| address == weights[0]), "one copy of the weights");
        drop(module);
        assert_eq!(log.drops.load(SeqCst), 1, "destroyed with the module");
    }
}

#[test]
fn delegates_are_made_when_a_method_is_first_used_and_outlive_the_module_while_a_session_lives() {
    let (module, log) = load(&program(b"weights", false), Fails::Never);
    let module = module.unwrap();
    assert_eq!(log.inits.load(SeqCst), 0);
    let mut session = module.session().unwrap();
    drop(module);
    assert_eq!(run(&mut session).unwrap(), [1.0, 2.0, 3.0, 4.0]);
    drop(session);
    assert_eq!(log.drops.load(SeqCst), 1);
}

#[test]
fn a_missing_backend_is_told_at_load_with_those_present() {
    let file = program(b"weights", false);
    let error = Options::new().registry(Registry::with_defaults()).load(&file).unwrap_err();
    assert!(matches!(&error, Error::MissingBackends { names, .. } if names == &["ScaleBackend"]), "{error}");
    assert_eq!(error.code(), Code::NotFound as u32);
    let lazy = Options::new().lazy(true).load(&file).unwrap();
    assert!(matches!(lazy.session(), Err(Error::MissingBackends { .. })));
}

#[test]
fn every_step_may_fail_and_says_so() {
    let session = |fails, payload: &[u8]| load(&program(payload, false), fails).0.unwrap().session();
    let unavailable = session(Fails::Available, b"weights").unwrap_err();
    assert!(unavailable.to_string().contains("ScaleBackend cannot run on this machine"), "{unavailable}");

    let incompatible = session(Fails::Never, b"nonsense!").unwrap_err();
    assert_eq!(incompatible.code(), Code::DelegateInvalidCompatibility as u32);
    assert!(incompatible.to_string().contains("the payload of 9 bytes names no weight"), "{incompatible}");

    let no_state = session(Fails::State, b"weights").unwrap_err();
    assert_eq!(no_state.code(), Code::DelegateMemoryAllocationFailed as u32);

    let mut broken = session(Fails::Execute, b"weights").unwrap();
    for _ in 0..2 {
        let error = run(&mut broken).unwrap_err().to_string();
        assert!(error.contains("instruction 0, backend ScaleBackend: the device went away"), "{error}");
    }
}

#[test]
fn the_process_wide_registry_knows_backends_by_name() {
    struct Named;
    impl Backend for Named {
        fn name(&self) -> &str {
            "NamedBackend"
        }
        fn init(&self, _: &InitContext<'_>, _: &[u8], _: CompileSpecs<'_>) -> Result<Owned<dyn Delegate>, Fault> {
            Err(Fault::new(Code::NotImplemented, "only a name"))
        }
    }
    assert!(sconce::get_backend_class("NamedBackend").is_none());
    sconce::register_backend(Named);
    assert_eq!(sconce::get_backend_class("NamedBackend").unwrap().name(), "NamedBackend");
    assert!(Registry::with_defaults().backend_names().contains(&"NamedBackend".to_owned()));
}
