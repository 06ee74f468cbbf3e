//! `tcpx top`: peers of a running process, from the page of metrics that its program gives out.
//!
//! - `source`: where the page is read
//! - `page`: what a page says of peers. Pure
//! - `rates`: rows from two pages, as a table and for JSON. Pure

mod page;
mod rates;
mod source;

use std::io::{ErrorKind, IsTerminal, Write};
use std::thread;

use serde::Serialize;

use self::rates::{PeerRow, Rates};
use self::source::Source;
use crate::failure::Failure;
use crate::input::Seconds;
use crate::output::json;

/// Escape sequence that moves the cursor to the top left and clears the screen.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

/// Show the peers of a running process with their rates.
///
/// The numbers come from the page of metrics that the process gives out: a file, or an address that
/// answers GET, in Prometheus's text format. A session opens no port and writes no file by itself.
/// Its program gives out the text of tcpx_metrics_text (metrics_text in Rust, metricsText in C++),
/// as docs/metrics.md says. Rates are those between two readings; of a file, between two writes of
/// it. On a terminal the screen is cleared for each table.
/// Exit status: 0.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct TopArgs {
    /// Page of metrics: a file, or http://HOST:PORT/PATH
    source: Source,

    /// Seconds between two readings
    #[arg(long, value_name = "SECONDS", default_value = "1")]
    interval: Seconds,

    /// Read twice, print once and end
    #[arg(long)]
    once: bool,

    /// Print JSON objects instead of tables, each in a line
    #[arg(long)]
    json: bool,
}

/// JSON object of two readings.
#[derive(Serialize)]
struct Top<'a> {
    source: String,
    /// Seconds between the pages that the rates are of; `null`: there is one page.
    between_s: Option<f64>,
    peers: &'a [PeerRow],
}

/// Prints tables until the process is interrupted, the reader of stdout leaves, or the page is
/// gone.
pub(crate) fn run(args: &TopArgs) -> Result<(), Failure> {
    let mut rates = Rates::new(args.source.read()?);
    let clear = if std::io::stdout().is_terminal() && !args.once { CLEAR } else { "" };
    loop {
        thread::sleep(args.interval.0);
        rates.add(args.source.read()?);
        let (peers, between_s) = (rates.rows(), rates.between_s());
        let text = if args.json {
            json(&Top { source: args.source.to_string(), between_s, peers: &peers })? + "\n"
        } else {
            format!("{clear}{}\n", rates::table(&peers))
        };
        if !write(&text)? || args.once {
            return Ok(());
        }
    }
}

/// Writes to stdout. Returns whether there is still a reader.
fn write(text: &str) -> Result<bool, Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::io("writing to stdout")(error)),
    }
}
