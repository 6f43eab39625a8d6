//! The `sconce` command: run, inspect, check, bench, pack and compile ExecuTorch programs.
//!
//! Each command is a module with its arguments and a `run` that writes to standard output; what goes wrong is a
//! [`Failure`], printed here. Exit codes: 0 done, 1 failed, 2 called in a way that cannot work.
#![forbid(unsafe_code)]

mod arguments;
mod bench;
mod check;
mod compare;
mod compile;
mod demo;
mod failure;
mod fill;
mod golden;
mod image_input;
mod inspect;
mod listing;
mod model;
mod names;
mod npy;
mod numbers;
mod output;
mod pack;
mod paint;
mod print;
mod progress;
mod ranking;
mod run;
mod suite;
mod times;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use failure::Failure;
use std::io::{BufWriter, Write};
use std::process::ExitCode;
use std::sync::LazyLock;

/// Runs ExecuTorch programs (.pte). Without a command: a small demonstration.
#[derive(Debug, Parser)]
#[command(name = "sconce", version, long_version = long_version())]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Run),
    Inspect(inspect::Inspect),
    Check(check::Check),
    Bench(bench::Bench),
    Pack(pack::Pack),
    Compile(compile::Compile),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

impl Command {
    fn run(&self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        match self {
            Command::Run(command) => command.run(out),
            Command::Inspect(command) => command.run(out),
            Command::Check(command) => command.run(out),
            Command::Bench(command) => command.run(out),
            Command::Pack(command) => command.run(out),
            Command::Compile(command) => command.run(out),
            Command::Completions { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(*shell, &mut Arguments::command(), "sconce", &mut script);
                out.write_all(&script)?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

/// The version, and the instructions that kernels use here.
fn long_version() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let used = sconce::instruction_set().map_or_else(|error| error.to_string(), str::to_owned);
        let available = sconce::instruction_sets().join(", ");
        format!("{}\ninstructions: {used} (of {available})", env!("CARGO_PKG_VERSION"))
    });
    &TEXT
}

/// The arguments of this call, or how it ends that there are none.
fn parse() -> Result<Arguments, ExitCode> {
    let command = arguments::with_negative_numbers(Arguments::command());
    let commands: Vec<String> = command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let parsed = command.try_get_matches().and_then(|matches| Arguments::from_arg_matches(&matches));
    parsed.map_err(|error| match arguments::unknown_command(&error, &commands) {
        Some(failure) => failure.report(),
        None => error.exit(),
    })
}

fn main() -> ExitCode {
    let arguments = match parse() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let mut out = BufWriter::new(std::io::stdout());
    let result = match arguments.command {
        Some(command) => command.run(&mut out),
        None => demo::run(&mut out),
    };
    let flushed = out.flush().map_err(Failure::from);
    match result.and_then(|code| flushed.map(|()| code)) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declarations_are_consistent() {
        Arguments::command().debug_assert();
    }
}
