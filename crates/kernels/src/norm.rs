//! Normalisations: layer, group, root-mean-square, and batch in inference.
//!
//! Statistics are taken in two passes (mean, then squared deviations), in lanes of the compute type that are added up in
//! `f64` at regular intervals: as fast as the one and nearly as exact as the other. The affine part is done in the
//! compute type.
use crate::element::{Float, Number};
use crate::isa::Isa;
use crate::map::worth;
use crate::math::Math;
use crate::reduce::{rows_per_task, sum_of};
use crate::split::{self, Cut};
use sconce_parallel::Parallel;

/// Per-element factors and summands; absent ones are 1 and 0.
#[derive(Clone, Copy, Debug)]
pub struct Affine<'a, T> {
    /// What the normalised value is multiplied with.
    pub weight: Option<&'a [T]>,
    /// What is then added.
    pub bias: Option<&'a [T]>,
}

impl<T: Float> Affine<'_, T> {
    fn check(&self, len: usize) {
        assert!(self.weight.is_none_or(|weight| weight.len() == len), "a weight for {len} elements");
        assert!(self.bias.is_none_or(|bias| bias.len() == len), "a bias for {len} elements");
    }

    #[inline(always)]
    fn at(&self, i: usize) -> (T::Compute, T::Compute) {
        let weight = self.weight.map_or(T::Compute::ONE, |weight| weight[i].widen());
        (weight, self.bias.map_or(T::Compute::ZERO, |bias| bias[i].widen()))
    }
}

/// The mean and the reciprocal standard deviation of a row.
#[inline(always)]
fn moments<T: Float>(x: &[T], epsilon: f64) -> (f64, f64) {
    let count = x.len() as f64;
    let mean = sum_of(
        x,
        #[inline(always)]
        |x| x,
    ) / count;
    let center = T::Compute::from_f64(mean);
    let squares = sum_of(
        x,
        #[inline(always)]
        |x| (x - center) * (x - center),
    );
    (mean, 1.0 / Math::sqrt(squares / count + epsilon))
}

/// Normalises contiguous rows of `n` elements. `moments` receives, if wanted, each row's mean and reciprocal deviation.
pub fn layer_norm<T: Float>(
    isa: Isa,
    par: &dyn Parallel,
    n: usize,
    x: &[T],
    affine: Affine<'_, T>,
    epsilon: f64,
    out: &mut [T],
    moments_out: Option<(&mut [T], &mut [T])>,
) {
    assert_eq!(x.len(), out.len(), "input and output differ in length");
    affine.check(n);
    if out.is_empty() || n == 0 {
        // Rows of nothing have a mean of 0 and no deviation.
        if let Some((means, scales)) = moments_out {
            means.fill(T::ZERO);
            scales.fill(T::from_f64(f64::NAN));
        }
        return;
    }
    let par = worth(par, x.len());
    let rows = |first: usize, out: &mut [T], mut note: Option<(&mut [T], &mut [T])>| {
        isa.vectorize(
            #[inline(always)]
            || {
                for (i, (out, x)) in out.chunks_exact_mut(n).zip(x[first * n..].chunks_exact(n)).enumerate() {
                    let (mean, scale) = moments(x, epsilon);
                    if let Some((means, scales)) = &mut note {
                        (means[i], scales[i]) = (T::from_f64(mean), T::from_f64(scale));
                    }
                    let (mean, scale) = (T::Compute::from_f64(mean), T::Compute::from_f64(scale));
                    affine_row(
                        x,
                        &affine,
                        out,
                        #[inline(always)]
                        |x| (x - mean) * scale,
                    );
                }
            },
        );
    };
    let together = rows_per_task(n);
    match moments_out {
        None => split::chunks(par, out, n * together, |task, out| rows(task * together, out, None)),
        Some((means, scales)) => {
            let parts = ((out, n * together), (means, together), (scales, together));
            split::chunks3(par, parts.0, parts.1, parts.2, |task, out, means, scales| {
                rows(task * together, out, Some((means, scales)));
            });
        }
    }
}

