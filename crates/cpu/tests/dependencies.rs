//! Steps wait for those whose results they read, and for no others.
mod support;

use sconce_cpu::{Model, Options};
use support::{NOTHING, graph};

#[test]
fn branches_wait_where_they_meet() {
    let text = "%0: float32[4, 16] = input
%1: float32[4, 16] = exp %0
%2: float32[4, 16] = sin %0
%3: float32[4, 16] = maximum %1, %2
%4: float32[4, 16] = minimum %1, %2
output %3, %4
";
    let model = Model::new(graph(text), Options::default(), &NOTHING).unwrap();
    let plan = model.plan(&[&[4, 16]], 1).unwrap();
    assert_eq!(plan.dependencies(), [vec![], vec![], vec![0, 1], vec![0, 1]]);
}

/// The third result lies where the first was, which the second step reads.
#[test]
fn memory_that_is_given_out_again_is_waited_for() {
    let text = "%0: float32[4, 16] = input
%1: float32[4, 16] = exp %0
%2: float32[4, 4] = slice %1 {starts: [0, 0], sizes: [4, 4]}
%3: float32[4, 16] = maximum %0, %0
%4: float32[4, 4] = slice %3 {starts: [0, 0], sizes: [4, 4]}
output %2, %4
";
    let model = Model::new(graph(text), Options::default(), &NOTHING).unwrap();
    let plan = model.plan(&[&[4, 16]], 1).unwrap();
    assert_eq!(plan.arena_bytes(), 4 * 16 * 4);
    assert_eq!(plan.dependencies(), [vec![], vec![0], vec![0, 1], vec![2]]);
}
