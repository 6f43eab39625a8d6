//! Weights that stay in a GGUF file.
//!
//! The payload refers to them by their names in the file, so the program has none of their bytes and computes with the
//! blocks that the file has. A module calls its tensors otherwise than GGUF does: [`NAMES`] is the table between the names
//! of Hugging Face's modules and those of GGUF, for the families in [`FAMILIES`]. A name that both have needs no row.
//!
//! Files of the llama family have the rows of queries and keys in another order: the two halves of a head, which a rotation
//! pairs, alternate. Where such a weight is used, the payload puts what it computes back into the module's order.

use sconce_format::{Element, Error, gguf};
use std::collections::HashMap;

/// Module's name, names in the file (the first one that is there), and what says how many heads a rotation pairs. `#` is
/// the number of a layer; `.weight` or `.bias` follows on both sides.
const NAMES: &[(&str, &[&str], Option<Heads>)] = &[
    ("embed_tokens", &["token_embd"], None),
    ("norm", &["output_norm"], None),
    ("lm_head", &["output", "token_embd"], None),
    ("layers.#.input_layernorm", &["blk.#.attn_norm"], None),
    ("layers.#.self_attn.q_proj", &["blk.#.attn_q"], Some(Heads::Queries)),
    ("layers.#.self_attn.k_proj", &["blk.#.attn_k"], Some(Heads::Keys)),
    ("layers.#.self_attn.v_proj", &["blk.#.attn_v"], None),
    ("layers.#.self_attn.o_proj", &["blk.#.attn_output"], None),
    ("layers.#.self_attn.q_norm", &["blk.#.attn_q_norm"], None),
    ("layers.#.self_attn.k_norm", &["blk.#.attn_k_norm"], None),
    ("layers.#.post_attention_layernorm", &["blk.#.ffn_norm"], None),
    ("layers.#.mlp.gate_proj", &["blk.#.ffn_gate"], None),
    ("layers.#.mlp.up_proj", &["blk.#.ffn_up"], None),
    ("layers.#.mlp.down_proj", &["blk.#.ffn_down"], None),
];

/// The architectures that have these names, and whether the halves of heads alternate in their files.
const FAMILIES: &[(&str, bool)] = &[("llama", true), ("qwen2", false), ("qwen3", false)];

/// Whose heads.
#[derive(Clone, Copy, Debug)]
enum Heads {
    Queries,
    Keys,
}

/// The tensors of a GGUF file, to be found by their names in a module.
#[derive(Clone, Debug, Default)]
pub struct Weights {
    tensors: HashMap<String, Stored>,
    architecture: String,
    /// Heads of queries and of keys.
    heads: [Option<usize>; 2],
}

/// A tensor of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The number of its type in ggml.
    pub kind: u32,
    /// Its sizes, the outermost first.
    pub sizes: Vec<usize>,
}

/// What a name of a module stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'w> {
    /// The name in the file.
    pub name: &'w str,
    /// What is there.
    pub stored: &'w Stored,
    /// How its rows lie.
    pub order: Order,
}

/// How the rows of a weight lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As in the module.
    Same,
    /// In each of n heads, the first half and the second alternate; 0 if the file does not say how many.
    Alternating(usize),
}

impl Stored {
    /// What it is made of, if that is known.
    pub fn element(&self) -> Option<Element> {
        Element::of_ggml(self.kind)
    }
}

impl Weights {
    /// What a GGUF file has.
    pub fn read(file: &[u8]) -> Result<Self, Error> {
        let file = gguf::File::parse(file)?;
        let stored = |tensor: &gguf::Tensor<'_>| Stored { kind: tensor.kind, sizes: tensor.sizes.clone() };
        let tensors = file.tensors().iter().map(|tensor| (tensor.name.to_owned(), stored(tensor))).collect();
        let architecture = file.value("general.architecture").and_then(gguf::Value::text).unwrap_or_default();
        let count = |key: &str| {
            let value = file.value(&format!("{architecture}.attention.{key}"))?;
            usize::try_from(value.natural()?).ok()
        };
        let queries = count("head_count");
        let keys = match file.value(&format!("{architecture}.attention.head_count_kv")) {
            Some(_) => count("head_count_kv"),
            None => queries,
        };
        Ok(Self { tensors, architecture: architecture.to_owned(), heads: [queries, keys] })
    }

