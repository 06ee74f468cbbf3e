//! Frames of a control link until both ends have proven their identity.
//!
//! They carry what a session says when it comes in. They also tell whether the session is the one
//! that the other end looks for.
//!
//! The hello's MAC proves that the speaker has the listener's connection info. The speaker only
//! claims to be a certain session. Where the claim matters, the listener has the speaker's
//! connection info too. The voucher is keyed with the secret of that info, which a session that
//! only knows the speaker's id lacks.

use std::ops::RangeInclusive;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::hello::{Challenge, HandshakeError};
use super::link_frame::{FrameKind, LinkFrame, append, append_reason, exactly, reason};
use crate::frames::conn_info::{ConnInfo, Secret, SessionId};
use crate::frames::hello::{Nonce, Proven};
use crate::types::encryption::{Credential, Encryption};
use crate::types::memory::Device;

/// One message of the handshake.
#[derive(Clone, Debug, PartialEq)]
pub enum HandshakeFrame {
    /// Listener → connector, first of all: a fresh nonce.
    Challenge(Challenge),
    /// Connector → listener: identity of the speaker, proven with the listener's nonce.
    Hello(Box<Introduction>),
    /// Listener → connector: identity of the speaker, proven with the connector's nonce.
    Welcome(Box<Proven>),
    /// Listener → connector: we do not fit together, and why.
    Refuse(String),
    /// Listener → connector: too many come now; try again. On the wire it is a refusal without any
    /// bytes.
    Busy,
    /// Connector → listener: proof of the secret, before any key is exchanged.
    Opening(TlsOpening),
    /// Bytes of the handshake of TLS, up to [`MAX_BODY`](LinkFrame::MAX_BODY) of them. A message of
    /// TLS comes in as many frames as it takes.
    Tls(Vec<u8>),
}

impl LinkFrame for HandshakeFrame {
    const KINDS: RangeInclusive<FrameKind> = FrameKind::Challenge..=FrameKind::Tls;
    /// Most bytes of a body. The limit is low, because any host may send a frame.
    const MAX_BODY: usize = 1024;

    fn kind(&self) -> FrameKind {
        match self {
            Self::Challenge(_) => FrameKind::Challenge,
            Self::Hello(_) => FrameKind::Hello,
            Self::Welcome(_) => FrameKind::Welcome,
            Self::Refuse(_) | Self::Busy => FrameKind::Refuse,
            Self::Opening(_) => FrameKind::Opening,
            Self::Tls(_) => FrameKind::Tls,
        }
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        match self {
            Self::Challenge(challenge) => append(out, challenge),
            Self::Hello(introduction) => append(out, introduction.as_ref()),
            Self::Welcome(proven) => append(out, proven.as_ref()),
            Self::Refuse(reason) => append_reason(out, reason),
            Self::Busy => {}
            Self::Opening(opening) => append(out, opening),
            Self::Tls(bytes) => out.extend_from_slice(bytes),
        }
    }

    fn decode_body(kind: FrameKind, body: &[u8]) -> Option<Self> {
        Some(match kind {
            FrameKind::Challenge => Self::Challenge(exactly(body)?),
            FrameKind::Hello => Self::Hello(Box::new(exactly(body)?)),
            FrameKind::Welcome => Self::Welcome(Box::new(exactly(body)?)),
            FrameKind::Refuse if body.is_empty() => Self::Busy,
            FrameKind::Refuse => Self::Refuse(reason(body)?),
            FrameKind::Opening => Self::Opening(exactly(body)?),
            FrameKind::Tls if !body.is_empty() => Self::Tls(body.to_vec()),
            _ => return None,
        })
    }
}

impl HandshakeFrame {
    /// Returns the frames that carry these bytes of the handshake of TLS.
    pub fn of_tls(bytes: &[u8]) -> impl Iterator<Item = Self> + '_ {
        bytes.chunks(Self::MAX_BODY).map(|part| Self::Tls(part.to_vec()))
    }
}

