//! Convolutions in a row, computed together in strips.
//!
//! The first layers of image networks make larger images than the second-level cache holds, and each would be written to
//! memory and read back. Here a chain of convolutions, each the only reader of the one before, makes a few rows of the
//! last output at a time, and of everything in between only the rows that these need. Rows that the next strip needs again
//! stay; nothing is computed twice, but where threads part the image.
//!
//! ```text
//! input ──▶ rows of the first ──▶ rows of the second ──▶ output      each arrow a convolution of some rows
//!           ├ kept ┤ new ┤        ├ kept ┤ new ┤
//! ```

use super::{After, Choice, Context, Following, Step, Work};
use crate::cost;
use crate::memory::{ALIGN, Buffers};
use sconce_kernels::epilogue::Then;
use sconce_kernels::{Isa, Serial, split};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A step that can compute some rows of its image from some rows of its input.
pub(crate) trait Rows {
    /// Which rows it needs for which; `None` for more than one image, or if rows are not alike.
    fn window(&self) -> Option<Window>;

    /// What follows.
    fn after(&self) -> &[After] {
        &[]
    }

    /// Bytes of scratch for one thread.
    fn row_scratch(&self, _isa: Isa) -> usize {
        0
    }

    /// Packs its weights.
    fn prepare(&self, context: &Context<'_>);

    /// Computes rows of the output from the rows of the input that they need.
    fn run_rows(&self, context: &Context<'_>, part: Part<'_>, then: &[Then<'_>], output: &mut [u8]);
}

/// The vertical geometry of a convolution of one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// Rows of the input and the output.
    pub(crate) rows: [usize; 2],
    /// Bytes from a row of the input to the next, and of the output.
    pub(crate) bytes: [usize; 2],
    /// Elements of a row of the output.
    pub(crate) elements: usize,
    pub(crate) stride: usize,
    /// Rows that a filter reaches below its first.
    pub(crate) reach: usize,
    /// Zeros above the image.
    pub(crate) above: usize,
}

impl Window {
    /// The rows of the input that some rows of the output see.
    fn seen(&self, rows: &Range<usize>) -> Range<usize> {
        let first = (rows.start * self.stride).saturating_sub(self.above);
        let end = ((rows.end - 1) * self.stride + self.reach + 1).saturating_sub(self.above);
        first.min(self.rows[0])..end.min(self.rows[0])
    }

    /// Rows of zeros above and below what some rows of the output see.
    fn outside(&self, rows: &Range<usize>) -> [usize; 2] {
        let end = (rows.end - 1) * self.stride + self.reach + 1;
        [self.above.saturating_sub(rows.start * self.stride), end.saturating_sub(self.above + self.rows[0])]
    }
}

/// Rows of an input.
pub(crate) struct Part<'a> {
    pub(crate) input: &'a [u8],
    pub(crate) rows: usize,
    /// Rows of zeros above and below.
    pub(crate) outside: [usize; 2],
    pub(crate) scratch: &'a mut [u8],
}

/// Steps of which each reads what the one before makes.
pub(crate) struct Strips {
    stages: Vec<Choice>,
    windows: Vec<Window>,
    /// Rows of the last output in a strip.
    rows: usize,
    /// Bytes of the rows in between, by stage, and of scratch.
    held: Vec<usize>,
    tasks: usize,
    /// How many of them run at a time: each has rows in between of its own.
    at_once: usize,
}

impl Strips {
    /// Joins steps, which have these windows.
    pub(crate) fn new(stages: Vec<Choice>, windows: Vec<Window>, isa: Isa, width: usize) -> Self {
        let scratch = stages.iter().filter_map(|stage| Some(stage.rows()?.row_scratch(isa))).max().unwrap_or(0);
        let height = windows.last().map_or(0, |window| window.rows[1]);
        let tasks = cost::parts(width, height);
        let part = height.div_ceil(tasks);
        let rows = cost::rows_of_strip(part, |rows| held(&windows, rows).iter().sum());
        let mut held = held(&windows, rows);
        held.push(scratch.next_multiple_of(ALIGN));
        Self { stages, windows, rows, held, tasks, at_once: width.clamp(1, tasks.max(1)) }
    }

