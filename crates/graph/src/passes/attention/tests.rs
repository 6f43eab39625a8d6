//! Attention, found and left alone.

use super::*;

fn found(text: &str) -> String {
    let mut graph = crate::parse(text).unwrap();
    crate::verify(&graph).unwrap();
    find_attention(&mut graph);
    crate::verify(&graph).unwrap();
    graph.compact();
    graph.to_string()
}

/// As BERT is exported: numbers before the product, a mask, transposes all around, and a reshape that does nothing.
const POSITIONS_FIRST: &str = "\
%0: float32[2, n <= 128, 12, 32] = input
%1: float32[2, m <= 128, 12, 32] = input
%2: float32[2, m <= 128, 12, 32] = input
%3: float32[2, 1, 1, m <= 128] = input
%4: float32[2, n <= 128, 12, 32] = times %0 {value: 0.5}
%5: float32[2, 12, n <= 128, 32] = transpose %4 {order: [0, 2, 1, 3]}
%6: float32[2, m <= 128, 12, 32] = over %1 {value: 4}
%7: float32[2, 12, 32, m <= 128] = transpose %6 {order: [0, 2, 3, 1]}
%8: float32[2, 12, m <= 128, 32] = transpose %2 {order: [0, 2, 1, 3]}
%9: float32[2, 12, n <= 128, m <= 128] = matmul %5, %7
%10: float32[2, 12, n <= 128, m <= 128] = add %3, %9
%11: float32[2, 12, n <= 128, m <= 128] = safe_softmax %10
%12: float32[2, 12, n <= 128, 32] = matmul %11, %8
%14: float32[2, 12, n <= 128, 32] = reshape %12 {sizes: [2, 12, 0, 32]}
%13: float32[2, n <= 128, 12, 32] = transpose %14 {order: [0, 2, 1, 3]}
output %13
";

#[test]
fn transposes_and_numbers_are_left_out() {
    let expected = "\
%0: float32[2, n <= 128, 12, 32] = input
%1: float32[2, m <= 128, 12, 32] = input
%2: float32[2, m <= 128, 12, 32] = input
%3: float32[2, 1, 1, m <= 128] = input
%4: float32[2, n <= 128, 12, 32] = attention %0, %1, %2, %3 {scale: 0.125, safe: true, query: positions_first, \
key: positions_first, value: positions_first, result: positions_first, batch: true}
output %4
";
    assert_eq!(found(POSITIONS_FIRST), expected);
}

/// As vision transformers are exported: dimensions of size one come and go.
#[test]
fn dimensions_of_size_one_do_not_matter() {
    let text = "\
%0: float32[197, 12, 64] = input
%1: float32[12, 197, 64] = transpose %0 {order: [1, 0, 2]}
%2: float32[1, 12, 197, 64] = reshape %1 {sizes: [1, 12, 197, 64]}
%3: float32[1, 12, 197, 64] = times %2 {value: 0.5}
%4: float32[1, 12, 64, 197] = transpose %3 {order: [0, 1, 3, 2]}
%5: float32[12, 197, 64] = reshape %3 {sizes: [12, 197, 64]}
%6: float32[12, 64, 197] = reshape %4 {sizes: [12, 64, 197]}
%7: float32[12, 197, 197] = matmul %5, %6
%8: float32[1, 12, 197, 197] = reshape %7 {sizes: [1, 12, 197, 197]}
%9: float32[1, 12, 197, 197] = softmax %8
%10: float32[12, 197, 197] = reshape %9 {sizes: [12, 197, 197]}
%11: float32[12, 197, 64] = matmul %10, %1
%12: float32[1, 12, 197, 64] = reshape %11 {sizes: [1, 12, 0, 64]}
%13: float32[197, 1, 12, 64] = transpose %12 {order: [2, 0, 1, 3]}
output %13
";
    let expected = "\
%0: float32[197, 12, 64] = input
%1: float32[1, 197, 12, 64] = attention %0, %0, %0 {scale: 0.25, safe: false, query: positions_first, \
key: positions_first, value: positions_first, result: positions_first, batch: true}
%2: float32[197, 1, 12, 64] = reshape %1 {sizes: [0, 1, 12, 64]}
output %2
";
    assert_eq!(found(text), expected);
}

