//! File that takes the log.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing_subscriber::fmt::MakeWriter;

use crate::failure::Failure;

/// The file, for appending: two ends on one host write to one file, a line at a time.
#[derive(Clone, Debug)]
pub(super) struct LogFile {
    file: Arc<File>,
    name: Arc<str>,
    has_failed: Arc<AtomicBool>,
}

impl LogFile {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let name = path.display().to_string();
        match file {
            Ok(file) => {
                let (file, has_failed) = (Arc::new(file), Arc::default());
                Ok(Self { file, name: name.into(), has_failed })
            }
            Err(error) => Err(Failure::Usage(format!(
                "--log-file {name}: {error}; name a file that this user may write"
            ))),
        }
    }
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let written = (&*self.file).write(line);
        // The command goes on, and reports once that its log does not.
        if let Err(error) = &written
            && !self.has_failed.swap(true, Ordering::Relaxed)
        {
            let name = &self.name;
            let _ = writeln!(io::stderr().lock(), "the log is not complete: {name}: {error}");
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogFile {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
