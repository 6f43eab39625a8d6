//! Where planned tensors lie.
//!
//! A [`Planner`] gets what every tensor needs (how many bytes, from which instruction to which) and says where each one
//! lies in one block of memory. [`Smallest`] is the default. A [`Plan`] is what came out, and can be drawn.

use sconce_graph::memory::{Buffer, place};

/// Bytes that are wanted from one instruction to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// How many.
    pub bytes: u64,
    /// The instruction that first touches them.
    pub first: usize,
    /// The instruction that last does.
    pub last: usize,
}

/// Decides where tensors lie.
pub trait Planner {
    /// An offset for each, and the bytes that it takes in all. Two that are wanted at the same time must not overlap;
    /// offsets must be multiples of 16.
    fn place(&self, wanted: &[Wanted]) -> (Vec<u64>, u64);
}

/// What every offset is a multiple of.
pub const ALIGNMENT: u64 = 16;

/// The default: the largest first, each at the lowest place that is free as long as it is wanted. On the nets at hand no
/// plan of the official exporter is smaller.
#[derive(Clone, Copy, Debug, Default)]
pub struct Smallest;

impl Planner for Smallest {
    fn place(&self, wanted: &[Wanted]) -> (Vec<u64>, u64) {
        let buffers: Vec<Buffer> = wanted
            .iter()
            .map(|own| Buffer {
                bytes: usize::try_from(own.bytes.next_multiple_of(ALIGNMENT)).unwrap_or(usize::MAX / 2),
                first: own.first,
                last: own.last,
            })
            .collect();
        let (offsets, total) = place(&buffers, ALIGNMENT as usize);
        (offsets.into_iter().map(|offset| offset as u64).collect(), total as u64)
    }
}

/// Where the tensors of a method lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The method.
    pub method: String,
    /// What each tensor needs.
    pub wanted: Vec<Wanted>,
    /// Where each one lies.
    pub offsets: Vec<u64>,
    /// The bytes of all.
    pub total: u64,
}

impl Plan {
    /// The plan as a drawing: instructions from left to right, addresses from bottom to top, a box for each tensor.
    pub fn svg(&self) -> String {
        use std::fmt::Write;
        const WIDTH: f64 = 1200.0;
        const HEIGHT: f64 = 600.0;
        let end = self.wanted.iter().map(|own| own.last + 1).max().unwrap_or(1) as f64;
        let total = self.total.max(1) as f64;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\">\n\
             <title>{}: {} bytes</title>\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#f4f4f4\"/>\n",
            self.method, self.total
        );
        for (number, (own, &offset)) in self.wanted.iter().zip(&self.offsets).enumerate() {
            let (x, width) = (own.first as f64 / end * WIDTH, (own.last - own.first + 1) as f64 / end * WIDTH);
            let height = own.bytes as f64 / total * HEIGHT;
            let y = HEIGHT - offset as f64 / total * HEIGHT - height;
            // Neighbours differ in colour: the golden angle never repeats.
            let hue = (number as f64 * 137.508) % 360.0;
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" \
                 fill=\"hsl({hue:.0} 55% 65%)\" stroke=\"#333\" stroke-width=\"0.3\"><title>{} bytes at {offset}, \
                 instructions {} to {}</title></rect>",
                own.bytes, own.first, own.last
            );
        }
        svg.push_str("</svg>\n");
        svg
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawings_have_a_box_for_each_tensor() {
        let wanted = vec![Wanted { bytes: 100, first: 0, last: 1 }, Wanted { bytes: 50, first: 1, last: 2 }];
        let (offsets, total) = Smallest.place(&wanted);
        assert_eq!((offsets.clone(), total), (vec![0, 112], 176));
        let svg = Plan { method: "forward".to_owned(), wanted, offsets, total }.svg();
        assert_eq!(svg.matches("<rect").count(), 3);
        assert!(svg.contains("50 bytes at 112, instructions 1 to 2"), "{svg}");
    }
}
