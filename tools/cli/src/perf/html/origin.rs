//! Origin of a page: when, at which end and by which command it was measured.

use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// Returns the command of this end, after its version and the time.
pub(super) fn facts(role: &str) -> Vec<String> {
    let time = now().map(|time| format!(", {time}")).unwrap_or_default();
    let words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let release = format!("tcpx {} at the {role}{time}", env!("CARGO_PKG_VERSION"));
    vec![release, without_token(&words)]
}

/// Returns the command without its token, which is a secret and a page is not.
fn without_token(words: &[String]) -> String {
    let mut shown = String::new();
    let mut is_token = false;
    for word in words {
        let text = match word {
            _ if is_token => "...",
            word if word.starts_with("--token=") => "--token=...",
            word => word,
        };
        is_token = word == "--token";
        shown += if shown.is_empty() { "" } else { " " };
        shown += text;
    }
    shown
}

/// Returns the time to the second, in UTC.
fn now() -> Option<String> {
    let mut time = String::new();
    SystemTime.format_time(&mut Writer::new(&mut time)).ok()?;
    let (seconds, _) = time.split_once('.')?;
    Some(format!("{} UTC", seconds.replace('T', " ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_not_shown() {
        let shown = |words: &[&str]| {
            without_token(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(shown(&["tcpx", "--token", "abc", "perf"]), "tcpx --token ... perf");
        assert_eq!(shown(&["tcpx", "--token=abc", "perf"]), "tcpx --token=... perf");
    }

    #[test]
    fn the_time_has_a_day_and_seconds() {
        let now = now().unwrap();
        assert_eq!(now.len(), "2026-01-31 12:00:00 UTC".len(), "{now}");
    }
}
