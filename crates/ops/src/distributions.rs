//! Values drawn from distributions with parameters, in the sizes of a tensor or of a list.
//!
//! Each element is a function of uniform numbers in [0, 1) that belong to the call and to the element's row-major position
//! (see [`fill`](crate::fill)), computed in float64 and rounded once: seedable, and not the values of PyTorch.
use crate::dense::{converted_row_major, wide_bytes, write_converted};
use crate::fill::{next_stream, normal, sized_by, uniform};
use crate::operands::{broadcast_sizes, shape_fault};
use crate::ops;
use crate::strided::offsets;
use core::f64::consts::PI;
use sconce_core::{Args, Call, Fault, Op, ScalarType, Shape, TensorMut};
use sconce_schema::{Layout, Sizes};

/// Values drawn from distributions.
pub(crate) static OPS: &[Op] = ops! {
    "aten::uniform.out" [6] writes [4] scratch |args| wide_bytes(args, 4), => uniform_between;
    "aten::normal.out" [6] writes [4] scratch |args| wide_bytes(args, 4), => |call| {
        like(call, 4, |[mean, deviation], stream, i| mean + deviation * normal(stream, i))
    };
    "aten::normal_functional.out" [6] writes [4] scratch |args| wide_bytes(args, 4), => |call| {
        like(call, 4, |[mean, deviation], stream, i| mean + deviation * normal(stream, i))
    };
    "aten::log_normal.out" [6] writes [4] scratch |args| wide_bytes(args, 4), => |call| {
        like(call, 4, |[mean, deviation], stream, i| libm::exp(mean + deviation * normal(stream, i)))
    };
    "aten::cauchy.out" [6] writes [4] scratch |args| wide_bytes(args, 4), => |call| {
        like(call, 4, |[median, width], stream, i| median + width * libm::tan(PI * (uniform(stream, i) - 0.5)))
    };
    "aten::exponential.out" [5] writes [3] scratch |args| wide_bytes(args, 3), => |call| {
        within(call, 0.0..=f64::INFINITY)?;
        like(call, 3, |[rate], stream, i| -libm::log(1.0 - uniform(stream, i)) / rate)
    };
    "aten::geometric.out" [5] writes [3] scratch |args| wide_bytes(args, 3), => |call| {
        within(call, 0.0..=1.0 - f64::EPSILON)?;
        like(call, 3, |[p], stream, i| {
            let tries = libm::ceil(libm::log(1.0 - uniform(stream, i)) / libm::log1p(-p));
            if tries < 1.0 { 1.0 } else { tries }
        })
    };
    "aten::normal.float_float_out" [6] writes [4] scratch |args| wide_bytes(args, 4), => |call| {
        let (mean, deviation) = (call.double(0)?, not_negative(1, call.double(1)?)?);
        let target = sized_by(call, 2, 4)?;
        draw(call, 4, target, |stream, i| mean + deviation * normal(stream, i as u64))
    };
    "aten::normal.Tensor_float_out" [5] writes [3] scratch normal_scratch, => normal_by_tensors;
    "aten::normal.float_Tensor_out" [5] writes [3] scratch normal_scratch, => normal_by_tensors;
    "aten::normal.Tensor_Tensor_out" [5] writes [3] scratch normal_scratch, => normal_by_tensors;
};

/// A fault unless argument 1 is above the first and not above the last of these.
fn within(call: &Call<'_>, range: core::ops::RangeInclusive<f64>) -> Result<(), Fault> {
    let parameter = call.double(1)?;
    let fits = range.contains(&parameter) && parameter > *range.start();
    if fits { Ok(()) } else { Err(Fault::argument(1, "the distribution does not exist for such a parameter")) }
}

fn not_negative(argument: usize, deviation: f64) -> Result<f64, Fault> {
    if deviation >= 0.0 { Ok(deviation) } else { Err(Fault::argument(argument, "a deviation must not be negative")) }
}

