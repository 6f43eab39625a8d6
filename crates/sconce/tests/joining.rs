//! Calls that join a plan compute what PyTorch does, and those that a plan would get wrong stay outside.
use sconce::format::pte::model::{Memory, Plan, Program, Storage, Tensor as TensorModel, Value};
use sconce::{Module, Options, ScalarType, Tensor};

fn floats(sizes: &[i32], offset: u64) -> TensorModel {
    TensorModel::new(ScalarType::Float, sizes.to_vec(), Storage::Planned(Memory { id: 1, offset }))
}

fn write(mut plan: Plan, input: u32, output: u32) -> Vec<u8> {
    let mut program = Program::default();
    (plan.inputs, plan.outputs, plan.buffer_sizes) = (vec![input], vec![output], vec![0, 1 << 16]);
    program.plans.push(plan);
    program.write()
}

fn run(bytes: &[u8], plan: bool, input: &[f32], sizes: &[usize]) -> Vec<f32> {
    let module = Options::new().plan(plan).load(bytes).unwrap();
    let x = Tensor::from_slice(input, sizes).unwrap();
    let outputs = module.forward(&[(&x).into()]).unwrap();
    outputs[0].tensor().unwrap().as_slice::<f32>().unwrap().to_vec()
}

/// How many calls each run of a plan stands for.
fn runs(bytes: &[u8]) -> Vec<usize> {
    Module::load(bytes).unwrap().planned_calls("forward").unwrap().iter().map(|run| run.calls).collect()
}

