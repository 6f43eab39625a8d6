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
    /// Its name.
    pub(crate) label: String,
    /// Between 0 and 1.
    pub(crate) probability: f64,
}

/// Reads labels, one per line.
pub(crate) fn read_labels(path: &Path) -> Result<Vec<String>, Failure> {
    let text = String::from_utf8(model::read(path)?);
    let text = text.map_err(|_| Failure::new(format!("{}: labels are text, one per line", path.display())))?;
    let labels: Vec<String> = text.trim_end().lines().map(|line| line.trim().to_owned()).collect();
    match labels.is_empty() {
        true => Err(Failure::new(format!("{}: there are no labels in it", path.display()))),
        false => Ok(labels),
    }
}

/// The most likely classes by the first output of floating-point numbers that has as many as there are labels along its last
/// dimension; of several rows, by the first.
pub(crate) fn top(outputs: &[Value], labels: &[String], count: usize) -> Result<Vec<Guess>, Failure> {
    let scores = outputs.iter().find_map(|output| scores(output.tensor().ok()?, labels.len()));
    let probabilities = probabilities(scores.ok_or_else(|| refusal(outputs, labels.len()))?);
    let mut classes: Vec<usize> = (0..probabilities.len()).collect();
    classes.sort_by(|&a, &b| probabilities[b].total_cmp(&probabilities[a]));
    let guess = |class: usize| Guess { class, label: labels[class].clone(), probability: probabilities[class] };
    Ok(classes.into_iter().take(count).map(guess).collect())
}

/// The scores along the last dimension, of the first row where there are several, if there are that many.
fn scores(tensor: &Tensor, count: usize) -> Option<Vec<f64>> {
    let fits = tensor.sizes().last() == Some(&count) && !tensor.dtype().is_complex();
    let Numbers::Real(mut values) = Numbers::of(Some(tensor).filter(|_| fits)?) else { return None };
    values.truncate(count);
    Some(values).filter(|values| values.len() == count)
}

/// Why labels do not say what the outputs are.
fn refusal(outputs: &[Value], count: usize) -> Failure {
    let real = |tensor: &&Tensor| matches!(Numbers::of(tensor), Numbers::Real(_));
    let found =
        outputs.iter().enumerate().find_map(|(index, output)| Some((index, output.tensor().ok().filter(real)?)));
    let text = match found.map(|(index, tensor)| (index, tensor.sizes())) {
        Some((index, sizes @ [.., last])) => {
            format!("there are {count} labels, and {last} numbers along the last dimension of out{index}, {sizes:?}")
        }
        _ => "labels need an output of floating-point scores, there is none".to_owned(),
    };
    Failure::new(text).hint("labels are for scores [.., number of labels], one line for each class of the model")
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

    fn labels(count: usize) -> Vec<String> {
        (0..count).map(|class| format!("class {class}")).collect()
    }

    #[test]
    fn scores_become_probabilities() {
        // Softmax of ln 1, ln 3 and ln 4.
        let top = top(&outputs(&[0.0, 3f32.ln(), 4f32.ln()]), &labels(3), 2).unwrap();
        assert_eq!(top.iter().map(|guess| guess.label.as_str()).collect::<Vec<_>>(), ["class 2", "class 1"]);
        assert!((top[0].probability - 0.5).abs() < 1e-6 && (top[1].probability - 0.375).abs() < 1e-6);
    }

    #[test]
    fn probabilities_stay() {
        let top = top(&outputs(&[0.25, 0.75]), &labels(2), 5).unwrap();
        assert_eq!(
            top.iter().map(|guess| (guess.class, guess.probability)).collect::<Vec<_>>(),
            [(1, 0.75), (0, 0.25)]
        );
        assert!(super::top(&[Value::Int(1)], &labels(1), 5).is_err());
    }

    #[test]
    fn labels_must_fit_the_scores() {
        let detections = Value::Tensor(Tensor::from_slice(&[0.5f32; 60], &[1, 6, 10]).unwrap());
        let refused = top(&[detections], &labels(1000), 5).unwrap_err();
        assert!(refused.message().contains("1000 labels, and 10 numbers") && refused.message().contains("[1, 6, 10]"));
        let few = top(&outputs(&[0.5; 1000]), &labels(10), 5).unwrap_err();
        assert!(few.message().contains("10 labels, and 1000 numbers"), "{}", few.message());
        // The output that fits is taken, wherever it is.
        let several = [outputs(&[0.5; 4]), outputs(&[0.0, 1.0])].concat();
        assert_eq!(top(&several, &labels(2), 1).unwrap()[0].class, 1);
    }
}
