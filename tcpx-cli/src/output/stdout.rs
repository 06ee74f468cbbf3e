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

/// Prints one JSON object for machines.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::Io {
        what: "rendering JSON".into(),
        error: std::io::Error::other(error),
    })?;
    print(&text)
}
