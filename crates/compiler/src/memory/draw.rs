//! A plan as a drawing.

use super::Plan;
use std::fmt::Write;

const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 600.0;

impl Plan {
    /// The plan as a drawing (SVG): instructions from left to right, addresses from bottom to top, the arenas above one
    /// another with a line between them, a box for each tensor.
    pub fn svg(&self) -> String {
        let end = self.wanted.iter().map(|own| own.last + 1).max().unwrap_or(1) as f64;
        let scale = HEIGHT / self.total().max(1) as f64;
        let mut starts = vec![0u64];
        starts.extend(self.arenas.iter().scan(0u64, |sum, bytes| {
            *sum = sum.saturating_add(*bytes);
            Some(*sum)
        }));
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\">\n\
             <title>{}: {} bytes</title>\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#f4f4f4\"/>\n",
            escaped(&self.method),
            self.total()
        );
        for (number, (own, place)) in self.wanted.iter().zip(&self.places).enumerate() {
            let (x, width) = (own.first as f64 / end * WIDTH, (own.last - own.first + 1) as f64 / end * WIDTH);
            let height = own.bytes as f64 * scale;
            let start = starts.get(place.arena as usize - 1).copied().unwrap_or(0);
            let y = HEIGHT - (start + place.offset) as f64 * scale - height;
            // Neighbours differ in colour: the golden angle never repeats.
            let hue = (number as f64 * 137.508) % 360.0;
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" \
                 fill=\"hsl({hue:.0} 55% 65%)\" stroke=\"#333\" stroke-width=\"0.3\"><title>{}: {} bytes at {} of arena \
                 {}, instructions {} to {}</title></rect>",
                escaped(&own.name),
                own.bytes,
                place.offset,
                place.arena,
                own.first,
                own.last
            );
        }
        for start in starts.iter().take(self.arenas.len()).skip(1) {
            let y = HEIGHT - *start as f64 * scale;
            let _ = writeln!(svg, "<line x1=\"0\" x2=\"{WIDTH}\" y1=\"{y:.2}\" y2=\"{y:.2}\" stroke=\"#c00\"/>");
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// Names come from files.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
