//! The product against three loops, around the edges of tiles, blocks and threads.
use super::*;
use crate::testing::{Random, assert_close, pool};
use half::{bf16, f16};

/// Three loops.
fn naive(g: &Gemm<'_>, c: &mut [f32], ldc: usize) {
    for i in 0..g.m {
        for j in 0..g.n {
            let at = |m: &Matrix<'_>, i: usize, j: usize| f64::from(m.data[i * m.row_stride + j * m.col_stride]);
            let sum: f64 = (0..g.k).map(|p| at(&g.a, i, p) * at(&g.b, p, j)).sum();
            let base = match g.init {
                Init::Zero => 0.0,
                Init::PerRow(bias) => f64::from(bias[i]),
                Init::PerColumn(bias) => f64::from(bias[j]),
                Init::Scaled(beta) => f64::from(beta) * f64::from(c[i * ldc + j]),
            };
            let value = (sum + base) as f32;
            c[i * ldc + j] = match g.epilogue {
                Epilogue::None => value,
                Epilogue::Relu => value.max(0.0),
                Epilogue::Clamp(low, high) => value.max(low).min(high),
            };
        }
    }
}

fn check(random: &mut Random, (m, n, k): (usize, usize, usize)) {
    let (a, b) = (random.floats(m * k), random.floats(k * n));
    let bias = random.floats(m.max(n));
    let ldc = n + random.below(3);
    let before = random.floats(m * ldc);
    let inits = [Init::Zero, Init::PerRow(&bias), Init::PerColumn(&bias), Init::Scaled(0.5), Init::Scaled(1.0)];
    let epilogues = [Epilogue::None, Epilogue::Relu, Epilogue::Clamp(-0.5, 0.25)];
    let a = [Matrix::row_major(&a, k), Matrix::transposed(&a, m)][random.below(2)];
    let b = [Matrix::row_major(&b, n), Matrix::transposed(&b, k)][random.below(2)];
    let g = Gemm { m, n, k, a, b, init: inits[random.below(5)], epilogue: epilogues[random.below(3)] };
    let mut expected = before.clone();
    naive(&g, &mut expected, ldc);
    let pool = pool();
    for isa in Isa::available() {
        for par in [&Serial as &dyn Parallel, &pool] {
            let mut c = before.clone();
            let mut scratch = vec![f32::NAN; gemm_scratch(m, n, k, par.width())];
            gemm(isa, par, &g, &mut c, ldc, &mut scratch);
            assert_close(&c, &expected, 2e-6 * (k as f32).sqrt().max(4.0), &(isa, m, n, k, g.init, g.epilogue));
        }
    }
}

#[test]
fn sizes_around_tiles() {
    let mut random = Random::new(1);
    let sizes = [0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 15, 16, 17, 24, 25, 31, 32, 33, 47, 48, 49, 63, 64, 65];
    for _ in 0..400 {
        let mut size = || sizes[random.below(sizes.len())];
        let shape = (size(), size(), size());
        check(&mut random, shape);
    }
}

#[test]
fn sizes_around_blocks() {
    let mut random = Random::new(2);
    for shape in [
        (MC - 1, NC + 1, KC + 1),
        (MC + 1, 33, 2 * KC),
        (2 * MC + 3, 17, KC - 1),
        (3, NC + 40, 700),
        (16, 300, 513),
        (1, 4000, 100),
        (1, 1000, 1001),
        (2, 1, 5000),
    ] {
        check(&mut random, shape);
        check(&mut random, shape);
    }
}

#[test]
fn not_a_number_survives_the_epilogue() {
    for isa in Isa::available() {
        for m in [1, 8] {
            let (a, b) = (vec![f32::NAN; m * 3], vec![1.0; 3 * 20]);
            let g = Gemm {
                m,
                n: 20,
                k: 3,
                a: Matrix::row_major(&a, 3),
                b: Matrix::row_major(&b, 20),
                init: Init::Zero,
                epilogue: Epilogue::Relu,
            };
            let mut c = vec![0.0; m * 20];
            gemm(isa, &Serial, &g, &mut c, 20, &mut vec![0.0; gemm_scratch(m, 20, 3, 1)]);
            assert!(c.iter().all(|c| c.is_nan()), "{isa:?}");
        }
    }
}

#[test]
fn batches_share_or_step() {
    let mut random = Random::new(5);
    for (batch, m, n, k) in [(1, 3, 4, 5), (7, 9, 33, 17), (20, 1, 8, 8), (2, 100, 70, 60)] {
        let (a, b) = (random.floats(batch * m * k), random.floats(k * n));
        let g = Gemm {
            m,
            n,
            k,
            a: Matrix::row_major(&a, k),
            b: Matrix::row_major(&b, n),
            init: Init::Zero,
            epilogue: Epilogue::None,
        };
        let mut expected = vec![0.0; batch * m * n];
        for (i, c) in expected.chunks_exact_mut(m * n).enumerate() {
            naive(&Gemm { a: Matrix { data: &a[i * m * k..], ..g.a }, ..g }, c, n);
        }
        let pool = pool();
        let mut c = vec![0.0; batch * m * n];
        let mut scratch = vec![0.0; gemm_scratch(m, n, k, pool.width())];
        bmm(Isa::detect(), &pool, batch, &g, (m * k, 0), (&mut c, n, m * n), &mut scratch);
        assert_close(&c, &expected, 1e-5, &(batch, m, n, k));
    }
}

#[test]
fn other_kinds() {
    let pool = pool();
    let (m, n, k) = (13, 70, 9);
    let a: Vec<i64> = (0..m * k).map(|x| x as i64 % 7 - 3).collect();
    let b: Vec<i64> = (0..k * n).map(|x| x as i64 % 5 - 2).collect();
    let expected: Vec<i64> = (0..m * n)
        .map(|at| (0..k).map(|p| a[at / n * k + p] * b[p * n + at % n]).sum::<i64>() + (at % n) as i64)
        .collect();
    macro_rules! check {
        ($($t:ty),*) => {$({
            let number = |x: &i64| crate::convert::<i64, $t>(*x);
            let (a, b): (Vec<$t>, Vec<$t>) = (a.iter().map(number).collect(), b.iter().map(number).collect());
            let bias: Vec<$t> = (0..n as i64).map(|x| number(&x)).collect();
            let mut c = vec![number(&0); m * n];
            let operands = (Matrix::row_major(&a, k), Matrix::row_major(&b, n));
            generic::gemm(Isa::detect(), &pool, (m, n, k), operands.0, operands.1, Init::PerColumn(&bias), &mut c, n);
            assert_eq!(c, expected.iter().map(number).collect::<Vec<$t>>());
        })*};
    }
    check!(u8, i8, i16, u16, i32, u32, i64, u64, f32, f64, f16, bf16);
}
