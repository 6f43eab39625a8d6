//! Values, sizes and tables as people and programs read them.
use crate::numbers::{Numbers, short};
use console::{Alignment, Term, measure_text_width, pad_str, truncate_str};
use sconce::{ScalarType, Tensor, Value};
use serde_json::json;
use std::io::{self, Write};

/// How many values of a tensor a summary shows.
const SHOWN: usize = 6;

/// A value in one line.
pub(crate) fn summary(value: &Value) -> String {
    match value {
        Value::None => "none".to_owned(),
        Value::Int(value) => format!("int {value}"),
        Value::Double(value) => format!("float {value}"),
        Value::Bool(value) => format!("bool {value}"),
        Value::Str(value) => format!("string {value:?}"),
        Value::Tensor(tensor) => tensor_summary(tensor),
    }
}

fn tensor_summary(tensor: &Tensor) -> String {
    let numbers = Numbers::of(tensor);
    let first: Vec<String> = (0..numbers.len().min(SHOWN)).map(|index| numbers.short(index)).collect();
    let more = if numbers.len() > SHOWN { ", ..." } else { "" };
    let statistics = match &numbers {
        Numbers::Real(values) if values.len() > 1 => statistics(values),
        Numbers::Whole(values) if values.len() > 1 => {
            statistics(&values.iter().map(|&value| value as f64).collect::<Vec<_>>())
        }
        _ => String::new(),
    };
    format!("{} {:?}  [{}{more}]{statistics}", tensor.dtype(), tensor.sizes(), first.join(", "))
}

fn statistics(values: &[f64]) -> String {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let count = finite().count();
    let odd = if count < values.len() { format!("  {} not finite", values.len() - count) } else { String::new() };
    if count == 0 {
        return odd;
    }
    let (min, max) = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    let mean = finite().sum::<f64>() / count as f64;
    format!("  min {}  max {}  mean {}{odd}", short(min), short(max), short(mean))
}

/// A value for `--json`: tensors with all their elements in row-major order. NaN and infinities become null.
pub(crate) fn json_value(value: &Value) -> serde_json::Value {
    match value {
        Value::None => json!({ "kind": "none" }),
        Value::Int(value) => json!({ "kind": "int", "value": value }),
        Value::Double(value) => json!({ "kind": "float", "value": value }),
        Value::Bool(value) => json!({ "kind": "bool", "value": value }),
        Value::Str(value) => json!({ "kind": "string", "value": value }),
        Value::Tensor(tensor) => json!({
            "kind": "tensor",
            "dtype": tensor.dtype().name(),
            "sizes": tensor.sizes(),
            "values": json_numbers(tensor),
        }),
    }
}

fn json_numbers(tensor: &Tensor) -> Vec<serde_json::Value> {
    let wide = matches!(tensor.dtype(), ScalarType::Double | ScalarType::ComplexDouble);
    match Numbers::of(tensor) {
        Numbers::Whole(values) if tensor.dtype() == ScalarType::Bool => values.iter().map(|&v| json!(v != 0)).collect(),
        Numbers::Whole(values) => {
            values.iter().map(|&v| i64::try_from(v).map_or(json!(v as u64), |v| json!(v))).collect()
        }
        Numbers::Real(values) => values.iter().map(|&v| json!(if wide { v } else { shortest(v) })).collect(),
        Numbers::Raw(bytes) => bytes.iter().map(|&byte| json!(byte)).collect(),
    }
}

/// The number that prints in the fewest digits and is still the same as a float32.
fn shortest(value: f64) -> f64 {
    (value as f32).to_string().parse().unwrap_or(value)
}

/// A number of bytes, exactly.
pub(crate) fn bytes(count: u64) -> String {
    if count < 1024 { size(count) } else { format!("{} ({count} bytes)", size(count)) }
}

/// A number of bytes in a unit that suits it.
pub(crate) fn size(count: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let mut size = count as f64;
    let mut unit = None;
    for name in units {
        if size < 1024.0 {
            break;
        }
        (size, unit) = (size / 1024.0, Some(name));
    }
    unit.map_or_else(
        || if count == 1 { "1 byte".to_owned() } else { format!("{count} bytes") },
        |unit| format!("{size:.1} {unit}"),
    )
}

