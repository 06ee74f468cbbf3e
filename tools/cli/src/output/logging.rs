//! Log of the library's and this program's events, on stderr or in a file.

use std::fmt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use tcpx_core::printable;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::log_file::LogFile;
use crate::failure::Failure;
use crate::input::variables;

const DEBUG: [&str; 2] = ["TCPX_DEBUG", "UCCL_TCPX_DEBUG"];
const LAUNCH_DEBUG: [&str; 2] = ["TCPX_LAUNCH_DEBUG", "UCCL_TCPX_LAUNCH_DEBUG"];

/// The flags of the log, which every command has.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct LogArgs {
    /// Log what happens once for each session and peer; -vv: every step; -vvv: every unpack
    /// descriptor
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,

    /// Append the log to this file instead of writing it to stderr
    #[arg(long, global = true, value_name = "PATH")]
    log_file: Option<PathBuf>,
}

/// Flags of this process, for the processes that it starts.
static FLAGS: OnceLock<LogArgs> = OnceLock::new();

/// Starts the log. `shows_all`: down to each unpack descriptor, where no other level is asked for.
/// `-v` counts before RUST_LOG, and RUST_LOG before `TCPX_DEBUG` and its like. `role`: the end that
/// writes the log, if the command has ends.
pub(crate) fn start(
    args: &LogArgs,
    shows_all: bool,
    role: Option<&'static str>,
) -> Result<(), Failure> {
    let from_variable = || {
        let text = std::env::var("RUST_LOG").ok().filter(|text| !text.is_empty())?;
        EnvFilter::try_new(text).ok()
    };
    let filter = match LogDetail::of(args.verbose) {
        Some(detail) => EnvFilter::new(detail.directives()),
        None => from_variable().unwrap_or_else(|| {
            let (debug, launch) = (variables::is_on(&DEBUG), variables::is_on(&LAUNCH_DEBUG));
            EnvFilter::new(LogDetail::by_variables(shows_all, debug, launch).directives())
        }),
    };
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        // A log without a reader is no reason to panic.
        .log_internal_errors(false)
        .event_format(LogFormat { role });
    // Both only fail when there is a log already, which then stays.
    let _ = match &args.log_file {
        Some(path) => log.with_writer(LogFile::open(path)?).try_init(),
        None => log.with_writer(std::io::stderr).try_init(),
    };
    let _ = FLAGS.set(args.clone());
    Ok(())
}

/// Passes the log's flags of this process to a child process of this program.
pub(crate) fn pass_flags(command: &mut Command) {
    let Some(LogArgs { verbose, log_file }) = FLAGS.get() else { return };
    command.args((0..*verbose).map(|_| "-v"));
    if let Some(path) = log_file {
        command.arg("--log-file").arg(path);
    }
}

/// Returns whether the log shows more than warnings, so that nothing else should draw on the
/// terminal.
pub(crate) fn is_detailed() -> bool {
    tracing::enabled!(Level::INFO)
}

/// Level of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogDetail {
    Warnings,
    /// Events that happen once for each session and peer.
    Sessions,
    TickSpacing,
    Descriptors,
}

impl LogDetail {
    /// `None`: the flag was not given.
    fn of(verbose: u8) -> Option<Self> {
        match verbose {
            0 => None,
            1 => Some(Self::Sessions),
            2 => Some(Self::TickSpacing),
            _ => Some(Self::Descriptors),
        }
    }

    fn by_variables(shows_all: bool, debug: bool, launch_debug: bool) -> Self {
        match (shows_all, debug, launch_debug) {
            (true, ..) | (_, _, true) => Self::Descriptors,
            (_, true, _) => Self::TickSpacing,
            _ => Self::Warnings,
        }
    }

    fn directives(self) -> &'static str {
        match self {
            // The check before a plugin is loaded also returns what it logs, and the command ends
            // with that error.
            Self::Warnings => "warn,tcpx_diagnosis::preflight=off",
            Self::Sessions => "info,tcpx_diagnosis::preflight=off",
            Self::TickSpacing => {
                "warn,tcpx=debug,tcpx_core=debug,tcpx_unpack=debug,tcpx_softnet=info,tcpx_sys=debug"
            }
            Self::Descriptors => {
                "warn,tcpx=trace,tcpx_core=trace,tcpx_unpack=trace,tcpx_softnet=debug,tcpx_sys=debug"
            }
        }
    }
}

/// Formats `2026-01-31T12:00:00.123456Z [DEBUG] server: message field=value`: time, level, the end
/// that logs, and the event. One line, whatever the fields contain.
struct LogFormat {
    role: Option<&'static str>,
}

impl<S, N> FormatEvent<S, N> for LogFormat
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
        SystemTime.format_time(&mut writer)?;
        write!(writer, " [{}] ", event.metadata().level())?;
        if let Some(role) = self.role {
            write!(writer, "{role}: ")?;
        }
        let mut fields = String::new();
        context.field_format().format_fields(Writer::new(&mut fields), event)?;
        writeln!(writer, "{}", printable(&fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_filter_can_be_read() {
        for detail in [
            LogDetail::Warnings,
            LogDetail::Sessions,
            LogDetail::TickSpacing,
            LogDetail::Descriptors,
        ] {
            assert!(EnvFilter::try_new(detail.directives()).is_ok(), "{detail:?}");
        }
    }

    #[test]
    fn each_flag_raises_the_level_and_variables_set_two_levels() {
        let asked: Vec<_> = (0..5).map(LogDetail::of).collect();
        let [sessions, steps, all] =
            [LogDetail::Sessions, LogDetail::TickSpacing, LogDetail::Descriptors];
        assert_eq!(asked, [None, Some(sessions), Some(steps), Some(all), Some(all)]);
        assert_eq!(LogDetail::by_variables(false, false, false), LogDetail::Warnings);
        assert_eq!(LogDetail::by_variables(false, true, false), steps);
        assert_eq!(LogDetail::by_variables(false, true, true), all);
        assert_eq!(LogDetail::by_variables(true, false, false), all);
    }
}
