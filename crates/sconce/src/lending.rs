//! Which inputs are read where the caller has them.
//!
//! A program plans memory for its inputs, and each run would begin with a copy. That is needed only if somebody may change the
//! input, or finds it by address: data flow in a program goes by address, so another value may be a view of it. Here an input
//! is lent if the method has no jumps, moves or frees, no call that runs writes it or makes a view of it, and no other value
//! that a call touches or the caller sees shares its memory; unless that value is first of all the output of a delegate, which
//! makes it anew. What is planned as one counts as one call, of a delegate.
use crate::folding::Folding;
use crate::prepared::Planned;
use sconce_core::{Delegate, KernelId, Method, Owned, Registry};
use sconce_format::flatbuf::Scalars;
use sconce_format::pte::{InstructionArguments, KernelTypes};
use std::collections::{BTreeMap, BTreeSet};

/// Bounds on comparisons and on arguments of calls, lists opened, far above what real programs need.
const MOST_COMPARISONS: usize = 10_000_000;
const MOST_TOUCHED: usize = 200_000;

/// A method with what was decided for it.
pub(crate) struct Decided<'a> {
    pub(crate) method: Method<'a>,
    pub(crate) registry: &'a dyn Registry,
    pub(crate) kernels: &'a [KernelId],
    pub(crate) folding: &'a Folding,
    pub(crate) regions: &'a Planned,
    pub(crate) delegates: &'a [Owned<dyn Delegate>],
}

/// A value that a call touches.
struct Touched {
    value: usize,
    how: Touch,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Touch {
    Reads,
    /// The call may change it, or let another value stand for it.
    Changes,
    /// The call writes all of it, whatever was there.
    Makes,
}

impl Decided<'_> {
    /// For each input, whether it is lent.
    pub(crate) fn lent(&self) -> Vec<bool> {
        let plan = self.method.plan();
        let inputs: Vec<_> = plan.inputs().iter().filter_map(|index| usize::try_from(index).ok()).collect();
        let Some(touched) = self.touched() else { return Vec::new() };
        let changed: BTreeSet<_> = touched.iter().filter(|touch| touch.how != Touch::Reads).map(|t| t.value).collect();
        let mut first = BTreeMap::new();
        touched.iter().for_each(|touch| _ = first.entry(touch.value).or_insert(touch.how));
        let outputs: Vec<_> = plan.outputs().iter().filter_map(|index| usize::try_from(index).ok()).collect();
        let others = first.len().saturating_add(outputs.len()).saturating_add(inputs.len());
        if inputs.len().saturating_mul(others) > MOST_COMPARISONS {
            return Vec::new();
        }
        let lent = |&input: &usize| {
            let seen = inputs.iter().filter(|&&other| other == input).count() > 1 || outputs.contains(&input);
            let others = first.keys().chain(&outputs).filter(|other| first.get(other) != Some(&Touch::Makes));
            let shared = others.chain(&inputs).filter(|&&other| other != input).any(|&other| self.shares(input, other));
            !changed.contains(&input) && !seen && !shared
        };
        inputs.iter().map(lent).collect()
    }

    /// All values that calls touch when the method runs, in this order; nothing if there is more than calls.
    fn touched(&self) -> Option<Vec<Touched>> {
        let plan = self.method.plan();
        let chain = plan.chains().get(0).filter(|_| plan.chains().len() == 1)?;
        let mut touched = Vec::new();
        for (instruction, index) in chain.instructions().iter().zip(0u32..) {
            if let Some(region) = self.regions.around(index) {
                if region.instructions.start == index {
                    let values = self.regions.regions().values(region);
                    let args: Option<Vec<usize>> = values.iter().map(|&value| usize::try_from(value).ok()).collect();
                    self.delegated(&**self.delegates.get(region.delegate)?, &args?, &mut touched);
                }
                continue;
            }
            if self.folding.skips(index) {
                continue;
            }
            let values = |args: Scalars<'_, i32>| args.iter().map(|arg| usize::try_from(arg).ok()).collect();
            match instruction.instr_args() {
                InstructionArguments::KernelCall(call) => {
                    let args: Option<Vec<usize>> = values(call.args());
                    self.called(usize::try_from(call.op_index()).ok()?, &args?, &mut touched)?;
                }
                InstructionArguments::DelegateCall(call) => {
                    let args: Option<Vec<usize>> = values(call.args());
                    let delegate = self.delegates.get(usize::try_from(call.delegate_index()).ok()?)?;
                    self.delegated(&**delegate, &args?, &mut touched);
                }
                _ => return None,
            }
        }
        Some(touched)
    }

