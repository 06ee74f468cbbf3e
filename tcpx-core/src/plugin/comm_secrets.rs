//! Secrets of the comms of one peer, where what they carry is encrypted.

use tcpx_protocol::frames::hello::Role;
use tcpx_seal::secret::SharedSecret;

/// Secrets of the comms of one peer. Each comm has one of its own, which both ends derive from
/// their encrypted link, and which never crosses the network.
#[derive(Clone, Debug)]
pub(crate) struct CommSecrets {
    /// For comms on which this end listens.
    listening: SharedSecret,
    /// For comms that this end connects.
    connecting: SharedSecret,
}

impl CommSecrets {
    /// Derives the secrets of the end in this role from those of its link.
    pub(crate) fn derive(link: &SharedSecret, role: Role) -> Self {
        let of = |role| match role {
            Role::Connector => link.derive("tcpx comms to connector", &[]),
            Role::Listener => link.derive("tcpx comms to listener", &[]),
        };
        let other = match role {
            Role::Connector => Role::Listener,
            Role::Listener => Role::Connector,
        };
        Self { listening: of(role), connecting: of(other) }
    }

    /// Returns the secret of the comm of this channel on which this end listens.
    pub(crate) fn of_listening(&self, channel: u16) -> SharedSecret {
        self.listening.derive("tcpx channel", &channel.to_le_bytes())
    }

    /// Returns the secret of the comm of this channel that this end connects.
    pub(crate) fn of_connecting(&self, channel: u16) -> SharedSecret {
        self.connecting.derive("tcpx channel", &channel.to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use tcpx_testkit::dropped::{Remains, assert_not_shown};

    use super::*;

    #[test]
    fn they_are_zeroed_and_never_shown() {
        let secrets = CommSecrets::derive(&SharedSecret::new([7; 32]), Role::Connector);
        let both = [&secrets.listening, &secrets.connecting].map(|secret| *secret.bytes());
        both.iter().for_each(|secret| assert_not_shown(&format!("{secrets:?}"), secret));
        let remains = Remains::of(secrets);
        both.iter().for_each(|secret| remains.assert_zeroed(secret));
    }

    #[test]
    fn both_ends_of_a_comm_have_its_secret_and_no_other_comm_has_it() {
        let link = SharedSecret::new([7; 32]);
        let ours = CommSecrets::derive(&link, Role::Connector);
        let theirs = CommSecrets::derive(&link, Role::Listener);
        let mut all = Vec::new();
        for channel in [0, 1, 256] {
            let [to_us, to_them] = [ours.of_listening(channel), ours.of_connecting(channel)];
            assert_eq!(to_us.bytes(), theirs.of_connecting(channel).bytes());
            assert_eq!(to_them.bytes(), theirs.of_listening(channel).bytes());
            all.extend([*to_us.bytes(), *to_them.bytes()]);
        }
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 6);
    }
}
