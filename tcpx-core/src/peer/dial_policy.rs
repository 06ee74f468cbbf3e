//! Addresses at which the data channels of a peer may be dialled. Pure.
//!
//! A peer says itself where its channels are, and a peer that has the secret may say anything. So
//! this end checks the claim against what it knows by other means: the other end of the link, and
//! the connection info that the program has loaded. A peer's other NICs may be in neither. They are
//! dialled in two cases: this end's own channels run over other NICs than the link's, or the link
//! shows no address that channels could have. They are never dialled where that leads into this
//! host or to many.
//!
//! The module also decides when this end reports that it could not connect a peer's data channels.
//! Where only the peer claims that an address is its own, it may use this end to scan hosts. The
//! time after which a dial fails would tell a closed port from an open one, and from an absent
//! host. So the failure is reported after a fixed time, and a dial that is still under way then has
//! failed, too. The text is the same in any case ([`Error::text_for_peer`]).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Departure, Error, Phase, Result};
use crate::types::PeerName;

/// An interface of this host, and an address that it has.
type Interface = (String, IpAddr);

/// Reason to dial an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AddressTrust {
    /// The address is the link's, or was loaded.
    Known,
    /// Only the peer claims that the address is its own.
    Claimed,
}

/// Knowledge of this end about the addresses of a peer.
#[derive(Clone, Debug)]
pub(crate) struct DialPolicy {
    /// The other end of the link.
    link: Option<IpAddr>,
    /// Addresses in the connection info that was loaded for the peer.
    loaded: Vec<IpAddr>,
    /// This end of the link.
    local: Option<IpAddr>,
    /// The NICs of this end's channels.
    nics: Vec<Arc<str>>,
    /// Reader of this host's interfaces, for addresses that are not the link's.
    interfaces: fn() -> Vec<Interface>,
    /// Whether the settings say that channels run over other NICs than the link's.
    uses_other_nics: bool,
}

impl DialPolicy {
    /// Collects the addresses known by a link between `local` and `link`, and by what was loaded.
    pub(crate) fn new(
        [local, link]: [Option<IpAddr>; 2],
        loaded: Vec<IpAddr>,
        interfaces: fn() -> Vec<Interface>,
        uses_other_nics: bool,
    ) -> Self {
        let [local, link] = [local, link].map(|ip| ip.map(|ip| ip.to_canonical()));
        let uses_other_nics = uses_other_nics || link.is_none_or(|ip| ip.is_ipv6());
        Self { link, loaded, local, nics: Vec::new(), interfaces, uses_other_nics }
    }

    /// Adds which NICs this end's channels run over.
    pub(crate) fn with_nics(self, nics: Vec<Arc<str>>) -> Self {
        Self { nics, ..self }
    }

    /// Returns this end of the link.
    pub(crate) fn local(&self) -> Option<IpAddr> {
        self.local
    }

    /// Returns the reason to dial an address; `None`: the address is not dialled.
    pub(crate) fn trust(&self, address: SocketAddr) -> Option<AddressTrust> {
        let ip = address.ip().to_canonical();
        if self.link == Some(ip) {
            return Some(AddressTrust::Known);
        }
        if leads_to_many(ip) {
            return None;
        }
        let interfaces = (self.interfaces)();
        let is_here = |ip: IpAddr| ip.is_loopback() || interfaces.iter().any(|(_, own)| *own == ip);
        if is_here(ip) {
            // A peer of this host reaches that by itself.
            return self.link.is_some_and(is_here).then_some(AddressTrust::Known);
        }
        if is_link_local(ip) && !self.link.is_some_and(is_link_local) {
            return None;
        }
        if self.loaded.contains(&ip) {
            return Some(AddressTrust::Known);
        }
        let carries_link = |nic: &Arc<str>| {
            interfaces.iter().any(|(name, own)| **name == **nic && Some(*own) == self.local)
        };
        let is_beside_link = self.uses_other_nics || !self.nics.iter().all(carries_link);
        is_beside_link.then_some(AddressTrust::Claimed)
    }
}

