//! The rules of a payload beyond those of FlatBuffers. `File::parse` checks them once; everything that later looks up values,
//! constants and scales relies on it.
//!
//! Not checked here: whether shapes fit together and whether nodes read what earlier nodes wrote. Who runs the graph
//! finds out when laying it out. Constants under a name are somewhere else, and so is the check of their size.

use super::{
    Constant, Datatype, File, MAX_EXTERNS, MAX_RANK, Operation, PerChannelGroupQuant, Quantization, Scales,
    TensorValue, XNode, XValue,
};
use crate::flatbuf::Scalars;
use crate::pte::{ensure, index, number};
use crate::{Error, Place, Rule};

type Checked = Result<(), Error>;

/// All flags a value can have.
const VALUE_FLAGS: u32 = super::EXTERNAL_INPUT | super::EXTERNAL_OUTPUT;

pub(super) fn check(file: File<'_>) -> Checked {
    let graph = file.graph();
    ensure(file.values().is_present(), Place::File, Rule::ValuesMissing)?;
    ensure(file.nodes().is_present(), Place::File, Rule::NodesMissing)?;
    let externs = graph.num_externs();
    if usize::try_from(externs).map_or(true, |externs| externs > MAX_EXTERNS) {
        return Err(Error::invalid(Place::File, Rule::ExternCount, externs, MAX_EXTERNS));
    }
    let count = file.values().len();
    for (ids, rule) in [(graph.input_ids(), Rule::InputIndex), (graph.output_ids(), Rule::OutputIndex)] {
        ids.iter().try_for_each(|id| index(Place::File, rule, i64::from(id), count))?;
    }
    constants(file)?;
    let mut taken = ExternalIds { count: externs, seen: [0; MAX_EXTERNS / 64] };
    for (i, value) in file.values().iter().enumerate() {
        self::value(file, value, number(i), &mut taken)?;
    }
    file.nodes().iter().enumerate().try_for_each(|(i, node)| self::node(file, node, Place::GraphNode(number(i))))
}

fn constants(file: File<'_>) -> Checked {
    let held = file.header().constant_data_size;
    for i in 1..=number(file.constant_count()) {
        if file.constant(i).is_none() {
            let entry = usize::try_from(i).ok().and_then(|i| file.graph().constant_data().get(i));
            let end = entry.and_then(|entry| entry.offset().checked_add(entry.size())).unwrap_or(u64::MAX);
            return Err(Error::invalid(Place::GraphConstant(i), Rule::ConstantOutside, end, held));
        }
    }
    Ok(())
}

/// The external ids given to values so far.
struct ExternalIds {
    count: u32,
    seen: [u64; MAX_EXTERNS / 64],
}

impl ExternalIds {
    fn take(&mut self, id: u32, place: Place) -> Checked {
        let word = usize::try_from(id / 64).ok().and_then(|word| self.seen.get_mut(word));
        let Some(word) = word.filter(|_| id < self.count) else {
            return Err(Error::invalid(place, Rule::ExternalId, id, self.count));
        };
        let bit = 1 << (id % 64);
        if *word & bit != 0 {
            return Err(Error::invalid(place, Rule::ExternalIdTwice, id, 0));
        }
        *word |= bit;
        Ok(())
    }
}

fn value(file: File<'_>, value: XValue<'_>, id: u32, taken: &mut ExternalIds) -> Checked {
    let (place, tensor) = (Place::GraphValue(id), value.tensor());
    if !tensor.is_present() {
        return Err(Error::invalid(place, Rule::PayloadMissing, value.xvalue_union().code(), 0));
    }
    if tensor.id_out() != id {
        return Err(Error::invalid(place, Rule::ValueId, tensor.id_out(), id));
    }
    if tensor.flags() & !VALUE_FLAGS != 0 {
        return Err(Error::invalid(place, Rule::ValueFlags, tensor.flags(), VALUE_FLAGS));
    }
    if tensor.dq_datatype() != 0 {
        return Err(Error::invalid(place, Rule::DynamicInput, tensor.dq_datatype(), 0));
    }
    shape(tensor, place)?;
    if let Some(constant) = tensor.constant() {
        ensure(tensor.external().is_none(), place, Rule::ConstantExternal)?;
        let size = constant_size(file, constant, Rule::ConstantIndex, place)?;
        if let Some(size) = size.filter(|&size| size < tensor.nbytes()) {
            return Err(Error::invalid(place, Rule::DataSize, size, tensor.nbytes()));
        }
    }
    if let Some(external) = tensor.external() {
        taken.take(external, place)?;
    }
    quantization(file, tensor, value.quantization(), place)
}

