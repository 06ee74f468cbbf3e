//! How much of what plugins say becomes log lines.

use tcpx_sys::LogLevel;
use tracing::level_filters::LevelFilter;

/// Drops what plugins say above `level`, before it is formatted, in the whole process. The level is
/// DEBUG unless it is set.
///
/// A plugin filters nothing itself. Its warnings arrive as WARN, its information as DEBUG and its
/// traces as TRACE, all with the target `tcpx::plugin`. So INFO lets through as much as WARN, and
/// ERROR as little as OFF.
pub fn set_plugin_log_level(level: LevelFilter) {
    tcpx_sys::set_max_log_level(most_of(level));
}

/// The highest of the plugin's levels that arrives at `level` or below.
fn most_of(level: LevelFilter) -> LogLevel {
    match level {
        LevelFilter::OFF | LevelFilter::ERROR => LogLevel::NONE,
        LevelFilter::WARN | LevelFilter::INFO => LogLevel::WARN,
        LevelFilter::DEBUG => LogLevel::INFO,
        _ => LogLevel::TRACE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_those_at_which_lines_arrive() {
        for (level, most) in [
            (LevelFilter::OFF, LogLevel::NONE),
            (LevelFilter::ERROR, LogLevel::NONE),
            (LevelFilter::WARN, LogLevel::WARN),
            (LevelFilter::INFO, LogLevel::WARN),
            (LevelFilter::DEBUG, LogLevel::INFO),
            (LevelFilter::TRACE, LogLevel::TRACE),
        ] {
            assert_eq!(most_of(level), most, "{level}");
        }
    }
}
