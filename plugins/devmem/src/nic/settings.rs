//! Settings of a NIC, as the kernel's ethtool family reports them.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::netlink::{Attribute, Netlink, generic_attributes, nested, text};

const FEATURES_GET: u8 = 11;
const RINGS_GET: u8 = 15;
const RSS_GET: u8 = 38;

/// State of header split: whether headers are split from payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeaderSplit {
    /// `tcp-data-split on`.
    On,
    /// `tcp-data-split off`.
    Off,
    /// The driver does not say.
    Unknown,
}

/// Part of a NIC's ring settings that device memory depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rings {
    /// State of tcp-data-split.
    pub header_split: HeaderSplit,
    /// hds-thresh in bytes, or `None` when the driver does not say.
    pub header_split_threshold_bytes: Option<u32>,
}

/// Sends the request `command` about `nic`.
fn ask(deadline: Duration, command: u8, nic: &str) -> io::Result<Vec<Vec<u8>>> {
    const HEADER: u16 = 1;
    const DEVICE_NAME: u16 = 2;
    let netlink = Netlink::open("ethtool", deadline)?;
    let mut request = netlink.request(command);
    request.push_nest(HEADER, &nested(&[(DEVICE_NAME, &text(nic))]));
    Ok(netlink.ask(&request)?)
}

/// Returns a NIC's ring settings.
///
/// # Errors
/// Returns an error when the kernel or the driver does not answer.
pub fn rings(deadline: Duration, nic: &str) -> io::Result<Rings> {
    let answer = ask(deadline, RINGS_GET, nic)?;
    Ok(read_rings(answer.iter().flat_map(|payload| generic_attributes(payload))))
}

fn read_rings<'a>(attributes: impl Iterator<Item = Attribute<'a>>) -> Rings {
    const TCP_DATA_SPLIT: u16 = 11;
    const HDS_THRESHOLD: u16 = 17;
    let mut rings =
        Rings { header_split: HeaderSplit::Unknown, header_split_threshold_bytes: None };
    for attribute in attributes {
        match attribute.kind {
            TCP_DATA_SPLIT => {
                rings.header_split = match attribute.u8() {
                    Some(1) => HeaderSplit::Off,
                    Some(2) => HeaderSplit::On,
                    _ => HeaderSplit::Unknown,
                };
            }
            HDS_THRESHOLD => rings.header_split_threshold_bytes = attribute.u32(),
            _ => {}
        }
    }
    rings
}

/// Returns whether a NIC's flow rules (ntuple filters) are on.
///
/// # Errors
/// Returns an error when the kernel does not answer.
pub fn has_flow_steering(deadline: Duration, nic: &str) -> io::Result<bool> {
    has_active_feature(deadline, nic, "rx-ntuple-filter")
}

/// Returns the receive queues over which a NIC spreads packets without a rule.
///
/// # Errors
/// Returns an error when the kernel or the driver does not answer. A driver without such a table
/// does not.
pub fn rss_queues(deadline: Duration, nic: &str) -> io::Result<BTreeSet<u32>> {
    let answer = ask(deadline, RSS_GET, nic)?;
    Ok(read_rss(answer.iter().flat_map(|payload| generic_attributes(payload))))
}

fn read_rss<'a>(mut attributes: impl Iterator<Item = Attribute<'a>>) -> BTreeSet<u32> {
    const INDIRECTION: u16 = 4;
    let table = attributes.find(|attribute| attribute.kind == INDIRECTION);
    let words = table.map_or(&[][..], |table| table.value).chunks_exact(4);
    words.filter_map(|word| word.first_chunk().copied()).map(u32::from_ne_bytes).collect()
}

fn has_active_feature(deadline: Duration, nic: &str, feature: &str) -> io::Result<bool> {
    let answer = ask(deadline, FEATURES_GET, nic)?;
    Ok(answer.iter().any(|payload| is_active(generic_attributes(payload), feature)))
}

fn is_active<'a>(mut attributes: impl Iterator<Item = Attribute<'a>>, feature: &str) -> bool {
    const ACTIVE: u16 = 4;
    const BITS: u16 = 3;
    const NAME: u16 = 2;
    let Some(active) = attributes.find(|attribute| attribute.kind == ACTIVE) else { return false };
    // The set has no mask: a bit that is listed is on.
    let bits = active.inner().filter(|attribute| attribute.kind == BITS);
    bits.flat_map(|list| list.inner())
        .flat_map(|bit| bit.inner())
        .any(|attribute| attribute.kind == NAME && attribute.text() == feature)
}

/// Decodes any payload as each of the answers.
#[cfg(any(test, fuzzing))]
pub(super) fn read_any(payload: &[u8]) {
    let attributes = || generic_attributes(payload);
    let _ = (read_rings(attributes()), is_active(attributes(), "rx-ntuple-filter"));
    assert!(read_rss(attributes()).len() <= payload.len() / 4);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attributes;

    #[test]
    fn ring_settings_are_read() {
        let bytes = nested(&[(6, &[0, 4, 0, 0]), (11, &[2]), (17, &[0, 1, 0, 0])]);
        let expected = Rings {
            header_split: HeaderSplit::On,
            header_split_threshold_bytes: Some(u32::from_ne_bytes([0, 1, 0, 0])),
        };
        assert_eq!(read_rings(attributes(&bytes)), expected);
        let silent =
            Rings { header_split: HeaderSplit::Unknown, header_split_threshold_bytes: None };
        assert_eq!(read_rings(attributes(&nested(&[(11, &[0])]))), silent);
    }

    #[test]
    fn the_table_of_queues_is_read() {
        let table: Vec<u8> = [3u32, 0, 3, 1].iter().flat_map(|queue| queue.to_ne_bytes()).collect();
        let bytes = nested(&[(3, &[1]), (4, &table), (5, b"key")]);
        assert_eq!(read_rss(attributes(&bytes)), BTreeSet::from([0, 1, 3]));
        assert_eq!(read_rss(attributes(&nested(&[(4, &[1, 0])]))), BTreeSet::new());
    }

    #[test]
    fn a_nic_that_is_not_there_is_an_error() {
        let deadline = Duration::from_secs(2);
        for refusal in [
            rings(deadline, "no-such-nic").map(drop),
            has_flow_steering(deadline, "no-such-nic").map(drop),
            rss_queues(deadline, "no-such-nic").map(drop),
        ] {
            let words = refusal.expect_err("there is no such NIC").to_string();
            assert!(words.contains("os error 19"), "{words}");
        }
    }

    #[test]
    fn a_feature_is_on_when_its_bit_is_listed() {
        let bit = nested(&[(1, &[0; 4]), (2, b"rx-ntuple-filter\0")]);
        let set = nested(&[(1, &[]), (2, &[64, 0, 0, 0]), (3, &nested(&[(1, &bit)]))]);
        let features = nested(&[(2, &[]), (4, &set)]);
        assert!(is_active(attributes(&features), "rx-ntuple-filter"));
        assert!(!is_active(attributes(&features), "rx-gro"));
        let wanted_only = nested(&[(3, &set)]);
        assert!(!is_active(attributes(&wanted_only), "rx-ntuple-filter"));
    }
}
