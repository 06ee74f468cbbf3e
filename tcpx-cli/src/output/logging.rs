//! The log: events of the library and of this program, on stderr.

use std::fmt;
use std::io::IsTerminal;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::input::variables;

const DEBUG: [&str; 2] = ["TCPX_DEBUG", "UCCL_TCPX_DEBUG"];
const LAUNCH_DEBUG: [&str; 2] = ["TCPX_LAUNCH_DEBUG", "UCCL_TCPX_LAUNCH_DEBUG"];

/// Starts the log. `shows_all`: down to each unpack descriptor, where RUST_LOG says nothing else;
/// otherwise warnings, and what `TCPX_DEBUG` and its like ask for. `role`: which end writes it, if
/// the command has ends.
pub(crate) fn start(shows_all: bool, role: Option<&'static str>) {
    let filter = std::env::var("RUST_LOG")
        .ok()
        .filter(|text| !text.is_empty())
        .and_then(|text| EnvFilter::try_new(text).ok())
        .unwrap_or_else(|| {
            let filter =
                directives(shows_all, variables::is_on(&DEBUG), variables::is_on(&LAUNCH_DEBUG));
            EnvFilter::new(filter)
        });
    // Only fails when there is a log already, which then stays.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .event_format(Lines { role })
        .try_init();
}

/// Whether the log shows more than warnings, so that nothing else should draw on the terminal.
pub(crate) fn is_detailed() -> bool {
    tracing::enabled!(Level::INFO)
}

fn directives(shows_all: bool, debug: bool, launch_debug: bool) -> &'static str {
    match (shows_all, debug, launch_debug) {
        (true, ..) | (_, _, true) => {
            "warn,tcpx=trace,tcpx_core=trace,tcpx_unpack=trace,tcpx_softnet=debug,tcpx_sys=debug"
        }
        (_, true, _) => {
            "warn,tcpx=debug,tcpx_core=debug,tcpx_unpack=debug,tcpx_softnet=info,tcpx_sys=debug"
        }
        // The check before a plugin is loaded also returns what it logs, and the command ends with
        // that.
        _ => "warn,tcpx_diagnosis::preflight=off",
    }
}

/// `[DEBUG] server: message field=value`: what happened, at which level, and which end says so.
struct Lines {
    role: Option<&'static str>,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        write!(writer, "[{}] ", event.metadata().level())?;
        if let Some(role) = self.role {
            write!(writer, "{}: ", role)?;
        }
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_filter_can_be_read() {
        for shows_all in [false, true] {
            for (debug, launch) in [(false, false), (true, false), (false, true), (true, true)] {
                assert!(EnvFilter::try_new(directives(shows_all, debug, launch)).is_ok());
            }
        }
        assert!(directives(false, false, false).starts_with("warn"));
        assert!(directives(false, true, false).contains("tcpx_core=debug"));
    }
}
