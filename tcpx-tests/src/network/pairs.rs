//! Hosts joined by several veth pairs, each as fast as the test says: hosts with several NICs.

use tcpx_testkit::skip;

use super::{Network, ip, run};
use crate::pair::Side;

/// Bytes that a shaped pair lets through at once after a rest.
const BURST: &str = "64k";
/// Longest that a packet waits for its turn; what comes later is lost.
const LATENCY: &str = "50ms";

impl Network {
    /// Lays two hosts that are joined by a pair for each rate, in Mbit/s, each way. `None`, with
    /// the reason printed, where this machine has no namespaces or cannot shape an interface.
    ///
    /// # Panics
    /// When there are none although TCPX_TEST_REQUIRE names `netns`.
    #[must_use]
    pub fn with_pairs_or_skip(rates: &[u32]) -> Option<Self> {
        let lay = || {
            let network = Self::without_link()?;
            for (pair, rate) in (0..).zip(rates) {
                network.add_pair(pair)?;
                network.shape(pair, *rate)?;
            }
            Ok(network)
        };
        lay()
            .map_err(|reason: String| skip("netns", &format!("no hosts of many NICs: {reason}")))
            .ok()
    }

    /// Names of a host's interfaces of the first pairs, as many as given.
    #[must_use]
    pub fn nics(&self, side: Side, pairs: u8) -> Vec<String> {
        (0..pairs).map(|pair| self.interface(pair, letter(side))).collect()
    }

    /// Lets at most this rate, in Mbit/s, through a pair, each way. Packets wait for their turn.
    ///
    /// # Errors
    /// What `tc` said.
    pub fn shape(&self, pair: u8, rate: u32) -> Result<(), String> {
        let rate = format!("{rate}mbit");
        for (host, side) in [(self.left(), 'l'), (self.right(), 'r')] {
            let interface = self.interface(pair, side);
            let device = ["-n", &host, "qdisc", "replace", "dev", &interface, "root", "tbf"];
            let limits = ["rate", &rate, "burst", BURST, "latency", LATENCY];
            run("tc", &[&device[..], &limits].concat())?;
        }
        Ok(())
    }

    /// Takes a host's end of a pair down, or brings it up. The other end has no carrier meanwhile.
    ///
    /// # Errors
    /// What `ip` said.
    pub fn set_nic(&self, side: Side, pair: u8, is_up: bool) -> Result<(), String> {
        let host = match side {
            Side::Left => self.left(),
            Side::Right => self.right(),
        };
        let state = if is_up { "up" } else { "down" };
        ip(&["-n", &host, "link", "set", &self.interface(pair, letter(side)), state])
    }
}

fn letter(side: Side) -> char {
    match side {
        Side::Left => 'l',
        Side::Right => 'r',
    }
}
