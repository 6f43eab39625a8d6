//! What the tests of the command need: folders, arrays, small programs, and the command itself.
use sconce_format::ScalarType;
use sconce_format::pte::model::{Memory, Plan, Program, Storage, Tensor, Value};
use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

/// What the command answered.
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs the command.
pub(crate) fn sconce<A: IntoIterator<Item: AsRef<OsStr>>>(arguments: A) -> Answer {
    let output = Command::new(env!("CARGO_BIN_EXE_sconce")).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Answer { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

/// A golden program of the repository.
pub(crate) fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

/// A folder that is removed in the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sconce-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn root(&self) -> &str {
        self.0.to_str().unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file and gives its path.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> String {
        std::fs::write(self.path(name), bytes).unwrap();
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Writes an archive of arrays.
    pub(crate) fn write_npz(&self, name: &str, arrays: &[(&str, &Vec<u8>)]) -> String {
        let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (key, array) in arrays {
            archive.start_file(format!("{key}.npy"), zip::write::SimpleFileOptions::default()).unwrap();
            archive.write_all(array).unwrap();
        }
        self.write(name, &archive.finish().unwrap().into_inner())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An array as `numpy.save` writes it.
pub(crate) fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape},), }}\n");
    let len = u16::try_from(header.len()).unwrap().to_le_bytes();
    [b"\x93NUMPY\x01\x00", &len[..], header.as_bytes(), data].concat()
}

/// A float32 array.
pub(crate) fn floats(values: &[f32], shape: &str) -> Vec<u8> {
    npy("<f4", shape, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
}

fn planned(sizes: impl Into<Vec<i32>>, offset: u64) -> Tensor {
    Tensor::new(ScalarType::Float, sizes, Storage::Planned(Memory { id: 1, offset }))
}

/// `forward(x, y) = x + y` on float32 [2, 2].
pub(crate) fn adder() -> Program<'static> {
    let mut plan = Plan::new("forward");
    let [x, y, sum] = [0, 16, 32].map(|offset| plan.value(planned([2, 2], offset)));
    let alpha = plan.value(Value::Int(1));
    plan.call("aten::add.out", [x, y, alpha, sum, sum]);
    (plan.inputs, plan.outputs, plan.buffer_sizes) = (vec![x, y], vec![sum], vec![0, 48]);
    Program { plans: vec![plan], ..Program::default() }
}

/// `forward(x)` adds x to a buffer that starts at 100 and gives it; `square(x) = x * x`.
pub(crate) fn counter() -> Program<'static> {
    let mut forward = Plan::new("forward");
    let storage = Storage::Initialised(Memory { id: 1, offset: 0 }, 0);
    let count = forward.value(Tensor::new(ScalarType::Float, [1], storage));
    let x = forward.value(planned([1], 16));
    let alpha = forward.value(Value::Int(1));
    forward.call("aten::add.out", [count, x, alpha, count, count]);
    (forward.inputs, forward.outputs, forward.buffer_sizes) = (vec![x], vec![count], vec![0, 20]);
    let mut square = Plan::new("square");
    let [x, y] = [0, 16].map(|offset| square.value(planned([1], offset)));
    square.call("aten::mul.out", [x, x, y, y]);
    (square.inputs, square.outputs, square.buffer_sizes) = (vec![x], vec![y], vec![0, 20]);
    let initial_states = vec![100f32.to_le_bytes().to_vec().into()];
    Program { plans: vec![forward, square], initial_states, ..Program::default() }
}

/// A program from float32 [2] to float32 [2] that does whatever `body` adds.
pub(crate) fn shape_only(body: impl FnOnce(&mut Plan<'static>, u32, u32)) -> Vec<u8> {
    let mut plan = Plan::new("forward");
    let [x, y] = [0, 16].map(|offset| plan.value(planned([2], offset)));
    body(&mut plan, x, y);
    (plan.inputs, plan.outputs, plan.buffer_sizes) = (vec![x], vec![y], vec![0, 24]);
    Program { plans: vec![plan], ..Program::default() }.write()
}

/// A program from float32 [2] to float32 [2] that goes through int8 in steps of 0.5; what `rest` makes of the numbers is the
/// output.
pub(crate) fn quantised(rest: impl FnOnce(&mut Plan<'static>, u32) -> u32) -> Vec<u8> {
    let mut plan = Plan::new("forward");
    let [x, y] = [0, 16].map(|offset| plan.value(planned([2], offset)));
    let small = plan.value(Tensor::new(ScalarType::Char, [2], Storage::Planned(Memory { id: 1, offset: 32 })));
    let scale = plan.value(Value::Double(0.5));
    let [zero, least, most, char] = [0, -128, 127, 1].map(|number| plan.value(Value::Int(number)));
    let none = plan.value(Value::Null);
    plan.call("quantized_decomposed::quantize_per_tensor.out", [x, scale, zero, least, most, char, small, small]);
    plan.call("quantized_decomposed::dequantize_per_tensor.out", [small, scale, zero, least, most, char, none, y, y]);
    let output = rest(&mut plan, y);
    (plan.inputs, plan.outputs, plan.buffer_sizes) = (vec![x], vec![output], vec![0, 128]);
    Program { plans: vec![plan], ..Program::default() }.write()
}

/// Another float32 [2], for what a test adds to a program.
pub(crate) fn further(plan: &mut Plan<'static>, offset: u64) -> u32 {
    plan.value(planned([2], offset))
}
