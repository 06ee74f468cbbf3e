//! What the calling thread logs, for tests that read it.

use std::io::Write;
use std::sync::{Arc, Mutex};

use tracing_subscriber::util::SubscriberInitExt;

/// The log's text. It is complete as long as the guard that came with it lives.
#[derive(Clone, Debug, Default)]
pub struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl CapturedLog {
    /// Takes what this thread logs until the guard is dropped.
    pub fn begin() -> (Self, impl Sized) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false);
        let guard = subscriber.with_writer(move || writer.clone()).set_default();
        (log, guard)
    }

    /// All lines so far.
    pub fn text(&self) -> String {
        let bytes = self.0.lock().expect("nobody panics with it");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("nobody panics with it").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
