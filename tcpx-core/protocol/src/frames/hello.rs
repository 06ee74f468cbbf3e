//! Handshake of the two ends: their hellos, their proofs, and their agreement. Pure: values in and
//! out.
//!
//! The listener speaks first, with a nonce. The connector answers with its hello, which holds a
//! nonce of its own, and a MAC. The MAC is keyed with the secret of the connection info, over the
//! connector's role, the listener's nonce and the hello. The listener answers in the same way. A
//! recorded hello is worthless, because both nonces are new for each connection.
//!
//! On an encrypted link the hellos are encrypted, too. The connector then answers a value that both
//! ends have from their exchange of keys, in place of the listener's nonce. So the secret is proven
//! to the end that holds the keys, and to no end between.

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::frames::conn_info::{Secret, SessionId};
use crate::frames::eager_terms::{EagerOffer, EagerTerms};
use crate::frames::link_frame::PROTOCOL_VERSION;
use crate::types::encryption::{Encryption, EncryptionMismatch};
use crate::types::nic::NicLinks;
use crate::types::{LEAST_NOTIFICATION_BYTES, MAX_CHANNELS, MIN_CHUNK_BYTES};

const MAGIC: [u8; 8] = *b"TCPXLINK";
/// Nonce that the other end must answer, new for each connection.
pub type Nonce = [u8; 32];

/// Longest name in a hello, in bytes.
const MAX_NAME_BYTES: usize = 96;

/// First statement of the listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Challenge {
    magic: [u8; 8],
    /// Version of the protocol.
    pub protocol: u16,
    /// Nonce that the other end must answer.
    pub nonce: Nonce,
}

impl Challenge {
    /// Makes the challenge of one connection.
    pub fn new(nonce: Nonce) -> Self {
        Self { magic: MAGIC, protocol: PROTOCOL_VERSION, nonce }
    }

    /// Returns the nonce, if the other end speaks this protocol in this version.
    pub fn check(&self) -> Result<Nonce, HandshakeError> {
        if self.magic != MAGIC {
            return Err(HandshakeError::NotTcpx);
        }
        if self.protocol != PROTOCOL_VERSION {
            return Err(HandshakeError::Protocol { ours: PROTOCOL_VERSION, theirs: self.protocol });
        }
        Ok(self.nonce)
    }
}

/// Statement of one end about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the protocol.
    pub protocol: u16,
    /// Its id.
    pub session: SessionId,
    /// The session's name, empty when it was given none.
    pub name: String,
    /// Version of the library.
    pub build: String,
    /// Name of the plugin, which contains its ABI version.
    pub plugin: String,
    /// Version of the unpack queue that this end reads.
    pub unpack_version: i32,
    /// Largest chunk this end accepts.
    pub chunk_bytes: u32,
    /// Channels this end wants.
    pub channels: u16,
    /// CUDA ordinal, if it has a GPU.
    pub gpu: Option<u32>,
    /// Whether a thread of the session makes progress, whatever its program does.
    pub progress_thread: bool,
    /// Whether the session accepts every session that comes, itself included.
    pub accept_all: bool,
    /// Whether the channels may be made when something needs them. They are when both ends say so.
    pub on_demand: bool,
    /// Offer of this end for small messages on the link.
    pub eager: EagerOffer,
    /// Room for notifications of the other end, and most that this end sends ahead of its program.
    pub note_bytes: u32,
    /// What this end says of its encryption.
    pub encryption: Encryption,
    /// NICs over which this end's channels to the other end run, or will.
    pub nics: NicLinks,
    /// A connector's: the number of the device of the listener's session that it wants.
    pub to: u16,
    /// A connector's: number, from 0, of this connection of the two sessions, by what the connector
    /// knows. Two dials that cross are one connection when they agree in it.
    pub connection: u16,
    /// A listener's: the nonce of its own hello to this end, if it gives that dial up for this one.
    pub instead_of: Option<Nonce>,
    /// Nonce with which the other end proves itself.
    pub nonce: Nonce,
}

/// A hello and the proof that the speaker knows the secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proven {
    /// Content of the hello.
    pub hello: Hello,
    /// The proof, over both hellos and the secret.
    pub mac: [u8; 32],
}

/// The two roles, so that one end's proof cannot be sent back as the other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The end that dialled.
    Connector,
    /// The end that was dialled.
    Listener,
}

/// Reason why two ends do not talk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The first frame is none of this protocol.
    #[error("the other end does not speak the control link protocol of tcpx")]
    NotTcpx,
    /// The versions of the protocol differ.
    #[error("control link protocol {ours} here, {theirs} there: use the same tcpx on both ends")]
    Protocol {
        /// Value of this end.
        ours: u16,
        /// Value of the other end.
        theirs: u16,
    },
    /// The MAC does not fit: the secret is another one.
    #[error("wrong secret: its connection info is not the one given out last")]
    Proof,
    /// A name is too long.
    #[error("a name in the hello is too long")]
    Names,
    /// A NIC has a name that none has, or there are too many.
    #[error("the NICs in the hello are too many, or have invalid names")]
    Nics,
    /// The plugins differ.
    #[error("plugin \"{ours}\" here, \"{theirs}\" there: both ends need the same plugin")]
    Plugin {
        /// Value of this end.
        ours: String,
        /// Value of the other end.
        theirs: String,
    },
    /// The unpack queues differ.
    #[error("unpack version {ours} here, {theirs} there")]
    UnpackVersion {
        /// Value of this end.
        ours: i32,
        /// Value of the other end.
        theirs: i32,
    },
    /// The other end's chunks are too small.
    #[error("chunk of {theirs} bytes there, at least {MIN_CHUNK_BYTES} are needed")]
    Chunk {
        /// Value of the other end.
        theirs: u32,
    },
    /// The other end has none, or too many.
    #[error("{theirs} channels there, 1 to {MAX_CHANNELS} are possible")]
    Channels {
        /// Value of the other end.
        theirs: u16,
    },
    /// One end must encrypt, and the other does not.
    #[error(transparent)]
    Encryption(#[from] EncryptionMismatch),
    /// The link is encrypted where both ends say that it is not, or the other way round.
    #[error("its hello does not fit a link that is {}encrypted", if *.0 { "" } else { "not " })]
    LinkEncryption(bool),
    /// Both ends are the same session.
    #[error("this is the session's own connection info")]
    OneSelf,
}

