//! An error in words. Each variant's own text, and in one place the id that follows it.

use std::fmt;

use super::Error;
use super::departure::Departure;
use super::diagnosis::id_at_end;

/// The words of [`Text`], then the id of the diagnosis in brackets: ` [TCPX-902]`.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Text(self))?;
        match self.id() {
            Some(id) if !ends_with_an_id(self) => write!(f, " [{id}]"),
            _ => Ok(()),
        }
    }
}

/// Whether the text has an id without ours: a peer that gave up has sent its own.
fn ends_with_an_id(error: &Error) -> bool {
    matches!(error, Error::PeerGone { how: Departure::Abort(reason), .. }
        if id_at_end(reason).is_some())
}

/// What an error says, without the id.
struct Text<'a>(&'a Error);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Error::Setting { name, value, reason } => write!(f, "{name} = {value}: {reason}"),
            Error::Load(error) => write!(f, "{error}"),
            Error::Preflight(report) => {
                f.write_str("the plugin was not loaded: ")?;
                first_finding(report, f)
            }
            Error::NoSoftPlugin => f.write_str(
                "the software plugin is not part of this build (feature `soft`); name a plugin by \
                 path",
            ),
            Error::Plugin(failure) => write!(f, "{failure}"),
            Error::UnusablePlugin { path, reason } => {
                write!(f, "plugin {}: {reason}", path.display())
            }
            Error::NoNic { wanted, available } => {
                write!(f, "no NIC {wanted}; the plugin offers: {available}")
            }
            Error::MemoryUnavailable { kind, reason } => {
                write!(f, "{kind} memory is not available: {reason}")
            }
            Error::Unpack(error) => write!(f, "unpack: {error}"),
            Error::UnpackFailed(failure) => write!(f, "{failure}"),
            Error::Deadline { phase, peer, waited, detail } => {
                write!(f, "deadline of {waited:?} passed during {phase}")?;
                if let Some(peer) = peer {
                    write!(f, " with peer {peer}")?;
                }
                write!(f, ": {detail}")
            }
            Error::UnknownPeer { peer, known } => {
                write!(f, "unknown peer {peer}; known peers: {known}")
            }
            Error::PeerState { peer, state, cure } => write!(f, "peer {peer} is {state}: {cure}"),
            Error::PeerGone { peer, phase, how } => {
                write!(f, "peer {peer} is gone during {phase}: {how}")
            }
            Error::Handshake { peer, reason } => {
                write!(f, "handshake with {peer} failed: {reason}")
            }
            Error::ConnInfo(error) => write!(f, "connection info: {error}"),
            Error::Protocol { peer, detail } => {
                write!(f, "peer {peer} broke the control link protocol: {detail}")
            }
            Error::SizeMismatch { peer, tag, send_bytes, recv_bytes } => write!(
                f,
                "size mismatch with peer {peer}, tag {tag}: sender posted {send_bytes} bytes, \
                 receiver {recv_bytes}"
            ),
            Error::UnknownRegistration { id } => write!(f, "registration {id} does not exist"),
            Error::Registration { id, reason } => write!(f, "registration {id}: {reason}"),
            Error::InUse { id, operations } => write!(
                f,
                "registration {id} is in use by {operations} posted operations; wait for their \
                 transfers or cancel them"
            ),
            Error::Fragments { peer, channel, chunk_bytes, source } => {
                write!(f, "peer {peer}, channel {channel}, chunk of {chunk_bytes} bytes: {source}")
            }
            Error::Cancelled => f.write_str("cancelled"),
            Error::Released => f.write_str("the transfer was released"),
            Error::Closed => f.write_str("the session is closed"),
            Error::Io { what, error } => write!(f, "{what}: {error}"),
        }
    }
}

/// The first finding in words, and how many more there are.
fn first_finding(report: &tcpx_diagnosis::Report, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let [first, more @ ..] = report.findings() else { return Ok(()) };
    write!(f, "{}; {}; cure: {}", first.seen, first.why, first.cure.join("; "))?;
    if !more.is_empty() {
        write!(f, " (and {} more findings)", more.len())?;
    }
    Ok(())
}
