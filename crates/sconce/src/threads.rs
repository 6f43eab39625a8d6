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
    use crate::Options;

    const PROGRAM: &[u8] = include_bytes!("../../../examples/digits/digits.pte");

    #[test]
    fn none_is_the_default_and_very_many_are_a_few() {
        let load = |threads| Options::new().threads(threads).load(PROGRAM).unwrap();
        let default = sconce_parallel::physical_cores();
        assert_eq!((load(0).threads(), load(0).warnings().len()), (default, 0));
        let many = load(10_000);
        assert_eq!((many.threads(), many.warnings()), (most_threads(), &[too_many_threads(10_000).unwrap()][..]));
        let mut session = load(1).session().unwrap();
        session.set_threads(0).unwrap();
        session.set_threads(usize::MAX).unwrap();
    }

    #[test]
    fn only_very_many_are_too_many() {
        assert_eq!((too_many_threads(0), too_many_threads(16)), (None, None));
        let text = too_many_threads(1_000_000).unwrap();
        assert!(text.contains("1000000 threads") && text.contains(&format!(" {} are used", most_threads())), "{text}");
    }
}