/// Returns whether the address is unspecified, multicast or broadcast.
fn leads_to_many(ip: IpAddr) -> bool {
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast() || ip.octets()[0] == 0);
    ip.is_unspecified() || ip.is_multicast() || is_broadcast
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// Delay of the report, longer than a plugin tries to connect to an address that does not answer.
const REPORT_DELAY: Duration = Duration::from_secs(25);

/// Result of dialling a peer's channels, held back until it may be reported.
#[derive(Debug, Default)]
pub(super) struct DialResult {
    /// Time of the report. `None`: a failure is reported at once.
    due: Option<Instant>,
    failure: Option<Error>,
}

impl DialResult {
    /// Begins to hold the result back: the channels are dialled from now on, at addresses that only
    /// the peer claims.
    pub(super) fn claimed(now: Instant) -> Self {
        Self { due: Some(now + REPORT_DELAY), failure: None }
    }

    /// Takes the error of a dial that has failed.
    ///
    /// # Errors
    /// The failure, if it may be reported at once.
    pub(super) fn failed(&mut self, error: Error) -> Result<()> {
        if self.due.is_none() {
            return Err(error);
        }
        self.failure.get_or_insert(error);
        Ok(())
    }

    /// Reports the failure of a dial when it is time to.
    ///
    /// # Errors
    /// The failure, or a time-out of dials that are under way.
    pub(super) fn check(
        &mut self,
        peer: &PeerName,
        is_connected: bool,
        now: Instant,
    ) -> Result<()> {
        if is_connected || self.due.is_none_or(|due| now < due) {
            return Ok(());
        }
        let (waited, state) = (REPORT_DELAY, Departure::DIAL_UNANSWERED);
        Err(self.failure.take().unwrap_or_else(|| Error::PeerGone {
            peer: peer.to_string(),
            phase: Phase::Connect,
            how: Departure::NeverUp { waited, state },
        }))
    }
}

#[cfg(test)]
mod tests {
    use tcpx_sys::NcclResult;

    use super::*;
    use crate::error::PluginFailure;

    const PEER: &str = "10.0.0.7";
    const OWN: &str = "10.0.0.5";

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn policy(link: &str, loaded: &[&str], uses_other_nics: bool) -> DialPolicy {
        let loaded = loaded.iter().map(|text| ip(text)).collect();
        let interfaces = || {
            let all = [("eth0", OWN), ("eth0", "fe80::5"), ("eth1", "10.0.2.5")];
            all.map(|(name, address)| (name.to_owned(), ip(address))).into()
        };
        let ends = [OWN, link].map(|end| Some(ip(end)));
        DialPolicy::new(ends, loaded, interfaces, uses_other_nics).with_nics(vec!["eth0".into()])
    }

    fn trust(policy: &DialPolicy, text: &str) -> Option<AddressTrust> {
        policy.trust(SocketAddr::new(ip(text), 5432))
    }

    /// Addresses that a peer may not have dialled from another host, whatever was loaded and said.
    const NEVER: [&str; 9] = [
        "127.0.0.1",
        "127.9.9.9",
        "::ffff:127.0.0.1",
        "::1",
        OWN,
        "0.0.0.0",
        "0.1.2.3",
        "224.0.0.1",
        "255.255.255.255",
    ];

    #[test]
    fn only_the_other_end_of_the_link_and_what_was_loaded_is_dialled() {
        let policy = policy(PEER, &["10.0.1.7", "127.0.0.1", OWN], false);
        for known in [PEER, "::ffff:10.0.0.7", "10.0.1.7"] {
            assert_eq!(trust(&policy, known), Some(AddressTrust::Known), "{known}");
        }
        for other in ["10.0.0.8", "10.0.2.7", "169.254.169.254", "8.8.8.8", "2001:db8::7"] {
            assert_eq!(trust(&policy, other), None, "{other}");
        }
        NEVER.iter().for_each(|never| assert_eq!(trust(&policy, never), None, "{never}"));
    }

