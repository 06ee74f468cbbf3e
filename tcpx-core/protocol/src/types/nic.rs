//! NICs of a session as its hello names them. Pure.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Most NICs that a hello names; of more, the first ones.
pub const MOST_NICS: usize = 8;
/// Longest name of a NIC in a hello, in bytes. Linux allows 15.
const MOST_NAME_BYTES: usize = 31;

/// Network interface, and the speed of its link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicLink {
    /// Name of the interface at its own host: printable ASCII without spaces.
    pub name: String,
    /// Speed in Mbit/s. `None`: the kernel does not know it.
    pub speed_mbps: Option<u32>,
}

impl NicLink {
    /// Makes the entry of a NIC. What no hello may have in a name becomes a question mark, and a
    /// long name is cut.
    pub fn new(name: &str, speed_mbps: Option<u32>) -> Self {
        let good = |letter: char| if letter.is_ascii_graphic() { letter } else { '?' };
        Self { name: name.chars().map(good).take(MOST_NAME_BYTES).collect(), speed_mbps }
    }

    fn is_valid(&self) -> bool {
        let length = 1..=MOST_NAME_BYTES;
        length.contains(&self.name.len()) && self.name.bytes().all(|it| it.is_ascii_graphic())
    }
}

/// NICs that an end uses for one peer, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NicLinks(pub Vec<NicLink>);

impl NicLinks {
    /// Makes the list of the first [`MOST_NICS`] of these NICs.
    pub fn first(nics: impl IntoIterator<Item = NicLink>) -> Self {
        Self(nics.into_iter().take(MOST_NICS).collect())
    }

    /// Returns whether a hello may have this list. The other end may send anything.
    pub(crate) fn is_valid(&self) -> bool {
        self.0.len() <= MOST_NICS && self.0.iter().all(NicLink::is_valid)
    }

    /// Returns the speed of all of them in Mbit/s. `None`: that of one is not known, or there are
    /// none.
    pub fn speed_mbps(&self) -> Option<u64> {
        let mut speeds = self.0.iter().map(|nic| nic.speed_mbps.map(u64::from));
        let first = speeds.next()??;
        speeds.try_fold(first, |sum, speed| Some(sum.saturating_add(speed?)))
    }
}

impl fmt::Display for NicLinks {
    /// Writes the names, and the speed of all together: `eth1, eth2 (400 Gbit/s)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, nic) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{}", nic.name)?;
        }
        match self.speed_mbps() {
            Some(mbps) => write!(f, " ({} Gbit/s)", mbps as f64 / 1000.0),
            None if self.0.is_empty() => f.write_str("unknown"),
            None => f.write_str(" (speed unknown)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_speeds_of_nics_are_summed_where_all_are_known() {
        let nic = |name, speed_mbps| NicLink::new(name, speed_mbps);
        for (nics, text) in [
            (vec![], "unknown"),
            (vec![nic("eth1", Some(2500))], "eth1 (2.5 Gbit/s)"),
            (vec![nic("lo", None)], "lo (speed unknown)"),
            (vec![nic("eth1", Some(200_000)), nic("eth2", None)], "eth1, eth2 (speed unknown)"),
            (
                vec![nic("eth1", Some(200_000)), nic("eth2", Some(200_000))],
                "eth1, eth2 (400 Gbit/s)",
            ),
        ] {
            assert_eq!(NicLinks(nics).to_string(), text);
        }
    }

    #[test]
    fn a_list_for_a_hello_is_valid_whatever_the_names_are() {
        let named = |name: &str| NicLink { name: name.into(), speed_mbps: None };
        let nasty = ["\u{1b}[2J", "a b", "\u{202e}x", &"é".repeat(99)];
        let list = NicLinks::first(nasty.iter().cycle().take(20).map(|it| NicLink::new(it, None)));
        assert!(list.is_valid() && list.0.len() == MOST_NICS);
        assert_eq!(list.0[0].name, "?[2J");
        for name in nasty.iter().copied().chain([""]) {
            assert!(!NicLinks(vec![named(name)]).is_valid(), "{name:?}");
        }
        assert!(!NicLinks(vec![named("eth1"); MOST_NICS + 1]).is_valid());
    }
}
