//! What inputs and outputs are called: by their numbers, `in0, in1, ...` and `out0, out1, ...`, and by the names that the
//! program records.
use sconce::core::Method;

/// The recorded names of a method's inputs. One that could be taken for a number, or that two inputs have, is none.
pub(crate) fn inputs<'a>(method: Method<'a>) -> Vec<Option<&'a str>> {
    clear((0..method.inputs()).map(|index| method.input_name(index)).collect())
}

/// The recorded names of a method's outputs, likewise.
pub(crate) fn outputs<'a>(method: Method<'a>) -> Vec<Option<&'a str>> {
    clear((0..method.outputs()).map(|index| method.output_name(index)).collect())
}

fn clear(names: Vec<Option<&str>>) -> Vec<Option<&str>> {
    let once = |name: &str| names.iter().flatten().filter(|own| **own == name).count() == 1;
    let numbered = |name: &str| ["in", "out"].iter().any(|prefix| number(name, prefix).is_some());
    names.iter().map(|name| name.filter(|name| once(name) && !numbered(name))).collect()
}

/// The number of a key such as `in12`.
pub(crate) fn number(key: &str, prefix: &str) -> Option<usize> {
    let digits = key.strip_prefix(prefix)?;
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// An input in a sentence: `in0`, or `x (in0)`.
pub(crate) fn input(method: Method<'_>, index: usize) -> String {
    match inputs(method).get(index).copied().flatten() {
        Some(name) => format!("{name} (in{index})"),
        None => format!("in{index}"),
    }
}

/// Inputs or outputs as rows of a table: the number, the name where there are names, and a text.
pub(crate) fn rows<'n>(all: impl Iterator<Item = (String, Option<&'n str>, String)>) -> Vec<Vec<String>> {
    let all: Vec<_> = all.collect();
    let named = all.iter().any(|(_, name, _)| name.is_some());
    let row = |(number, name, text): (String, Option<&str>, String)| {
        let name = named.then(|| name.unwrap_or_default().to_owned());
        [Some(number), name, Some(text)].into_iter().flatten().collect()
    };
    all.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_plain_numbers() {
        assert_eq!(number("in0", "in"), Some(0));
        assert_eq!(number("out12", "out"), Some(12));
        for key in ["in", "input0", "in+1", "in-1", "int", "out0"] {
            assert_eq!(number(key, "in"), None, "{key}");
        }
    }

    #[test]
    fn names_that_could_mean_something_else_are_none() {
        let names = vec![Some("x"), None, Some("in0"), Some("y"), Some("y"), Some("out3"), Some("input0")];
        assert_eq!(clear(names), [Some("x"), None, None, None, None, None, Some("input0")]);
    }
}
