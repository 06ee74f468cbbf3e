//! A line on the terminal while checks run.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::ProgressBar;

use crate::output::logging;

/// The line, or nothing where nobody would see it.
pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    pub(crate) fn new() -> Self {
        if !std::io::stderr().is_terminal() || logging::is_detailed() {
            return Self(None);
        }
        let spinner = ProgressBar::new_spinner();
        spinner.enable_steady_tick(Duration::from_millis(100));
        spinner.set_message("starting");
        Self(Some(spinner))
    }

    /// Does `print` while the line is out of its way.
    pub(crate) fn above<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.0 {
            Some(spinner) => spinner.suspend(print),
            None => print(),
        }
    }

    /// The check of this name is over.
    pub(crate) fn step(&self, name: &str) {
        if let Some(spinner) = &self.0 {
            spinner.inc(1);
            spinner.set_message(format!("{} checks are over, last {name}", spinner.position()));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(spinner) = &self.0 {
            spinner.finish_and_clear();
        }
    }
}
