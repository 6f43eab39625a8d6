//! Colour for a person who watches: not where output goes to a file or another program, and not where the environment asks
//! for none (`NO_COLOR`, `CLICOLOR=0`).
use console::{StyledObject, style};

/// What went well.
pub(crate) fn good(text: &str) -> String {
    style(text).green().to_string()
}

/// What went wrong.
pub(crate) fn bad(text: &str) -> String {
    style(text).red().bold().to_string()
}

/// What comes first.
pub(crate) fn heading(text: &str) -> String {
    style(text).bold().to_string()
}

/// A share of a whole, in percent, that stands out the more the larger it is.
pub(crate) fn share(text: &str, percent: f64) -> String {
    let styled: StyledObject<&str> = match percent {
        large if large >= 50.0 => style(text).green().bold(),
        middle if middle >= 10.0 => style(text).yellow(),
        _ => style(text).dim(),
    };
    styled.to_string()
}