/// So many of something.
pub(crate) fn counted(count: usize, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}

/// Widest column that is aligned.
const WIDEST: usize = u16::MAX as usize;

/// Rows with aligned columns; those of `right` lean to the right.
pub(crate) fn table(out: &mut dyn Write, indent: &str, rows: &[Vec<String>], right: &[usize]) -> io::Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| measure_text_width(cell)).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0).min(WIDEST)).collect();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            let lean = if right.contains(&column) { Alignment::Right } else { Alignment::Left };
            pad_str(cell, width, lean, None)
        });
        writeln!(out, "{indent}{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

/// Cuts lines at the width of the terminal, if that is where they go.
pub(crate) struct Cut<'o> {
    out: &'o mut dyn Write,
    width: Option<usize>,
    line: Vec<u8>,
}

impl<'o> Cut<'o> {
    /// Writes to standard output through `out`.
    pub(crate) fn new(out: &'o mut dyn Write) -> Self {
        let terminal = Term::stdout();
        let width = terminal.is_term().then(|| usize::from(terminal.size().1)).filter(|width| *width > 0);
        Self { out, width, line: Vec::new() }
    }
}

impl Write for Cut<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(width) = self.width else { return self.out.write(bytes) };
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if let Some(line) = self.line.strip_suffix(b"\n") {
                let line = String::from_utf8_lossy(line);
                writeln!(self.out, "{}", truncate_str(&line, width, "…"))?;
                self.line.clear();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_counts() {
        assert_eq!(bytes(1), "1 byte");
        assert_eq!(bytes(1023), "1023 bytes");
        assert_eq!(bytes(1536), "1.5 KiB (1536 bytes)");
        assert_eq!(bytes(3 << 30), "3.0 GiB (3221225472 bytes)");
    }

    #[test]
    fn summaries_show_the_beginning_and_the_range() {
        let tensor = Tensor::from_slice(&[1.0f32, -2.0, 0.5, f32::NAN, 0.0, 0.0, 3.5, 4.0], &[8]).unwrap();
        let text = summary(&Value::Tensor(tensor));
        assert_eq!(text, "float32 [8]  [1, -2, 0.5, NaN, 0, 0, ...]  min -2  max 4  mean 1  1 not finite");
        assert_eq!(summary(&Value::Tensor(Tensor::from_slice(&[5i64], &[]).unwrap())), "int64 []  [5]");
    }

    #[test]
    fn json_keeps_float32_short_and_wide_integers_exact() {
        let tensor = |value| json_value(&Value::Tensor(value))["values"].to_string();
        assert_eq!(tensor(Tensor::from_slice(&[0.1f32, f32::NAN], &[2]).unwrap()), "[0.1,null]");
        assert_eq!(tensor(Tensor::from_slice(&[u64::MAX], &[]).unwrap()), "[18446744073709551615]");
        assert_eq!(tensor(Tensor::from_bools(&[true, false], &[2]).unwrap()), "[true,false]");
    }

    #[test]
    fn long_lines_are_cut_on_a_terminal() {
        let mut out = Vec::new();
        let mut cut = Cut { out: &mut out, width: Some(6), line: Vec::new() };
        for piece in ["  a lo", "ng line\n  x", "\n"] {
            cut.write_all(piece.as_bytes()).unwrap();
        }
        assert_eq!(String::from_utf8(out).unwrap(), "  a l…\n  x\n");
        let mut out = Vec::new();
        writeln!(Cut { out: &mut out, width: None, line: Vec::new() }, "  a long line").unwrap();
        assert_eq!(out, b"  a long line\n");
    }

    #[test]
    fn columns_line_up() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let mut out = Vec::new();
        table(&mut out, " ", &[row(["a", "10"]), row(["bcd", "2"])], &[1]).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), " a    10\n bcd   2\n");
    }
}
