//! Text of errors: each variant's own words, and in one place the id that follows them.

use std::fmt;

use tcpx_protocol::types::memory::MemoryId;
use tcpx_sys::printable;

use super::Error;
use super::diagnosis::id_at_end;
use super::failures::{Departure, DialFailure};
use super::optional::prefixed;

/// Writes the words, then the id of the diagnosis in brackets: ` [TCPX-902]`. The text is one line,
/// whatever the names and reasons of peers are.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&words(self)))?;
        match self.id() {
            Some(id) if !ends_with_an_id(self) => write!(f, " [{id}]"),
            _ => Ok(()),
        }
    }
}

/// Returns whether the text ends with an id already: a peer that gave up, or that refuses this end,
/// has sent its own.
fn ends_with_an_id(error: &Error) -> bool {
    matches!(error, Error::PeerGone { how: Departure::Abort(reason), .. }
        | Error::Handshake { reason, .. } if id_at_end(reason).is_some())
}

/// Returns the words of an error, without the id.
fn words(error: &Error) -> String {
    match error {
        Error::Setting { name, value, problem } => format!("{name} = {value}: {problem}"),
        Error::Load(error) => error.to_string(),
        Error::Preflight(report) => format!(
            "the plugin was not loaded: {}; with TCPX_PREFLIGHT=0 it is loaded unchecked, and may \
             end, crash or hang this process",
            first_finding(report)
        ),
        Error::NoSoftPlugin => "the software plugin is not part of this build (feature `soft`); \
                                name a plugin by path"
            .to_owned(),
        Error::Plugin(failure) => failure.to_string(),
        Error::PluginHangs(hang) => hang.to_string(),
        Error::UnusablePlugin { path, reason } => format!("plugin {}: {reason}", path.display()),
        Error::NoNic { wanted, available } => {
            format!("no NIC {wanted}; the plugin offers: {}", available.join(", "))
        }
        Error::MemoryUnavailable(missing) => missing.to_string(),
        Error::Unpack(error) => format!("unpack: {error}"),
        Error::UnpackFailed(failure) => failure.to_string(),
        Error::Deadline { phase, peer, waited, detail } => {
            let peer = prefixed(" with peer ", peer);
            format!("deadline of {waited:?} passed during {phase}{peer}: {detail}")
        }
        Error::UnknownPeer { peer, known } if known.is_empty() => {
            format!("unknown peer {peer}; there are no peers yet")
        }
        Error::UnknownPeer { peer, known } => format!("unknown peer {peer}; known peers: {known}"),
        Error::PeerState { peer, state, cure } => format!("peer {peer} is {state}: {cure}"),
        Error::PeerGone { peer, phase, how } => {
            format!("peer {peer} is gone during {phase}: {how}")
        }
        Error::Handshake { peer, reason } => format!("handshake with {peer} failed: {reason}"),
        Error::Encryption { peer, problem } => {
            format!("the link to {peer} cannot be encrypted as it must be: {problem}")
        }
        Error::ConnInfo(error) => format!("connection info: {error}"),
        Error::Protocol { peer, detail } => {
            format!("peer {peer} broke the control link protocol: {detail}")
        }
        Error::SizeMismatch { peer, tag, send_bytes, recv_bytes } => format!(
            "size mismatch with peer {peer}, tag {tag}: sender posted {send_bytes} bytes, receiver \
             {recv_bytes}"
        ),
        Error::UnknownRegistration { id } => format!("registration {id} does not exist"),
        Error::Registration { id, problem } => {
            format!("registration {}: {problem}", id.map_or(0, MemoryId::get))
        }
        Error::ListedRegistration { index, problem } => {
            format!("range {index} of the list: {problem}; no range of it was registered")
        }
        Error::InUse { id, operations, holders } if !holders.is_empty() => format!(
            "registration {id} is still in use by {operations} operations ({holders}); its memory \
             must stay as it is"
        ),
        Error::InUse { id, operations: 0, .. } => {
            format!("registration {id} is being read or written through the session")
        }
        Error::InUse { id, operations, .. } => format!(
            "registration {id} is in use by {operations} posted operations; wait for their \
             transfers or cancel them"
        ),
        Error::Remote { peer, memory, problem } => {
            let whose = peer
                .as_ref()
                .map_or("exported memory".to_owned(), |peer| format!("memory of peer {peer}"));
            format!("{whose}{}: {problem}", prefixed(", registration ", memory))
        }
        Error::NotificationTooLong { bytes } => {
            format!("a notification of {bytes} bytes; 65536 are the most")
        }
        Error::NotificationsFull { peer, queued_bytes } => format!(
            "notifications of {queued_bytes} bytes wait for peer {peer}, which is yet to be \
             reached, or whose program does not take what it has"
        ),
        Error::RemoteKey(error) => format!("remote key: {error}"),
        Error::Fragments { peer, channel, chunk_bytes, source } => {
            format!("peer {peer}, channel {channel}, chunk of {chunk_bytes} bytes: {source}")
        }
        Error::Cancelled => "cancelled".to_owned(),
        Error::Expired { peer, after: limit } => format!(
            "given up: it had not ended within its {:.3} s{}",
            limit.as_secs_f64(),
            prefixed(", peer ", peer)
        ),
        Error::Released => "the transfer was released".to_owned(),
        Error::Closed => "the session is closed, or the peer was disconnected".to_owned(),
        Error::Forked => "this process was forked from one that had made a session, and must not \
                          use the library; fork before the first session, or start the child with \
                          exec"
            .to_owned(),
        Error::Unreachable { peer, attempts } => {
            let attempts: Vec<_> = attempts.iter().map(DialFailure::to_string).collect();
            format!("reaching the control listener of peer {peer}: {}", attempts.join("; "))
        }
        Error::Io { what, error, .. } => format!("{what}: {error}"),
    }
}