fn golden(name: &str) -> Module {
    Module::load(format!("{}/../../tests/golden/{name}.pte", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

const INPUT: [f32; 6] = [f32::NEG_INFINITY, -2.5, -0.0, 0.5, 3.0, f32::NAN];
const INFINITY: f32 = f32::INFINITY;
const NAN: f32 = f32::NAN;

/// Alike to a few units of the last place; not a number and the sign of zero exactly.
fn assert_alike(found: &[f32], expected: &[f32], what: &str) {
    let alike = |(a, b): (&f32, &f32)| match (a.is_nan(), *b) {
        (true, b) => b.is_nan(),
        (false, 0.0) => a.to_bits() == b.to_bits(),
        (false, b) => *a == b || (a - b).abs() <= 4.0 * f32::EPSILON * b.abs(),
    };
    let same = found.len() == expected.len() && found.iter().zip(expected).all(alike);
    assert!(same, "{what}: {found:?}, not {expected:?}");
}

#[test]
fn functions_of_each_element_join() {
    use Value::{Double, Int};
    let root = |x: f32| x.sqrt();
    // What stands between input and output, and the results.
    let cases: [(&str, &[Value], [f32; 6]); 19] = [
        ("aten::pow.Tensor_Scalar_out", &[Int(2)], [INFINITY, 6.25, 0.0, 0.25, 9.0, NAN]),
        ("aten::pow.Tensor_Scalar_out", &[Double(3.0)], [-INFINITY, -15.625, -0.0, 0.125, 27.0, NAN]),
        ("aten::pow.Tensor_Scalar_out", &[Double(0.5)], [NAN, NAN, -0.0, root(0.5), root(3.0), NAN]),
        ("aten::pow.Tensor_Scalar_out", &[Double(-0.5)], [NAN, NAN, -INFINITY, root(2.0), 1.0 / root(3.0), NAN]),
        ("aten::pow.Tensor_Scalar_out", &[Int(1)], INPUT),
        ("aten::pow.Tensor_Scalar_out", &[Int(-1)], [-0.0, -0.4, -INFINITY, 2.0, 1.0 / 3.0, NAN]),
        ("aten::pow.Tensor_Scalar_out", &[Int(-2)], [0.0, 0.16, INFINITY, 4.0, 1.0 / 9.0, NAN]),
        ("aten::square.out", &[], [INFINITY, 6.25, 0.0, 0.25, 9.0, NAN]),
        ("aten::reciprocal.out", &[], [-0.0, -0.4, -INFINITY, 2.0, 1.0 / 3.0, NAN]),
        ("aten::round.out", &[], [-INFINITY, -2.0, -0.0, 0.0, 3.0, NAN]),
        ("aten::erf.out", &[], [-1.0, -0.999_593_1, -0.0, 0.520_499_9, 0.999_977_9, NAN]),
        ("aten::silu.out", &[], [NAN, -0.189_645_45, -0.0, 0.311_229_67, 2.857_722_4, NAN]),
        ("aten::hardsigmoid.out", &[], [0.0, 0.5 / 6.0, 0.5, 3.5 / 6.0, 1.0, NAN]),
        ("aten::hardswish.out", &[], [NAN, -1.25 / 6.0, -0.0, 1.75 / 6.0, 3.0, NAN]),
        ("aten::clamp_min.out", &[Double(0.25)], [0.25, 0.25, 0.25, 0.5, 3.0, NAN]),
        ("aten::clamp_max.out", &[Double(0.25)], [-INFINITY, -2.5, -0.0, 0.25, 0.25, NAN]),
        ("aten::rsub.Scalar_out", &[Double(1.0), Double(2.0)], [INFINITY, 6.0, 1.0, 0.0, -5.0, NAN]),
        ("aten::rsub.Scalar_out", &[Double(1.0), Int(1)], [INFINITY, 3.5, 1.0, 0.5, -2.0, NAN]),
        ("aten::sub.Scalar_out", &[Double(1.0), Double(2.0)], [-INFINITY, -4.5, -2.0, -1.5, 1.0, NAN]),
    ];
    for (name, further, expected) in cases {
        let mut plan = Plan::new("forward");
        let [x, a, b] = [0, 64, 128].map(|offset| plan.value(floats(&[6], offset)));
        let none = plan.value(Value::Null);
        let further: Vec<u32> = further.iter().map(|value| plan.value(value.clone())).collect();
        plan.call(name, [&[x], further.as_slice(), &[a, a]].concat());
        plan.call("aten::clone.out", [a, none, b, b]);
        let bytes = write(plan, x, b);
        assert_eq!(runs(&bytes), [2], "{name}");
        for planned in [true, false] {
            assert_alike(&run(&bytes, planned, &INPUT, &[6]), &expected, &format!("{name}, planned: {planned}"));
        }
    }
}

#[test]
fn other_powers_stay_outside() {
    let mut plan = Plan::new("forward");
    let [x, a, b] = [0, 64, 128].map(|offset| plan.value(floats(&[2], offset)));
    let exponent = plan.value(Value::Double(1.5));
    plan.call("aten::pow.Tensor_Scalar_out", [x, exponent, a, a]);
    plan.call("aten::neg.out", [a, b, b]);
    let bytes = write(plan, x, b);
    assert!(runs(&bytes).is_empty());
    let reason = Module::load(&bytes).unwrap().unplanned_reason("forward").unwrap().unwrap();
    assert!(reason.contains("aten::pow.Tensor_Scalar_out, instruction 0"), "{reason}");
    assert_eq!(run(&bytes, true, &[4.0, 9.0], &[2]), [-8.0, -27.0]);
}

/// The second operand has a factor.
#[test]
fn factors_join() {
    for (name, expected) in [("aten::add.out", 1.5), ("aten::sub.out", 0.5), ("aten::rsub.Tensor_out", 0.5)] {
        let mut plan = Plan::new("forward");
        let [x, a, b] = [0, 64, 128].map(|offset| plan.value(floats(&[2], offset)));
        let half = plan.value(Value::Double(0.5));
        plan.call(name, [x, x, half, a, a]);
        plan.call("aten::neg.out", [a, b, b]);
        let bytes = write(plan, x, b);
        assert_eq!(runs(&bytes), [2]);
        assert_eq!(run(&bytes, true, &[4.0, -3.0], &[2]), [-4.0 * expected, 3.0 * expected], "{name}");
    }
}

/// The pixels of ten that twenty are taken from when they are 1 / `factor` apart, by PyTorch's arithmetic.
fn nearest(factor: f64) -> Vec<f32> {
    (0..20u8).map(|at| (f32::from(at) * (1.0 / factor) as f32).floor().min(9.0)).collect()
}

#[test]
fn enlarged_images_follow_their_factors() {
    for (factor, joins) in [(2.0, true), (2.05, false), (2.09, false)] {
        let mut plan = Plan::new("forward");
        let (x, a) = (plan.value(floats(&[1, 1, 1, 10], 0)), plan.value(floats(&[1, 1, 1, 10], 64)));
        let (y, none) = (plan.value(floats(&[1, 1, 1, 20], 128)), plan.value(Value::Null));
        let factors = plan.value(Value::DoubleList(vec![1.0, factor]));
        plan.call("aten::relu.out", [x, a, a]);
        plan.call("aten::upsample_nearest2d.vec_out", [a, none, factors, y, y]);
        let bytes = write(plan, x, y);
        assert_eq!(runs(&bytes), if joins { vec![2] } else { vec![] }, "{factor}");
        let image: Vec<f32> = (0..10u8).map(f32::from).collect();
        assert_eq!(run(&bytes, true, &image, &[1, 1, 1, 10]), nearest(factor), "{factor}");
    }
    assert_ne!(nearest(2.0), nearest(2.09));
}

/// Between pixels, positions follow the factor as well; with aligned corners, the sizes.
#[test]
fn images_between_pixels_follow_their_factors() {
    for (align_corners, joins) in [(false, false), (true, true)] {
        let mut plan = Plan::new("forward");
        let (x, a) = (plan.value(floats(&[1, 1, 1, 10], 0)), plan.value(floats(&[1, 1, 1, 10], 64)));
        let (y, none) = (plan.value(floats(&[1, 1, 1, 20], 128)), plan.value(Value::Null));
        let (factors, align) = (plan.value(Value::DoubleList(vec![1.0, 2.05])), plan.value(Value::Bool(align_corners)));
        plan.call("aten::relu.out", [x, a, a]);
        plan.call("aten::upsample_bilinear2d.vec_out", [a, none, align, factors, y, y]);
        let bytes = write(plan, x, y);
        assert_eq!(runs(&bytes), if joins { vec![2] } else { vec![] }, "{align_corners}");
        let image: Vec<f32> = (0..10u8).map(f32::from).collect();
        // Of the identity, positions come out.
        let position = |at: u8| match align_corners {
            true => f32::from(at) * (9.0 / 19.0),
            false => ((f32::from(at) + 0.5) / 2.05 - 0.5).clamp(0.0, 9.0),
        };
        let expected: Vec<f32> = (0..20).map(position).collect();
        let found = run(&bytes, true, &image, &[1, 1, 1, 10]);
        assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5), "{found:?}, not {expected:?}");
    }
}

/// A sum with as much behind it as a step takes.
#[test]
fn functions_after_a_sum_join() {
    let mut plan = Plan::new("forward");
    let (x, sum) = (plan.value(floats(&[7], 0)), plan.value(floats(&[1], 64)));
    let (zero, none, keep) = (plan.value(Value::Int(0)), plan.value(Value::Null), plan.value(Value::Bool(true)));
    let dims = plan.value(Value::IntList(vec![zero]));
    plan.call("aten::sum.IntList_out", [x, dims, keep, none, sum, sum]);
    let mut last = sum;
    for (name, offset) in [("floor", 128), ("neg", 192), ("abs", 256), ("ceil", 320)] {
        let next = plan.value(floats(&[1], offset));
        plan.call(&format!("aten::{name}.out"), [last, next, next]);
        last = next;
    }
    let bytes = write(plan, x, last);
    assert_eq!(runs(&bytes), [5]);
    // A mean times seven would be less than 31.
    assert_eq!(run(&bytes, true, &[31.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], &[7]), [31.0]);
}

/// Dimensions that are not neighbours: those around the second.
#[test]
fn sums_of_scattered_dimensions_join() {
    for keep in [true, false] {
        let mut plan = Plan::new("forward");
        let sizes: &[i32] = if keep { &[1, 3, 1] } else { &[3] };
        let (x, sum, y) =
            (plan.value(floats(&[2, 3, 2], 0)), plan.value(floats(sizes, 64)), plan.value(floats(sizes, 128)));
        let (first, last) = (plan.value(Value::Int(0)), plan.value(Value::Int(-1)));
        let (dims, kept) = (plan.value(Value::IntList(vec![first, last])), plan.value(Value::Bool(keep)));
        let none = plan.value(Value::Null);
        plan.call("aten::sum.IntList_out", [x, dims, kept, none, sum, sum]);
        plan.call("aten::neg.out", [sum, y, y]);
        let bytes = write(plan, x, y);
        assert_eq!(runs(&bytes), [2]);
        let numbers: Vec<f32> = (0..12u8).map(f32::from).collect();
        // 0 + 1 + 6 + 7, and four more from column to column, twice.
        assert_eq!(run(&bytes, true, &numbers, &[2, 3, 2]), [-14.0, -22.0, -30.0]);
    }
}

/// Exporters write these norms as up to seven calls; the plan has one step for each.
#[test]
fn norms_are_steps() {
    let module = golden("norms");
    let text = module.call_plans("forward").unwrap().concat();
    assert_eq!(text.matches("root mean square norm").count(), 3, "{text}");
    assert_eq!((text.matches("norm of 2 groups").count(), text.matches("logarithm").count()), (1, 1), "{text}");
}

/// All but images with fractional factors, and what stands alone between two of them. Results that are known from the start
/// lie where others do in a run; nobody reads them there.
#[test]
fn parts_join() {
    let module = golden("joined");
    let calls: Vec<usize> = module.planned_calls("forward").unwrap().iter().map(|run| run.calls).collect();
    assert_eq!(calls, [19, 13]);
    let reason = module.unplanned_reason("forward").unwrap().unwrap();
    assert!(reason.starts_with("aten::upsample_bilinear2d.vec_out, instruction 19"), "{reason}");
}