/// Agreement of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// Channels in each direction.
    pub channels: u16,
    /// Most bytes of a chunk, the lesser of both.
    pub chunk_bytes: u32,
    /// Whether the other end makes progress by itself, so that its silence means something.
    pub peer_progresses: bool,
    /// Whether the peer is up before it has channels: they are made when something needs them.
    pub on_demand: bool,
    /// Terms of small messages on the link.
    pub eager: EagerTerms,
    /// Room for notifications at each end, in bytes.
    pub note_bytes: u64,
    /// Whether an end keeps its chunks until the other one has unpacked them. They are where an end
    /// has several NICs, so that one of these may be lost.
    pub keeps_chunks: bool,
    /// Whether both ends encrypt what they send each other, on the link and on the channels.
    pub is_encrypted: bool,
}

impl Agreement {
    /// Returns the agreement, if it fits the link over which it was made.
    ///
    /// # Errors
    /// The link is not encrypted, and should be, or the other way round.
    pub fn of_link(self, is_encrypted: bool) -> Result<Self, HandshakeError> {
        if self.is_encrypted == is_encrypted {
            Ok(self)
        } else {
            Err(HandshakeError::LinkEncryption(is_encrypted))
        }
    }
}

impl Hello {
    /// Adds the proof for the other end's `challenge` nonce.
    pub fn prove(self, role: Role, challenge: &Nonce, secret: &Secret) -> Proven {
        let mac = authenticator(&self, role, challenge, secret)
            .map_or([0; 32], |authenticator| authenticator.finalize().into_bytes().into());
        Proven { hello: self, mac }
    }

    /// Checks whether the two ends fit, and says what both will use. Both ends call it, each with
    /// its own hello as `self`, and come to the same channels and chunks.
    pub fn agree(&self, theirs: &Self) -> Result<Agreement, HandshakeError> {
        if theirs.protocol != self.protocol {
            return Err(HandshakeError::Protocol { ours: self.protocol, theirs: theirs.protocol });
        }
        if theirs.session == self.session && !self.accept_all {
            return Err(HandshakeError::OneSelf);
        }
        if [&theirs.name, &theirs.build, &theirs.plugin]
            .iter()
            .any(|name| name.len() > MAX_NAME_BYTES)
        {
            return Err(HandshakeError::Names);
        }
        if !theirs.nics.is_valid() {
            return Err(HandshakeError::Nics);
        }
        if theirs.plugin != self.plugin {
            return Err(HandshakeError::Plugin {
                ours: self.plugin.clone(),
                theirs: theirs.plugin.clone(),
            });
        }
        if theirs.unpack_version != self.unpack_version {
            return Err(HandshakeError::UnpackVersion {
                ours: self.unpack_version,
                theirs: theirs.unpack_version,
            });
        }
        if theirs.chunk_bytes < MIN_CHUNK_BYTES {
            return Err(HandshakeError::Chunk { theirs: theirs.chunk_bytes });
        }
        if theirs.channels == 0 || theirs.channels > MAX_CHANNELS {
            return Err(HandshakeError::Channels { theirs: theirs.channels });
        }
        let chunk_bytes = self.chunk_bytes.min(theirs.chunk_bytes);
        let channels = self.channels.min(theirs.channels);
        let have_several_nics = self.nics.0.len() > 1 || theirs.nics.0.len() > 1;
        Ok(Agreement {
            channels,
            chunk_bytes,
            peer_progresses: theirs.progress_thread,
            on_demand: self.on_demand && theirs.on_demand,
            eager: EagerTerms::agree(self.eager, theirs.eager, chunk_bytes),
            note_bytes: self.note_bytes.min(theirs.note_bytes).max(LEAST_NOTIFICATION_BYTES).into(),
            keeps_chunks: channels > 1 && have_several_nics,
            is_encrypted: self.encryption.agree(theirs.encryption)?,
        })
    }
}

impl Proven {
    /// Checks that the speaker knows the secret and has answered `challenge`.
    pub fn verify(
        &self,
        role: Role,
        challenge: &Nonce,
        secret: &Secret,
    ) -> Result<(), HandshakeError> {
        authenticator(&self.hello, role, challenge, secret)
            .and_then(|authenticator| authenticator.verify_slice(&self.mac).ok())
            .ok_or(HandshakeError::Proof)
    }
}

/// Returns the MAC of a hello, not finished yet. `None` does not happen: any key is good, and a
/// hello can be serialised.
fn authenticator(
    hello: &Hello,
    role: Role,
    challenge: &Nonce,
    secret: &Secret,
) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&secret.0).ok()?;
    mac.update(match role {
        Role::Connector => b"tcpx hello of connector",
        Role::Listener => b"tcpx welcome of listener",
    });
    mac.update(challenge);
    mac.update(&postcard::to_allocvec(hello).ok()?);
    Some(mac)
}

#[cfg(test)]
pub(crate) mod tests;
