use super::*;
use crate::pte;
use std::path::Path;
use std::vec::Vec;

/// The XNNPACK payloads of a program file, in order.
fn payloads(program: &[u8]) -> Vec<Vec<u8>> {
    let size = program.len() as u64;
    let header = pte::Header::parse(&program[..pte::HEAD_BYTES], size).unwrap();
    let file = pte::File::parse(program, header, size).unwrap();
    let delegates = file.program().execution_plan().iter().flat_map(|plan| plan.delegates().iter().collect::<Vec<_>>());
    let ours = delegates.filter(|delegate| delegate.id() == Some("XnnpackBackend"));
    ours.map(|delegate| match file.delegate_payload(delegate).unwrap() {
        pte::Payload::Inline(bytes) => bytes.to_vec(),
        pte::Payload::Segment(range) => program[range.start as usize..range.end as usize].to_vec(),
    })
    .collect()
}

fn golden(name: &str) -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/xnnpack").join(name);
    payloads(&std::fs::read(path).unwrap())
}

/// A convolution of 3 to 8 channels, limited to 0..6, and max pooling on a 1x3x8x8 image, computed in channels-last.
#[test]
fn exported_convolution() {
    let [payload] = &golden("xnnpack_conv.pte")[..] else { panic!("one payload") };
    let file = File::parse(payload).unwrap();
    let names: Vec<_> = file.nodes().iter().map(|node| node.xnode_union().name()).collect();
    assert_eq!(names, ["StaticTranspose", "Conv2d", "MaxPooling2d", "StaticTranspose"]);
    let nodes: Vec<_> = file.nodes().iter().collect();
    assert_eq!(nodes[1].output_range(), (0.0, 6.0));
    assert_eq!(nodes[2].output_range(), (f32::NEG_INFINITY, f32::INFINITY));
    let Operation::Conv2d(conv) = nodes[1].xnode_union() else { panic!("a convolution") };
    let operands: Vec<_> = nodes[1].xnode_union().inputs().collect();
    assert_eq!(operands, [conv.input1_id(), conv.filter_id(), conv.bias_id()]);
    assert_eq!(nodes[1].xnode_union().outputs().collect::<Vec<_>>(), [conv.output_id()]);
    let filter = file.value(conv.filter_id()).unwrap().tensor();
    assert_eq!(filter.dims().iter().collect::<Vec<_>>(), [8, 3, 3, 3]);
    assert_eq!((filter.dtype(), filter.numel(), filter.nbytes()), (Datatype::Fp32, 216, 864));
    assert!(matches!(file.constant(filter.constant().unwrap()), Some(Constant::Named(key)) if key.len() == 64));
    let externs: Vec<_> = file.externs().map(|(_, tensor)| (tensor.external(), tensor.is_input())).collect();
    assert!(externs.contains(&(Some(0), true)) && externs.contains(&(Some(1), false)) && externs.len() == 2);
}
