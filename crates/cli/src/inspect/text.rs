//! A report as people read it.
use super::{Entry, MemoryReport, MethodReport, PlannedReport, ProgramReport, Report, Segment};
use crate::failure::Failure;
use crate::listing::Line;
use crate::print::{Cut, bytes, table};
use crate::{names, paint};
use std::io::Write;

impl Report {
    pub(super) fn print(&self, out: &mut dyn Write) -> Result<(), Failure> {
        match self {
            Report::Program(program) => program.print(out),
            Report::Tensors { file, bytes: size, entries } => {
                writeln!(out, "{file}: data, {} in {} entries", bytes(*size), entries.len())?;
                print_entries(out, entries)
            }
            Report::Bundle { file, bytes: size, tests, program } => {
                writeln!(out, "{file}: bundled program, {}", bytes(*size))?;
                for suite in tests {
                    writeln!(out, "  {} test case(s) for `{}`", suite.cases, suite.method)?;
                }
                program.print(out)
            }
        }
    }
}

/// Of how many segments or named entries a program may have to see each in print. The exporter gives every weight one; JSON
/// always has them all.
const LISTED: usize = 8;

fn print_entries(out: &mut dyn Write, entries: &[Entry]) -> Result<(), Failure> {
    let row = |entry: &Entry| {
        vec![entry.name.clone(), entry.tensor.clone().unwrap_or_else(|| "opaque".to_owned()), bytes(entry.bytes)]
    };
    Ok(table(out, "  ", &entries.iter().map(row).collect::<Vec<_>>(), &[])?)
}

impl ProgramReport {
    fn print(&self, out: &mut dyn Write) -> Result<(), Failure> {
        writeln!(out, "{}: program, {}", paint::heading(&self.file), bytes(self.bytes))?;
        let mut rows = vec![vec!["methods and metadata".to_owned(), bytes(self.program_bytes)]];
        rows.push(vec!["constants".to_owned(), bytes(self.constant_bytes)]);
        if self.segments.len() > LISTED {
            rows.push(vec![
                format!("{} segments", self.segments.len()),
                bytes(self.segments.iter().map(|segment| segment.size).sum()),
            ]);
        } else {
            let row = |(index, segment): (usize, &Segment)| vec![format!("segment {index}"), bytes(segment.size)];
            rows.extend(self.segments.iter().enumerate().map(row));
        }
        let named = &self.named_data;
        if named.len() > LISTED {
            let size = named.iter().map(|entry| entry.bytes).sum();
            rows.push(vec![format!("named data, {} entries", named.len()), bytes(size)]);
        }
        table(out, "  ", &rows, &[])?;
        if (1..=LISTED).contains(&named.len()) {
            writeln!(out, "  named data")?;
            print_entries(out, named)?;
        }
        self.methods.iter().try_for_each(|method| method.print(out))
    }
}

impl MethodReport {
    fn print(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let heading = format!("method `{}`, {} instruction(s)", self.name, self.instructions);
        writeln!(out, "\n{}", paint::heading(&heading))?;
        for (name, ports) in [("in", &self.inputs), ("out", &self.outputs)] {
            let rows = ports.iter().enumerate();
            let rows = rows.map(|(index, port)| (format!("{name}{index}"), port.name.as_deref(), port.text.clone()));
            table(out, "  ", &names::rows(rows), &[])?;
        }
        let availability = |present: bool| if present { String::new() } else { paint::bad("not in this build") };
        section(out, "operators", &self.operators, |row| {
            let part = |count: usize, path: &str| match count {
                0 => None,
                count if count == row.calls => Some(path.to_owned()),
                count => Some(format!("{count} of them {path}")),
            };
            let paths = [part(row.planned, "planned"), part(row.once, "once, at load")];
            let path = paths.into_iter().flatten().collect::<Vec<_>>().join(", ");
            let path = if row.present { path } else { availability(false) };
            vec![format!("{} x", row.calls), row.name.clone(), path]
        })?;
        section(out, "delegates", &self.delegates, |row| {
            vec![row.backend.clone(), bytes(row.payload_bytes), availability(row.present)]
        })?;
        let PlannedReport { calls, of, reason, runs } = &self.planned;
        if *of > 0 || !runs.is_empty() {
            let reason = reason.as_ref().map_or_else(String::new, |reason| format!("; {reason}"));
            writeln!(out, "  {calls} of {of} kernel calls are planned, in {} run(s){reason}", runs.len())?;
        }
        section(out, "external tensors", &self.external, |row| {
            let given = if row.present { "" } else { "not given: pass its file with --data" };
            vec![row.name.clone(), bytes(row.bytes), given.to_owned()]
        })?;
        self.memory.print(out)?;
        let out = &mut Cut::new(out);
        section(out, "plan", self.plan.as_deref().unwrap_or_default(), Line::row)?;
        for (index, delegate) in self.delegates.iter().enumerate().filter(|(_, delegate)| !delegate.steps.is_empty()) {
            writeln!(out, "  delegate {index}, {}", delegate.backend)?;
            delegate.steps.iter().try_for_each(|step| writeln!(out, "    {step}"))?;
        }
        for run in self.planned.runs.iter().filter(|run| !run.steps.is_empty()) {
            writeln!(out, "  instructions {} to {}, {} calls", run.first, run.last, run.calls)?;
            run.steps.iter().try_for_each(|step| writeln!(out, "    {step}"))?;
        }
        Ok(())
    }
}

fn section<T>(out: &mut dyn Write, title: &str, items: &[T], row: impl Fn(&T) -> Vec<String>) -> Result<(), Failure> {
    if !items.is_empty() {
        writeln!(out, "  {}", paint::heading(title))?;
        table(out, "    ", &items.iter().map(row).collect::<Vec<_>>(), &[])?;
    }
    Ok(())
}

impl MemoryReport {
    fn print(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let size = |count: usize| bytes(count as u64);
        let mut rows = vec![vec!["values and tensor records".to_owned(), size(self.state)]];
        let arenas = self.arenas.iter().enumerate().filter(|(index, arena)| *index > 0 || **arena > 0);
        rows.extend(arenas.map(|(index, &arena)| {
            let name = if index == 0 { "unplanned tensors".to_owned() } else { format!("arena {index}") };
            vec![name, size(arena)]
        }));
        rows.push(vec!["scratch".to_owned(), self.scratch.map_or("unknown".to_owned(), size)]);
        let total = if self.unknown.is_some() { "total without scratch" } else { "total" };
        rows.push(vec![total.to_owned(), size(self.total)]);
        writeln!(out, "  RAM of a session on {} thread(s)", self.threads)?;
        table(out, "    ", &rows, &[])?;
        if let Some(reason) = &self.unknown {
            writeln!(out, "    scratch is unknown: {reason}")?;
        }
        Ok(())
    }
}
