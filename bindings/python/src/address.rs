//! Address of a session: its name, and how to reach it, in one sealed envelope.
//!
//! | bytes of the body | field |
//! |---|---|
//! | 0 | length of the name |
//! | then | name, in UTF-8 |
//! | rest | connection info, an envelope of its own |

use tcpx_protocol::frames::conn_info::ConnInfo;
use tcpx_wire::sealed::Envelope;

const ENVELOPE: Envelope = Envelope { magic: *b"TCPXADDR", version: 1 };

/// Session of a peer, as its address describes it.
#[derive(Debug)]
pub(crate) struct PeerAddress<'a> {
    /// Name that the session gave itself.
    pub(crate) name: &'a str,
    /// What the session's `listen` returned.
    pub(crate) conn_info: &'a [u8],
    /// Id of the session, which its remote keys carry.
    pub(crate) session: [u8; 16],
}

/// Returns the address of a session. A name has at most 64 bytes, which the session has checked.
pub(crate) fn seal(name: &str, conn_info: &[u8]) -> Vec<u8> {
    let name = &name.as_bytes()[..name.len().min(u8::MAX.into())];
    let length = [name.len() as u8];
    ENVELOPE.seal(&[&length, name, conn_info].concat())
}

impl<'a> PeerAddress<'a> {
    /// Reads an address. The error says what is wrong with the bytes.
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Self, String> {
        let body = ENVELOPE.open(bytes).map_err(|error| error.to_string())?;
        Self::read(body).ok_or_else(|| "it holds no name and connection info".to_owned())
    }

    fn read(body: &'a [u8]) -> Option<Self> {
        let (length, rest) = body.split_first()?;
        let (name, conn_info) = rest.split_at_checked((*length).into())?;
        let name = std::str::from_utf8(name).ok()?;
        let session = ConnInfo::decode(conn_info).ok()?.session;
        Some(Self { name, conn_info, session })
    }
}
