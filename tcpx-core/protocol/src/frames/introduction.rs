//! What a session says when it comes in, and whether it is the one that somebody is looking for.
//!
//! The hello's MAC proves that the speaker has the listener's connection info. Which session the
//! speaker is, it merely says. Where that matters, the listener has the speaker's connection info
//! too: the voucher is keyed with its secret, which whoever only knows the session's id lacks.

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::frames::conn_info::{ConnInfo, Secret, SessionId};
use crate::frames::hello::{Nonce, Proven};
use crate::types::device::Device;

/// A connector's hello, proven with the listener's secret and vouched for with the connector's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Introduction {
    /// What it says, and the proof.
    pub proven: Proven,
    /// MAC over the hello's MAC, and so over the listener's nonce, secret and the hello.
    voucher: [u8; 32],
}

impl Introduction {
    /// Vouches for a hello with the secret of the speaker's own connection info.
    pub fn new(proven: Proven, own: &Secret) -> Self {
        let voucher = authenticator(&proven, own)
            .map_or([0; 32], |authenticator| authenticator.finalize().into_bytes().into());
        Self { proven, voucher }
    }

    /// The session that the speaker says it is.
    pub fn session(&self) -> &SessionId {
        &self.proven.hello.session
    }

    /// The device whose session it wants, of the listener's group.
    pub fn wanted(&self) -> Device {
        Device::from_number(self.proven.hello.to)
    }

    /// Which connection of the two sessions it is to be.
    pub fn connection(&self) -> u16 {
        self.proven.hello.connection
    }

    /// What tells this hello from every other.
    pub fn nonce(&self) -> &Nonce {
        &self.proven.hello.nonce
    }

    /// The proof of its hello.
    pub fn mac(&self) -> &[u8; 32] {
        &self.proven.mac
    }

    /// Whether the speaker is the session that this connection info leads to.
    pub fn is_of(&self, info: &ConnInfo) -> bool {
        *self.session() == info.session
            && authenticator(&self.proven, &info.secret)
                .is_some_and(|authenticator| authenticator.verify_slice(&self.voucher).is_ok())
    }
}

/// The MAC of a voucher, not finished yet. `None` does not happen: any key is good.
fn authenticator(proven: &Proven, own: &Secret) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&own.0).ok()?;
    mac.update(b"tcpx voucher of connector");
    mac.update(&proven.mac);
    Some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::hello::Role;
    use crate::frames::hello::tests::sample_hello;

    #[test]
    fn only_a_session_that_knows_its_own_secret_is_the_one_that_is_looked_for() {
        let (listeners, own) = (Secret([3; 32]), Secret([5; 32]));
        let info = |session, secret: &Secret| ConnInfo {
            session,
            secret: secret.clone(),
            addresses: vec!["10.0.0.1:4000".parse().unwrap()],
        };
        let session = sample_hello().session;
        let proven = sample_hello().prove(Role::Connector, &[9; 32], &listeners);
        let introduction = Introduction::new(proven.clone(), &own);
        assert!(introduction.is_of(&info(session, &own)));
        assert!(!introduction.is_of(&info([8; 16], &own)), "another session");
        assert!(!introduction.is_of(&info(session, &listeners)), "another secret");
        // Who has the listener's secret and has heard of the session's id.
        let pretender = Introduction::new(proven, &listeners);
        assert!(!pretender.is_of(&info(session, &own)));
        // A voucher that was made for another hello, or for another listener's nonce.
        for other in [
            Proven { mac: [1; 32], ..pretender.proven.clone() },
            sample_hello().prove(Role::Connector, &[8; 32], &listeners),
        ] {
            let moved = Introduction { proven: other, voucher: introduction.voucher };
            assert!(!moved.is_of(&info(session, &own)));
        }
    }
}