/// Heads of all batches in one dimension, with a number and a mask for all.
#[test]
fn products_of_three_dimensions() {
    let text = "\
%0: float32[24, 10, 8] = input
%1: float32[24, 20, 8] = input
%2: float32[24, 20, 6] = input
%3: float32[10, 20] = input
%4: float32[24, 8, 20] = transpose %1 {order: [0, 2, 1]}
%5: float32[24, 10, 20] = matmul %0, %4
%6: float32[24, 10, 20] = times %5 {value: 2}
%7: float32[24, 10, 20] = add %6, %3
%8: float32[24, 10, 20] = softmax %7
%9: float32[24, 10, 6] = matmul %8, %2
output %9
";
    let expected = "\
%0: float32[24, 10, 8] = input
%1: float32[24, 20, 8] = input
%2: float32[24, 20, 6] = input
%3: float32[10, 20] = input
%4: float32[24, 10, 6] = attention %0, %1, %2, %3 {scale: 2, safe: false, query: heads_first, key: heads_first, \
value: heads_first, result: heads_first, batch: false}
output %4
";
    assert_eq!(found(text), expected);
}

/// Heads of batches that become one dimension for the products only.
#[test]
fn batches_and_heads_are_told_apart() {
    let text = "\
%0: float32[2, 10, 3, 8] = input
%1: float32[2, 1, 1, 10] = input
%2: float32[2, 3, 10, 8] = transpose %0 {order: [0, 2, 1, 3]}
%3: float32[6, 10, 8] = reshape %2 {sizes: [6, 10, 8]}
%4: float32[6, 8, 10] = transpose %3 {order: [0, 2, 1]}
%5: float32[6, 10, 10] = matmul %3, %4
%6: float32[2, 3, 10, 10] = reshape %5 {sizes: [2, 3, 10, 10]}
%7: float32[2, 3, 10, 10] = add %6, %1
%8: float32[2, 3, 10, 10] = softmax %7
%9: float32[6, 10, 10] = reshape %8 {sizes: [6, 10, 10]}
%10: float32[6, 10, 8] = matmul %9, %3
%11: float32[2, 3, 10, 8] = reshape %10 {sizes: [2, 3, 10, 8]}
output %11
";
    let expected = "\
%0: float32[2, 10, 3, 8] = input
%1: float32[2, 1, 1, 10] = input
%2: float32[2, 3, 10, 8] = attention %0, %0, %0, %1 {scale: 1, safe: false, query: positions_first, \
key: positions_first, value: positions_first, result: heads_first, batch: true}
output %2
";
    assert_eq!(found(text), expected);
}

#[test]
fn others_stay() {
    let other = |from: &str, to: &str| {
        assert!(POSITIONS_FIRST.contains(from));
        POSITIONS_FIRST.replace(from, to)
    };
    let cases = [
        // A score that others see.
        other("output %13", "output %13, %9"),
        other("output %13", "output %13, %11"),
        // Keys whose features are no neighbours.
        other("%1: float32[2, m <= 128, 12, 32] = input", "%1: float32[2, 12, 32, m <= 128] = input")
            .replace("%6: float32[2, m <= 128, 12, 32] = over %1 {value: 4}", "")
            .replace("transpose %6 {order: [0, 2, 3, 1]}", "over %1 {value: 4}"),
        // Numbers that are none.
        other("{value: 4}", "{value: 0}"),
    ];
    for text in cases {
        assert!(!found(&text).contains("attention"), "{text}");
    }
    // A mask that makes more heads of one.
    let text = "\
%0: float32[1, 10, 8] = input
%1: float32[3, 10, 10] = input
%2: float32[1, 8, 10] = transpose %0 {order: [0, 2, 1]}
%3: float32[1, 10, 10] = matmul %0, %2
%4: float32[3, 10, 10] = add %3, %1
%5: float32[3, 10, 10] = softmax %4
%6: float32[3, 10, 8] = matmul %5, %0
output %6
";
    assert!(!found(text).contains("attention"));
}

#[test]
fn values_keep_their_numbers() {
    let text = POSITIONS_FIRST
        .replace("transpose %2", "transpose %20")
        .replace("%8:", "%20: float32[2, m <= 128, 12, 32] = times %2 {value: 3}\n%8:");
    let found = found(&text);
    assert!(found.contains("attention") && found.contains("times %2 {value: 3}"), "{found}");
}
