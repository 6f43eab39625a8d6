//! Takes out nodes whose results nobody reads.

use crate::graph::Graph;

/// Removes them; answers how many.
pub fn remove_dead(graph: &mut Graph) -> usize {
    let mut wanted = vec![false; graph.values.len()];
    for output in &graph.outputs {
        wanted[output.index()] = true;
    }
    let mut dead = 0;
    for node in graph.nodes.iter().rev() {
        match node.outputs.iter().any(|id| wanted[id.index()]) {
            true => node.reads().for_each(|id| wanted[id.index()] = true),
            false => dead += 1,
        }
    }
    if dead > 0 {
        graph.nodes.retain(|node| node.outputs.iter().any(|id| wanted[id.index()]));
    }
    dead
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_leads_to_an_output_stays() {
        let text = "%0: float32[4] = input\n\
                    %1: float32[4] = abs %0\n\
                    %2: float32[4] = exp %0\n\
                    %3: float32[4] = log %2\n\
                    output %1\n";
        let mut graph = crate::parse(text).unwrap();
        assert_eq!(remove_dead(&mut graph), 2);
        assert_eq!(graph.to_string(), "%0: float32[4] = input\n%1: float32[4] = abs %0\noutput %1\n");
    }
}
