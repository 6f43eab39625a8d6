//! How fast ggml itself decodes a Llama of given sizes, driven by hand: the yardstick for the engine.
//!
//! ```sh
//! cargo run --release -p sconce-ggml --features ggml --example direct -- q8_0 768,2048,12,12,12,16384,256 100 1
//! ```
//!
//! Element type of the weights, sizes (dim, hidden, layers, heads, heads of keys, vocabulary, length), tokens, threads. One
//! graph is built and placed once, as the engine does; the weights are arbitrary, because speed does not depend on them.
#![allow(unsafe_code, reason = "it drives a C library by hand")]

#[cfg(feature = "ggml")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    direct::run()
}

#[cfg(not(feature = "ggml"))]
fn main() {
    eprintln!("this needs the feature `ggml`");
}

#[cfg(feature = "ggml")]
mod direct {
    use llama_cpp_sys_2::*;
    use sconce_format::ggml::Element;
    use std::error::Error;
    use std::ptr::null_mut;
    use std::time::Instant;

    type Tensor = *mut ggml_tensor;

    struct Layer {
        norms: [Tensor; 2],
        q: Tensor,
        k: Tensor,
        v: Tensor,
        out: Tensor,
        gate: Tensor,
        up: Tensor,
        down: Tensor,
        keys: Tensor,
        values: Tensor,
    }

    pub(super) fn run() -> Result<(), Box<dyn Error>> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let [element, sizes, count, threads] = &arguments[..] else {
            return Err("usage: direct ELEMENT SIZES COUNT THREADS".into());
        };
        let element = Element::ALL.iter().find(|own| own.name() == element).ok_or("no such element type")?;
        let sizes = sizes.split(',').map(str::parse).collect::<Result<Vec<i64>, _>>()?;
        let sizes = <[i64; 7]>::try_from(sizes).map_err(|_| "seven sizes")?;
        // SAFETY: `decode` asks for sizes that make a Llama, and ggml stops at others.
        let seconds = unsafe { decode(element.ggml(), sizes, count.parse()?, threads.parse()?) };
        eprintln!("{:.1} tokens a second", count.parse::<f64>()? / seconds);
        Ok(())
    }

    /// # Safety
    /// The sizes must be those of a Llama: heads divide the dimension, heads of keys the heads, and rows are whole blocks.
    unsafe fn decode(kind: ggml_type, sizes: [i64; 7], count: i64, threads: i32) -> f64 {
        let [dim, hidden, layers, heads, kv_heads, vocabulary, length] = sizes;
        let head = dim / heads;
        // SAFETY: one thread talks to ggml; contexts, buffers and the thread pool live until the process ends, and every
        // tensor is made and bound before it is computed.
        unsafe {
            let context =
                |bytes| ggml_init(ggml_init_params { mem_size: bytes, mem_buffer: null_mut(), no_alloc: true });
            let (kept, graphs) = (context(1 << 20), context(1 << 23));
            let weight = |columns, rows| ggml_new_tensor_2d(kept, kind, columns, rows);
            let numbers = |columns| ggml_new_tensor_1d(kept, GGML_TYPE_F32, columns);
            let cache = || ggml_new_tensor_3d(kept, GGML_TYPE_F32, head, length, kv_heads);
            let layers: Vec<Layer> = (0..layers)
                .map(|_| Layer {
                    norms: [numbers(dim), numbers(dim)],
                    q: weight(dim, dim),
                    k: weight(dim, head * kv_heads),
                    v: weight(dim, head * kv_heads),
                    out: weight(dim, dim),
                    gate: weight(dim, hidden),
                    up: weight(dim, hidden),
                    down: weight(hidden, dim),
                    keys: cache(),
                    values: cache(),
                })
                .collect();
            let (table, norm) = (weight(dim, vocabulary), numbers(dim));
            let cpu = ggml_backend_cpu_init();
            ggml_backend_cpu_set_n_threads(cpu, threads);
            let mut params = ggml_threadpool_params_default(threads);
            ggml_backend_cpu_set_threadpool(cpu, ggml_threadpool_new(&raw mut params));
            ggml_backend_buffer_clear(ggml_backend_alloc_ctx_tensors(kept, cpu), 0);

            let input = |kind, columns| {
                let tensor = ggml_new_tensor_1d(graphs, kind, columns);
                ggml_set_input(tensor);
                tensor
            };
            let (token, position) = (input(GGML_TYPE_I32, 1), input(GGML_TYPE_I32, 1));
            let mask = ggml_new_tensor_2d(graphs, GGML_TYPE_F16, length, 1);
            ggml_set_input(mask);
            let graph = ggml_new_graph_custom(graphs, 4096, false);
            let normed = |x, weight| ggml_mul(graphs, ggml_rms_norm(graphs, x, 1e-5), weight);
            let mut x = ggml_get_rows(graphs, table, token);
            for layer in &layers {
                let h = normed(x, layer.norms[0]);
                let part = |weight, heads| ggml_reshape_3d(graphs, ggml_mul_mat(graphs, weight, h), head, heads, 1);
                let turn = |x| {
                    let none = null_mut();
                    ggml_rope_ext(graphs, x, position, none, head as i32, 0, 0, 1e4, 1.0, 0.0, 1.0, 0.0, 0.0)
                };
                let (q, k, v) = (turn(part(layer.q, heads)), turn(part(layer.k, kv_heads)), part(layer.v, kv_heads));
                let put = |cache, new| ggml_set_rows(graphs, cache, ggml_permute(graphs, new, 0, 2, 1, 3), position);
                let (keys, values) = (put(layer.keys, k), put(layer.values, v));
                let scale = 1.0 / (head as f32).sqrt();
                let q = ggml_permute(graphs, q, 0, 2, 1, 3);
                let attended = ggml_flash_attn_ext(graphs, q, keys, values, mask, scale, 0.0, 0.0);
                ggml_flash_attn_ext_set_prec(attended, GGML_PREC_F32);
                let attended = ggml_reshape_2d(graphs, attended, dim, 1);
                x = ggml_add(graphs, x, ggml_mul_mat(graphs, layer.out, attended));
                let h = normed(x, layer.norms[1]);
                let gate = ggml_silu(graphs, ggml_mul_mat(graphs, layer.gate, h));
                let product = ggml_mul(graphs, gate, ggml_mul_mat(graphs, layer.up, h));
                x = ggml_add(graphs, x, ggml_mul_mat(graphs, layer.down, product));
            }
            let logits = ggml_mul_mat(graphs, table, normed(x, norm));
            ggml_set_output(logits);
            ggml_build_forward_expand(graph, logits);
            let places = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
            ggml_gallocr_alloc_graph(places, graph);

            let mut out = vec![0f32; vocabulary as usize];
            let mut step = |at: i64| {
                let (word, at) = (1i32, at as i32);
                let seen: Vec<u16> = (0..length as i32).map(|key| if key <= at { 0 } else { 0xfc00 }).collect();
                ggml_backend_tensor_set(token, (&raw const word).cast(), 0, 4);
                ggml_backend_tensor_set(position, (&raw const at).cast(), 0, 4);
                ggml_backend_tensor_set(mask, seen.as_ptr().cast(), 0, 2 * seen.len());
                ggml_backend_graph_compute(cpu, graph);
                ggml_backend_tensor_get(logits, out.as_mut_ptr().cast(), 0, 4 * out.len());
            };
            step(0);
            let start = Instant::now();
            (0..count).for_each(&mut step);
            start.elapsed().as_secs_f64()
        }
    }
}
