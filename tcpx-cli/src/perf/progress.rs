//! A bar on the terminal while a measurement runs.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use crate::bootstrap::Plan;
use crate::output::logging;

/// The bar, or nothing where nobody would see it.
pub(super) struct Progress(Option<ProgressBar>);

impl Progress {
    pub(super) fn new(plan: &Plan) -> Self {
        if !std::io::stderr().is_terminal() || logging::is_detailed() {
            return Self(None);
        }
        let steps = (u64::from(plan.warmup) + u64::from(plan.iterations)) * plan.sizes.len() as u64;
        let bar = ProgressBar::new(steps);
        if let Ok(style) =
            ProgressStyle::with_template("{bar:40} {pos}/{len} iterations, {eta} left")
        {
            bar.set_style(style);
        }
        Self(Some(bar))
    }

    /// One iteration is over.
    pub(super) fn step(&self) {
        if let Some(bar) = &self.0 {
            bar.inc(1);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
