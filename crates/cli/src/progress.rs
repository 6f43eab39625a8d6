//! What goes on, for a person who waits.
use indicatif::ProgressBar;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How long somebody waits without a word.
const PATIENCE: Duration = Duration::from_secs(1);

/// A line on a terminal that says what goes on, when it goes on for long; elsewhere nothing.
pub(crate) struct Progress(Option<Arc<Mutex<Line>>>);

struct Line {
    says: &'static str,
    /// Drawn when patience is at an end.
    bar: Option<ProgressBar>,
    done: bool,
}

impl Progress {
    /// Begins with a first word.
    pub(crate) fn start(says: &'static str) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let line = Arc::new(Mutex::new(Line { says, bar: None, done: false }));
        let shared = Arc::clone(&line);
        thread::spawn(move || {
            thread::sleep(PATIENCE);
            let mut line = shared.lock().unwrap_or_else(PoisonError::into_inner);
            if !line.done {
                let bar = ProgressBar::new_spinner().with_message(line.says);
                bar.enable_steady_tick(Duration::from_millis(100));
                line.bar = Some(bar);
            }
        });
        Self(Some(line))
    }

    /// Goes on with something else.
    pub(crate) fn now(&self, says: &'static str) {
        let Some(line) = &self.0 else { return };
        let mut line = line.lock().unwrap_or_else(PoisonError::into_inner);
        line.says = says;
        line.bar.iter().for_each(|bar| bar.set_message(says));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let Some(line) = &self.0 else { return };
        let mut line = line.lock().unwrap_or_else(PoisonError::into_inner);
        line.done = true;
        line.bar.take().into_iter().for_each(|bar| bar.finish_and_clear());
    }
}
