//! Pooling against a twin that visits every position of every window.
use super::*;
use crate::testing::{Random, assert_close, pool};

/// For every output element: the elements its window covers, with their indices in the plane.
fn windows(p: &Pooling, layout: Layout, x: &[f32]) -> Vec<Vec<(f32, usize)>> {
    let size = p.output().unwrap();
    let mut all = vec![];
    let (outputs, pixels): (usize, usize) = (size.iter().product(), p.input.iter().product());
    for index in 0..p.batch * p.channels * outputs {
        let (b, c, at) = match layout {
            Layout::ChannelsFirst => (index / outputs / p.channels, index / outputs % p.channels, index % outputs),
            Layout::ChannelsLast => (index / p.channels / outputs, index % p.channels, index / p.channels % outputs),
        };
        let position = [at / size[2] / size[1], at / size[2] % size[1], at % size[2]];
        let mut window = vec![];
        for tap in 0..p.kernel.iter().product() {
            let tap: usize = tap;
            let taps = [tap / p.kernel[2] / p.kernel[1], tap / p.kernel[2] % p.kernel[1], tap % p.kernel[2]];
            let from: Vec<isize> = (0..3)
                .map(|d| (position[d] * p.stride[d] + taps[d] * p.dilation[d]) as isize - p.padding[d] as isize)
                .collect();
            if (0..3).all(|d| from[d] >= 0 && from[d] < p.input[d] as isize) {
                let pixel = (from[0] as usize * p.input[1] + from[1] as usize) * p.input[2] + from[2] as usize;
                let value = match layout {
                    Layout::ChannelsFirst => x[(b * p.channels + c) * pixels + pixel],
                    Layout::ChannelsLast => x[(b * pixels + pixel) * p.channels + c],
                };
                window.push((value, pixel));
            }
        }
        all.push(window);
    }
    all
}

fn random_pooling(random: &mut Random) -> Pooling {
    let flat = random.below(3);
    let mut axis = |limit: usize| core::array::from_fn(|d| if d < flat { 1 } else { 1 + random.below(limit) });
    let (input, kernel, stride, dilation): ([usize; 3], [usize; 3], _, _) = (axis(70), axis(3), axis(3), axis(2));
    let input = core::array::from_fn(|d| if d < 2 { input[d].min(8) } else { input[d] });
    let padding = core::array::from_fn(|d| random.below(kernel[d] / 2 + 1));
    let (batch, channels) = (1 + random.below(2), [1, 3, 66][random.below(3)]);
    Pooling { batch, channels, input, kernel, stride, padding, dilation, ceil_mode: random.below(2) == 1 }
}

#[test]
fn largest_and_mean_of_every_shape() {
    let (mut random, pool) = (Random::new(41), pool());
    for _ in 0..120 {
        let p = random_pooling(&mut random);
        let Some(size) = p.output() else { continue };
        let x = random.floats(p.batch * p.channels * p.input.iter().product::<usize>());
        for layout in [Layout::ChannelsFirst, Layout::ChannelsLast] {
            let windows = windows(&p, layout, &x);
            let largest: Vec<_> =
                windows.iter().map(|w| w.iter().fold(f32::NEG_INFINITY, |best, (x, _)| best.max(*x))).collect();
            let flat = Pooling { dilation: [1; 3], ..p };
            let (mut out, mut indices) = (vec![0.0; largest.len()], vec![0; largest.len()]);
            for isa in Isa::available() {
                max_pool_with_indices(isa, &pool, &p, layout, &x, &mut out, &mut indices);
                assert_eq!(out, largest, "{p:?} {size:?}");
                for (window, index) in windows.iter().zip(&indices) {
                    let best = window.iter().fold(f32::NEG_INFINITY, |best, (x, _)| best.max(*x));
                    let first = window.iter().find(|(x, _)| *x == best);
                    assert!(first.is_none_or(|(_, pixel)| *pixel as i64 == *index));
                }
            }
            for isa in Isa::available() {
                max_pool(isa, &pool, &p, layout, &x, &mut out);
                assert_eq!(out, largest, "{p:?}");
            }
            let Some(cells) = flat.output() else { continue };
            let windows = self::windows(&flat, layout, &x);
            let mut out = vec![0.0; windows.len()];
            let sum = |w: &Vec<(f32, usize)>| w.iter().map(|(x, _)| x).sum::<f32>();
            for isa in Isa::available() {
                avg_pool(isa, &pool, &flat, layout, Divisor::Inside, &x, &mut out);
                let expected: Vec<_> = windows.iter().map(|w| sum(w) / w.len() as f32).collect();
                assert_close(&out, &expected, 1e-5, &(flat, cells));
                avg_pool(isa, &pool, &flat, layout, Divisor::Fixed(5), &x, &mut out);
                assert_close(&out, &windows.iter().map(|w| sum(w) / 5.0).collect::<Vec<_>>(), 1e-5, &flat);
            }
        }
    }
}

