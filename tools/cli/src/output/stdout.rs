//! Results on stdout.

use std::io::{ErrorKind, Write};
use std::time::{SystemTime, UNIX_EPOCH};

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

/// Prints one JSON object on several lines. `value` is an object.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    print(&serde_json::to_string_pretty(&WithOrigin::new(value)).map_err(unwritable)?)
}

/// Returns one JSON object in one line. `value` is an object.
pub(crate) fn json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(&WithOrigin::new(value)).map_err(unwritable)
}

/// Object with its origin: version, time and host.
#[derive(Serialize)]
struct WithOrigin<'a, T> {
    tcpx: Origin,
    #[serde(flatten)]
    value: &'a T,
}

#[derive(Serialize)]
struct Origin {
    version: &'static str,
    /// Seconds since 1970.
    unix_time: u64,
    /// Name of the machine that printed it.
    host: String,
}

impl<'a, T> WithOrigin<'a, T> {
    fn new(value: &'a T) -> Self {
        let host = host();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let version = env!("CARGO_PKG_VERSION");
        Self { tcpx: Origin { version, unix_time: since.as_secs(), host }, value }
    }
}

/// Returns the name of this machine.
pub(crate) fn host() -> String {
    // A system that does not give its name has none.
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

fn unwritable(error: serde_json::Error) -> Failure {
    Failure::io("writing JSON")(error.into())
}
