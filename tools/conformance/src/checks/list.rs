//! All checks, in the order in which they run.

use std::sync::LazyLock;

use super::{
    abi, accept, close, comms, connect, consume, entries, fifo, host, lifecycle, limits, peer,
    progress, queue, registration, requests, sizes, strays,
};
use crate::check::Check;

/// Returns every check, in the order in which they run.
#[must_use]
pub fn checks() -> &'static [Check] {
    static ALL: LazyLock<Vec<Check>> = LazyLock::new(|| {
        [
            abi::CHECKS,
            lifecycle::CHECKS,
            connect::CHECKS,
            accept::CHECKS,
            strays::CHECKS,
            close::CHECKS,
            registration::CHECKS,
            requests::CHECKS,
            limits::CHECKS,
            fifo::CHECKS,
            consume::CHECKS,
            sizes::CHECKS,
            entries::CHECKS,
            queue::CHECKS,
            progress::CHECKS,
            host::CHECKS,
            peer::CHECKS,
            comms::CHECKS,
        ]
        .concat()
    });
    &ALL
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_begin_with_their_group() {
        let names: BTreeSet<&str> = checks().iter().map(|check| check.name).collect();
        assert_eq!(names.len(), checks().len());
        for check in checks() {
            let (group, rule) = check.name.split_once('.').expect("group.rule");
            assert_eq!(group, check.group.to_string(), "{check:?}");
            assert!(
                !rule.is_empty()
                    && rule
                        .bytes()
                        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            );
        }
    }

    #[test]
    fn every_check_cites_a_section_and_states_its_rule() {
        assert!(checks().len() >= 60, "{}", checks().len());
        for check in checks() {
            let number = check.section.strip_prefix('§').expect("a section sign");
            assert!(number.split('.').all(|part| part.parse::<u8>().is_ok()), "{check:?}");
            assert!(check.what.len() > 12 && !check.what.ends_with('.'), "{check:?}");
        }
    }
}