/// `torch.nn.functional.avg_pool1d(torch.arange(1., 6.), 3, 2, padding=1, ceil_mode=True, count_include_pad=True)` and
/// the same without, by hand: windows (0 1 2) (2 3 4) (4 5 0).
#[test]
fn padding_in_the_divisor() {
    let p = Pooling {
        batch: 1,
        channels: 1,
        input: [1, 1, 5],
        kernel: [1, 1, 3],
        stride: [1, 1, 2],
        padding: [0, 0, 1],
        dilation: [1; 3],
        ceil_mode: true,
    };
    let x = [1.0f32, 2.0, 3.0, 4.0, 5.0];
    let mut out = [0.0; 3];
    avg_pool(Isa::detect(), &crate::Serial, &p, Layout::ChannelsFirst, Divisor::WithPadding, &x, &mut out);
    assert_eq!(out, [1.0, 3.0, 3.0]);
    avg_pool(Isa::detect(), &crate::Serial, &p, Layout::ChannelsFirst, Divisor::Inside, &x, &mut out);
    assert_eq!(out, [1.5, 3.0, 4.5]);
}

#[test]
fn a_last_window_that_begins_outside_is_dropped() {
    let p = Pooling {
        batch: 1,
        channels: 1,
        input: [1, 1, 4],
        kernel: [1, 1, 1],
        stride: [1, 1, 3],
        padding: [0; 3],
        dilation: [1; 3],
        ceil_mode: true,
    };
    assert_eq!(p.output(), Some([1, 1, 2]));
    assert_eq!(Pooling { input: [1, 1, 3], ..p }.output(), Some([1, 1, 1]));
    assert_eq!(Pooling { stride: [1, 1, 0], ..p }.output(), None);
    // A window larger than the image fits when rounding up.
    let large = Pooling { input: [1, 1, 2], kernel: [1, 1, 3], stride: [1, 1, 2], ..p };
    assert_eq!(large.output(), Some([1, 1, 1]));
    assert_eq!(Pooling { ceil_mode: false, ..large }.output(), None);
}

#[test]
fn adaptive_grids() {
    let (mut random, pool) = (Random::new(42), pool());
    for (input, output) in
        [([1, 7, 7], [1, 1, 1]), ([1, 5, 70], [1, 3, 4]), ([3, 4, 5], [2, 6, 5]), ([1, 1, 200], [1, 1, 2])]
    {
        let (batch, channels) = (2, 67);
        let x = random.floats(batch * channels * input.iter().product::<usize>());
        let cells: usize = output.iter().product();
        for layout in [Layout::ChannelsFirst, Layout::ChannelsLast] {
            let expected: Vec<(f32, f32)> = (0..batch * channels * cells)
                .map(|index| {
                    let (b, c, at) = match layout {
                        Layout::ChannelsFirst => (index / cells / channels, index / cells % channels, index % cells),
                        Layout::ChannelsLast => (index / channels / cells, index % channels, index / channels % cells),
                    };
                    let at = [at / output[2] / output[1], at / output[2] % output[1], at % output[2]];
                    let (mut sum, mut count, mut largest) = (0.0, 0.0, f32::NEG_INFINITY);
                    for pixel in 0..input.iter().product::<usize>() {
                        let p = [pixel / input[2] / input[1], pixel / input[2] % input[1], pixel % input[2]];
                        let covers = |d: usize| {
                            let size = |i: usize| i as f64 * input[d] as f64 / output[d] as f64;
                            (size(at[d]).floor()..size(at[d] + 1).ceil()).contains(&(p[d] as f64))
                        };
                        if (0..3).all(covers) {
                            let pixels: usize = input.iter().product();
                            let value = match layout {
                                Layout::ChannelsFirst => x[(b * channels + c) * pixels + pixel],
                                Layout::ChannelsLast => x[(b * pixels + pixel) * channels + c],
                            };
                            sum += value;
                            largest = largest.max(value);
                            count += 1.0;
                        }
                    }
                    (sum / count, largest)
                })
                .collect();
            let (means, largest): (Vec<f32>, Vec<f32>) = expected.into_iter().unzip();
            let (mut out, mut indices) = (vec![0.0; largest.len()], vec![0; largest.len()]);
            adaptive_max_pool(&pool, (batch, channels), (input, output), layout, &x, &mut out, &mut indices);
            assert_eq!(out, largest);
            let pixels: usize = input.iter().product();
            for (i, (value, index)) in out.iter().zip(&indices).enumerate() {
                let at = match layout {
                    Layout::ChannelsFirst => i / cells * pixels + *index as usize,
                    Layout::ChannelsLast => (i / channels / cells * pixels + *index as usize) * channels + i % channels,
                };
                assert_eq!(*value, x[at]);
            }
            for isa in Isa::available() {
                adaptive_avg_pool(isa, &pool, (batch, channels), (input, output), layout, &x, &mut out);
                assert_close(&out, &means, 1e-5, &(input, output, layout));
            }
        }
    }
}

/// `avg_pool2d(tensor([[[-3, 2], [-4, 0]]]), 2)` is -1.
#[test]
fn integer_means_are_cut() {
    let p = Pooling {
        batch: 1,
        channels: 1,
        input: [1, 2, 2],
        kernel: [1, 2, 2],
        stride: [1; 3],
        padding: [0; 3],
        dilation: [1; 3],
        ceil_mode: false,
    };
    let mut out = [0];
    let (isa, layout) = (Isa::detect(), Layout::ChannelsFirst);
    avg_pool_integers(isa, &crate::Serial, &p, layout, Divisor::Inside, &[-3, 2, -4, 0], &mut out);
    assert_eq!(out, [-1]);
}
