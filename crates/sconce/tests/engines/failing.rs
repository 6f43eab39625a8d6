//! An engine that computes as the CPU does, and fails when it is told to.

use sconce::graph::engine::{Engine, Error, Model, Operand, OperandMut, Options, Run, Session};
use sconce::graph::{Constants, Graph, Node, Shape};
use sconce_cpu::Cpu;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Takes one operation; of the name `refuse`, any, and then refuses to make a model.
pub(crate) struct Failing {
    operation: &'static str,
    switch: Switch,
}

/// Whether runs fail.
#[derive(Clone, Default)]
pub(crate) struct Switch(Arc<AtomicBool>);

impl Switch {
    pub(crate) fn set(&self, fails: bool) {
        self.0.store(fails, SeqCst);
    }
}

impl Failing {
    pub(crate) fn new(operation: &'static str) -> (Self, Switch) {
        let switch = Switch::default();
        (Self { operation, switch: switch.clone() }, switch)
    }
}

impl Engine for Failing {
    fn name(&self) -> &str {
        "failing"
    }

    fn takes(&self, _: &Graph, node: &Node) -> Result<(), String> {
        match self.operation == "refuse" || self.operation == node.op.name() {
            true => Ok(()),
            false => Err(format!("it runs {} alone", self.operation)),
        }
    }

    fn model(&self, graph: Graph, options: &Options, constants: &dyn Constants) -> Result<Arc<dyn Model>, Error> {
        if self.operation == "refuse" {
            return Err(Error::Refused("it does not run whole pieces".to_owned()));
        }
        Ok(Arc::new(FailingModel(Cpu.model(graph, options, constants)?, self.switch.clone())))
    }
}

struct FailingModel(Arc<dyn Model>, Switch);

impl Model for FailingModel {
    fn graph(&self) -> &Graph {
        self.0.graph()
    }

    fn session(self: Arc<Self>) -> Box<dyn Session> {
        Box::new(FailingSession(self.0.clone().session(), self.1.clone()))
    }
}

struct FailingSession(Box<dyn Session>, Switch);

impl Session for FailingSession {
    fn plan(&mut self, inputs: &[&[usize]], width: usize) -> Result<&[Shape], Error> {
        self.0.plan(inputs, width)
    }

    fn submit(&mut self, run: &Run<'_>, inputs: &[Operand<'_>], outputs: &mut [OperandMut<'_>]) -> Result<(), Error> {
        match self.1.0.load(SeqCst) {
            true => Err(Error::Failed("the device went away".to_owned())),
            false => self.0.submit(run, inputs, outputs),
        }
    }

    fn wait(&mut self, outputs: &mut [OperandMut<'_>]) -> Result<(), Error> {
        self.0.wait(outputs)
    }
}