/// Returns the first finding in words, and the number of further ones.
fn first_finding(report: &tcpx_diagnosis::Report) -> String {
    let [first, more @ ..] = report.findings() else { return String::new() };
    let count = Some(more.len()).filter(|count| *count > 0);
    let more = count.map_or_else(String::new, |count| format!(" (and {count} more findings)"));
    format!("{}; {}; cure: {}{more}", first.seen, first.why, first.cure.join("; "))
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::sync::Arc;
    use std::time::Duration;

    use tcpx_cuda::CudaError;
    use tcpx_diagnosis::Report;
    use tcpx_diagnosis::variables::{Env, lint};
    use tcpx_protocol::error::{RemoteKeyError, RemoteProblem};

    use tcpx_sys::NcclResult;

    use super::*;
    use crate::error::awaited::Awaited;
    use crate::error::failures::{Phase, PluginFailure, PluginHang};
    use crate::error::problems::{
        BounceBufferProblem, MemoryUnavailable, RegistrationProblem, SettingProblem,
    };

    #[test]
    fn a_peers_words_stay_in_their_line_and_leave_the_terminal_alone() {
        let how = Departure::Abort("bad\n[ERROR] all is lost\u{1b}[2J [TCPX-902]".into());
        assert_eq!(how.to_string(), "it aborted: bad\\n[ERROR] all is lost\\u{1b}[2J [TCPX-902]");
        let gone = Error::PeerGone { peer: "a\rb".into(), phase: Phase::Send, how };
        assert_eq!(
            gone.to_string(),
            "peer a\\rb is gone during send: it aborted: bad\\n[ERROR] all is lost\\u{1b}[2J [TCPX-902]"
        );
    }

    /// Logs and scripts depend on these lines.
    #[test]
    fn the_words_and_then_the_id() {
        let deadline = |peer: Option<&str>| Error::Deadline {
            phase: Phase::Close,
            peer: peer.map(str::to_owned),
            waited: Duration::from_millis(1_500),
            detail: Awaited::words("no goodbye"),
        };
        let attempt = |address: &str, error: &str| DialFailure {
            address: address.into(),
            kind: Some(ErrorKind::ConnectionRefused),
            error: error.into(),
        };
        let bounce = MemoryUnavailable::BounceBuffer(BounceBufferProblem::Missing);
        let past_end =
            RegistrationProblem::OutOfBounds { offset: 8, bytes: 9, registered_bytes: 16 };
        let outside =
            RemoteProblem::OutOfRange { index: 4, offset: 8, bytes: 9, exported_bytes: 16 };
        let read_only = RegistrationProblem::ReadOnlyOnGpu { address: 0x7000, bytes: 8192 };
        for (error, text) in [
            (
                Error::setting("channels", "0", SettingProblem::OutOfRange { low: 1, high: 64 }),
                "channels = 0: must be 1 to 64 [TCPX-133]",
            ),
            (
                Error::NoNic { wanted: "eth9".into(), available: vec!["a".into(), "b".into()] },
                "no NIC eth9; the plugin offers: a, b [TCPX-316]",
            ),
            (
                Error::MemoryUnavailable(bounce),
                "bounce memory is not available: the plugin has no bounce buffer for this GPU; is \
                 RxDM running? [TCPX-510]",
            ),
            (
                Error::MemoryUnavailable(MemoryUnavailable::Cuda(CudaError::NoDriver)),
                "CUDA memory is not available: no CUDA driver: libcuda.so.1 cannot be loaded \
                 [TCPX-221]",
            ),
            (
                Error::MemoryUnavailable(MemoryUnavailable::Operations { count: 9 }),
                "the system has no memory for 9 more operations, and none was posted; post fewer \
                 at a time, or wait until others have ended",
            ),
            (deadline(None), "deadline of 1.5s passed during close: no goodbye [TCPX-726]"),
            (
                deadline(Some("p")),
                "deadline of 1.5s passed during close with peer p: no goodbye [TCPX-726]",
            ),
            (
                Error::Registration { id: MemoryId::new(3), problem: past_end },
                "registration 3: offset 8 and size 9 reach past its 16 bytes [TCPX-825]",
            ),
            (
                Error::ListedRegistration { index: 2, problem: RegistrationProblem::Empty },
                "range 2 of the list: the size is 0; no range of it was registered [TCPX-825]",
            ),
            (
                Error::Registration { id: None, problem: read_only },
                "registration 0: the session's GPU may only read 8192 bytes at 0x7000; map them \
                 with write access to receive into them, or register them for sending only \
                 [TCPX-825]",
            ),
            (
                Error::Unreachable {
                    peer: "p".into(),
                    attempts: vec![attempt("10.0.0.1:9", "refused"), attempt("10.0.0.2:9", "no")],
                },
                "reaching the control listener of peer p: 10.0.0.1:9: refused; 10.0.0.2:9: no \
                 [TCPX-607]",
            ),
            (
                Error::Preflight(Arc::new(Report::new(lint(&Env::new(), &[], 0)).fatal())),
                "the plugin was not loaded: NCCL_DYNAMIC_CHUNK_SIZE is unset; the plugin's \
                 effective chunk size is then 0, so every transfer spins on empty chunks for \
                 ever; cure: export NCCL_DYNAMIC_CHUNK_SIZE=524288; with TCPX_PREFLIGHT=0 it is \
                 loaded unchecked, and may end, crash or hang this process [TCPX-101]",
            ),
            (
                Error::Remote {
                    peer: Some("p".into()),
                    memory: MemoryId::new(3),
                    problem: outside,
                },
                "memory of peer p, registration 3: range 4: offset 8 and size 9 reach past the 16 \
                 bytes that are exported [TCPX-832]",
            ),
            (
                Error::Remote { peer: None, memory: None, problem: RemoteProblem::Revoked },
                "exported memory: its export was taken back [TCPX-831]",
            ),
            (
                RemoteKeyError::Length { have: 85, need: 86 }.into(),
                "remote key: 85 bytes, a key has 86 [TCPX-834]",
            ),
            (
                Error::Plugin(PluginFailure {
                    call: "connect",
                    code: NcclResult(2),
                    phase: Phase::Connect,
                    peer: Some("p".into()),
                    channel: None,
                    nic: Some("eth1".into()),
                    cause: None,
                }),
                "plugin call connect returned 2 (ncclSystemError) during connect, peer p, NIC eth1 \
                 [TCPX-717]",
            ),
            (
                Error::PluginHangs(PluginHang {
                    call: "accept",
                    phase: Phase::Accept,
                    peer: "p".into(),
                    channel: 1,
                    nic: "eth1".into(),
                    waited: Duration::from_secs(10),
                    returns: true,
                    found: None,
                }),
                "plugin call accept was not ready for 10.0 s during accept, peer p, channel 1, NIC \
                 eth1; it is left behind with the thread of the plugin that waits [TCPX-733]",
            ),
            (
                Error::io("listening", &ErrorKind::AddrInUse.into()),
                "listening: address in use [TCPX-613]",
            ),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }
}
