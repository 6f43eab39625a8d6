//! Programs as text, one statement per line.
//!
//! ```text
//! @0 = "weight" [0, 0, 128, 63]
//! @1 = "cache" 4096 bytes
//! delegate 0 "XnnpackBackend" 1208 bytes
//! method "forward"
//! symbol s0 in 1..8 = size 0 of %0
//! %0: float32[s0, 4] "x" = input
//! fixed none
//! %1: float32[1] "weight" = constant @0
//! %2: float32[1024] "cache" = state @1
//! %3: float32[s0, 4] "mul" = aten::mul.Tensor(self: %0, other: %1)
//! %4: float32[s0, 4] "cond" = cond(condition: true, inputs: [%3])
//!   block %5: float32[s0, 4] "left"
//!     %6: float32[s0, 4] "relu" = aten::relu(self: %5)
//!   give %6
//!   block %7: float32[s0, 4] "right"
//!   give %7
//! %8: float32[s0, 4] "delegated", %9: float32[1024] "next" = delegate 0(inputs: [%4, %2])
//! update %2 = %9
//! output %8 "result"
//! output s0 + 1
//! ```
//!
//! Values are numbered as the method numbers them; a parsed method numbers them in the order in which they appear. The
//! bytes of constants are there if they are few, else the text says how many they are, and they are zeros when it is
//! read. Where calls came from, and what a delegate stands for, is not in the text.

mod parse;
mod print;

pub use parse::parse;

#[cfg(test)]
mod tests;
