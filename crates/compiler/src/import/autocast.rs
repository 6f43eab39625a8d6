//! What torch casts by itself: inside of `torch.autocast`, operators take their arguments in another precision than the graph
//! says. Here those casts become calls.

use super::Importer;
use super::graph::Scope;
use crate::ir::{Arg, Kind, Origin, ValueId};
use sconce_format::ScalarType;
use sconce_pt2::schema::Argument;
use std::borrow::Cow;

/// Operators that take their arguments in the lower precision.
const LOWER: &[&str] = &[
    "_convolution",
    "addbmm",
    "addmm",
    "baddbmm",
    "bmm",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "linalg_vecdot",
    "linear",
    "matmul",
    "mm",
    "prelu",
    "scaled_dot_product_attention",
];

/// Operators that take their arguments as float32.
const FULL: &[&str] = &[
    "avg_pool3d",
    "binary_cross_entropy",
    "cdist",
    "cosine_embedding_loss",
    "cosine_similarity",
    "ctc_loss",
    "fft_fft",
    "fft_fft2",
    "fft_fftn",
    "fft_hfft",
    "fft_ifft",
    "fft_ifft2",
    "fft_ifftn",
    "fft_ihfft",
    "fft_irfft",
    "fft_irfft2",
    "fft_irfftn",
    "fft_rfft",
    "fft_rfft2",
    "fft_rfftn",
    "grid_sampler",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "linalg_cholesky",
    "linalg_cond",
    "linalg_eig",
    "linalg_eigh",
    "linalg_householder_product",
    "linalg_inv",
    "linalg_lstsq",
    "linalg_matrix_rank",
    "linalg_qr",
    "linalg_solve",
    "linalg_svd",
    "linalg_svdvals",
    "linalg_tensorinv",
    "linalg_tensorsolve",
    "margin_ranking_loss",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "nanquantile",
    "nll_loss",
    "nll_loss2d",
    "poisson_nll_loss",
    "polar",
    "prod",
    "quantile",
    "smooth_l1_loss",
    "stft",
    "trace",
    "triplet_margin_loss",
    "view_as_complex",
];

/// Operators whose arguments become the widest of their types.
const WIDEST: &[&str] = &["cat", "index_copy", "stack"];

/// What `wrap_with_autocast` sets with its arguments: device, type, whether it is on, whether casts are kept.
pub(super) fn setting(arguments: &[&Argument], outer: Option<ScalarType>) -> Option<ScalarType> {
    match arguments {
        [Argument::String(device), ..] if device != "cpu" => outer,
        [_, dtype, Argument::Bool(true), ..] => match dtype {
            Argument::Dtype(dtype) => Some(dtype.0),
            _ => Some(ScalarType::BFloat16),
        },
        _ => None,
    }
}

/// Whether autocast touches a type.
fn is_cast(dtype: ScalarType) -> bool {
    matches!(dtype, ScalarType::Float | ScalarType::Half | ScalarType::BFloat16)
}

impl<'m> Importer<'m, '_> {
    /// Casts the arguments of an operator as torch does, and says to which type.
    pub(super) fn autocast(
        &mut self,
        namespace: &str,
        base: &str,
        args: &mut [(Cow<'static, str>, Arg)],
        scope: &mut Scope<'m>,
    ) -> Option<ScalarType> {
        let lower = self.autocast.filter(|_| namespace == "aten")?;
        let to = match base {
            _ if LOWER.contains(&base) => lower,
            _ if FULL.contains(&base) => ScalarType::Float,
            _ if WIDEST.contains(&base) => self.widest(args)?,
            _ => return None,
        };
        for (_, arg) in args {
            arg.replace(&mut |value| self.cast(value, to, scope));
        }
        Some(to)
    }

    /// Brings the results of the last call into the types that the file says, which need not know of the cast.
    pub(super) fn cast_results(&mut self, to: ScalarType, scope: &mut Scope<'m>) {
        let Some(mut call) = scope.calls.pop() else { return };
        let mut casts = Vec::new();
        for output in &mut call.outputs {
            let Some(ty) = self.function.tensor(*output).filter(|ty| is_cast(ty.dtype) && ty.dtype != to) else {
                continue;
            };
            let (dtype, own) = (ty.dtype, ty.with_dtype(to));
            let made = self.function.value(Kind::Tensor(own), Origin::Call, "cast");
            let args = [("self", made.into()), ("dtype", dtype.into())];
            casts.push(crate::ir::Call::new("aten::_to_copy", args, vec![std::mem::replace(output, made)]));
        }
        scope.calls.push(call);
        scope.calls.extend(casts);
    }

    fn widest(&self, args: &[(Cow<'static, str>, Arg)]) -> Option<ScalarType> {
        let mut found = Vec::new();
        let mut note = |value: ValueId| found.extend(self.function.tensor(value).map(|ty| ty.dtype));
        args.iter().for_each(|(_, arg)| arg.values(&mut note));
        found.retain(|&dtype| is_cast(dtype));
        let differ = found.iter().any(|dtype| *dtype != found[0]);
        found.first().map(|&first| if differ { ScalarType::Float } else { first })
    }

    fn cast(&mut self, value: ValueId, to: ScalarType, scope: &mut Scope<'m>) -> ValueId {
        let Some(ty) = self.function.tensor(value).filter(|ty| is_cast(ty.dtype) && ty.dtype != to) else {
            return value;
        };
        let ty = ty.with_dtype(to);
        let cast = self.function.value(Kind::Tensor(ty), Origin::Call, "cast");
        let args = [("self", value.into()), ("dtype", to.into())];
        scope.calls.push(crate::ir::Call::new("aten::_to_copy", args, vec![cast]));
        cast
    }
}