    /// The architecture that the file names; empty if it names none.
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    /// The tensor that a module calls so.
    pub fn find(&self, module: &str) -> Option<Found<'_>> {
        if let Some((name, stored)) = self.tensors.get_key_value(module) {
            return Some(Found { name, stored, order: Order::Same });
        }
        let (_, alternate) = FAMILIES.iter().find(|(family, _)| *family == self.architecture)?;
        let mut own = module;
        while let Some(rest) = own.strip_prefix("model.") {
            own = rest;
        }
        let (own, last) = own.rsplit_once('.').filter(|(_, last)| matches!(*last, "weight" | "bias"))?;
        let (pattern, layer) = numbered(own);
        let (_, names, heads) = NAMES.iter().find(|(row, ..)| *row == pattern)?;
        let mut names = names.iter().map(|name| format!("{}.{last}", name.replace('#', layer)));
        let (name, stored) = names.find_map(|name| self.tensors.get_key_value(&name))?;
        let order = match heads.filter(|_| *alternate) {
            None => Order::Same,
            Some(Heads::Queries) => Order::Alternating(self.heads[0].unwrap_or(0)),
            Some(Heads::Keys) => Order::Alternating(self.heads[1].unwrap_or(0)),
        };
        Some(Found { name, stored, order })
    }
}

/// A name with `#` in the place of the number of its layer, and that number.
fn numbered(name: &str) -> (String, &str) {
    let layer = name.strip_prefix("layers.").and_then(|rest| rest.split_once('.'));
    match layer.filter(|(number, _)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())) {
        Some((number, rest)) => (format!("layers.#.{rest}"), number),
        None => (name.to_owned(), ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(architecture: &str, names: &[&str]) -> Weights {
        let stored = Stored { kind: 0, sizes: vec![1] };
        let tensors = names.iter().map(|name| ((*name).to_owned(), stored.clone())).collect();
        Weights { tensors, architecture: architecture.to_owned(), heads: [Some(4), Some(2)] }
    }

    #[test]
    fn names_of_modules_are_mapped() {
        let names = ["token_embd.weight", "blk.12.attn_q.weight", "blk.12.attn_k_norm.weight", "output_norm.weight"];
        let own = weights("qwen3", &names);
        let found = |name| own.find(name).map(|found| found.name);
        assert_eq!(found("model.embed_tokens.weight"), Some("token_embd.weight"));
        assert_eq!(found("lm_head.weight"), Some("token_embd.weight"));
        assert_eq!(found("model.layers.12.self_attn.q_proj.weight"), Some("blk.12.attn_q.weight"));
        assert_eq!(found("model.model.layers.12.self_attn.k_norm.weight"), Some("blk.12.attn_k_norm.weight"));
        assert_eq!(found("model.norm.weight"), Some("output_norm.weight"));
        assert_eq!(found("output_norm.weight"), Some("output_norm.weight"));
        for none in ["model.layers.1.self_attn.q_proj.weight", "model.layers.x.norm.weight", "norm", "norm.bias", ""] {
            assert_eq!(found(none), None, "{none}");
        }
        let untied = weights("qwen3", &["token_embd.weight", "output.weight"]);
        assert_eq!(untied.find("lm_head.weight").map(|found| found.name), Some("output.weight"));
    }

    #[test]
    fn families_differ_in_the_order_of_heads() {
        let names = ["blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight"];
        let order = |architecture, name| weights(architecture, &names).find(name).map(|found| found.order);
        assert_eq!(order("llama", "model.layers.0.self_attn.q_proj.weight"), Some(Order::Alternating(4)));
        assert_eq!(order("llama", "model.layers.0.self_attn.k_proj.weight"), Some(Order::Alternating(2)));
        assert_eq!(order("llama", "model.layers.0.self_attn.v_proj.weight"), Some(Order::Same));
        assert_eq!(order("llama", "blk.0.attn_q.weight"), Some(Order::Same));
        assert_eq!(order("qwen3", "model.layers.0.self_attn.q_proj.weight"), Some(Order::Same));
        assert_eq!(order("gemma", "model.layers.0.self_attn.q_proj.weight"), None);
    }
}
