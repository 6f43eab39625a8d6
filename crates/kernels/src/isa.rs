//! Which instructions a kernel may use.
//!
//! A token ([`Avx2`], [`Avx512`], [`Vnni`], [`Neon`]) exists only where its instructions do: its one constructor checks.
//! Holding the token is therefore the proof that a function compiled for those instructions may be called. [`Isa`] is the
//! choice among them; [`Isa::vectorize`] runs a closure compiled for the chosen set, which is how plain loops become
//! vector code.
#![allow(unsafe_code, reason = "calls of functions compiled for more instructions than the baseline")]

macro_rules! tokens {
    ($($(#[$doc:meta])* $name:ident, $arch:literal, [$($feature:tt),+], $detect:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(());

        impl $name {
            /// The token, where this machine has the instructions.
            pub fn detect() -> Option<Self> {
                #[cfg(all(target_arch = $arch, feature = "std"))]
                let found = true $(&& std::arch::$detect!($feature))+;
                #[cfg(not(all(target_arch = $arch, feature = "std")))]
                let found = cfg!(all(target_arch = $arch $(, target_feature = $feature)+));
                found.then_some(Self(()))
            }
        }
    )*};
}
tokens! {
    /// Proof of AVX2 and FMA.
    Avx2, "x86_64", ["avx2", "fma"], is_x86_feature_detected;
    /// Proof of AVX-512 F, BW, DQ and VL, with AVX2 and FMA.
    Avx512, "x86_64", ["avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma"], is_x86_feature_detected;
    /// Proof of AVX-512 VNNI, with all that [`Avx512`] proves.
    Vnni, "x86_64", ["avx512vnni", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma"], is_x86_feature_detected;
    /// Proof of the 64-bit ARM vector unit.
    Neon, "aarch64", ["neon"], is_aarch64_feature_detected;
}

/// The instruction set a kernel is to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// What the compiler's target guarantees.
    Scalar,
    /// 256-bit vectors on x86-64.
    Avx2(Avx2),
    /// 512-bit vectors on x86-64.
    Avx512(Avx512),
    /// The same, with dot products of bytes.
    Vnni(Vnni),
    /// 128-bit vectors on aarch64.
    Neon(Neon),
}

impl Isa {
    /// The widest set this machine has.
    pub fn detect() -> Self {
        // The standard library caches what it asks the processor.
        Self::available().last().unwrap_or(Self::Scalar)
    }

    /// Every set this machine has, the widest last.
    pub fn available() -> impl Iterator<Item = Self> {
        let vector = [
            Avx2::detect().map(Self::Avx2),
            Avx512::detect().map(Self::Avx512),
            Vnni::detect().map(Self::Vnni),
            Neon::detect().map(Self::Neon),
        ];
        core::iter::once(Self::Scalar).chain(vector.into_iter().flatten())
    }

    /// Runs `body` compiled for this set. Loops in it, and in what inlines into it, vectorise accordingly.
    ///
    /// The closure must be marked, `isa.vectorize(#[inline(always)] || ...)`: what is not inlined is compiled for the
    /// baseline, and there is no sign of it but the time it takes.
    #[inline(always)]
    pub fn vectorize<R>(self, body: impl FnOnce() -> R) -> R {
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the token proves that the instructions exist.
            Self::Avx2(Avx2(())) => unsafe { avx2(body) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the token proves that the instructions exist.
            Self::Avx512(Avx512(())) | Self::Vnni(Vnni(())) => unsafe { avx512(body) },
            // The baseline of aarch64 includes NEON.
            _ => body(),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2<R>(body: impl FnOnce() -> R) -> R {
    body()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
fn avx512<R>(body: impl FnOnce() -> R) -> R {
    body()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_runs_the_body() {
        assert!(Isa::available().any(|isa| isa == Isa::detect()));
        for isa in Isa::available() {
            let input: Vec<f32> = (0..100).map(|i| i as f32).collect();
            let total = isa.vectorize(
                #[inline(always)]
                || input.iter().map(|x| x * 2.0).sum::<f32>(),
            );
            assert_eq!(total, 9900.0);
        }
    }
}