/// A connector's proof of the listener's secret, with which an encrypted link begins. An end that
/// lacks the secret so costs the listener no signature and no state of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsOpening {
    /// What the connector says of its encryption.
    pub encryption: Encryption,
    /// Means by which the connector proves itself.
    pub credential: Credential,
    /// New for each connection.
    nonce: Nonce,
    /// The proof, over the listener's nonce and the fields above.
    mac: [u8; 32],
}

impl TlsOpening {
    /// Answers the listener's `challenge` with a nonce that no other connection has.
    pub fn new(
        (encryption, credential): (Encryption, Credential),
        nonce: Nonce,
        challenge: &Nonce,
        listeners: &Secret,
    ) -> Self {
        let mut opening = Self { encryption, credential, nonce, mac: [0; 32] };
        if let Some(mac) = opening.authenticator(challenge, listeners) {
            opening.mac = mac.finalize().into_bytes().into();
        }
        opening
    }

    /// Checks that the speaker knows the listener's secret and has answered its `challenge`.
    ///
    /// # Errors
    /// [`HandshakeError::Proof`]: it does not, or has answered another one.
    pub fn verify(&self, challenge: &Nonce, listeners: &Secret) -> Result<(), HandshakeError> {
        self.authenticator(challenge, listeners)
            .and_then(|mac| mac.verify_slice(&self.mac).ok())
            .ok_or(HandshakeError::Proof)
    }

    /// Returns the MAC, not finished yet. `None` does not happen: any key is good.
    fn authenticator(&self, challenge: &Nonce, listeners: &Secret) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&listeners.0).ok()?;
        mac.update(b"tcpx opening of connector");
        mac.update(challenge);
        mac.update(&postcard::to_allocvec(&(self.encryption, self.credential, self.nonce)).ok()?);
        Some(mac)
    }
}

/// A connector's hello, proven with the listener's secret and vouched for with the connector's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Introduction {
    /// Hello of the session, and its proof.
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

    /// Returns the session that the speaker says it is.
    pub fn session(&self) -> &SessionId {
        &self.proven.hello.session
    }

    /// Returns the device of the listener's session that it wants.
    pub fn wanted(&self) -> Device {
        Device::from_number(self.proven.hello.to)
    }

    /// Returns the number of the connection of the two sessions that it asks for.
    pub fn connection(&self) -> u16 {
        self.proven.hello.connection
    }

    /// Returns the mark that tells this hello from every other.
    pub fn nonce(&self) -> &Nonce {
        &self.proven.hello.nonce
    }

    /// Returns the proof of its hello.
    pub fn mac(&self) -> &[u8; 32] {
        &self.proven.mac
    }

    /// Returns whether the speaker is the session that this connection info leads to.
    pub fn is_of(&self, info: &ConnInfo) -> bool {
        *self.session() == info.session
            && authenticator(&self.proven, &info.secret)
                .is_some_and(|authenticator| authenticator.verify_slice(&self.voucher).is_ok())
    }
}

