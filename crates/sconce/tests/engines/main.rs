//! Graphs on several engines: what outlives a call, what an error leaves, sizes that change, and who gets what.
//!
//! A payload here is a graph as text, after a line that says to what its inputs and outputs are bound. The engines are the one
//! of the example, whose tensors are in memory of its own, one that fails when it is told to, and the CPU.
#[path = "../../examples/engine/elementwise.rs"]
mod elementwise;
mod failing;
mod program;

use elementwise::Elementwise;
use failing::Failing;
use program::{call, program};
use sconce::graph::payload::{Binding, Context, Function, Payload, State, Unreadable};
use sconce::{Error, Module, Options, Registry};

pub(crate) struct Text;

impl Payload for Text {
    fn backend(&self) -> &'static str {
        "TextBackend"
    }

    fn read(&self, payload: &[u8], _: &Context<'_>) -> Result<Vec<Function>, Unreadable> {
        let text = std::str::from_utf8(payload).map_err(|error| error.to_string())?;
        let (bound, graph) = text.split_once('\n').ok_or_else(|| "there is no graph".to_owned())?;
        let binding = |word: &str| match word.strip_prefix("state") {
            Some(number) => Binding::State(number.parse().unwrap()),
            None => Binding::Argument(word.parse().unwrap()),
        };
        let (inputs, outputs) = bound.split_once(" -> ").ok_or_else(|| "nothing is bound".to_owned())?;
        let [inputs, outputs] = [inputs, outputs].map(|words| words.split(", ").map(binding).collect::<Vec<_>>());
        let graph = sconce::graph::parse(graph).map_err(|error| error.to_string())?;
        let numbers = inputs.iter().chain(&outputs).filter_map(|bound| match bound {
            Binding::State(number) => Some(number + 1),
            Binding::Argument(_) => None,
        });
        let state = vec![State { initial: 1f32.to_le_bytes().repeat(4) }; numbers.max().unwrap_or(0)];
        Ok(vec![Function { graph, inputs, outputs, state, ..Function::default() }])
    }
}

/// A program of one payload, on the engines that come with the options.
fn load(options: Options, payload: &str) -> Result<Module, Error> {
    let mut registry = Registry::empty();
    registry.add_payload(Text);
    options.registry(registry).threads(1).load(&program(payload))
}

/// The sum of all that was passed, twice that, and the input itself: on the device, on the CPU after it, and passed through.
const SUMS: &str = "0, state0 -> state0, 0, 1, 2\n\
                    %0: float32[4] = input\n\
                    %1: float32[4] = input\n\
                    %2: float32[4] = add %0, %1\n\
                    %3: float32[4] = softmax %2\n\
                    %4: float32[4] = add %2, %2\n\
                    output %2, %4, %0, %3\n";

#[test]
fn a_state_outlives_a_call_and_belongs_to_a_session() {
    for options in [Options::new(), Options::new().engine(Elementwise)] {
        let module = load(options, SUMS).unwrap();
        let (mut one, mut other) = (module.session().unwrap(), module.session().unwrap());
        let sums = |outputs: Vec<Vec<f32>>| (outputs[0].clone(), outputs[1].clone());
        let first = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(sums(call(&mut one, &[&first]).unwrap()), (vec![4.0, 6.0, 8.0, 10.0], first.to_vec()));
        assert_eq!(sums(call(&mut one, &[&[1.0; 4]]).unwrap()), (vec![6.0, 8.0, 10.0, 12.0], vec![1.0; 4]));
        assert_eq!(sums(call(&mut other, &[&[0.0; 4]]).unwrap()), (vec![2.0; 4], vec![0.0; 4]));
        assert_eq!(sums(call(&mut one, &[&[0.0; 4]]).unwrap()), (vec![6.0, 8.0, 10.0, 12.0], vec![0.0; 4]));
        // Whichever engine has it, another session can go on from it, and the same one go back.
        let snapshot = one.snapshot().unwrap();
        for _ in 0..2 {
            assert_eq!(call(&mut one, &[&[1.0; 4]]).unwrap()[0], [8.0, 10.0, 12.0, 14.0]);
            other.restore(&snapshot).unwrap();
            assert_eq!(call(&mut other, &[&[0.0; 4]]).unwrap()[0], [6.0, 8.0, 10.0, 12.0]);
            one.restore(&snapshot).unwrap();
        }
    }
}

#[test]
fn plans_say_who_runs_what() {
    let module = load(Options::new().engine(Elementwise), SUMS).unwrap();
    let plan = module.delegate_plans("forward").unwrap().concat();
    let who: Vec<&str> = plan.lines().filter(|line| line.starts_with("on ")).collect();
    assert_eq!(who, ["on elementwise:", "on cpu:", "on cpu:"], "{plan}");
    assert!(plan.ends_with("elementwise does not run softmax: it has no such function\n"), "{plan}");
    let alone = load(Options::new(), SUMS).unwrap().delegate_plans("forward").unwrap().concat();
    assert!(!alone.contains("on cpu:") && !alone.contains("does not run"), "{alone}");
}

