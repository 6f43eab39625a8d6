//! Graph in, better graph out.
//!
//! A pass is a function that changes a graph and says how often; it leaves a graph that [`verify`](crate::verify())
//! accepts. Each lives in a file of its own and is tested on graphs in text form.

mod affine;
mod around;
mod attention;
mod concat;
mod dead;
mod float;
mod functions;
mod fuse;
mod numbers;
mod pad;
mod rms_norm;
mod sink;
mod softmax;
mod transpose;

pub use affine::fold_affine;
pub use attention::find_attention;
pub use concat::simplify_concats;
pub use dead::remove_dead;
pub use float::{Takes, compute_in_float, join_conversions};
pub use functions::find_functions;
pub use fuse::fuse_steps;
pub use numbers::fold_numbers;
pub use pad::{fold_pads, pad_integers};
pub use rms_norm::find_rms_norms;
pub use sink::sink_transposes;
pub use softmax::find_safe_softmax;
pub use transpose::simplify_transposes;

#[cfg(test)]
mod testing {
    use crate::graph::{Constants, Source};

    /// Constants that are written out in the graph.
    pub(super) struct Own;

    impl Constants for Own {
        fn bytes<'a>(&'a self, source: &'a Source) -> Option<&'a [u8]> {
            match source {
                Source::Bytes(bytes) => Some(bytes),
                _ => None,
            }
        }
    }
}
