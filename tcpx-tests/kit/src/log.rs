//! Log lines of the calling thread, for tests that read them.

use std::io::Write;
use std::sync::{Arc, Mutex};

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::util::SubscriberInitExt;

/// The log's text. It is complete as long as the guard that came with it lives.
#[derive(Clone, Debug, Default)]
pub struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl CapturedLog {
    /// Takes what this thread logs until the guard is dropped, as it was logged: what a subscriber
    /// would escape is not.
    pub fn begin() -> (Self, impl Sized) {
        let log = Self::default();
        let guard = log.subscriber(LevelFilter::INFO).set_default();
        (log, guard)
    }

    /// The same of all threads that have no log of their own, until the process ends.
    ///
    /// # Panics
    /// When the process has one already.
    #[must_use]
    pub fn of_all_threads() -> Self {
        Self::of_all_threads_to(LevelFilter::INFO)
    }

    /// The same with what only developers look at.
    ///
    /// # Panics
    /// When the process has a log already.
    #[must_use]
    pub fn of_all_threads_and_levels() -> Self {
        Self::of_all_threads_to(LevelFilter::TRACE)
    }

    fn of_all_threads_to(level: LevelFilter) -> Self {
        let log = Self::default();
        log.subscriber(level).init();
        log
    }

    fn subscriber(&self, level: LevelFilter) -> impl SubscriberInitExt {
        let fields = debug_fn(|line, field, value| match field.name() {
            "message" => write!(line, "{value:?}"),
            name => write!(line, " {name}={value:?}"),
        });
        let writer = self.clone();
        tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(level)
            .fmt_fields(fields)
            .with_writer(move || writer.clone())
    }

    /// All lines so far.
    pub fn text(&self) -> String {
        let bytes = self.0.lock().expect("no panic under the lock");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic under the lock").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
