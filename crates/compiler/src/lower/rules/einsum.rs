//! Sums of products by Einstein's convention.
//!
//! Every dimension has a letter. Operands are joined two at a time: letters that nobody asks for later are summed, those
//! of both that stay are a batch, and what is left is a product of matrices for each index of the batch.

use super::Answer;
use crate::Error;
use crate::ir::{TensorType, ValueId};
use crate::lower::Site;
use crate::size::Size;

/// A tensor whose dimensions have letters, each once.
struct Named {
    value: ValueId,
    letters: Vec<char>,
}

/// Letters for the dimensions that an ellipsis stands for.
const ELLIPSIS: std::ops::RangeInclusive<char> = '\u{e000}'..='\u{e0ff}';

pub(super) fn einsum(site: &mut Site<'_, '_>) -> Answer {
    let (values, equation) = (site.tensors("tensors")?, site.text("equation", "").replace(' ', ""));
    let (inputs, output) =
        equation.split_once("->").map_or((&*equation, None), |(inputs, output)| (inputs, Some(output)));
    let terms: Vec<&str> = inputs.split(',').collect();
    if terms.len() != values.len() {
        return Err(Error::unsupported(format!("the equation {equation:?} for {} tensors", values.len())));
    }
    let letters = terms.iter().zip(&values).map(|(term, value)| spelled(term, site.ty(*value).rank()));
    let letters: Vec<Vec<char>> = letters.collect::<Option<_>>().ok_or_else(|| Error::unsupported(equation.clone()))?;
    let wanted = wanted(&letters, output);
    let mut operands: Vec<Named> =
        values.into_iter().zip(letters).map(|(value, letters)| diagonals(site, Named { value, letters })).collect();
    let mut done = operands.remove(0);
    while !operands.is_empty() {
        let next = operands.remove(0);
        let later = |letter: char| wanted.contains(&letter) || operands.iter().any(|own| own.letters.contains(&letter));
        done = join(site, done, next, &later);
    }
    let done = summed(site, done, &|letter| wanted.contains(&letter));
    let order: Vec<usize> =
        wanted.iter().filter_map(|letter| done.letters.iter().position(|own| own == letter)).collect();
    Ok(vec![site.permute(done.value, &order)])
}

/// A letter for each dimension.
fn spelled(term: &str, rank: usize) -> Option<Vec<char>> {
    let Some((before, after)) = term.split_once("...") else {
        return (term.chars().count() == rank).then(|| term.chars().collect());
    };
    let hidden = rank.checked_sub(before.chars().count() + after.chars().count())?;
    // The last dimensions meet, so the last letters are the same for all.
    let all: Vec<char> = ELLIPSIS.collect();
    let start = all.len().checked_sub(hidden)?;
    Some(before.chars().chain(all[start..].iter().copied()).chain(after.chars()).collect())
}

/// The letters of the result: those named, or those that occur once, in order.
fn wanted(letters: &[Vec<char>], output: Option<&str>) -> Vec<char> {
    let mut hidden: Vec<char> = letters.iter().flatten().copied().filter(|letter| ELLIPSIS.contains(letter)).collect();
    hidden.sort_unstable();
    hidden.dedup();
    match output {
        Some(output) => {
            let (before, after) = output.split_once("...").unwrap_or((output, ""));
            let hidden = if output.contains("...") { hidden } else { Vec::new() };
            before.chars().chain(hidden).chain(after.chars()).collect()
        }
        None => {
            let count = |letter: char| letters.iter().flatten().filter(|own| **own == letter).count();
            let once =
                letters.iter().flatten().copied().filter(|letter| !ELLIPSIS.contains(letter) && count(*letter) == 1);
            let mut once: Vec<char> = once.collect();
            once.sort_unstable();
            hidden.into_iter().chain(once).collect()
        }
    }
}

/// A letter twice in one operand means its diagonal.
fn diagonals(site: &mut Site<'_, '_>, mut own: Named) -> Named {
    loop {
        let pair = own.letters.iter().enumerate().find_map(|(first, letter)| {
            let second = own.letters[first + 1..].iter().position(|other| other == letter)?;
            Some((first, first + 1 + second, *letter))
        });
        let Some((first, second, letter)) = pair else { return own };
        let ty = site.ty(own.value);
        let size = ty.sizes[first].clone();
        let rest = (0..ty.rank()).filter(|dim| *dim != first && *dim != second);
        let sizes: Vec<Size> = rest.map(|dim| ty.sizes[dim].clone()).chain([size]).collect();
        let dims = [("offset", 0.into()), ("dim1", (first as i64).into()), ("dim2", (second as i64).into())];
        let args = [("self", own.value.into())].into_iter().chain(dims);
        own.value = site.call("aten::diagonal", args, ty.with_sizes(sizes));
        own.letters.retain(|own| *own != letter);
        own.letters.push(letter);
    }
}