    /// Changes the first stage, which reads the image.
    pub(crate) fn change_first(&mut self, change: impl FnOnce(&mut Choice) -> bool) -> bool {
        let changed = self.stages.first_mut().is_some_and(change);
        self.measure();
        changed
    }

    /// Changes the last stage, which writes the result.
    pub(crate) fn change_last(&mut self, change: impl FnOnce(&mut Choice) -> bool) -> bool {
        let changed = self.stages.last_mut().is_some_and(change);
        self.measure();
        changed
    }

    /// Takes the windows anew, of steps that read or write their rows otherwise now.
    fn measure(&mut self) {
        for (window, stage) in self.windows.iter_mut().zip(&self.stages) {
            *window = stage.rows().and_then(|rows| rows.window()).unwrap_or(*window);
        }
    }

    /// Bytes of scratch of a task.
    fn task_scratch(&self) -> usize {
        self.held.iter().sum::<usize>().max(ALIGN)
    }

    /// Bytes of scratch of all tasks that run at a time.
    pub(crate) fn scratch(&self) -> usize {
        self.task_scratch() * self.at_once
    }

    /// Makes rows of the last output.
    fn make(
        &self,
        context: &Context<'_>,
        input: &[u8],
        then: &Following<'_>,
        rows: Range<usize>,
        scratch: &mut [u8],
        output: &mut [u8],
    ) {
        let mut state =
            State { strips: self, context, input, held: Vec::with_capacity(self.stages.len()), scratch: &mut [] };
        let mut rest = scratch;
        for &bytes in &self.held[..self.stages.len() - 1] {
            let (bytes, after) = rest.split_at_mut(bytes);
            state.held.push(Held { rows: 0..0, bytes });
            rest = after;
        }
        state.scratch = rest;
        let last = self.stages.len() - 1;
        let Window { bytes: [_, row], elements, .. } = self.windows[last];
        for first in rows.clone().step_by(self.rows) {
            let strip = first..rows.end.min(first + self.rows);
            // Behind the last pixel of all there may be nothing.
            let place = (strip.start - rows.start) * row..output.len().min((strip.end - rows.start) * row);
            let then = then.part(strip.start * elements..strip.end * elements);
            state.ensure(last, &strip, &then, &mut output[place]);
        }
    }
}

/// Bytes of the rows between stages, for strips of so many rows of the last output.
fn held(windows: &[Window], rows: usize) -> Vec<usize> {
    let mut wanted = rows;
    let mut held = Vec::with_capacity(windows.len());
    for window in windows.iter().skip(1).rev() {
        wanted = ((wanted - 1) * window.stride + window.reach + 1).min(window.rows[0]);
        held.push((wanted * window.bytes[0]).next_multiple_of(ALIGN));
    }
    held.reverse();
    held
}

/// Rows of a value that are there.
struct Held<'a> {
    rows: Range<usize>,
    bytes: &'a mut [u8],
}

impl Held<'_> {
    /// Forgets rows before `first` and puts the others to the front.
    fn drop_before(&mut self, first: usize, row: usize) {
        let first = first.clamp(self.rows.start, self.rows.end);
        self.bytes.copy_within((first - self.rows.start) * row..self.rows.len() * row, 0);
        self.rows.start = first;
    }
}

struct State<'a> {
    strips: &'a Strips,
    context: &'a Context<'a>,
    input: &'a [u8],
    held: Vec<Held<'a>>,
    scratch: &'a mut [u8],
}

