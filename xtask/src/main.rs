//! Tasks of the people who release, run as `cargo xtask TASK`.
//!
//! `dist` makes what applications download: the C library of one machine, stripped and checked, with its header and
//! package files, in one archive with its hash beside it. `report` lists what a folder of such archives weighs.
//!
//! Names, targets, backends and versions are the tables of `crates/ffi/cmake`, which the CMake package reads too, so
//! that what is packed here is what is looked for there.

mod archive;
mod compile;
mod inspect;
mod prefix;
mod report;
mod tables;

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use tables::Tables;

/// What went wrong, as a sentence.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tasks of the people who release")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Builds the C library for one machine and packs it into the dist folder of cargo's target folder
    Dist(Dist),
    /// Lists the archives of a folder with their sizes, and writes size-report.json and size-report.txt there
    Report {
        /// The folder; that of `dist` if left out
        folder: Option<PathBuf>,
    },
}

/// What `dist` packs.
#[derive(clap::Args)]
struct Dist {
    /// The Rust target to build for; this machine's if left out
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
    /// Build and name the debug library, which is not stripped
    #[arg(long)]
    debug: bool,
    /// Backends, parted by commas
    #[arg(long, value_delimiter = ',', default_value = "xnnpack")]
    backends: Vec<String>,
    /// Where the archive goes
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

fn main() {
    let outcome = match Arguments::parse().task {
        Task::Dist(options) => dist(&options),
        Task::Report { folder } => Tables::read(&workspace())
            .and_then(|tables| Ok((tables, folder.map_or_else(dist_folder, Ok)?)))
            .and_then(|(tables, folder)| report::write(&folder, &tables)),
    };
    if let Err(problem) = outcome {
        eprintln!("error: {problem}");
        std::process::exit(1);
    }
}

fn dist(options: &Dist) -> Result<()> {
    let tables = Tables::read(&workspace())?;
    let host = compile::host()?;
    let target = tables.target(options.target.as_deref().unwrap_or(&host))?;
    let backends = tables.backends(&options.backends, target)?;
    let name = tables::artifact_name(target, &backends, options.debug);
    let out = options.out.clone().map_or_else(dist_folder, Ok)?;

    let features = tables.features(&backends);
    let built = compile::library(&workspace(), target, &host, &features, options.debug)?;
    let staged = out.join("staging").join(&name);
    prefix::stage(&built, &staged, target, &tables, &features)?;
    if !options.debug {
        compile::strip(&staged, target, &host)?;
    }
    inspect::check(&staged, target)?;
    let archive = archive::pack(&staged, &out, &name, target)?;
    std::fs::remove_dir_all(out.join("staging"))?;
    println!("packed {}", archive.display());
    report::write(&out, &tables)
}

/// The root of the repository.
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

fn dist_folder() -> Result<PathBuf> {
    Ok(compile::target_folder(&workspace())?.join("dist"))
}
