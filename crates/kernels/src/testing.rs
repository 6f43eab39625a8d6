//! What the tests share: reproducible random numbers, a pool, images whose pixels lie apart, and a comparison that says where
//! it failed.
use sconce_parallel::Parallel;

/// Random numbers by xorshift.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    /// A whole number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.next() as usize % n
    }

    /// Floats between -1 and 1.
    pub(crate) fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| (self.next() % 20_001) as f32 / 10_000.0 - 1.0).collect()
    }
}

/// Threads that nobody else has.
#[cfg(feature = "std")]
struct Own(sconce_parallel::Pool);

#[cfg(feature = "std")]
impl Parallel for Own {
    fn width(&self) -> usize {
        self.0.width()
    }

    fn run(&self, tasks: usize, body: &(dyn Fn(usize) + Sync)) {
        self.0.lease().run(tasks, body);
    }
}

/// A few threads, where there are threads.
#[cfg(feature = "std")]
pub(crate) fn pool() -> impl Parallel {
    Own(sconce_parallel::Pool::new(3))
}

/// A few threads, where there are threads.
#[cfg(not(feature = "std"))]
pub(crate) fn pool() -> impl Parallel {
    sconce_parallel::Serial
}

/// The pixels of an image `apart` elements from each other, with `between` between them and none behind the last.
pub(crate) fn spread<T: Copy>(image: &[T], channels: usize, apart: usize, between: T) -> Vec<T> {
    let mut all = Vec::with_capacity(image.len() / channels.max(1) * apart);
    for pixel in image.chunks_exact(channels.max(1)) {
        all.resize(all.len().next_multiple_of(apart), between);
        all.extend_from_slice(pixel);
    }
    all
}

/// Panics unless the pixels of an image lie so, with nothing else than `between` between them; gives the image.
#[track_caller]
pub(crate) fn gather<T: Copy + PartialEq>(all: &[T], channels: usize, apart: usize, between: T) -> Vec<T> {
    let image: Vec<T> = all.chunks(apart.max(1)).flat_map(|pixel| &pixel[..channels]).copied().collect();
    let untouched = all.chunks(apart.max(1)).flat_map(|pixel| &pixel[channels..]).all(|x| *x == between);
    assert!(untouched, "something was written between pixels of {channels} channels");
    image
}

/// Panics at the first pair that differs by more than `tolerance`, relative to the larger of 1 and the expected value.
#[track_caller]
pub(crate) fn assert_close(actual: &[f32], expected: &[f32], tolerance: f32, what: &dyn core::fmt::Debug) {
    assert_eq!(actual.len(), expected.len(), "{what:?}");
    for (i, (a, e)) in actual.iter().zip(expected).enumerate() {
        let close = (a - e).abs() <= tolerance * e.abs().max(1.0) || a == e || a.is_nan() && e.is_nan();
        assert!(close, "element {i}: {a} instead of {e} in {what:?}");
    }
}
