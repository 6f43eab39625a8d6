//! Embeddings and products with quantised weights.
use crate::support::*;

#[test]
fn packed_integers_come_out_in_order() {
    let indices = || longs(&[2], &[1, 0]);
    // High half first, each plus eight: 0x19 is -7, 1.
    let four = tensor::<u8>(&[2, 2], &[0x19, 0x8f, 0x80, 0x08]);
    let scales = floats(&[2], &[0.5, 2.0]);
    let name = "quantized_decomposed::embedding_4bit.out";
    let y = run_one(name, args![four.clone(), scales.clone(), (), -8, 7, indices(), out::<f32>(&[2, 4])]);
    assert_eq!(y, floats(&[2, 4], &[0., -16., -16., 0., -3.5, 0.5, 0., 3.5]));
    // Lowest bits first, each plus two: 0b11_10_01_00 is -2, -1, 0, 1.
    let two = tensor::<u8>(&[2, 1], &[0b1110_0100, 0b0000_1111]);
    let zero_points = floats(&[2, 2], &[0., 1., 0.5, 0.]);
    let by_group = floats(&[2, 2], &[1.0, 10.0, 2.0, 4.0]);
    let name = "quantized_decomposed::embedding_2bit.dtype_out";
    let given = args![two, by_group, zero_points, -2, 1, indices(), (), out::<f64>(&[2, 4])];
    assert_eq!(run_one(name, given), tensor::<f64>(&[2, 4], &[1., 1., -8., -8., -2., -1., -10., 0.]));
    let eight = tensor::<i8>(&[2, 2], &[-128, 127, 1, -1]);
    let name = "quantized_decomposed::embedding_byte.out";
    let y = run_one(name, args![eight.clone(), scales.clone(), (), -128, 127, indices(), out::<f32>(&[2, 2])]);
    assert_eq!(y, floats(&[2, 2], &[2., -2., -64., 63.5]));
    let none = args![eight.clone(), scales.clone(), (), -128, 127, longs(&[0], &[]), out::<f32>(&[0, 2])];
    assert_eq!(run_one(name, none).sizes, [0, 2]);
    let outside = args![eight, scales, (), -128, 127, longs(&[1], &[2]), out::<f32>(&[1, 2])];
    assert!(run(name, outside).unwrap_err().contains("index 2 is outside of an embedding with 2 rows"));
}

#[test]
fn products_with_eight_bits() {
    let x = || floats(&[1, 2], &[1.0, 10.0]);
    let weight = || tensor::<i8>(&[2, 2], &[1, 2, 3, 4]);
    let scales = || floats(&[2], &[1.0, 0.5]);
    let y = run_one("quantized_decomposed::mixed_mm.out", args![x(), weight(), scales(), (), out::<f32>(&[1, 2])]);
    assert_eq!(y, floats(&[1, 2], &[16.0, 22.0]));
    let given = args![x(), weight(), scales(), (), (), out::<f32>(&[1, 2])];
    assert_eq!(run_one("quantized_decomposed::mixed_linear.out", given), floats(&[1, 2], &[21.0, 21.5]));
    let grouped = floats(&[2, 2], &[1.0, 2.0, 0.5, 0.25]);
    let given = args![x(), weight(), grouped, (), (), out::<f32>(&[1, 2])];
    assert_eq!(run_one("quantized_decomposed::mixed_linear.out", given), floats(&[1, 2], &[41.0, 11.5]));
    let wide = args![floats(&[1, 3], &[0.0; 3]), weight(), scales(), (), out::<f32>(&[1, 2])];
    assert!(run("quantized_decomposed::mixed_mm.out", wide).unwrap_err().contains("2 columns"));
}

#[test]
fn sums_of_quantised_tensors() {
    let (a, b) = (tensor::<i8>(&[3], &[10, -20, 127]), tensor::<i8>(&[3], &[4, 5, 100]));
    // 0.5 * (a - 2) + 0.25 * (b + 4), in steps of 0.1 from -1 on.
    let mut given = args![a, 0.5, 2, -128, 127, b, 0.25, -4, -128, 127, 0.1, -1, -128, 127];
    given.push(out::<i8>(&[3]));
    let sum = run_one("quantized_decomposed::add.out", given);
    assert_eq!(sum, tensor::<i8>(&[3], &[59, -89, 127]));
}