/// A state that is an output of the call as well, and read on the other engine: it leads through rooms of the host.
#[test]
fn a_state_may_be_returned_and_read_elsewhere() {
    let payload = "state0, 0 -> 0, state0, 1\n\
                   %0: float32[4] = input\n\
                   %1: float32[4] = input\n\
                   %2: float32[4] = add %0, %1\n\
                   %3: float32[4] = abs %2\n\
                   output %2, %2, %3\n";
    for options in [Options::new(), Options::new().engine(Elementwise)] {
        let mut session = load(options, payload).unwrap().session().unwrap();
        for expected in [-1.0, -3.0, -5.0] {
            let outputs = call(&mut session, &[&[-2.0; 4]]).unwrap();
            assert_eq!(outputs, [vec![expected; 4], vec![-expected; 4]]);
        }
    }
}

#[test]
fn an_error_leaves_the_state_as_it_was() {
    let (failing, switch) = Failing::new("abs");
    // The state is written before the engine fails, and once more after it.
    let payload = "0, state0, state1 -> state0, state1, 0\n\
                   %0: float32[4] = input\n\
                   %1: float32[4] = input\n\
                   %2: float32[4] = input\n\
                   %3: float32[4] = add %0, %1\n\
                   %4: float32[4] = abs %3\n\
                   %5: float32[4] = add %4, %2\n\
                   output %3, %5, %5\n";
    let module = load(Options::new().engine(failing).engine(Elementwise), payload).unwrap();
    let mut session = module.session().unwrap();
    let mut run = || call(&mut session, &[&[1.0; 4]]).map(|outputs| outputs[0][0]);
    // 1 + 1 and 1 + 2; then 2 + 1 and 3 + 3; then 3 + 1 and 6 + 4.
    assert_eq!(run().unwrap(), 3.0);
    switch.set(true);
    for _ in 0..2 {
        let error = run().unwrap_err().to_string();
        assert!(error.contains("the device went away"), "{error}");
    }
    switch.set(false);
    assert_eq!((run().unwrap(), run().unwrap()), (6.0, 10.0));
}

#[test]
fn sizes_change_from_call_to_call() {
    let payload = "1, 0 -> 1, 0\n\
                   %0: float32[n <= 16] = input\n\
                   %1: float32[n <= 16] = input\n\
                   %2: float32[n <= 16] = add %0, %1\n\
                   %3: float32[n <= 16] = abs %2\n\
                   %4: float32[n <= 16] = add %3, %1\n\
                   %5: float32[n <= 16] = negate %4\n\
                   %6: float32[n <= 16] = add %5, %3\n\
                   output %6, %5\n";
    for options in [Options::new(), Options::new().engine(Elementwise)] {
        let mut session = load(options, payload).unwrap().session().unwrap();
        for count in [3, 16, 1, 7, 7, 16] {
            let (x, y): (Vec<f32>, Vec<f32>) = (0..count).map(|place| (place as f32, -2.0 * place as f32)).unzip();
            // Of arguments x and y: `|y + x|`, and that with x once more.
            let expected = [x.iter().map(|x| -2.0 * x).collect::<Vec<_>>(), x.iter().map(|x| -x).collect()];
            assert_eq!(call(&mut session, &[&x, &y]).unwrap(), expected);
        }
        let error = call(&mut session, &[&[1.0; 3], &[1.0; 2]]).unwrap_err().to_string();
        assert!(error.contains("does not take inputs of sizes") || error.contains("the same sizes"), "{error}");
        assert_eq!(call(&mut session, &[&[2.0], &[-4.0]]).unwrap(), [[-4.0], [-2.0]]);
    }
}

#[test]
fn an_engine_that_refuses_a_piece_gets_none_and_the_others_keep_theirs() {
    let (failing, _) = Failing::new("refuse");
    let module = load(Options::new().engine(Elementwise).engine(failing), SUMS).unwrap();
    let plan = module.delegate_plans("forward").unwrap().concat();
    let who: Vec<&str> = plan.lines().filter(|line| line.starts_with("on ")).collect();
    assert_eq!(who, ["on elementwise:", "on cpu:", "on cpu:"], "{plan}");
    assert!(plan.contains("failing: it does not run whole pieces\n"), "{plan}");
}

/// Both rooms of a state count: what is read, and what is written for the next call.
#[test]
fn sessions_take_no_more_memory_than_they_may() {
    let payload = |count: u64| {
        format!(
            "0, state0 -> state0, 0\n\
             %0: float32[4] = input\n\
             %1: float32[{count}, 4] = input\n\
             %2: float32[{count}, 4] = add %1, %0\n\
             %3: float32[4] = reduce %2 {{of: sum, axes: [0], keep: false}}\n\
             output %2, %3\n"
        )
    };
    let session =
        |count| load(Options::new().memory_limit(1 << 20), &payload(count)).and_then(|module| module.session());
    session(30_000).unwrap();
    let error = session(40_000).unwrap_err().to_string();
    assert!(error.contains("there is not enough memory for what outlives a call"), "{error}");
    session(1 << 60).unwrap_err();
}
