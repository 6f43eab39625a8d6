//! The CPU as an engine among others.

use crate::model::{Model, Options, Session};
use crate::plan::Plan;
use crate::weights::PACKED;
use sconce_graph::engine::{self, Engine, Error, Operand, OperandMut, Packs, PlanReport, Run, reuse};
use sconce_graph::{Constants, Graph, Node, Shape};
use std::mem::take;
use std::sync::Arc;

/// The engine of this crate. It takes every operation, as long as there is a kernel for the elements.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu;

impl Engine for Cpu {
    fn name(&self) -> &str {
        "cpu"
    }

    fn takes(&self, _: &Graph, _: &Node) -> Result<(), String> {
        Ok(())
    }

    fn model(
        &self,
        graph: Graph,
        options: &engine::Options,
        constants: &dyn Constants,
    ) -> Result<Arc<dyn engine::Model>, Error> {
        Ok(Arc::new(Model::of_valid(graph, Options::of(options)?, constants)?))
    }

    fn packs(&self, options: &engine::Options) -> Option<Packs> {
        let options = Options::of(options).ok()?;
        let exact = if options.exact { " without Winograd's method" } else { "" };
        let kind = format!("{}{exact}", options.isa.name());
        Some(Packs { mark: PACKED, prefix: options.packed_prefix(), kind })
    }
}

impl engine::Model for Model {
    fn graph(&self) -> &Graph {
        self.graph()
    }

    fn session(self: Arc<Self>) -> Box<dyn engine::Session> {
        let session = Model::session(&self);
        Box::new(Caller { model: self, plan: None, session, read: Vec::new(), written: Vec::new() })
    }

    fn report(&self, inputs: &[&[usize]], width: usize) -> Result<PlanReport, Error> {
        Ok(self.report(&*self.plan(inputs, width)?))
    }

    fn packed(&self, sink: &mut dyn FnMut(&str, &[u8])) {
        self.packed(sink);
    }
}

/// One who runs a model.
struct Caller {
    model: Arc<Model>,
    /// The plan of the last run, which is mostly the one of the next.
    plan: Option<Arc<Plan>>,
    session: Session,
    /// Room for the operands of a run.
    read: Vec<&'static [u8]>,
    written: Vec<&'static mut [u8]>,
}

impl engine::Session for Caller {
    fn plan(&mut self, inputs: &[&[usize]], width: usize) -> Result<&[Shape], Error> {
        let plan = match self.plan.take().filter(|plan| plan.suits(inputs, width)) {
            Some(plan) => plan,
            None => self.model.plan(inputs, width)?,
        };
        Ok(self.plan.insert(plan).outputs())
    }

    fn submit(&mut self, run: &Run<'_>, inputs: &[Operand<'_>], outputs: &mut [OperandMut<'_>]) -> Result<(), Error> {
        let plan = self.plan.as_ref().ok_or_else(|| Error::Failed("nothing was planned".to_owned()))?;
        let elsewhere = || Error::Failed("the CPU engine has no access to memory of a device".to_owned());
        let (mut read, mut written) = (reuse(take(&mut self.read)), reuse(take(&mut self.written)));
        for input in inputs {
            let Operand::Host(bytes) = input else { return Err(elsewhere()) };
            read.push(*bytes);
        }
        for output in outputs {
            let OperandMut::Host(bytes) = output else { return Err(elsewhere()) };
            written.push(&mut **bytes);
        }
        let ran = self.model.run(plan, &mut self.session, run.parallel, run.constants, &read, &mut written);
        (self.read, self.written) = (reuse(read), reuse(written));
        ran
    }

    fn watch(&mut self) {
        self.session.watch();
    }

    fn report(&self) -> Option<PlanReport> {
        self.model.times(&self.session)
    }
}