/// `out = f(x) * weight + bias`, each combination its own loop.
#[inline(always)]
fn affine_row<T: Float>(x: &[T], affine: &Affine<'_, T>, out: &mut [T], f: impl Fn(T::Compute) -> T::Compute) {
    let pairs = out.iter_mut().zip(x);
    match (affine.weight, affine.bias) {
        (Some(weight), Some(bias)) => {
            for ((out, x), (weight, bias)) in pairs.zip(weight.iter().zip(bias)) {
                *out = T::narrow(f(x.widen()) * weight.widen() + bias.widen());
            }
        }
        (Some(weight), None) => {
            for ((out, x), weight) in pairs.zip(weight) {
                *out = T::narrow(f(x.widen()) * weight.widen());
            }
        }
        (None, Some(bias)) => {
            for ((out, x), bias) in pairs.zip(bias) {
                *out = T::narrow(f(x.widen()) + bias.widen());
            }
        }
        (None, None) => {
            for (out, x) in pairs {
                *out = T::narrow(f(x.widen()));
            }
        }
    }
}

/// Divides contiguous rows of `n` elements by their root mean square.
pub fn rms_norm<T: Float>(
    isa: Isa,
    par: &dyn Parallel,
    n: usize,
    x: &[T],
    weight: Option<&[T]>,
    epsilon: f64,
    out: &mut [T],
) {
    assert_eq!(x.len(), out.len(), "input and output differ in length");
    let affine = Affine { weight, bias: None };
    affine.check(n);
    if out.is_empty() || n == 0 {
        return;
    }
    let together = rows_per_task(n);
    split::chunks(worth(par, x.len()), out, n * together, |task, out| {
        isa.vectorize(
            #[inline(always)]
            || {
                for (out, x) in out.chunks_exact_mut(n).zip(x[task * together * n..].chunks_exact(n)) {
                    let squares = sum_of(
                        x,
                        #[inline(always)]
                        |x| x * x,
                    );
                    let scale = 1.0 / Math::sqrt(squares / n as f64 + epsilon);
                    let scale = T::Compute::from_f64(scale);
                    affine_row(
                        x,
                        &affine,
                        out,
                        #[inline(always)]
                        |x| x * scale,
                    );
                }
            },
        );
    });
}

/// Normalises groups of channels of `[images, channels, inner]`; the affine part is per channel. `moments` receives, if
/// wanted, each group's mean and reciprocal deviation.
pub fn group_norm<T: Float>(
    isa: Isa,
    par: &dyn Parallel,
    (channels, groups, inner): (usize, usize, usize),
    x: &[T],
    affine: Affine<'_, T>,
    epsilon: f64,
    out: &mut [T],
    moments_out: Option<(&mut [T], &mut [T])>,
) {
    assert_eq!(x.len(), out.len(), "input and output differ in length");
    assert!(groups > 0 && channels.is_multiple_of(groups), "{channels} channels in {groups} groups");
    affine.check(channels);
    let group = channels / groups;
    let n = group * inner;
    if out.is_empty() {
        return;
    }
    let one = |i: usize, out: &mut [T]| {
        isa.vectorize(
            #[inline(always)]
            || {
                let x = &x[i * n..][..n];
                let (mean, scale) = moments(x, epsilon);
                let (center, spread) = (T::Compute::from_f64(mean), T::Compute::from_f64(scale));
                for (c, (out, x)) in out.chunks_exact_mut(inner).zip(x.chunks_exact(inner)).enumerate() {
                    let (weight, bias) = affine.at(i % groups * group + c);
                    let (factor, summand) = (spread * weight, bias - center * spread * weight);
                    for (out, x) in out.iter_mut().zip(x) {
                        *out = T::narrow(x.widen() * factor + summand);
                    }
                }
                (T::from_f64(mean), T::from_f64(scale))
            },
        )
    };
    let par = worth(par, x.len());
    match moments_out {
        None => split::chunks(par, out, n, |i, out| {
            one(i, out);
        }),
        Some((means, scales)) => split::chunks3(par, (out, n), (means, 1), (scales, 1), |i, out, mean, scale| {
            (mean[0], scale[0]) = one(i, out);
        }),
    }
}

/// The running statistics of a batch normalisation.
#[derive(Clone, Copy, Debug)]
pub struct Statistics<'a, T> {
    /// One mean per channel.
    pub mean: &'a [T],
    /// One variance per channel.
    pub variance: &'a [T],
    /// What is added to the variance.
    pub epsilon: f64,
}