    /// Adds the arguments of a delegate, whose last ones are its outputs.
    fn delegated(&self, delegate: &dyn Delegate, args: &[usize], touched: &mut Vec<Touched>) {
        let inputs = args.len().saturating_sub(delegate.outputs());
        let how = |place: usize| if place < inputs { Touch::Reads } else { Touch::Makes };
        touched.extend(args.iter().enumerate().map(|(place, &value)| Touched { value, how: how(place) }));
    }

    /// Adds the arguments of an operator, and what is in them. One that writes no memory sets its last argument, perhaps as a
    /// view of another.
    fn called(&self, operator: usize, args: &[usize], touched: &mut Vec<Touched>) -> Option<()> {
        let writes = self.registry.kernel(*self.kernels.get(operator)?)?.writes();
        for (place, &value) in args.iter().enumerate() {
            let changes = writes == 0 || place >= 32 || writes >> place & 1 != 0 || place + 1 == args.len();
            let how = if changes { Touch::Changes } else { Touch::Reads };
            let mut touch = |value: usize| touched.push(Touched { value, how });
            touch(value);
            match self.value(value) {
                KernelTypes::TensorList(list) => {
                    list.items().iter().filter_map(|item| usize::try_from(item).ok()).for_each(touch);
                }
                KernelTypes::OptionalTensorList(list) => {
                    list.items().iter().filter_map(|item| usize::try_from(item).ok()).for_each(touch);
                }
                _ => {}
            }
            (touched.len() <= MOST_TOUCHED).then_some(())?;
        }
        Some(())
    }

