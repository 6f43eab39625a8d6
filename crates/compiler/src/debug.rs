//! What each instruction of a program came from, for those who look at profiles, errors and intermediate results.
//!
//! A program itself has no field for that. Each node of the export has a number, its *handle*: nodes count from 1 in the
//! order of their graph, method by method, as the official exporter counts them. Calls keep the node they came from
//! through all rewriting. The nodes of an XNNPACK payload carry the handle in a field of their own; for the rest there is
//! this map, which is written as JSON beside the program:
//!
//! ```json
//! {"version": 1, "methods": [{
//!   "name": "forward",
//!   "nodes": [{"handle": 1, "name": "linear", "target": "torch.ops.aten.linear.default", "module": "encoder.0",
//!              "lines": [{"file": "model.py", "line": 7, "function": "forward", "code": "return self.encoder(x)"}]}],
//!   "instructions": [{"index": 0, "runs": "XnnpackBackend", "handles": [1],
//!                     "delegate": {"index": 0, "nodes": [{"index": 0, "runs": "FullyConnected", "handles": [1]}]}}]
//! }]}
//! ```
//!
//! An instruction that came of no node (a jump, a copy of what is returned) has no handles; one that came of several (a
//! delegate) has all of them, in ascending order.

use crate::ir::{Delegate, Source};
use sconce_format::pte::model::{Frame, Instruction as Step, Plan};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The handle of what came of no node.
pub const NO_HANDLE: u32 = 65535;

/// What the instructions of a program came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DebugMap {
    /// How this map is written: 1.
    pub version: u32,
    /// The methods that have instructions.
    pub methods: Vec<Method>,
}

impl DebugMap {
    /// The map as JSON.
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// What the instructions of one method came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Method {
    /// Its name.
    pub name: String,
    /// The nodes of the export that instructions came from, by handle.
    pub nodes: Vec<Node>,
    /// The instructions, in order.
    pub instructions: Vec<Instruction>,
}

/// A node of the export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Its number.
    pub handle: u32,
    /// Its name in the export.
    pub name: String,
    /// The operator there, such as `torch.ops.aten.add.Tensor`.
    pub target: String,
    /// The innermost module's name; may be empty.
    pub module: String,
    /// The lines of Python, innermost last; empty if the export has none.
    pub lines: Vec<Line>,
}

/// A line of Python.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// The file.
    pub file: String,
    /// The number of the line.
    pub line: i32,
    /// The function.
    pub function: String,
    /// The text.
    pub code: String,
}

/// An instruction of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Instruction {
    /// Its place in the method.
    pub index: usize,
    /// The operator or backend that it runs, or what else it does: `move`, `jump` or `free`.
    pub runs: String,
    /// The nodes it came from.
    pub handles: Vec<u32>,
    /// What is in the delegate that it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegate: Option<Payload>,
}

/// A delegate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Payload {
    /// Its place in the method.
    pub index: u32,
    /// The nodes of its payload; empty if its writer does not tell them.
    pub nodes: Vec<PayloadNode>,
}

/// A node of a delegate's payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PayloadNode {
    /// Its place in the payload.
    pub index: usize,
    /// What it does.
    pub runs: &'static str,
    /// The nodes of the export it came from.
    pub handles: Vec<u32>,
}

impl Method {
    /// The map of a method: what each of its instructions came from, and the delegates that its table of those is.
    pub(crate) fn new(plan: &Plan<'_>, sources: &[Option<Arc<Source>>], delegates: &[&Delegate]) -> Self {
        let mut nodes: BTreeMap<u32, Node> = BTreeMap::new();
        let mut instructions = Vec::new();
        let steps = plan.chains.iter().flat_map(|chain| &chain.instructions);
        for (index, (step, source)) in steps.zip(sources).enumerate() {
            let part = match step {
                Step::Delegate { delegate, .. } => delegates.get(*delegate as usize).map(|found| (*delegate, *found)),
                _ => None,
            };
            let inside = part.iter().flat_map(|(_, part)| part.calls.iter().filter_map(|call| call.source.as_deref()));
            let all: Vec<&Source> = inside.chain(source.as_deref()).collect();
            for source in &all {
                nodes.entry(source.handle).or_insert_with(|| node(source));
            }
            let mut handles: Vec<u32> = all.iter().map(|source| source.handle).collect();
            handles.sort_unstable();
            handles.dedup();
            let delegate = part.map(|(index, part)| Payload { index, nodes: part.nodes.clone() });
            instructions.push(Instruction { index, runs: runs(plan, step), handles, delegate });
        }
        Self { name: plan.name.clone(), nodes: nodes.into_values().collect(), instructions }
    }
}

