//! Findings about this library's own variables.

use std::net::SocketAddr;

use tcpx_diagnosis::Finding;
use tcpx_diagnosis::table::environment as table;
use tcpx_diagnosis::variables::{Env, Kind, LibrarySetting, Remark, library_settings, value};

/// Returns the remarks on values out of range, and on two spellings of one setting with different
/// values.
pub(super) fn remarks(env: &Env) -> Vec<Remark> {
    library_settings().iter().flat_map(|setting| of_setting(env, setting)).collect()
}

/// Returns the remarks on one setting.
fn of_setting(env: &Env, setting: &LibrarySetting) -> Vec<Remark> {
    let set: Vec<(&str, &str)> =
        setting.names().filter_map(|name| Some((name, value(env, name)?))).collect();
    // Of two names that are set, the first is read.
    let Some(&(name, text)) = set.first() else { return Vec::new() };
    let mut remarks = Vec::new();
    if !accepts(&setting.kind, text.trim()) {
        let seen = format!("{name}={text}: legal is {}", setting.kind.range());
        remarks.push(Remark::new(&[name], Finding::new(&table::SETTING_OUT_OF_RANGE, seen)));
    }
    if let Some(&(other, its_text)) = set.get(1)
        && its_text.trim() != text.trim()
    {
        let seen = format!("{name}={text} and {other}={its_text}");
        let finding = Finding::new(&table::SPELLINGS_CONTRADICT, seen);
        remarks.push(Remark::new(&[name, other], finding.with("<VARIABLE>", other)));
    }
    remarks
}

/// Returns whether the reader of a setting of this kind accepts `text`.
fn accepts(kind: &Kind, text: &str) -> bool {
    let in_range = |min: i64, max: i64| text.parse().is_ok_and(|it: i64| (min..=max).contains(&it));
    match kind {
        Kind::Integer { min, max } => in_range(*min, *max),
        Kind::ZeroOr { min, max } => in_range(0, 0) || in_range(*min, *max),
        Kind::AutoOr { max } => text == "auto" || in_range(0, *max),
        Kind::Switch => text.parse::<u64>().is_ok(),
        Kind::Choice { words } => words.contains(&text),
        Kind::Address => text.parse::<SocketAddr>().is_ok(),
        Kind::Bytes => is_byte_size(text),
        // The others are any text, or are checked where the machine is known.
        _ => true,
    }
}

fn is_byte_size(text: &str) -> bool {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = &text[..text.len() - unit.len()];
    let units = ["", "b", "k", "kib", "m", "mib", "g", "gib", "t", "tib"];
    digits.parse::<u64>().is_ok_and(|number| number > 0)
        && units.contains(&unit.trim_start().to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(set: &[(&str, &str)]) -> Vec<(u16, String)> {
        let env = set.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let found = remarks(&env).into_iter();
        found.map(|remark| (remark.finding.id.number(), remark.finding.seen)).collect()
    }

    #[test]
    fn values_are_judged_by_their_kind() {
        for (name, good, bad) in [
            ("TCPX_CHANNELS", "64", "65"),
            ("UCCL_TCPX_CHUNK_BYTES", "65536", "64K"),
            ("TCPX_PEER_TIMEOUT_MS", "0", "99"),
            ("TCPX_UNPACK", "d2d", "gpu"),
            ("TCPX_LISTEN", "[::]:0", "eth0"),
            ("TCPX_GATHER", "0", "off"),
            ("TCPX_PERF_SIZE", "64 MiB", "64Q"),
            ("TCPX_PERF_SIZE", "1k", "0"),
        ] {
            assert_eq!(seen(&[(name, good)]), [], "{name}={good}");
            assert_eq!(seen(&[(name, "")]), [], "empty is unset");
            let found = seen(&[(name, bad)]);
            assert_eq!(found.len(), 1, "{name}={bad}");
            assert_eq!(found[0].0, 133);
            assert!(found[0].1.starts_with(&format!("{name}={bad}: legal is ")), "{}", found[0].1);
        }
    }

    #[test]
    fn two_spellings_may_agree_and_the_first_counts() {
        let both = |own, other| seen(&[("TCPX_CHANNELS", own), ("UCCL_TCPX_NUM_CHANNELS", other)]);
        assert_eq!(both("4", "4"), []);
        let words = "TCPX_CHANNELS=4 and UCCL_TCPX_NUM_CHANNELS=many".to_owned();
        assert_eq!(both("4", "many"), [(134, words)]);
        assert_eq!(both("", "8"), []);
    }
}