    fn value(&self, index: usize) -> KernelTypes<'_> {
        self.method.plan().values().get(index).map_or(KernelTypes::None, |value| value.val())
    }

    /// Whether two values are tensors that share planned memory.
    fn shares(&self, one: usize, other: usize) -> bool {
        let memory = |index: usize| match self.value(index) {
            KernelTypes::Tensor(tensor) => tensor.planned(),
            _ => None,
        };
        match (memory(one), memory(other)) {
            (Some((id, bytes)), Some((other_id, other))) => {
                id == other_id && bytes.start < other.end && other.start < bytes.end
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Input, Options, ScalarType, Tensor};
    use sconce_core::{Shape, Tensor as View};
    use sconce_format::pte::model::{Memory, Plan, Program, Storage, Tensor as Model, Value};

    fn planned(offset: u64) -> Model {
        Model::new(ScalarType::Float, [2, 3], Storage::Planned(Memory { id: 1, offset }))
    }

    /// `x + y`, with these places of x, y, a value that stands for y, and the sum.
    fn program([x, y, view, sum]: [u64; 4], in_place: bool, returned: bool) -> Vec<u8> {
        let (mut program, mut plan) = (Program::default(), Plan::new("forward"));
        let one = plan.value(Value::Int(1));
        let [x, y, view, sum] = [x, y, view, sum].map(|offset| plan.value(planned(offset)));
        let into = if in_place { x } else { sum };
        plan.call("aten::add.out", [x, view, one, into, into]);
        (plan.inputs, plan.outputs, plan.buffer_sizes) =
            (vec![x, y], vec![if returned { y } else { into }], vec![0, 512]);
        program.plans.push(plan);
        program.write()
    }

    fn lent(program: &[u8], plan: bool) -> Vec<bool> {
        let module = Options::new().threads(1).plan(plan).load(program).unwrap();
        module.shared.prepared(0).unwrap().lent.clone()
    }

    #[test]
    fn what_nobody_changes_or_finds_by_address_is_lent() {
        for plan in [false, true] {
            assert_eq!(lent(&program([0, 64, 128, 192], false, false), plan), [true, true]);
            // The sum reads y under another name.
            assert_eq!(lent(&program([0, 64, 64, 192], false, false), plan), [true, false]);
            // The sum is written where x was.
            assert_eq!(lent(&program([0, 64, 128, 8], false, false), plan), [false, true]);
            assert_eq!(lent(&program([0, 64, 128, 192], true, false), plan), [false, true]);
            // The caller gets y back.
            assert_eq!(lent(&program([0, 64, 128, 192], false, true), plan), [true, false]);
            // Both are at the same place.
            assert_eq!(lent(&program([0, 0, 128, 192], false, false), plan), [false, false]);
        }
    }

    /// `x + y + y`, with the sum where x was: operators may look at what is there, what is planned makes it anew.
    #[test]
    fn what_is_made_where_an_input_was_is_no_view_of_it() {
        let (mut program, mut plan) = (Program::default(), Plan::new("forward"));
        let one = plan.value(Value::Int(1));
        let [x, y, once, twice] = [0, 64, 128, 0].map(|offset| plan.value(planned(offset)));
        plan.call("aten::add.out", [x, y, one, once, once]);
        plan.call("aten::add.out", [once, y, one, twice, twice]);
        (plan.inputs, plan.outputs, plan.buffer_sizes) = (vec![x, y], vec![twice], vec![0, 512]);
        program.plans.push(plan);
        let program = program.write();
        for plan in [false, true] {
            assert_eq!(lent(&program, plan), [plan, true]);
            let module = Options::new().threads(1).plan(plan).load(&program).unwrap();
            let mut session = module.session().unwrap();
            let [mut x, mut y] = [(); 2].map(|()| Tensor::zeros(ScalarType::Float, &[2, 3]).unwrap());
            for run in 0..3u8 {
                x.as_mut_slice::<f32>().unwrap().copy_from_slice(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
                y.as_mut_slice::<f32>().unwrap().fill(f32::from(run));
                let outputs = session.run(&[Input::from(&x), Input::from(&y)]).unwrap();
                let expected = [1, 2, 3, 4, 5, 6].map(|x| f32::from(x + 2 * run));
                assert_eq!(outputs[0].tensor().unwrap().as_slice::<f32>().unwrap(), expected);
            }
        }
    }

    #[test]
    fn inputs_at_odd_addresses_are_copied() {
        // An undelegated sum of an input with itself, at addresses of all kinds, one after the other.
        let (mut program, mut plan) = (Program::default(), Plan::new("forward"));
        let one = plan.value(Value::Int(1));
        let [x, sum] = [0, 64].map(|offset| plan.value(planned(offset)));
        plan.call("aten::add.out", [x, x, one, sum, sum]);
        (plan.inputs, plan.outputs, plan.buffer_sizes) = (vec![x], vec![sum], vec![0, 512]);
        program.plans.push(plan);
        let module = Options::new().threads(1).load(&program.write()).unwrap();
        let mut session = module.session().unwrap();
        let numbers: Vec<f32> = (0..6u8).map(f32::from).collect();
        let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        let expected: Vec<f32> = numbers.iter().map(|x| 2.0 * x).collect();
        for start in [0, 1, 16, 4, 8, 0, 3] {
            let mut room = Tensor::zeros(ScalarType::Byte, &[64]).unwrap();
            room.as_mut_slice::<u8>().unwrap()[start..][..bytes.len()].copy_from_slice(&bytes);
            let data = &room.bytes()[start..][..bytes.len()];
            let view = View { dtype: ScalarType::Float, shape: Shape::contiguous(&[2, 3]).unwrap(), data };
            let outputs = session.run(&[Input::View(view)]).unwrap();
            assert_eq!(outputs[0].tensor().unwrap().as_slice::<f32>().unwrap(), expected, "{start} bytes off");
        }
    }
}
