//! Results on stdout.

use std::io::{ErrorKind, Write};

use serde::Serialize;

use crate::failure::Failure;

/// Prints `text` and a line break. A reader that has read enough, as in `tcpx devices | head`, is
/// no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::io("writing to stdout")(error))
        }
        _ => Ok(()),
    }
}

/// Prints one JSON object for machines, laid out for people too.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    print(&serde_json::to_string_pretty(value).map_err(unwritable)?)
}

/// One JSON object in one line.
pub(crate) fn json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(unwritable)
}

fn unwritable(error: serde_json::Error) -> Failure {
    Failure::io("writing JSON")(error.into())
}
