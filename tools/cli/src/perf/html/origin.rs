//! Origin of a page: when, on which machine and by which command it was measured.

use std::fs;

use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// Returns a line for each fact of this end that the system gives.
pub(super) fn facts(role: &str) -> Vec<String> {
    let mut facts = vec![format!(
        "tcpx {} on {}, the {role}{}",
        env!("CARGO_PKG_VERSION"),
        crate::output::host(),
        now().map(|time| format!(", {time}")).unwrap_or_default()
    )];
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    facts.extend(processor(&cpus));
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if !release.trim().is_empty() {
        facts.push(format!("Linux {}", release.trim()));
    }
    let words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    facts.push(without_token(&words));
    facts
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

/// Returns the number of CPUs and their model, by the kernel's list of them; some architectures
/// name no model.
fn processor(list: &str) -> Option<String> {
    let count = list.lines().filter(|line| line.starts_with("processor")).count();
    let model = list.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cpus = match count {
        0 => return None,
        1 => "1 CPU".to_owned(),
        count => format!("{count} CPUs"),
    };
    Some(match model {
        Some((_, model)) => format!("{cpus}, {}", model.trim()),
        None => cpus,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_named_where_the_kernel_names_it() {
        let list =
            "processor\t: 0\nmodel name\t: Some CPU\n\nprocessor\t: 1\nmodel name\t: Some CPU\n";
        assert_eq!(processor(list).as_deref(), Some("2 CPUs, Some CPU"));
        assert_eq!(processor("processor\t: 0\n").as_deref(), Some("1 CPU"));
        assert_eq!(processor(""), None);
    }

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