/// Element type, number of dimensions and number of bytes. Zero sizes count as one in the overflow check, because
/// strides skip them.
fn shape(tensor: TensorValue<'_>, place: Place) -> Checked {
    if tensor.dtype() == Datatype::Invalid {
        return Err(Error::invalid(place, Rule::DtypeUnknown, tensor.datatype(), Datatype::LAST));
    }
    dimensions(tensor.num_dims(), &[tensor.dims()], place)?;
    let product = tensor.dims().iter().try_fold(u64::from(tensor.dtype().bits()).div_ceil(8), |product, size| {
        product.checked_mul(u64::from(size).max(1)).filter(|&n| i64::try_from(n).is_ok())
    });
    ensure(product.is_some(), place, Rule::TensorTooLarge)
}

/// Checks lists that have one entry per dimension.
fn dimensions(count: u32, lists: &[Scalars<'_, u32>], place: Place) -> Checked {
    if usize::try_from(count).map_or(true, |count| count > MAX_RANK) {
        return Err(Error::invalid(place, Rule::RankTooLarge, count, MAX_RANK));
    }
    match lists.iter().find(|list| number(list.len()) != count) {
        Some(list) => Err(Error::invalid(place, Rule::DimensionCount, list.len(), count)),
        None => Ok(()),
    }
}

/// Bytes of a constant in the payload, `None` if it is somewhere else.
fn constant_size(file: File<'_>, constant: u32, rule: Rule, place: Place) -> Result<Option<u64>, Error> {
    match file.constant(constant) {
        Some(Constant::Bytes(bytes)) => Ok(u64::try_from(bytes.len()).ok()),
        Some(Constant::Named(_)) => Ok(None),
        None => Err(Error::invalid(place, rule, constant, file.constant_count())),
    }
}

fn quantization(file: File<'_>, tensor: TensorValue<'_>, parameters: Quantization<'_>, place: Place) -> Checked {
    let dtype = tensor.dtype();
    if parameters.code() != dtype.scheme() as u8 {
        return Err(Error::invalid(place, Rule::QuantizationKind, parameters.code(), dtype.code()));
    }
    match parameters {
        Quantization::None => Ok(()),
        other if !other.table().is_present() => Err(Error::invalid(place, Rule::PayloadMissing, other.code(), 0)),
        Quantization::PerTensorQuant(parameters) => {
            ensure(is_scale(parameters.scale()), place, Rule::ScaleInvalid)?;
            let range = match dtype {
                Datatype::QInt8 => -128..=127,
                Datatype::QUInt8 => 0..=255,
                _ => 0..=0,
            };
            match parameters.zero_point() {
                point if range.contains(&point) => Ok(()),
                point => Err(Error::invalid(place, Rule::ZeroPoint, point, dtype.code())),
            }
        }
        Quantization::PerChannelQuant(parameters) => {
            let channels = usize::try_from(parameters.channel_dim()).ok().and_then(|dim| tensor.dims().get(dim));
            let channels = channels.ok_or_else(|| {
                Error::invalid(place, Rule::ChannelDimension, parameters.channel_dim(), tensor.rank())
            })?;
            scales(file, parameters.scales(), u64::from(channels), 4, place)
        }
        Quantization::PerTokenDynamicQuant(parameters) => {
            let together = parameters.num_nonbatch_dims();
            match usize::try_from(together) {
                Ok(dims) if dims <= tensor.rank() => Ok(()),
                _ => Err(Error::invalid(place, Rule::TokenDimensions, together, tensor.rank())),
            }
        }
        Quantization::PerChannelGroupQuant(parameters) => groups(file, tensor, parameters, place),
    }
}

fn groups(file: File<'_>, tensor: TensorValue<'_>, parameters: PerChannelGroupQuant<'_>, place: Place) -> Checked {
    let (Some(rows), Some(columns), 2) = (tensor.dims().get(0), tensor.dims().get(1), tensor.rank()) else {
        return Err(Error::invalid(place, Rule::GroupRank, tensor.rank(), 2));
    };
    if parameters.channel_dim() != 0 {
        return Err(Error::invalid(place, Rule::GroupDimension, parameters.channel_dim(), 0));
    }
    let size = parameters.group_size();
    let size = u32::try_from(size).ok().filter(|&n| n > 0 && n.is_multiple_of(32) && columns.is_multiple_of(n));
    let Some(size) = size else {
        return Err(Error::invalid(place, Rule::GroupSize, parameters.group_size(), columns));
    };
    let needed = u64::from(rows).saturating_mul(u64::from(columns / size));
    scales(file, parameters.scales(), needed, 2, place)
}

/// Checks that there are as many scales as `needed`, each of `width` bytes if they are in a constant.
fn scales(file: File<'_>, scales: Scales<'_>, needed: u64, width: u64, place: Place) -> Checked {
    if scales.count() != needed {
        return Err(Error::invalid(place, Rule::ScaleCount, scales.count(), needed));
    }
    match scales {
        Scales::Fp32(scales) => ensure(scales.iter().all(is_scale), place, Rule::ScaleInvalid),
        Scales::Bf16(scales) => {
            let wide = |scale: u16| f32::from_bits(u32::from(scale) << 16);
            ensure(scales.iter().all(|scale| is_scale(wide(scale))), place, Rule::ScaleInvalid)
        }
        Scales::Constant { index, .. } => {
            let (size, bytes) = (constant_size(file, index, Rule::ScaleConstant, place)?, needed.saturating_mul(width));
            match size {
                Some(size) if size < bytes => Err(Error::invalid(place, Rule::DataSize, size, bytes)),
                _ => Ok(()),
            }
        }
    }
}

fn is_scale(scale: f32) -> bool {
    scale.is_finite() && scale > 0.0
}

fn node(file: File<'_>, node: XNode<'_>, place: Place) -> Checked {
    let operation = node.xnode_union();
    if !operation.table().is_present() {
        return Err(Error::invalid(place, Rule::InstructionEmpty, operation.code(), 0));
    }
    ensure(!matches!(operation, Operation::ScaledDotProductAttention(_)), place, Rule::AttentionNode)?;
    let count = file.values().len();
    operation.inputs().try_for_each(|id| index(place, Rule::ArgumentIndex, i64::from(id), count))?;
    for id in operation.outputs() {
        index(place, Rule::ArgumentIndex, i64::from(id), count)?;
        if file.value(id).is_some_and(|value| value.tensor().constant().is_some() || value.tensor().is_input()) {
            return Err(Error::invalid(place, Rule::OutputFixed, id, 0));
        }
    }
    let (low, high) = node.output_range();
    ensure(low <= high, place, Rule::OutputRange)?;
    match operation {
        Operation::StaticTranspose(node) => {
            dimensions(node.num_dims(), &[node.perm()], place)?;
            permutation(node.perm(), place)
        }
        Operation::StaticReshape(node) => dimensions(node.num_dims(), &[node.new_shape()], place),
        Operation::StaticSlice(node) => dimensions(node.num_dims(), &[node.offsets(), node.sizes()], place),
        Operation::StaticConstantPad(node) => {
            dimensions(number(node.pre_paddings().len()), &[node.post_paddings()], place)
        }
        _ => Ok(()),
    }
}

fn permutation(perm: Scalars<'_, u32>, place: Place) -> Checked {
    let mut seen = [false; MAX_RANK];
    for dim in perm.iter() {
        let slot = usize::try_from(dim).ok().filter(|&dim| dim < perm.len()).and_then(|dim| seen.get_mut(dim));
        match slot {
            Some(seen) if !*seen => *seen = true,
            _ => return Err(Error::invalid(place, Rule::DimOrderEntry, dim, perm.len())),
        }
    }
    Ok(())
}
