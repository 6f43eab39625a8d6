//! Numbers on the command line, and what to say about calls that do not parse.
use crate::failure::Failure;
use clap::error::{ContextKind, ContextValue};
use std::path::Path;

/// Lets every option of a command and its commands take what begins with a minus and is a number, so that its own parser
/// can say what is wrong with it.
pub(crate) fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let takes = |argument: clap::Arg| match argument.get_action().takes_values() {
        true => argument.allow_negative_numbers(true),
        false => argument,
    };
    command.mut_args(takes).mut_subcommands(with_negative_numbers)
}

/// How many threads: 0 is the default.
pub(crate) fn threads(text: &str) -> Result<usize, String> {
    whole(text).ok_or_else(|| "a number of threads is 0, for one per physical core, or more".to_owned())
}

/// How many of something there may be none of.
pub(crate) fn whole_number(text: &str) -> Result<usize, String> {
    whole(text).ok_or_else(|| "it is a whole number, 0 or more".to_owned())
}

/// How many of something there must be at least one of.
pub(crate) fn count(text: &str) -> Result<usize, String> {
    whole(text).filter(|&count| count > 0).ok_or_else(|| "it is a whole number, 1 or more".to_owned())
}

/// A time in seconds.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    real(text).ok_or_else(|| "a time is a number of seconds, 0 or more".to_owned())
}

/// A tolerance.
pub(crate) fn tolerance(text: &str) -> Result<f64, String> {
    real(text).ok_or_else(|| "a tolerance is a number, 0 or more, such as 1e-3".to_owned())
}

/// A whole number; more than the machine can count is as many as it can.
fn whole(text: &str) -> Option<usize> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(usize::MAX))
}

fn real(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

/// A command that there is not, with the one that was probably meant.
pub(crate) fn unknown_command(error: &clap::Error, commands: &[String]) -> Option<Failure> {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let near = commands.iter().map(|name| (distance(given, name), name)).min_by_key(|(distance, _)| *distance);
    let hint = match near {
        _ if Path::new(given).exists() => format!("a command comes first, such as `sconce run {given}`"),
        Some((distance, name)) if distance <= 2 && distance < name.len() => format!("did you mean `sconce {name}`?"),
        _ => format!("the commands are {}", commands.join(", ")),
    };
    Some(Failure::usage(format!("there is no command `{given}`")).hint(hint))
}

/// How many letters have to be put in, taken out, changed or swapped with their neighbour to make one word of another.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().take(64).collect(), to.chars().collect());
    let mut rows = vec![(0..=to.len()).collect::<Vec<usize>>()];
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let mut least = (rows[i][j] + usize::from(a != b)).min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_near_that_differ_in_a_slip_of_the_fingers() {
        assert_eq!(["run", "rnu", "urn", "rum", "runn", "un"].map(|word| distance(word, "run")), [0, 1, 1, 1, 1, 1]);
        assert_eq!((distance("dance", "bench"), distance("", "run"), distance("comiple", "compile")), (3, 3, 1));
    }

    #[test]
    fn numbers_in_range() {
        assert_eq!((threads("0"), threads("8"), count("1")), (Ok(0), Ok(8), Ok(1)));
        assert_eq!(threads("99999999999999999999999"), Ok(usize::MAX));
        assert_eq!((seconds("0"), tolerance("1e-3")), (Ok(0.0), Ok(1e-3)));
        for text in ["-1", "two", "", "1.5", "+1"] {
            assert!(threads(text).is_err() && count(text).is_err(), "{text}");
        }
        for text in ["-1", "nan", "inf", "", "1s"] {
            assert!(seconds(text).is_err() && tolerance(text).is_err(), "{text}");
        }
        assert!(count("0").is_err());
    }
}
