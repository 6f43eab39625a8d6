//! `sconce` alone: recognises a handwritten digit with a program that is part of the command.
use crate::failure::Failure;
use crate::image_input::{self, ImageOptions};
use crate::ranking;
use image::DynamicImage;
use sconce::Options;
use sconce::core::ValueInfo;
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

const PROGRAM: &[u8] = include_bytes!("../../../examples/digits/digits.pte");
const SAMPLE: &[u8] = include_bytes!("../../../examples/digits/samples/digit_3_a.png");
const LABELS: &str = include_str!("../../../examples/digits/labels.txt");

/// Runs the demonstration.
pub(crate) fn run(out: &mut dyn Write) -> Result<ExitCode, Failure> {
    let picture = image::load_from_memory(SAMPLE).map_err(Failure::new)?;
    let mut session = Options::new().threads(1).load(PROGRAM)?.session()?;
    let takes = session.view().input(0).unwrap_or(ValueInfo::None);
    let image = image_input::prepare(&picture, &takes, &ImageOptions::default()).map_err(Failure::new)?.tensor;
    let start = Instant::now();
    let outputs = session.run(&[(&image).into()])?;
    let microseconds = start.elapsed().as_secs_f64() * 1e6;
    draw(out, &picture)?;
    let labels: Vec<String> = LABELS.lines().map(str::to_owned).collect();
    for guess in ranking::top(&outputs, &labels, 1)? {
        let percent = guess.probability * 100.0;
        writeln!(out, "This is a {} ({percent:.1} %, recognised in {microseconds:.0} µs).", guess.label)?;
    }
    writeln!(out)?;
    writeln!(out, "Run a program of your own:  sconce run MODEL.pte x.npy")?;
    writeln!(out, "All commands:               sconce --help")?;
    Ok(ExitCode::SUCCESS)
}

/// Draws an image with two characters per pixel, which is about square.
fn draw(out: &mut dyn Write, picture: &DynamicImage) -> Result<(), Failure> {
    let grey = picture.to_luma8();
    for row in grey.rows() {
        let line: String = row.flat_map(|pixel| [shade(pixel.0[0]); 2]).collect();
        writeln!(out, "  {line}")?;
    }
    Ok(writeln!(out)?)
}

fn shade(value: u8) -> char {
    [' ', '░', '▒', '▓', '█'][usize::from(value) * 5 / 256]
}
