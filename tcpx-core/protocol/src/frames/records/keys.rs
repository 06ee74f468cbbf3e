//! Which keys a connection has. Pure.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::authenticator::Authenticator;
use super::incoming::Incoming;
use super::outgoing::Outgoing;
use crate::frames::conn_info::Secret;
use crate::frames::hello::Role;

/// The keys of one connection, one for each direction.
pub struct RecordKeys {
    by_connector: [u8; 32],
    by_listener: [u8; 32],
}

impl RecordKeys {
    /// Derives the keys from the listener's secret and the MACs of both hellos. These are over all
    /// that both ends have said, their fresh nonces included, so no two connections have the same
    /// keys, and no end has keys that the other lacks.
    pub fn derive(secret: &Secret, connectors: &[u8; 32], listeners: &[u8; 32]) -> Self {
        let key = |label: &[u8]| {
            // Any key is good for a MAC.
            Hmac::<Sha256>::new_from_slice(&secret.0).map_or([0; 32], |mac| {
                let mac = mac.chain_update(label).chain_update(connectors);
                mac.chain_update(listeners).finalize().into_bytes().into()
            })
        };
        Self {
            by_connector: key(b"tcpx records of connector"),
            by_listener: key(b"tcpx records of listener"),
        }
    }

    /// What the end in this role seals with, and what it opens with.
    pub fn into_records(self, role: Role) -> (Outgoing, Incoming) {
        let (ours, theirs) = match role {
            Role::Connector => (self.by_connector, self.by_listener),
            Role::Listener => (self.by_listener, self.by_connector),
        };
        (Outgoing::new(Authenticator::new(&ours)), Incoming::new(Authenticator::new(&theirs)))
    }
}

impl fmt::Debug for RecordKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecordKeys(…)")
    }
}
