//! `sconce compile`: where tensors lie, and what instructions came from.
#[allow(dead_code)]
mod support;

use sconce_format::pte::model::{Instruction, Program};
use sconce_format::xnnpack::model::Graph;
use support::{Folder, golden, sconce};

#[test]
fn programs_with_several_arenas_give_the_golden_values() {
    let folder = Folder::new("arenas");
    let mut both = 0;
    for entry in std::fs::read_dir(golden("pt2")).unwrap() {
        let path = entry.unwrap().path();
        let copy = folder.path(path.file_name().unwrap().to_str().unwrap());
        if path.extension().is_some_and(|kind| kind == "npz") {
            std::fs::copy(path, copy).unwrap();
            continue;
        }
        let program = copy.with_extension("pte");
        let [from, to] = [&path, &program].map(|path| path.to_str().unwrap());
        let answer = sconce(["compile", from, "--arena", "1K", "--arena", "any", "-o", to]);
        assert!(answer.code == 0, "{}{}", answer.out, answer.err);
        let file = std::fs::read(&program).unwrap();
        for plan in Program::read(&file).unwrap().plans.iter().filter(|plan| plan.buffer_sizes.len() > 1) {
            assert!(plan.buffer_sizes[0] == 0 && plan.buffer_sizes[1] <= 1024, "{from}: {:?}", plan.buffer_sizes);
            both += usize::from(plan.buffer_sizes.len() == 3 && plan.buffer_sizes[1] > 0);
        }
    }
    assert!(both > 10, "{both} programs with both arenas");
    let answer = sconce(["check", folder.root()]);
    assert!(answer.code == 0 && answer.out.ends_with(" passed, 0 failed\n"), "{}{}", answer.out, answer.err);
}

#[test]
fn an_arena_that_is_too_small_is_named() {
    let (folder, export) = (Folder::new("small-arena"), golden("pt2/encoder.pt2"));
    let (from, to) = (export.to_str().unwrap(), folder.path("encoder.pte"));
    let to = to.to_str().unwrap();
    let answer = sconce(["compile", from, "--arena", "64", "-o", to]);
    assert_eq!(answer.code, 1);
    assert!(answer.err.contains("more than its limit of 64; at instruction "), "{}", answer.err);
    let answer = sconce(["compile", from, "--arena", "plenty", "-o", to]);
    assert_eq!(answer.code, 2);
    assert!(answer.err.contains("write bytes as 4096, 64K, 2M or any"), "{}", answer.err);
    let answer = sconce(["compile", from, "--arena", "0", "--arena", "1M", "-o", to]);
    assert!(answer.out.contains(" bytes of planned memory (0 + "), "{}{}", answer.out, answer.err);
}

#[test]
fn the_debug_map_leads_from_the_program_to_the_export() {
    let (folder, export) = (Folder::new("debug-map"), golden("pt2/encoder.pt2"));
    let (program, map) = (folder.path("encoder.pte"), folder.path("map.json"));
    let [from, to, beside] = [&export, &program, &map].map(|path| path.to_str().unwrap());
    let answer = sconce(["compile", from, "--backend", "xnnpack", "--debug-map", beside, "-o", to]);
    assert!(answer.code == 0, "{}{}", answer.out, answer.err);
    let map: serde_json::Value = serde_json::from_slice(&std::fs::read(map).unwrap()).unwrap();
    let file = std::fs::read(&program).unwrap();
    let program = Program::read(&file).unwrap();
    let (plan, method) = (&program.plans[0], &map["methods"][0]);
    assert_eq!((&map["version"], method["name"].as_str()), (&1.into(), Some("forward")));
    let nodes = method["nodes"].as_array().unwrap();
    let known: Vec<u64> = nodes.iter().map(|node| node["handle"].as_u64().unwrap()).collect();
    assert!(known.is_sorted() && known.iter().all(|handle| (1..1000).contains(handle)), "{known:?}");
    let linear = nodes.iter().find(|node| node["name"] == "linear").unwrap();
    assert_eq!(linear["target"], "torch.ops.aten.linear.default");
    let instructions = method["instructions"].as_array().unwrap();
    assert_eq!(instructions.len(), plan.chains[0].instructions.len());
    let mut delegates = 0;
    for (index, (told, instruction)) in instructions.iter().zip(&plan.chains[0].instructions).enumerate() {
        assert_eq!(told["index"], index);
        let handles = |of: &serde_json::Value| -> Vec<u64> {
            of["handles"].as_array().unwrap().iter().map(|handle| handle.as_u64().unwrap()).collect()
        };
        assert!(handles(told).iter().all(|handle| known.contains(handle)), "{told}");
        let Instruction::Delegate { delegate, .. } = instruction else { continue };
        let graph = Graph::read(&plan.delegates[*delegate as usize].payload).unwrap();
        let inner = told["delegate"]["nodes"].as_array().unwrap();
        assert_eq!((told["runs"].as_str(), inner.len()), (Some("XnnpackBackend"), graph.nodes.len()));
        for (inner, node) in inner.iter().zip(&graph.nodes) {
            assert_eq!(inner["runs"], node.operation.name());
            assert_eq!(handles(inner), [u64::from(node.debug_handle)]);
            assert!(handles(told).contains(&u64::from(node.debug_handle)));
        }
        delegates += 1;
    }
    assert!(delegates > 0);
}