/// The operand without the letters that nobody wants.
fn summed(site: &mut Site<'_, '_>, mut own: Named, wanted: &dyn Fn(char) -> bool) -> Named {
    let dims: Vec<usize> = (0..own.letters.len()).filter(|&dim| !wanted(own.letters[dim])).collect();
    if !dims.is_empty() {
        own.value = site.sum(own.value, &dims, false);
        own.letters.retain(|letter| wanted(*letter));
    }
    own
}

/// Both operands as one.
fn join(site: &mut Site<'_, '_>, left: Named, right: Named, later: &dyn Fn(char) -> bool) -> Named {
    let [left, right] = [squeezed(site, &left, &right), squeezed(site, &right, &left)];
    let left = summed(site, left, &|letter| later(letter) || right.letters.contains(&letter));
    let right = summed(site, right, &|letter| later(letter) || left.letters.contains(&letter));
    let both = |letter: &char| left.letters.contains(letter) && right.letters.contains(letter);
    let batch: Vec<char> = left.letters.iter().copied().filter(|letter| both(letter) && later(*letter)).collect();
    let inner: Vec<char> = left.letters.iter().copied().filter(|letter| both(letter) && !later(*letter)).collect();
    let rows: Vec<char> = left.letters.iter().copied().filter(|letter| !both(letter)).collect();
    let columns: Vec<char> = right.letters.iter().copied().filter(|letter| !both(letter)).collect();
    let dtype = site.ty(left.value).dtype;
    let [b, r, c] =
        [(&left, &batch), (&left, &rows), (&right, &columns)].map(|(own, letters)| sizes(site, own, letters));
    let a = stacked(site, &left, [&batch, &rows, &inner]);
    let z = stacked(site, &right, [&batch, &inner, &columns]);
    let count = |sizes: &[Size]| sizes.iter().fold(Size::from(1), |count, size| count.times(size));
    let ty = TensorType::new(dtype, [count(&b), count(&r), count(&c)]);
    let product = site.call("aten::bmm", [("self", a.into()), ("mat2", z.into())], ty);
    let value = site.view(product, [b, r, c].concat());
    Named { value, letters: [batch, rows, columns].concat() }
}

/// The operand without those of its dimensions that have one element where the other has more.
fn squeezed(site: &mut Site<'_, '_>, own: &Named, other: &Named) -> Named {
    let (ty, others) = (site.ty(own.value), site.ty(other.value));
    let one = |dim: usize| {
        let place = other.letters.iter().position(|letter| *letter == own.letters[dim]);
        ty.sizes[dim].number() == Some(1) && place.is_some_and(|place| others.sizes[place].number() != Some(1))
    };
    let kept: Vec<usize> = (0..own.letters.len()).filter(|&dim| !one(dim)).collect();
    let value = site.view(own.value, kept.iter().map(|&dim| ty.sizes[dim].clone()).collect());
    Named { value, letters: kept.iter().map(|&dim| own.letters[dim]).collect() }
}

fn sizes(site: &Site<'_, '_>, own: &Named, letters: &[char]) -> Vec<Size> {
    let ty = site.ty(own.value);
    let size = |letter: &char| own.letters.iter().position(|known| known == letter).map(|dim| ty.sizes[dim].clone());
    letters.iter().filter_map(size).collect()
}

/// The operand with three dimensions, each made of letters.
fn stacked(site: &mut Site<'_, '_>, own: &Named, groups: [&Vec<char>; 3]) -> ValueId {
    let letters = groups.iter().flat_map(|group| group.iter());
    let order: Vec<usize> = letters.filter_map(|letter| own.letters.iter().position(|known| known == letter)).collect();
    let wanted =
        groups.map(|group| sizes(site, own, group).iter().fold(Size::from(1), |count, size| count.times(size)));
    let value = site.permute(own.value, &order);
    site.view(value, wanted.to_vec())
}
