//! An engine for tests: it takes what it is told to, has memory of its own if it is told to, and computes nothing.

use sconce_graph::engine::{Buffer, Engine, Error, Model, Operand, OperandMut, Options, Run, Session};
use sconce_graph::{Constants, Graph, Node, Shape};
use std::sync::Arc;

/// Takes the operations of these names, or all.
pub(crate) struct Toy {
    pub(crate) name: &'static str,
    pub(crate) takes: Option<&'static [&'static str]>,
    pub(crate) has_memory: bool,
}

impl Toy {
    /// One that takes these operations, in words.
    pub(crate) fn taking(name: &'static str, takes: &'static [&'static str]) -> Arc<dyn Engine> {
        Arc::new(Self { name, takes: Some(takes), has_memory: true })
    }

    /// One that takes all.
    pub(crate) fn last(name: &'static str) -> Arc<dyn Engine> {
        Arc::new(Self { name, takes: None, has_memory: false })
    }
}

impl Engine for Toy {
    fn name(&self) -> &str {
        self.name
    }

    fn takes(&self, _: &Graph, node: &Node) -> Result<(), String> {
        let known = self.takes.is_none_or(|takes| takes.contains(&node.op.name()));
        if known { Ok(()) } else { Err("it was not told to".to_owned()) }
    }

    fn model(&self, graph: Graph, _: &Options, _: &dyn Constants) -> Result<Arc<dyn Model>, Error> {
        let unlike = graph.nodes.iter().find(|node| self.takes(&graph, node).is_err());
        match unlike {
            Some(node) => panic!("{} was given {node}", self.name),
            None => Ok(Arc::new(Idle(graph))),
        }
    }

    fn buffer(&self, bytes: usize) -> Result<Option<Box<dyn Buffer>>, Error> {
        Ok(self.has_memory.then(|| Box::new(Own(vec![0xff; bytes])) as Box<dyn Buffer>))
    }
}

/// A model that computes nothing.
struct Idle(Graph);

impl Model for Idle {
    fn graph(&self) -> &Graph {
        &self.0
    }

    fn session(self: Arc<Self>) -> Box<dyn Session> {
        Box::new(Nothing)
    }
}

struct Nothing;

impl Session for Nothing {
    fn plan(&mut self, _: &[&[usize]], _: usize) -> Result<&[Shape], Error> {
        Ok(&[])
    }

    fn submit(&mut self, _: &Run<'_>, _: &[Operand<'_>], _: &mut [OperandMut<'_>]) -> Result<(), Error> {
        Err(Error::Failed("a toy computes nothing".to_owned()))
    }
}

/// Its memory.
pub(crate) struct Own(pub(crate) Vec<u8>);

impl Buffer for Own {
    fn read(&self, into: &mut [u8]) -> Result<(), Error> {
        into.copy_from_slice(&self.0[..into.len()]);
        Ok(())
    }

    fn write(&mut self, from: &[u8]) -> Result<(), Error> {
        self.0[..from.len()].copy_from_slice(from);
        Ok(())
    }
}
