//! The scores of a classifier as labels with probabilities.
use crate::failure::Failure;
use crate::model;
use crate::numbers::Numbers;
use sconce::{Tensor, Value};
use serde::Serialize;
use std::path::Path;

/// A class and how likely it is.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Guess {
    /// Its number.
    pub(crate) class: usize,
    /// Its name, or its number where the list of labels ends before it.
    pub(crate) label: String,
    /// Between 0 and 1.
    pub(crate) probability: f64,
}

/// Reads labels, one per line.
pub(crate) fn read_labels(path: &Path) -> Result<Vec<String>, Failure> {
    let text = String::from_utf8(model::read(path)?);
    let text = text.map_err(|_| Failure::new(format!("{}: labels are text, one per line", path.display())))?;
    Ok(text.lines().map(|line| line.trim().to_owned()).collect())
}

/// The most likely classes by the first output that is a tensor of floating-point numbers.
pub(crate) fn top(outputs: &[Value], labels: &[String], count: usize) -> Result<Vec<Guess>, Failure> {
    let scores = outputs.iter().find_map(|output| output.tensor().ok().and_then(scores));
    let scores = scores.ok_or_else(|| Failure::new("labels need an output of floating-point scores, there is none"))?;
    let probabilities = probabilities(scores);
    let mut classes: Vec<usize> = (0..probabilities.len()).collect();
    classes.sort_by(|&a, &b| probabilities[b].total_cmp(&probabilities[a]));
    let guess = |class: usize| {
        let label = labels.get(class).cloned().unwrap_or_else(|| class.to_string());
        Guess { class, label, probability: probabilities[class] }
    };
    Ok(classes.into_iter().take(count).map(guess).collect())
}

/// The scores along the last dimension, of the first row where there are several.
fn scores(tensor: &Tensor) -> Option<Vec<f64>> {
    let Numbers::Real(mut values) = Numbers::of(tensor) else { return None };
    values.truncate(tensor.sizes().last().copied().unwrap_or(1));
    Some(values).filter(|values| !values.is_empty() && !tensor.dtype().is_complex())
}

/// Scores that are no probabilities yet go through a softmax.
fn probabilities(scores: Vec<f64>) -> Vec<f64> {
    let already =
        scores.iter().all(|score| (0.0..=1.0).contains(score)) && (scores.iter().sum::<f64>() - 1.0).abs() < 1e-2;
    if already {
        return scores;
    }
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outputs(scores: &[f32]) -> Vec<Value> {
        vec![Value::Int(1), Value::Tensor(Tensor::from_slice(scores, &[1, scores.len()]).unwrap())]
    }

    #[test]
    fn scores_become_probabilities() {
        // Softmax of ln 1, ln 3 and ln 4.
        let labels = ["a".to_owned(), "b".to_owned()];
        let top = top(&outputs(&[0.0, 3f32.ln(), 4f32.ln()]), &labels, 2).unwrap();
        assert_eq!(top.iter().map(|guess| guess.label.as_str()).collect::<Vec<_>>(), ["2", "b"]);
        assert!((top[0].probability - 0.5).abs() < 1e-6 && (top[1].probability - 0.375).abs() < 1e-6);
    }

    #[test]
    fn probabilities_stay() {
        let top = top(&outputs(&[0.25, 0.75]), &[], 5).unwrap();
        assert_eq!(
            top.iter().map(|guess| (guess.class, guess.probability)).collect::<Vec<_>>(),
            [(1, 0.75), (0, 0.25)]
        );
        assert!(super::top(&[Value::Int(1)], &[], 5).is_err());
    }
}