fn node(source: &Source) -> Node {
    let line = |frame: Frame| Line {
        file: frame.filename.unwrap_or_default(),
        line: frame.line,
        function: frame.name.unwrap_or_default(),
        code: frame.context.unwrap_or_default(),
    };
    Node {
        handle: source.handle,
        name: source.node.clone(),
        target: source.target.clone(),
        module: source.module.clone(),
        lines: frames(&source.stack_trace).into_iter().map(line).collect(),
    }
}

fn runs(plan: &Plan<'_>, step: &Step) -> String {
    match step {
        Step::Kernel { operator, .. } => plan.operators.get(*operator as usize).map_or_else(String::new, |operator| {
            let separator = if operator.overload.is_empty() { "" } else { "." };
            format!("{}{separator}{}", operator.name, operator.overload)
        }),
        Step::Delegate { delegate, .. } => {
            plan.delegates.get(*delegate as usize).map_or_else(String::new, |delegate| delegate.backend.clone())
        }
        Step::Move { .. } => "move".to_owned(),
        Step::JumpFalse { .. } => "jump".to_owned(),
        Step::Free { .. } => "free".to_owned(),
    }
}

/// Lines of Python, innermost last, from the text of a stack trace.
pub(crate) fn frames(trace: &str) -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut lines = trace.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(rest) = line.trim_start().strip_prefix("File \"") else { continue };
        let mut parts = rest.split("\", line ");
        let filename = parts.next().map(str::to_owned);
        let (number, name) = parts.next().unwrap_or("").split_once(", in ").unwrap_or(("", ""));
        let context =
            lines.next_if(|next| !next.trim_start().starts_with("File \"")).map(|code| code.trim().to_owned());
        let line = number.trim().parse().unwrap_or(0);
        frames.push(Frame { filename, line, name: Some(name.to_owned()), context });
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Call;

    fn source(handle: u32, trace: &str) -> Arc<Source> {
        let (node, target) = (format!("node_{handle}"), "torch.ops.aten.relu.default".to_owned());
        Arc::new(Source { handle, node, target, stack_trace: trace.to_owned(), module: "body".to_owned() })
    }

    #[test]
    fn instructions_lead_to_nodes_and_lines() {
        let mut plan = Plan::new("forward");
        plan.call("aten::relu.out", [0, 1, 1]);
        plan.push(Step::Move { from: 0, to: 1 });
        plan.push(Step::Delegate { delegate: 0, args: Vec::new() });
        plan.delegates.push(sconce_format::pte::model::Delegate {
            backend: "Mine".to_owned(),
            payload: Vec::new().into(),
            inline: false,
            specs: Vec::new(),
        });
        let call = |handle| Call { source: Some(source(handle, "")), ..Call::new("aten::relu", [], Vec::new()) };
        let nodes = vec![PayloadNode { index: 0, runs: "Sum", handles: vec![9] }];
        let calls = vec![call(9), call(4), call(9)];
        let delegate = Delegate { backend: "Mine".to_owned(), nodes, calls, ..Delegate::default() };
        let trace = "  File \"model.py\", line 7, in forward\n    return self.body(x)\n";
        let sources = [Some(source(2, trace)), None, Some(source(9, ""))];
        let method = Method::new(&plan, &sources, &[&delegate]);
        let handles: Vec<&[u32]> = method.instructions.iter().map(|own| &*own.handles).collect();
        assert_eq!(handles, [&[2][..], &[], &[4, 9]]);
        let runs: Vec<&str> = method.instructions.iter().map(|own| &*own.runs).collect();
        assert_eq!(runs, ["aten::relu.out", "move", "Mine"]);
        assert_eq!(method.nodes.iter().map(|node| node.handle).collect::<Vec<_>>(), [2, 4, 9]);
        let json = DebugMap { version: 1, methods: vec![method] }.json();
        let start = "{\"version\":1,\"methods\":[{\"name\":\"forward\",\"nodes\":[{\"handle\":2,\"name\":\"node_2\",\
                     \"target\":\"torch.ops.aten.relu.default\",\"module\":\"body\",\"lines\":[{\"file\":\"model.py\",\
                     \"line\":7,\"function\":\"forward\",\"code\":\"return self.body(x)\"}]}";
        assert!(json.starts_with(start), "{json}");
        let end = "{\"index\":2,\"runs\":\"Mine\",\"handles\":[4,9],\"delegate\":{\"index\":0,\
                   \"nodes\":[{\"index\":0,\"runs\":\"Sum\",\"handles\":[9]}]}}]}]}";
        assert!(json.ends_with(end), "{json}");
    }
}
