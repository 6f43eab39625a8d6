//! Payloads as they are written and read, and what is refused.

use super::*;

fn number(size: i64) -> Extent {
    Extent::Fixed(size)
}

/// `y = slice(x @ w + b)` with a dynamic number of rows.
fn example() -> Graph {
    let mut graph = Graph::default();
    let leaf = |sizes, role| Tensor { role, ..Tensor::new(Element::F32, sizes, Op::Leaf, Vec::new()) };
    let rows = Extent::symbol(0);
    let x = graph.push(leaf(Vec::from([rows.clone(), number(4)]), Role::Input(0)));
    let w = graph.push(leaf(Vec::from([number(3), number(4)]), Role::Constant("w".to_owned())));
    let b = graph.push(leaf(Vec::from([number(3)]), Role::Constant("b".to_owned())));
    let y = Vec::from([rows, number(3)]);
    let y = graph.push(Tensor::new(Element::F32, y, Op::Linear, Vec::from([x, w, b])));
    let half = Extent::Code(Vec::from([Step::Symbol(0), Step::Number(2), Step::Combine(Combine::FloorDivide)]));
    let sliced = Op::Slice { dim: 0, start: half.clone(), step: 1 };
    let sizes = Vec::from([half, number(3)]);
    graph.push(Tensor { role: Role::Output(0), ..Tensor::new(Element::F32, sizes, sliced, Vec::from([y])) });
    graph
}

#[test]
fn payloads_survive_writing() {
    let graph = example();
    assert_eq!(Graph::read(&graph.write()), Ok(graph));
}

#[test]
fn sizes_follow_from_inputs() {
    let graph = example();
    let bound = graph.bind(&[&[6, 4]]).unwrap();
    assert_eq!(bound.sizes.last().unwrap(), &[3, 3]);
    assert!(graph.bind(&[&[6, 5]]).unwrap_err().contains("[6, 5]"));
    assert!(graph.bind(&[&[6]]).is_err());
}

#[test]
fn broken_rules_are_named() {
    let refused = |change: &dyn Fn(&mut Graph)| {
        let mut graph = example();
        change(&mut graph);
        Graph::read(&graph.write()).unwrap_err()
    };
    assert!(refused(&|graph| graph.tensors[3].sources[0] = 4).contains("does not come before it"));
    assert!(refused(&|graph| graph.tensors[3].sources.truncate(1)).contains("not computed from 1 tensors"));
    assert!(refused(&|graph| graph.tensors[4].role = Role::Output(1)).contains("no output 0"));
    assert!(refused(&|graph| graph.tensors[1].element = Element::Q8_0).contains("q8_0"));
    assert!(refused(&|graph| graph.tensors[3].element = Element::Q8_0).contains("only constants"));
    assert!(refused(&|graph| graph.tensors[1].role = Role::Inside).contains("where it comes from"));
}

#[test]
fn changed_payloads_are_read_or_refused() {
    let payload = example().write();
    for at in 0..payload.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut changed = payload.clone();
            changed[at] = value;
            if let Ok(graph) = Graph::read(&changed) {
                let _ = graph.bind(&[&[6, 4]]);
            }
        }
        let _ = Graph::read(&payload[..at]);
    }
}

#[test]
fn payloads_without_identifier_are_read() {
    let mut b = Builder::new();
    let leaf = |b: &mut Builder, id: i32, ne: &[i64], key: Option<&str>, input: bool| {
        let (ne, key) = (b.scalars(ne), b.optional_string(key));
        let none = Slot::Absent;
        b.table(&[
            Slot::I32(id),
            none,
            ne,
            none,
            none,
            none,
            key,
            Slot::Bool(input),
            none,
            Slot::I32(if input { 0 } else { -1 }),
        ])
    };
    let x = leaf(&mut b, 10, &[4, 2], None, true);
    let w = leaf(&mut b, 20, &[4, 3], Some("fc.weight"), false);
    let (ne, sources) = (b.scalars(&[3i64, 2]), b.scalars(&[10i32, 20]));
    let y = b.table(&[Slot::I32(30), Slot::Absent, ne, Slot::I32(20), sources]);
    let (ne, sources, slope) = (b.scalars(&[3i64, 2]), b.scalars(&[30i32]), b.scalars(&0.25f32.to_le_bytes()));
    let none = Slot::Absent;
    let z =
        b.table(&[Slot::I32(40), none, ne, Slot::I32(3), sources, slope, none, none, Slot::Bool(true), Slot::I32(0)]);
    let tensors = b.vector(&[x, w, y, z]);
    let root = b.table(&[tensors]);
    let graph = Graph::read(&b.finish(root, [0; 4])).unwrap();
    assert_eq!(graph.tensors[0].sizes, [number(2), number(4)]);
    assert_eq!(graph.tensors[1].role, Role::Constant("fc.weight".to_owned()));
    assert_eq!((&graph.tensors[2].op, &graph.tensors[2].sources[..]), (&Op::Linear, &[0, 1][..]));
    assert_eq!(graph.tensors[3].op, Op::LeakyRelu { slope: 0.25 });
    assert_eq!((graph.inputs(), graph.outputs()), (Vec::from([0]), Vec::from([3])));
}