/// The mean and the (biased) variance of every channel of `[outer, channels, inner]`.
pub fn batch_moments<T: Float>(
    par: &dyn Parallel,
    inner: usize,
    x: &[T],
    means: &mut [T::Compute],
    variances: &mut [T::Compute],
) {
    let channels = means.len();
    assert_eq!(variances.len(), channels, "means and variances of {channels} channels");
    let image = channels * inner;
    assert!(x.is_empty() || x.len().is_multiple_of(image), "whole images of {channels} channels");
    split::chunks2(worth(par, x.len()), (means, 1), (variances, 1), |channel, mean_out, variance_out| {
        let rows = || x.chunks_exact(image.max(1)).map(|image| &image[channel * inner..][..inner]);
        let count = (x.len() / channels) as f64;
        let mean = rows().flatten().map(|x| x.to_f64()).sum::<f64>() / count;
        let squares: f64 = rows().flatten().map(|x| (x.to_f64() - mean) * (x.to_f64() - mean)).sum();
        mean_out[0] = T::Compute::from_f64(mean);
        variance_out[0] = T::Compute::from_f64(squares / count);
    });
}

/// Normalises `[outer, channels, inner]` with given statistics; channels last is `inner` = 1.
pub fn batch_norm<T: Float>(
    isa: Isa,
    par: &dyn Parallel,
    (channels, inner): (usize, usize),
    x: &[T],
    statistics: Statistics<'_, T>,
    affine: Affine<'_, T>,
    out: &mut [T],
) {
    assert_eq!(x.len(), out.len(), "input and output differ in length");
    assert!(
        statistics.mean.len() == channels && statistics.variance.len() == channels,
        "statistics of {channels} channels"
    );
    affine.check(channels);
    if out.is_empty() {
        return;
    }
    // A channel as one factor and one summand.
    let line = |channel: usize| {
        let (weight, bias) = affine.at(channel);
        let variance = statistics.variance[channel].widen() + T::Compute::from_f64(statistics.epsilon);
        let factor = weight / Math::sqrt(variance);
        (factor, bias - statistics.mean[channel].widen() * factor)
    };
    let par = worth(par, x.len());
    if inner > 1 {
        return split::chunks(par, out, inner, |i, out| {
            let (factor, summand) = line(i % channels);
            let x = &x[i * inner..][..inner];
            isa.vectorize(
                #[inline(always)]
                || {
                    for (out, x) in out.iter_mut().zip(x) {
                        *out = T::narrow(x.widen() * factor + summand);
                    }
                },
            );
        });
    }
    const STRIP: usize = 64;
    let rows = out.len() / channels;
    let cuts = (Cut::every(rows_per_task(STRIP), rows), Cut::every(STRIP, channels));
    split::blocks(par, out, channels, (rows, channels), cuts, |mut block| {
        let columns = block.columns.clone();
        let lines: [_; STRIP] = core::array::from_fn(|i| line((columns.start + i).min(channels - 1)));
        isa.vectorize(
            #[inline(always)]
            || {
                for row in block.rows.clone() {
                    let x = &x[row * channels..][columns.clone()];
                    for ((out, x), (factor, summand)) in block.row(row).iter_mut().zip(x).zip(&lines) {
                        *out = T::narrow(x.widen() * *factor + *summand);
                    }
                }
            },
        );
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, assert_close, pool};

    fn naive_rows(n: usize, x: &[f32], epsilon: f64) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
        let (mut out, mut means, mut scales) = (vec![], vec![], vec![]);
        for x in x.chunks_exact(n) {
            let mean = x.iter().map(|x| f64::from(*x)).sum::<f64>() / n as f64;
            let variance = x.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / n as f64;
            let scale = 1.0 / (variance + epsilon).sqrt();
            out.extend(x.iter().map(|x| ((f64::from(*x) - mean) * scale) as f32));
            means.push(mean as f32);
            scales.push(scale as f32);
        }
        (out, means, scales)
    }

    #[test]
    fn layers() {
        let (mut random, pool) = (Random::new(31), pool());
        for (rows, n) in [(1, 1), (3, 7), (5, 64), (7, 65), (200, 300)] {
            let (x, weight, bias) = (random.floats(rows * n), random.floats(n), random.floats(n));
            let (plain, means, scales) = naive_rows(n, &x, 1e-5);
            for isa in Isa::available() {
                for (w, b) in [(false, false), (true, false), (false, true), (true, true)] {
                    let affine = Affine { weight: w.then_some(&weight[..]), bias: b.then_some(&bias[..]) };
                    let expected: Vec<_> = plain
                        .iter()
                        .enumerate()
                        .map(|(i, x)| x * if w { weight[i % n] } else { 1.0 } + if b { bias[i % n] } else { 0.0 })
                        .collect();
                    let mut out = vec![0.0; rows * n];
                    layer_norm(isa, &pool, n, &x, affine, 1e-5, &mut out, None);
                    assert_close(&out, &expected, 1e-5, &(rows, n));
                    let (mut m, mut s) = (vec![0.0; rows], vec![0.0; rows]);
                    out.fill(0.0);
                    layer_norm(isa, &pool, n, &x, affine, 1e-5, &mut out, Some((&mut m, &mut s)));
                    assert_close(&out, &expected, 1e-5, &(rows, n));
                    assert_close(&m, &means, 1e-6, &(rows, n));
                    assert_close(&s, &scales, 1e-6, &(rows, n));
                }
            }
        }
    }

    #[test]
    fn root_mean_squares() {
        let x = [3.0f32, 4.0, 1.0, 1.0];
        let mut out = [0.0; 4];
        rms_norm(Isa::detect(), &crate::Serial, 2, &x, Some(&[2.0, 1.0]), 0.0, &mut out);
        let root = 12.5f32.sqrt();
        assert_close(&out, &[6.0 / root, 4.0 / root, 2.0, 1.0], 1e-6, &x);
    }

    #[test]
    fn groups() {
        let (mut random, pool) = (Random::new(32), pool());
        let (images, channels, groups, inner) = (2, 6, 3, 20);
        let (x, weight, bias) = (random.floats(images * channels * inner), random.floats(6), random.floats(6));
        let (plain, means, scales) = naive_rows(channels / groups * inner, &x, 1e-3);
        let expected: Vec<_> =
            plain.iter().enumerate().map(|(i, x)| x * weight[i / inner % 6] + bias[i / inner % 6]).collect();
        for isa in Isa::available() {
            let (mut out, mut m, mut s) = (vec![0.0; x.len()], vec![0.0; 6], vec![0.0; 6]);
            let affine = Affine { weight: Some(&weight[..]), bias: Some(&bias[..]) };
            let moments = Some((&mut m[..], &mut s[..]));
            group_norm(isa, &pool, (channels, groups, inner), &x, affine, 1e-3, &mut out, moments);
            assert_close(&out, &expected, 1e-5, &isa);
            assert_close(&m, &means, 1e-6, &isa);
            assert_close(&s, &scales, 1e-6, &isa);
        }
    }

    #[test]
    fn batches() {
        let (mut random, pool) = (Random::new(33), pool());
        for (outer, channels, inner) in [(2, 3, 17), (5, 70, 1), (700, 65, 1), (1, 1, 1)] {
            let x = random.floats(outer * channels * inner);
            let [mean, weight, bias] = core::array::from_fn(|_| random.floats(channels));
            let variance: Vec<_> = random.floats(channels).iter().map(|x| x.abs() + 0.1).collect();
            let expected: Vec<_> = x
                .iter()
                .enumerate()
                .map(|(i, x)| {
                    let c = i / inner % channels;
                    (x - mean[c]) / (variance[c] + 1e-5).sqrt() * weight[c] + bias[c]
                })
                .collect();
            let statistics = Statistics { mean: &mean[..], variance: &variance, epsilon: 1e-5 };
            let affine = Affine { weight: Some(&weight[..]), bias: Some(&bias[..]) };
            for isa in Isa::available() {
                let mut out = vec![0.0; x.len()];
                batch_norm(isa, &pool, (channels, inner), &x, statistics, affine, &mut out);
                assert_close(&out, &expected, 1e-5, &(outer, channels, inner));
            }
        }
    }

    /// Channels of [1, 3, 5, 7] and [0, 0, 4, 4]: means 4 and 2, squared deviations 20 and 16 of four.
    #[test]
    fn moments_of_channels() {
        let x = [1.0f32, 3.0, 0.0, 0.0, 5.0, 7.0, 4.0, 4.0];
        let (mut means, mut variances) = ([0.0; 2], [0.0; 2]);
        batch_moments(&pool(), 2, &x, &mut means, &mut variances);
        assert_eq!((means, variances), ([4.0, 2.0], [5.0, 4.0]));
        batch_moments(&pool(), 1, &[1.0f32, 5.0, 3.0, 5.0], &mut means, &mut variances);
        assert_eq!((means, variances), ([2.0, 5.0], [1.0, 0.0]));
        batch_moments::<f32>(&pool(), 2, &[], &mut means, &mut variances);
        assert!(means[0].is_nan());
    }
}