/// Returns the MAC of a voucher, not finished yet. `None` does not happen: any key is good.
fn authenticator(proven: &Proven, own: &Secret) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&own.0).ok()?;
    mac.update(b"tcpx voucher of connector");
    mac.update(&proven.mac);
    Some(mac)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frames::conn_info::Secret;
    use crate::frames::hello::Role;
    use crate::frames::hello::tests::sample_hello;
    use crate::frames::link_frame::tests::{survive_any_body, survive_the_wire};

    fn opening(nonce: Nonce) -> TlsOpening {
        TlsOpening::new(
            (Encryption::Prefer, Credential::SessionKey),
            nonce,
            &[9; 32],
            &Secret([3; 32]),
        )
    }

    fn any_frame() -> impl Strategy<Value = HandshakeFrame> {
        let proven = |mac| Proven { hello: sample_hello(), mac: [mac; 32] };
        let introduced = move |mac| Introduction::new(proven(mac), &Secret([mac; 32]));
        prop_oneof![
            any::<[u8; 32]>().prop_map(|nonce| HandshakeFrame::Challenge(Challenge::new(nonce))),
            any::<u8>().prop_map(move |mac| HandshakeFrame::Hello(Box::new(introduced(mac)))),
            any::<u8>().prop_map(move |mac| HandshakeFrame::Welcome(Box::new(proven(mac)))),
            "\\PC{0,100}".prop_map(HandshakeFrame::Refuse),
            Just(HandshakeFrame::Busy),
            any::<[u8; 32]>().prop_map(|nonce| HandshakeFrame::Opening(opening(nonce))),
            proptest::collection::vec(any::<u8>(), 1..=HandshakeFrame::MAX_BODY)
                .prop_map(HandshakeFrame::Tls),
        ]
    }

    proptest! {
        #[test]
        fn frames_survive_the_wire_in_order(
            frames in proptest::collection::vec(any_frame(), 0..20),
        ) {
            survive_the_wire(&frames);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = HandshakeFrame::decode(&bytes);
            survive_any_body::<HandshakeFrame>(&bytes);
        }
    }

    #[test]
    fn a_long_reason_is_shortened_where_a_character_ends() {
        let mut bytes = Vec::new();
        HandshakeFrame::Refuse("ß".repeat(1000) + "x").encode(&mut bytes);
        let (read, _) = HandshakeFrame::decode(&bytes).unwrap().unwrap();
        assert_eq!(read, HandshakeFrame::Refuse("ß".repeat(200)));
    }

    #[test]
    fn bytes_of_tls_are_cut_into_frames_and_an_empty_one_is_none() {
        let bytes: Vec<u8> = (0..5000u32).map(|at| at as u8).collect();
        let mut wire = Vec::new();
        HandshakeFrame::of_tls(&bytes).for_each(|frame| frame.encode(&mut wire));
        let mut joined = Vec::new();
        while let Some((frame, taken)) = HandshakeFrame::decode(&wire).unwrap() {
            wire.drain(..taken);
            let HandshakeFrame::Tls(part) = frame else { panic!("{frame:?}") };
            joined.extend(part);
        }
        assert_eq!((joined, wire.len()), (bytes, 0));
        assert_eq!(HandshakeFrame::decode_body(FrameKind::Tls, &[]), None);
    }

    #[test]
    fn an_opening_holds_for_one_challenge_one_secret_and_what_it_says() {
        let opening = opening([7; 32]);
        assert_eq!(opening.verify(&[9; 32], &Secret([3; 32])), Ok(()));
        let refused = Err(HandshakeError::Proof);
        assert_eq!(opening.verify(&[8; 32], &Secret([3; 32])), refused, "replayed");
        assert_eq!(opening.verify(&[9; 32], &Secret([4; 32])), refused, "another secret");
        let (encryption, credential) = (Encryption::Off, Credential::Certificate);
        for changed in [
            TlsOpening { encryption, ..opening },
            TlsOpening { credential, ..opening },
            TlsOpening { nonce: [6; 32], ..opening },
        ] {
            assert_eq!(changed.verify(&[9; 32], &Secret([3; 32])), refused);
        }
    }

    #[test]
    fn only_a_session_that_knows_its_own_secret_is_the_one_that_is_looked_for() {
        let (listeners, own) = (Secret([3; 32]), Secret([5; 32]));
        let info = |session, secret: &Secret| ConnInfo {
            session,
            secret: secret.clone(),
            encryption: Encryption::Off,
            credential: Credential::SessionKey,
            addresses: vec!["10.0.0.1:4000".parse().unwrap()],
        };
        let session = sample_hello().session;
        let proven = sample_hello().prove(Role::Connector, &[9; 32], &listeners);
        let introduction = Introduction::new(proven.clone(), &own);
        assert!(introduction.is_of(&info(session, &own)));
        assert!(!introduction.is_of(&info([8; 16], &own)), "another session");
        assert!(!introduction.is_of(&info(session, &listeners)), "another secret");
        // A session that has the listener's secret and has heard of the session's id.
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
