//! Which instructions a kernel may use.
//!
//! A token ([`Avx2`], [`Avx512`], [`Vnni`], [`Neon`], ...) exists only where its instructions do: its one constructor checks.
//! Holding the token is therefore the proof that a function compiled for those instructions may be called. [`Isa`] is the
//! choice among them; [`Isa::vectorize`] runs a closure compiled for the chosen set, which is how plain loops become
//! vector code. Whoever has no reason to choose takes [`Isa::detect`]'s, which is one for the whole process.
#![allow(unsafe_code, reason = "calls of functions compiled for more instructions than the baseline")]

macro_rules! sets {
    ($($(#[$doc:meta])* $token:ident, $name:literal, $arch:literal, [$($feature:tt),+], $detect:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $token(());

            impl $token {
                /// The token, where this machine has the instructions.
                pub fn detect() -> Option<Self> {
                    #[cfg(all(target_arch = $arch, feature = "std"))]
                    let found = true $(&& std::arch::$detect!($feature))+;
                    #[cfg(not(all(target_arch = $arch, feature = "std")))]
                    let found = cfg!(all(target_arch = $arch $(, target_feature = $feature)+));
                    found.then_some(Self(()))
                }
            }
        )*

        /// The instruction set a kernel is to use.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Isa {
            /// What the compiler's target guarantees.
            Scalar,
            $($(#[$doc])* $token($token),)*
        }

        impl Isa {
            /// Every set this machine has, the widest last.
            pub fn available() -> impl Iterator<Item = Self> {
                let vector = [$($token::detect().map(Self::$token)),*];
                core::iter::once(Self::Scalar).chain(vector.into_iter().flatten())
            }

            /// The name by which a set is asked for and printed.
            pub fn name(self) -> &'static str {
                match self {
                    Self::Scalar => "scalar",
                    $(Self::$token(_) => $name,)*
                }
            }
        }
    };
}
sets! {
    /// AVX2 and FMA: 256-bit vectors on x86-64.
    Avx2, "avx2", "x86_64", ["avx2", "fma"], is_x86_feature_detected;
    /// AVX-512 F, BW, DQ and VL, with AVX2 and FMA: 512-bit vectors on x86-64.
    Avx512, "avx512", "x86_64", ["avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma"],
        is_x86_feature_detected;
    /// The same, with dot products of bytes.
    Vnni, "vnni", "x86_64", ["avx512vnni", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma"],
        is_x86_feature_detected;
    /// 128-bit vectors on aarch64.
    Neon, "neon", "aarch64", ["neon"], is_aarch64_feature_detected;
    /// The same, with dot products of bytes.
    Dotprod, "dotprod", "aarch64", ["dotprod", "neon"], is_aarch64_feature_detected;
    /// The same, with products of small matrices of bytes.
    I8mm, "i8mm", "aarch64", ["i8mm", "dotprod", "neon"], is_aarch64_feature_detected;
}

impl From<I8mm> for Dotprod {
    fn from(_: I8mm) -> Self {
        Self(())
    }
}

/// The set of this process, from the first question on.
#[cfg(feature = "std")]
static CHOSEN: std::sync::OnceLock<Isa> = std::sync::OnceLock::new();

impl Isa {
    /// The set that kernels use unless they are told otherwise: the widest this machine has, or what was chosen for the
    /// process before.
    pub fn detect() -> Self {
        #[cfg(feature = "std")]
        return *CHOSEN.get_or_init(Self::widest);
        #[cfg(not(feature = "std"))]
        Self::widest()
    }

    /// Makes this set what [`Isa::detect`] gives, unless it has given another one already, which is the error. Weights
    /// are packed for a set, so a process never changes it.
    #[cfg(feature = "std")]
    pub fn choose(self) -> Result<(), Self> {
        let chosen = *CHOSEN.get_or_init(|| self);
        if chosen == self { Ok(()) } else { Err(chosen) }
    }

    fn widest() -> Self {
        Self::available().last().unwrap_or(Self::Scalar)
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
    fn every_set_has_a_name_of_its_own() {
        let names: Vec<_> = Isa::available().map(Isa::name).collect();
        assert!((1..names.len()).all(|i| !names[..i].contains(&names[i])), "{names:?}");
    }

    #[test]
    #[cfg(feature = "std")]
    fn a_process_keeps_its_set() {
        let chosen = Isa::detect();
        for isa in Isa::available() {
            assert_eq!(isa.choose(), if isa == chosen { Ok(()) } else { Err(chosen) });
        }
    }

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
