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

#[test]
fn what_was_written_is_told_in_a_sentence() {
    let (folder, export) = (Folder::new("sentence"), golden("pt2/encoder.pt2"));
    let to = folder.path("encoder.pte");
    let answer = sconce(["compile", export.to_str().unwrap(), "--backend", "xnnpack", "-o", to.to_str().unwrap()]);
    let size = std::fs::metadata(&to).unwrap().len() as f64 / 1024.0;
    let begins = format!("wrote {}, {size:.1} KiB: xnnpack runs ", to.display());
    assert!(answer.out.lines().last().is_some_and(|line| line.starts_with(&begins)), "{}", answer.out);
    let names: Vec<_> = std::fs::read_dir(folder.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["encoder.pte"]);
    #[cfg(unix)]
    assert_eq!(sconce(["compile", export.to_str().unwrap(), "-o", "/dev/null"]).code, 0);
}

#[test]
fn all_outputs_are_written_or_none() {
    let folder = Folder::new("all-or-none");
    let (export, to) = (golden("pt2/encoder.pt2"), folder.path("encoder.pte"));
    let map = folder.path("missing/map.json");
    let [export, to, map] = [&export, &to, &map].map(|path| path.to_str().unwrap());
    let answer = sconce(["compile", export, "-o", to, "--debug-map", map]);
    assert!(answer.code == 1 && answer.err.contains("map.json"), "{}", answer.err);
    assert_eq!(std::fs::read_dir(folder.root()).unwrap().count(), 0);
}

#[test]
fn files_that_are_no_exports_get_a_way_out() {
    let folder = Folder::new("no-exports");
    let program = folder.path("d.pte");
    std::fs::copy(golden("mlp.pte"), &program).unwrap();
    let program = program.to_str().unwrap();
    let answer = sconce(["compile", program]);
    assert!(answer.code == 1 && answer.err.contains("is a program already"), "{}", answer.err);
    assert_eq!(std::fs::read(program).unwrap(), std::fs::read(golden("mlp.pte")).unwrap());
    let answer = sconce(["compile", folder.root()]);
    assert!(answer.code == 1 && answer.err.contains("is a folder"), "{}", answer.err);
    let export = folder.path("e.pt2");
    std::fs::copy(golden("pt2/encoder.pt2"), &export).unwrap();
    let export = export.to_str().unwrap();
    let answer = sconce(["compile", export, "-o", export]);
    assert!(answer.code == 2 && answer.err.contains("would be read and written"), "{}", answer.err);
}
