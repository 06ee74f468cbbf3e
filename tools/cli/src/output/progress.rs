//! Line on the terminal with the progress of a command.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::logging;

/// The line, or nothing where no terminal shows it.
pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    /// Returns a progress that shows nothing.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Shows a bar of `steps` steps.
    pub(crate) fn bar(steps: u64) -> Self {
        Self::show(|| ProgressBar::new(steps), "{bar:40} {pos}/{len} iterations, {eta} left")
    }

    /// Shows a count of steps whose total is unknown.
    pub(crate) fn count() -> Self {
        let progress =
            Self::show(ProgressBar::new_spinner, "{spinner} {pos} checks are over, last {msg}");
        if let Some(line) = &progress.0 {
            line.set_message("none");
            line.enable_steady_tick(Duration::from_millis(100));
        }
        progress
    }

    fn show(make: impl FnOnce() -> ProgressBar, template: &str) -> Self {
        if !std::io::stderr().is_terminal() || logging::is_detailed() {
            return Self(None);
        }
        let line = make();
        if let Ok(style) = ProgressStyle::with_template(template) {
            line.set_style(style);
        }
        Self(Some(line))
    }

    /// Counts a step; `name` names it, where names are shown.
    pub(crate) fn step(&self, name: &str) {
        if let Some(line) = &self.0 {
            line.set_message(name.to_owned());
            line.inc(1);
        }
    }

    /// Counts `steps` steps.
    pub(crate) fn steps(&self, steps: u64) {
        if let Some(line) = &self.0 {
            line.inc(steps);
        }
    }

    /// Returns a bar that only counts.
    #[cfg(test)]
    pub(crate) fn hidden() -> Self {
        Self(Some(ProgressBar::hidden()))
    }

    /// Returns how many steps were counted.
    #[cfg(test)]
    pub(crate) fn count_of_steps(&self) -> u64 {
        self.0.as_ref().map_or(0, ProgressBar::position)
    }

    /// Calls `print` while the line is hidden.
    pub(crate) fn above<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.0 {
            Some(line) => line.suspend(print),
            None => print(),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(line) = &self.0 {
            line.finish_and_clear();
        }
    }
}