/// Draws in the sizes of argument 0, with the numbers from argument 1 on as parameters.
fn like<const N: usize>(
    call: &mut Call<'_>,
    out: usize,
    value: impl Fn([f64; N], u32, u64) -> f64,
) -> Result<(), Fault> {
    let mut parameters = [0.0; N];
    for (n, parameter) in parameters.iter_mut().enumerate() {
        *parameter = call.double(n + 1)?;
    }
    let (_, shape) = call.tensor_type(0)?;
    let target = call.out(out, shape.sizes())?;
    draw(call, out, target, |stream, i| value(parameters, stream, i as u64))
}

/// Fills an output with what `value` makes of the call's stream and an element's position.
fn draw(
    call: &mut Call<'_>,
    out: usize,
    target: TensorMut<'_>,
    value: impl Fn(u32, usize) -> f64,
) -> Result<(), Fault> {
    let stream = next_stream();
    write_converted::<f64>(call, out, target, |elements| {
        elements.iter_mut().enumerate().for_each(|(i, element)| *element = value(stream, i));
        Ok(())
    })
}

/// Uniform from argument 1 to before argument 2, in as many steps as the output's type tells apart below 1, so that
/// rounding does not reach the end.
fn uniform_between(call: &mut Call<'_>) -> Result<(), Fault> {
    let (from, to) = (call.double(1)?, call.double(2)?);
    if !(from <= to && (to - from).is_finite()) {
        return Err(Fault::argument(1, "the range must be finite and must not end before it starts"));
    }
    let digits = match call.tensor_type(4)?.0 {
        ScalarType::Double => 53,
        ScalarType::Half => 11,
        ScalarType::BFloat16 => 8,
        _ => 24,
    };
    let steps = (1u64 << digits) as f64;
    like(call, 4, |[from, to], stream, i| from + libm::floor(uniform(stream, i) * steps) / steps * (to - from))
}

fn normal_scratch(args: &Args<'_>) -> usize {
    [0, 1, 3].iter().map(|&argument| wide_bytes(args, argument)).fold(0, usize::saturating_add)
}

/// A parameter per element: a number, or a tensor in row-major order with how it broadcasts.
struct Parameter<'c> {
    values: &'c [f64],
    number: f64,
    layout: Layout,
}

impl<'c> Parameter<'c> {
    fn new(call: &mut Call<'c>, argument: usize, sizes: &Sizes) -> Result<Self, Fault> {
        let (values, number, own): (&[f64], _, _) = match call.scalar(argument) {
            Ok(number) => (&[], number.to_f64(), Sizes::SCALAR),
            Err(_) => {
                let tensor = call.tensor(argument)?;
                let own = Sizes::new(tensor.sizes()).unwrap_or(Sizes::SCALAR);
                (converted_row_major::<f64>(call, argument, tensor)?, 0.0, own)
            }
        };
        let layout = Layout::contiguous(own).broadcast_to(sizes).map_err(shape_fault)?;
        Ok(Self { values, number, layout })
    }

    fn each(&self) -> impl Iterator<Item = f64> + '_ {
        offsets(&self.layout).map(|at| self.values.get(at).copied().unwrap_or(self.number))
    }
}

/// Normal values with means and deviations that are a number or a tensor.
fn normal_by_tensors(call: &mut Call<'_>) -> Result<(), Fault> {
    let shape = |argument| call.tensor_type(argument).map_or(Shape::SCALAR, |(_, shape)| shape);
    let sizes = broadcast_sizes([&shape(0), &shape(1)])?;
    let (means, deviations) = (Parameter::new(call, 0, &sizes)?, Parameter::new(call, 1, &sizes)?);
    deviations.each().try_for_each(|deviation| not_negative(1, deviation).map(drop))?;
    let (target, stream) = (call.out(3, &sizes)?, next_stream());
    write_converted::<f64>(call, 3, target, |elements| {
        for (i, (element, (mean, deviation))) in
            elements.iter_mut().zip(means.each().zip(deviations.each())).enumerate()
        {
            *element = mean + deviation * normal(stream, i as u64);
        }
        Ok(())
    })
}
