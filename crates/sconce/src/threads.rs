//! How many threads a run may have.
pub use sconce_parallel::most_threads;

/// A sentence for whoever asks for more threads than a run gets.
pub fn too_many_threads(asked: usize) -> Option<String> {
    let most = most_threads();
    (asked > most)
        .then(|| format!("{asked} threads would wait for each other: {most} are used, the most for this machine"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_very_many_are_too_many() {
        assert_eq!((too_many_threads(0), too_many_threads(16)), (None, None));
        let text = too_many_threads(1_000_000).unwrap();
        assert!(text.contains("1000000 threads") && text.contains(&format!(" {} are used", most_threads())), "{text}");
    }
}
