//! Messages between the two ends.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::token::Nonce;
use crate::failure::Failure;
use crate::session::SessionRequest;

/// Names of the kinds of messages in errors. A kind's number is its index here.
const NAMES: [&str; 18] = [
    "greeting",
    "abort",
    "request",
    "answer",
    "connected message",
    "go",
    "times",
    "offer of plain sockets",
    "verification result",
    "key",
    "proof of the token",
    "message about the next iterations",
    "end of its turn",
    "host",
    "port",
    "list of clients",
    "times of pairs",
    "notification behind a write",
];

/// Version of the messages and their order; every change makes a new one. Versions 1 and 2 had
/// other frames, and in 3 a client always asked for a chunk size. 4 and 6 had fewer ways to
/// measure, 5 did not send its release, 7 had no token, and 8 measured a size in one part. 9 sent
/// everything over the connection on which the ends meet, and in 10 the ends of `perf` did not tell
/// each other their hosts. In 11 no notification followed a write.
pub(super) const VERSION: u16 = 12;
/// Of this program.
pub(super) const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// One message. Its body is in postcard's format.
pub(crate) trait Message: Serialize + DeserializeOwned {
    /// Number of the message in the frame.
    const KIND: u16;
    /// Longest body, in bytes.
    const BODY_LIMIT: usize = 64 << 10;
}

/// Returns the name of a kind of message in errors.
pub(super) fn name(kind: u16) -> &'static str {
    NAMES.get(usize::from(kind)).copied().unwrap_or("message of an unknown kind")
}

/// Either end's first message. Later versions add fields at its end, which others leave unread.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Greeting {
    pub(super) version: u16,
    /// Release of tcpx. Versions below 6 do not send it.
    pub(super) release: String,
    /// Number that the other end's proof has to cover.
    pub(super) nonce: Nonce,
    /// Whether this end has a token, which the other end must prove.
    pub(super) wants_proof: bool,
}

impl Greeting {
    pub(super) fn own(wants_proof: bool) -> Result<Self, Failure> {
        let mut nonce = Nonce::default();
        getrandom::fill(&mut nonce)
            .map_err(|error| Failure::io("choosing a number")(error.into()))?;
        Ok(Self { version: VERSION, release: RELEASE.into(), nonce, wants_proof })
    }

    /// Reads a greeting of any version.
    pub(super) fn read(body: &[u8]) -> Option<Self> {
        let (version, rest) = postcard::take_from_bytes(body).ok()?;
        if version == VERSION {
            return postcard::take_from_bytes(body).ok().map(|(greeting, _)| greeting);
        }
        let release: Option<String> = postcard::take_from_bytes(rest).ok().map(|(text, _)| text);
        let release = release.unwrap_or_else(|| "of another release".into());
        Some(Self { version, release, nonce: Nonce::default(), wants_proof: false })
    }
}

/// The client, then the server: proof that the end knows the token.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Proof(pub(super) [u8; 32]);

/// Either end: it aborts, for this reason.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Abort(pub(super) String);

/// Client's request: the plan of the command. The server adopts all of it or refuses.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    /// The client's subcommand of `tcpx`.
    pub(super) command: String,
    pub(super) session: SessionRequest,
    /// Details of the command. Only the same command can read them.
    pub(super) plan: Vec<u8>,
}

/// Server's answer to a request: the address of its session, or a refusal.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    Accepted {
        conn_info: Vec<u8>,
        /// The unpack implementation that the server uses.
        unpack: String,
    },
    Refused {
        reason: String,
    },
    /// The server has another client.
    Busy {
        with: String,
    },
}

/// Either end: its session is connected.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Connected;

impl Message for Greeting {
    const KIND: u16 = 0;
    const BODY_LIMIT: usize = 64;
}

impl Message for Proof {
    const KIND: u16 = 10;
    // The other end may send the reason of a failure instead.
    const BODY_LIMIT: usize = 8 << 10;
}

impl Message for Abort {
    const KIND: u16 = 1;
}

impl Message for Request {
    const KIND: u16 = 2;
}

impl Message for Answer {
    const KIND: u16 = 3;
}

impl Message for Connected {
    const KIND: u16 = 4;
}
