//! Factors multiplied give the matrix.
use super::*;

/// A matrix of numbers without pattern.
fn matrix(rows: usize, columns: usize, seed: u32) -> Vec<f64> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12_345);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 8) / f64::from(1 << 23) - 1.0
    };
    (0..rows * columns).map(|_| next()).collect()
}

fn product(a: &[f64], b: &[f64], [rows, inner, columns]: [usize; 3]) -> Vec<f64> {
    let at = |i: usize, j: usize| (0..inner).map(|k| a[i * inner + k] * b[k * columns + j]).sum();
    (0..rows * columns).map(|place| at(place / columns, place % columns)).collect()
}

fn transposed(a: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    (0..rows * columns).map(|place| a[place % rows * columns + place / rows]).collect()
}

#[track_caller]
fn assert_close(have: &[f64], want: &[f64]) {
    assert_eq!(have.len(), want.len());
    let close = have.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-9);
    assert!(close, "{have:?} is not {want:?}");
}

#[test]
fn lu_solves_and_has_the_determinant() {
    for n in 1..8 {
        let (a, x) = (matrix(n, n, n as u32), matrix(n, 3, 77));
        let (mut factors, mut pivots, mut b) = (a.clone(), vec![0; n], product(&a, &x, [n, n, 3]));
        assert_eq!(lu(&mut factors, [n, n], true, &mut pivots), 0);
        solve_lu(&factors, n, &pivots, &mut b, 3);
        assert_close(&b, &x);
    }
    let (mut a, mut pivots) = (vec![1.0, 2.0, 3.0, 4.0], vec![0; 2]);
    lu(&mut a, [2, 2], true, &mut pivots);
    let (sign, size) = determinant(&a, 2, &pivots);
    assert_close(&[sign, size], &[-1.0, 2f64.ln()]);
    let mut singular = vec![1.0, 2.0, 2.0, 4.0];
    assert_eq!(lu(&mut singular, [2, 2], true, &mut pivots), 2);
    assert_eq!(determinant(&singular, 2, &pivots).0, 0.0);
}

#[test]
fn cholesky_of_a_square() {
    for n in 1..7 {
        let root = matrix(n, n, 5);
        let square = product(&root, &transposed(&root, n, n), [n, n, n]);
        let mut factor = square.clone();
        assert_eq!(cholesky(&mut factor, n), 0);
        assert_close(&product(&factor, &transposed(&factor, n, n), [n, n, n]), &square);
    }
    assert_eq!(cholesky(&mut [1.0, 2.0, 2.0, 1.0], 2), 2);
}

#[test]
fn qr_of_any_form() {
    for [rows, columns] in [[1, 1], [3, 3], [5, 2], [2, 5], [4, 1]] {
        let a = matrix(rows, columns, 9);
        let (mut r, mut q, mut scales) = (a.clone(), vec![0.0; rows * rows], vec![0.0; rows.min(columns)]);
        qr(&mut r, [rows, columns], &mut q, rows, &mut scales);
        assert_close(&product(&q, &r, [rows, rows, columns]), &a);
        let mut identity = vec![0.0; rows * rows];
        (0..rows).for_each(|i| identity[i * rows + i] = 1.0);
        assert_close(&product(&transposed(&q, rows, rows), &q, [rows, rows, rows]), &identity);
    }
}

#[test]
fn eigenvalues_rebuild_the_matrix() {
    for n in 1..8 {
        let half = matrix(n, n, 3);
        let a: Vec<f64> = half.iter().zip(transposed(&half, n, n)).map(|(x, y)| x + y).collect();
        let (mut work, mut values, mut vectors) = (a.clone(), vec![0.0; n], vec![0.0; n * n]);
        eigen(&mut work, n, &mut values, &mut vectors);
        assert!(values.is_sorted());
        let scaled: Vec<f64> = vectors.iter().enumerate().map(|(at, x)| x * values[at / n]).collect();
        assert_close(&product(&transposed(&vectors, n, n), &scaled, [n, n, n]), &a);
    }
}

#[test]
fn singular_values_rebuild_the_matrix() {
    for [long, short, rank] in [[1, 1, 1], [4, 4, 4], [5, 3, 3], [5, 3, 1], [3, 2, 0]] {
        let a = product(&matrix(short, rank, 1), &matrix(rank, long, 2), [short, rank, long]);
        let (mut left, mut values, mut right) = (vec![0.0; long * long], vec![0.0; short], vec![0.0; short * short]);
        left[..short * long].copy_from_slice(&a);
        singular_values([long, short], &mut left, &mut values, &mut right);
        assert!(values.is_sorted_by(|a, b| a >= b));
        let mut identity = vec![0.0; long * long];
        (0..long).for_each(|i| identity[i * long + i] = 1.0);
        assert_close(&product(&left, &transposed(&left, long, long), [long, long, long]), &identity);
        let scaled: Vec<f64> = left[..short * long].iter().enumerate().map(|(at, x)| x * values[at / long]).collect();
        assert_close(&product(&transposed(&right, short, short), &scaled, [short, short, long]), &a);
    }
}