impl State<'_> {
    /// Computes rows of a stage's output, after the rows of its input that are missing.
    fn ensure(&mut self, stage: usize, rows: &Range<usize>, then: &[Then<'_>], output: &mut [u8]) {
        let window = self.strips.windows[stage];
        let (seen, row) = (window.seen(rows), window.bytes[0]);
        if let Some(before) = stage.checked_sub(1) {
            self.fetch(before, &seen, row);
        }
        let Some(step) = self.strips.stages[stage].rows() else { return };
        let (input, first) = match stage.checked_sub(1).map(|before| &self.held[before]) {
            Some(held) => (&*held.bytes, held.rows.start),
            None => (self.input, 0),
        };
        let input = &input[(seen.start - first) * row..input.len().min((seen.end - first) * row)];
        let part = Part { input, rows: seen.len(), outside: window.outside(rows), scratch: self.scratch };
        step.run_rows(self.context, part, then, output);
    }

    /// Makes sure that these rows of a stage's output are there.
    fn fetch(&mut self, stage: usize, rows: &Range<usize>, row: usize) {
        let held = &mut self.held[stage];
        if held.rows.end <= rows.start {
            held.rows = rows.start..rows.start;
        }
        held.drop_before(rows.start, row);
        let missing = held.rows.end..rows.end;
        if missing.is_empty() {
            return;
        }
        // Taken out while the stage runs, which looks at other stages only.
        let bytes = std::mem::take(&mut held.bytes);
        let start = held.rows.len() * row;
        held.rows.end = rows.end;
        let then = Following::functions(self.strips.stages[stage].rows().map_or(&[], |rows| rows.after()));
        self.ensure(stage, &missing, &then, &mut bytes[start..start + missing.len() * row]);
        self.held[stage].bytes = bytes;
    }
}

/// Scratch that no other task has, the wanted one if that is free: the thread that had it before has it in its cache. There is as
/// much as tasks run at a time; were there more tasks, they would wait.
fn any_free<'a, 's>(scratch: &'a [Mutex<&'s mut [u8]>], wanted: usize) -> MutexGuard<'a, &'s mut [u8]> {
    let mut order = scratch[wanted..].iter().chain(&scratch[..wanted]);
    let free = order.find_map(|scratch| scratch.try_lock().ok());
    free.unwrap_or_else(|| scratch[wanted].lock().unwrap_or_else(PoisonError::into_inner))
}

impl Step for Strips {
    fn run(&self, context: &Context<'_>, buffers: Buffers<'_>) {
        let mut after: &[After] = &[];
        for rows in self.stages.iter().filter_map(|stage| stage.rows()) {
            rows.prepare(context);
            after = rows.after();
        }
        let then = Following::new(after, &buffers);
        let input = buffers.read(0);
        let window = self.windows[self.windows.len() - 1];
        let part = window.rows[1].div_ceil(self.tasks);
        let alone = Context { isa: context.isa, par: &Serial, known: context.known };
        let scratch: Vec<_> = buffers.scratch.chunks_exact_mut(self.task_scratch()).map(Mutex::new).collect();
        split::chunks(context.par, buffers.output, part * window.bytes[1], |task, output| {
            let first = task * part;
            let rows = first..first + output.len().div_ceil(window.bytes[1]);
            // A thread takes neighbouring tasks, the same ones every time, as a rule.
            let mut scratch = any_free(&scratch, task * scratch.len() / self.tasks);
            self.make(&alone, input, &then, rows, &mut scratch, output);
        });
    }

    fn describe(&self) -> String {
        let stages: Vec<String> = self.stages.iter().map(|stage| stage.as_step().describe()).collect();
        format!("strips of {} rows of: {}", self.rows, stages.join("; "))
    }

    fn cut(&self, _: Isa, _: usize) -> Option<String> {
        Some(format!("{} parts", self.tasks))
    }

    fn work(&self) -> Work {
        self.stages.iter().map(|stage| stage.as_step().work()).fold(Work::default(), Work::plus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_that_run_at_a_time_have_scratch_of_their_own() {
        // A pixelwise layer and a filter of three rows, of images with rows of 1024 bytes.
        let layer = |reach: usize| Window {
            rows: [32, 32],
            bytes: [1024; 2],
            elements: 256,
            stride: 1,
            reach,
            above: reach / 2,
        };
        let strips = |width: usize| Strips::new(Vec::new(), vec![layer(0), layer(2)], Isa::Scalar, width);
        // All 32 rows, or for each of two threads the ten that a strip of eight reads.
        assert_eq!((strips(1).tasks, strips(1).scratch()), (1, 32 * 1024));
        assert_eq!((strips(2).tasks, strips(2).scratch()), (4, 2 * 10 * 1024));
        let (mut first, mut second) = ([1], [2]);
        let scratch = [Mutex::new(&mut first[..]), Mutex::new(&mut second[..])];
        for wanted in 0..2 {
            let one = any_free(&scratch, wanted);
            assert_eq!([one[0], any_free(&scratch, wanted)[0]], [[1, 2], [2, 1]][wanted]);
        }
    }
}
