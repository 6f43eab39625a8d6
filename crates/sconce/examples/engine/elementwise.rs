//! The engine: operations on single numbers, in memory and on threads of its own.

use sconce::graph::engine::{Buffer, Engine, Error, Model, Operand, OperandMut, Options, Run, Session};
use sconce::{ScalarType, graph::*};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) struct Elementwise;

impl Engine for Elementwise {
    fn name(&self) -> &str {
        "elementwise"
    }

    fn takes(&self, graph: &Graph, node: &Node) -> Result<(), String> {
        let (result, is_constant) = (graph.ty(node.outputs[0]), |id| graph.as_constant(id).is_some());
        let fits = |id| graph.ty(id).is(ScalarType::Float) && graph.ty(id).dims == result.dims && !is_constant(id);
        match function(&node.op) {
            None => Err("it has no such function".to_owned()),
            Some(_) if node.then.is_empty() && node.reads().all(fits) => Ok(()),
            Some(_) => Err("it takes float32 numbers of the same sizes, no constants, and no further steps".to_owned()),
        }
    }

    fn model(&self, graph: Graph, _: &Options, _: &dyn Constants) -> Result<Arc<dyn Model>, Error> {
        Ok(Arc::new(Elements(graph)))
    }

    fn buffer(&self, bytes: usize) -> Result<Option<Box<dyn Buffer>>, Error> {
        Ok(Some(Box::new(memory(vec![0; bytes]))))
    }
}

/// What an operation makes of a number, or of two.
fn function(op: &Op) -> Option<Box<dyn Fn(f32, f32) -> f32>> {
    Some(match *op {
        Op::Map(Function::Clamp { low, high }) => Box::new(move |x, _| x.clamp(low, high)),
        Op::Map(Function::Plus { value }) => Box::new(move |x, _| x + value),
        Op::Map(Function::Over { value }) => Box::new(move |x, _| x / value),
        Op::Combine(Combine::Add) => Box::new(|x, y| x + y),
        Op::Combine(Combine::Multiply) => Box::new(|x, y| x * y),
        _ => return None,
    })
}

/// A tensor in the engine's memory. Its thread and the caller share it.
#[derive(Clone)]
struct Memory(Arc<Mutex<Vec<u8>>>);

fn memory(bytes: Vec<u8>) -> Memory {
    Memory(Arc::new(Mutex::new(bytes)))
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buffer for Memory {
    fn read(&self, into: &mut [u8]) -> Result<(), Error> {
        into.copy_from_slice(&self.lock()[..into.len()]);
        Ok(())
    }

    fn write(&mut self, from: &[u8]) -> Result<(), Error> {
        self.lock()[..from.len()].copy_from_slice(from);
        Ok(())
    }
}

struct Elements(Graph);

impl Model for Elements {
    fn graph(&self) -> &Graph {
        &self.0
    }

    fn session(self: Arc<Self>) -> Box<dyn Session> {
        let ((work, jobs), (finish, finished)) = (channel(), channel());
        let model = self.clone();
        // It ends with the session, which holds the other ends.
        std::thread::spawn(move || jobs.iter().map(|job| model.run(job)).try_for_each(|()| finish.send(())));
        Box::new(Caller { model: self, sizes: Vec::new(), work, finished, written: Vec::new() })
    }
}

impl Elements {
    fn run(&self, (read, written): (Vec<Memory>, Vec<Memory>)) {
        let mut values = vec![Vec::new(); self.0.values.len()];
        for (id, memory) in self.0.inputs.iter().zip(read) {
            values[id.index()] = memory.lock().as_chunks().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect();
        }
        for node in &self.0.nodes {
            let (x, y) = (&values[node.inputs[0].index()], &values[node.inputs[node.inputs.len() - 1].index()]);
            let function = function(&node.op).expect("the engine took the node");
            values[node.outputs[0].index()] = x.iter().zip(y).map(|(x, y)| function(*x, *y)).collect();
        }
        for (id, memory) in self.0.outputs.iter().zip(written) {
            let mut bytes = memory.lock();
            bytes.as_chunks_mut().0.iter_mut().zip(&values[id.index()]).for_each(|(to, x)| *to = x.to_ne_bytes());
        }
    }
}

struct Caller {
    model: Arc<Elements>,
    sizes: Vec<Shape>,
    work: Sender<(Vec<Memory>, Vec<Memory>)>,
    finished: Receiver<()>,
    written: Vec<Memory>,
}

impl Session for Caller {
    fn plan(&mut self, inputs: &[&[usize]], _width: usize) -> Result<&[Shape], Error> {
        let graph = &self.model.0;
        let sizes = infer(graph, inputs).map_err(Error::Sizes)?;
        // Sizes that were equal when the program was exported need not be now.
        let unlike = |node: &&Node| node.reads().any(|id| sizes[id.index()] != sizes[node.outputs[0].index()]);
        if let Some(node) = graph.nodes.iter().find(unlike) {
            return Err(Error::Sizes(format!("{node} takes numbers of the same sizes")));
        }
        self.sizes = graph.outputs.iter().map(|id| sizes[id.index()].clone()).collect();
        Ok(&self.sizes)
    }

    fn submit(&mut self, _: &Run<'_>, inputs: &[Operand<'_>], outputs: &mut [OperandMut<'_>]) -> Result<(), Error> {
        let foreign = || Error::Failed("the memory is another engine's".to_owned());
        let read = inputs.iter().map(|input| match input {
            Operand::Host(bytes) => Ok(memory(bytes.to_vec())),
            Operand::Device(buffer) => buffer.downcast_ref().cloned().ok_or_else(foreign),
        });
        let written = outputs.iter().map(|output| match output {
            OperandMut::Host(bytes) => Ok(memory(vec![0; bytes.len()])),
            OperandMut::Device(buffer) => buffer.downcast_ref().cloned().ok_or_else(foreign),
        });
        self.written = written.collect::<Result<_, _>>()?;
        let job = (read.collect::<Result<_, _>>()?, self.written.clone());
        self.work.send(job).map_err(|error| Error::Failed(error.to_string()))
    }

    fn wait(&mut self, outputs: &mut [OperandMut<'_>]) -> Result<(), Error> {
        self.finished.recv().map_err(|error| Error::Failed(error.to_string()))?;
        outputs.iter_mut().zip(&self.written).try_for_each(|(output, memory)| match output {
            OperandMut::Host(bytes) => memory.read(bytes),
            OperandMut::Device(_) => Ok(()),
        })
    }
}
