//! The sconce command.
fn main() {}
