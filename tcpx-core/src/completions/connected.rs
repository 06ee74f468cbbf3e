//! Which peers have connections that are up: in a group one for each pair of devices. Pure.

use std::collections::{BTreeMap, HashSet};

use tcpx_protocol::types::device::Device;

/// A connection of a peer: the device here, and what the session there is called.
pub(crate) type DeviceAndName = (Device, String);

/// The connections that are up, by what the program calls the peer.
#[derive(Debug, Default)]
pub(super) struct Connected(BTreeMap<String, HashSet<DeviceAndName>>);

impl Connected {
    /// A connection is up. Returns whether it is the peer's first.
    pub(super) fn up(&mut self, peer: &str, connection: DeviceAndName) -> bool {
        let Some(connections) = self.0.get_mut(peer) else {
            self.0.insert(peer.to_owned(), HashSet::from([connection]));
            return true;
        };
        connections.insert(connection);
        false
    }

    /// A connection has ended, or never came up. Returns whether the peer has none now.
    pub(super) fn ended(&mut self, peer: &str, connection: &DeviceAndName) -> bool {
        let Some(connections) = self.0.get_mut(peer) else { return true };
        connections.remove(connection);
        let was_last = connections.is_empty();
        if was_last {
            self.0.remove(peer);
        }
        was_last
    }

    /// Those that are up.
    pub(super) fn peers(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_up_from_its_first_connection_to_the_end_of_its_last() {
        let mut connected = Connected::default();
        let of = |here, name: &str| (here, name.to_owned());
        let (host, gpu) = (Device::Host, Device::Gpu(0));
        assert!(connected.up("a", of(gpu, "a/gpu1")));
        assert!(!connected.up("a", of(host, "a/gpu1")) && !connected.up("a", of(host, "a/gpu1")));
        assert!(connected.up("b", of(host, "b")));
        assert!(connected.peers().eq(["a", "b"]));
        // One that never came up.
        assert!(!connected.ended("a", &of(host, "a")));
        assert!(!connected.ended("a", &of(gpu, "a/gpu1")));
        assert!(connected.ended("a", &of(host, "a/gpu1")));
        assert!(connected.ended("a", &of(host, "a")), "an attempt of a peer that is not there");
        assert!(connected.peers().eq(["b"]));
        assert!(connected.up("a", of(host, "a")));
    }
}
