//! What was compiled, in words.
use crate::failure::Failure;
use crate::paint;
use crate::print::{counted, size};
use sconce::compile::memory::Plan;
use sconce::compile::partition::Report;
use std::io::Write;
use std::path::Path;

/// Who runs how many calls.
pub(super) fn table(report: &Report, out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(out, "{}", paint::heading(&format!("{:<10} {:>6} {:>6}", "run by", "parts", "calls")))?;
    for (backend, parts, calls) in report.by_backend() {
        writeln!(out, "{backend:<10} {parts:>6} {calls:>6}")?;
    }
    writeln!(out, "{:<10} {:>6} {:>6}", "operators", "", report.left)?;
    writeln!(out, "{:<10} {:>6} {:>6}", "all", report.delegated.len(), report.calls())?;
    Ok(())
}

/// The memory that a method's tensors take.
pub(super) fn memory(plan: &Plan, out: &mut dyn Write) -> Result<(), Failure> {
    let parts: Vec<String> = plan.arenas.iter().map(u64::to_string).collect();
    let parts = if parts.len() > 1 { format!(" ({})", parts.join(" + ")) } else { String::new() };
    let growing = match plan.growing_arenas() {
        0 => String::new(),
        1 => ", and an arena that grows".to_owned(),
        count => format!(", and {count} arenas that grow"),
    };
    let total = plan.total();
    let short = if total < 1024 { String::new() } else { format!(", {}", size(total)) };
    Ok(writeln!(out, "{}: {total} bytes of planned memory{parts}{short}{growing}", plan.method)?)
}

/// What was written and who runs it, in a sentence.
pub(super) fn sentence(report: &Report, path: &Path, program: &[u8]) -> String {
    let all = report.calls();
    let part = |(backend, parts, calls): &(&str, usize, usize)| {
        format!("{backend} runs {calls} of {} in {}", counted(all, "call"), counted(*parts, "part"))
    };
    let backends = report.by_backend().iter().map(part).collect::<Vec<_>>().join(", ");
    let who = match (backends.is_empty(), report.left) {
        (_, 0) if all == 0 => "there is nothing to run".to_owned(),
        (true, left) => format!("operators run {}", counted(left, "call")),
        (false, 0) => backends,
        (false, left) => format!("{}, operators the other {left}", backends),
    };
    format!("wrote {}, {}: {who}", path.display(), size(program.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sconce::compile::partition::Delegated;

    #[test]
    fn a_sentence_for_every_kind_of_program() {
        let part =
            |backend: &str, calls| Delegated { backend: backend.to_owned(), method: "forward".to_owned(), calls };
        let say = |delegated: &[Delegated], left| {
            let report = Report { delegated: delegated.to_vec(), refused: Vec::new(), left };
            sentence(&report, Path::new("x.pte"), &[0; 2048])
        };
        assert_eq!(say(&[], 0), "wrote x.pte, 2.0 KiB: there is nothing to run");
        assert_eq!(say(&[], 1), "wrote x.pte, 2.0 KiB: operators run 1 call");
        assert_eq!(say(&[part("xnnpack", 152)], 0), "wrote x.pte, 2.0 KiB: xnnpack runs 152 of 152 calls in 1 part");
        assert_eq!(
            say(&[part("xnnpack", 5), part("ggml", 3), part("xnnpack", 1)], 2),
            "wrote x.pte, 2.0 KiB: xnnpack runs 6 of 11 calls in 2 parts, ggml runs 3 of 11 calls in 1 part, operators the \
             other 2"
        );
    }
}