    #[test]
    fn other_nics_of_a_peer_are_dialled_where_this_end_uses_some_but_not_into_this_host() {
        let by_nics = policy(PEER, &[], true);
        let over_ipv6 = policy("2001:db8::7", &[], false);
        // The plugin has no NIC that the link runs over.
        let by_plugin = policy(PEER, &[], false).with_nics(vec!["eth1".into()]);
        for policy in [&by_nics, &over_ipv6, &by_plugin] {
            assert_eq!(trust(policy, "10.0.2.7"), Some(AddressTrust::Claimed));
            for never in NEVER.iter().chain(&["169.254.169.254", "fe80::7"]) {
                assert_eq!(trust(policy, never), None, "{never}");
            }
        }
    }

    #[test]
    fn a_peer_of_this_host_may_be_anywhere_on_it() {
        for link in ["127.0.0.1", OWN] {
            let policy = policy(link, &[], false);
            for here in ["127.0.0.1", "127.0.0.2", OWN] {
                assert_eq!(trust(&policy, here), Some(AddressTrust::Known), "{link} {here}");
            }
            assert_eq!(trust(&policy, "10.0.0.9"), None);
        }
        let link_local = policy("169.254.3.4", &["169.254.3.5"], false);
        assert_eq!(trust(&link_local, "169.254.3.5"), Some(AddressTrust::Known));
    }

    fn failure(call: &'static str, code: NcclResult) -> Error {
        Error::Plugin(PluginFailure {
            call,
            code,
            phase: Phase::Connect,
            peer: Some("p".to_owned()),
            channel: Some(1),
            nic: None,
            cause: None,
        })
    }

    /// Report that the peer gets of each outcome, and its time: of a closed port, of a host that is
    /// not there and of an open port that says nothing.
    #[test]
    fn a_peer_learns_nothing_from_text_or_time_of_a_dial_elsewhere() {
        let (peer, start) = (PeerName::bound("p"), Instant::now());
        let seconds = |seconds| start + Duration::from_secs_f64(seconds);
        let outcomes =
            [Some((0.8, NcclResult::SYSTEM_ERROR)), Some((3.9, NcclResult::INTERNAL_ERROR)), None];
        let heard = outcomes.map(|outcome| {
            let mut dial = DialResult::claimed(start);
            let mut said = None;
            for step in 0..400 {
                let now = seconds(f64::from(step) / 10.0);
                if let Some((at, code)) = outcome
                    && seconds(at) <= now
                {
                    assert!(dial.failed(failure("connect", code)).is_ok(), "it is kept");
                }
                if let Err(error) = dial.check(&peer, false, now) {
                    said = Some((step, error.text_for_peer()));
                    break;
                }
            }
            said.expect("it is said in the end")
        });
        assert_eq!(heard[0].0, 250);
        assert!(heard.iter().all(|one| *one == heard[0]), "{heard:?}");
    }

    #[test]
    fn a_failed_dial_of_the_peers_own_address_is_reported_at_once() {
        let mut dial = DialResult::default();
        let error = failure("connect", NcclResult::SYSTEM_ERROR);
        assert!(dial.failed(error).is_err());
        let later = Instant::now() + 2 * REPORT_DELAY;
        assert!(dial.check(&PeerName::bound("p"), false, later).is_ok(), "nor given up");
        let mut connected = DialResult::claimed(Instant::now());
        assert!(connected.check(&PeerName::bound("p"), true, later).is_ok());
    }

    #[test]
    fn the_report_of_a_failed_dial_names_no_outcome() {
        let said = failure("connect", NcclResult::SYSTEM_ERROR).text_for_peer();
        assert!(said.ends_with("[TCPX-717]") && !said.contains("returned"), "{said}");
        assert_eq!(said, failure("connect", NcclResult::INTERNAL_ERROR).text_for_peer());
        let other = failure("accept", NcclResult::INTERNAL_ERROR);
        assert_eq!(other.text_for_peer(), other.to_string(), "its cause is at this end");
    }
}
