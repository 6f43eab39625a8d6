//! `sconce compile`: where tensors lie.
#[allow(dead_code)]
mod support;

use sconce_format::pte::model::Program;
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
