//! Every variant has an id or is exempt, and what a text ends with is what `id` says.

use std::sync::Arc;
use std::time::Duration;

use tcpx_diagnosis::Report;
use tcpx_diagnosis::variables::{Env, lint};
use tcpx_sys::NcclResult;
use tcpx_unpack::{Backend, UnpackError};

use super::*;
use crate::error::unpack_failure::UnpackFailure;

fn call(call: &'static str, code: i32) -> Error {
    Error::Plugin(PluginFailure {
        call,
        code: NcclResult(code),
        phase: Phase::Load,
        peer: None,
        channel: None,
        nic: None,
    })
}

fn setting(name: &'static str, value: &str) -> Error {
    Error::Setting { name, value: value.into(), reason: "wrong".into() }
}

fn open(reason: &str) -> Error {
    LoadError::Open { path: "/x.so".into(), reason: reason.into() }.into()
}

fn gone(how: Departure) -> Error {
    Error::PeerGone { peer: "p".into(), phase: Phase::Send, how }
}

fn deadline(phase: Phase) -> Error {
    let (waited, detail) = (Duration::from_secs(1), "up".to_owned());
    Error::Deadline { phase, peer: Some("p".into()), waited, detail }
}

fn sizes(send_bytes: u64, recv_bytes: u64) -> Error {
    Error::SizeMismatch { peer: "p".into(), tag: 1, send_bytes, recv_bytes }
}

fn registration(reason: &str) -> Error {
    Error::Registration { id: 1, reason: reason.into() }
}

fn unavailable(kind: &'static str, reason: &str) -> Error {
    Error::MemoryUnavailable { kind, reason: reason.into() }
}

fn fragments(source: DescriptorError) -> Error {
    Error::Fragments { peer: "p".into(), channel: 0, chunk_bytes: 9, source }
}

fn failed_chunk(source: UnpackError) -> UnpackFailure {
    let (peer, chunk_bytes) = ("p".to_owned(), 9);
    UnpackFailure {
        is_send: false,
        peer,
        channel: 0,
        registration: 1,
        tag: 2,
        chunk: 3,
        chunk_bytes,
        others: 0,
        source,
    }
}

fn with_id() -> Vec<(Error, u16)> {
    let path = || "/x.so".into();
    let too_long =
        DescriptorError::DestinationOutOfBounds { index: 0, dst_off: 8, len: 2, expected_bytes: 9 };
    let no_nic =
        |available: &str| Error::NoNic { wanted: "eth9".into(), available: available.into() };
    let preflight = Report::new(lint(&Env::new(), &[], 0)).fatal();
    let unpack = UnpackError::Unavailable { backend: Backend::Kernel, reason: "no GPU".into() };
    let io = |error: &str| Error::Io { what: "reaching".into(), error: error.into() };
    vec![
        (setting("NCCL_DYNAMIC_CHUNK_SIZE", "512K"), 102),
        (setting("NCCL_DYNAMIC_CHUNK_SIZE", "0"), 101),
        (setting("NCCL_DYNAMIC_CHUNK_SIZE", "8388608"), 104),
        (setting("NCCL_DYNAMIC_CHUNK_SIZE", "17"), 103),
        (setting("TCPX_CHANNELS", "0"), 133),
        (LoadError::Missing { path: path() }.into(), 201),
        (open("libz.so.9: cannot open shared object file: No such file"), 207),
        (open("/x.so: invalid ELF header"), 202),
        (open("/x.so: failed to map segment from shared object"), 204),
        (open("/x.so: Permission denied"), 208),
        (LoadError::MissingSymbol { path: path() }.into(), 205),
        (LoadError::WrongSize { path: path(), found: 1, expected: 152 }.into(), 210),
        (LoadError::NullMember { path: path(), member: "init" }.into(), 210),
        (LoadError::WrongName { path: path(), found: "OFI".into(), expected: vec![] }.into(), 206),
        (Error::Preflight(Arc::new(preflight)), 101),
        (Error::NoSoftPlugin, 212),
        (call("test", 2), 709),
        (call("regMr", 3), 811),
        (call("isend", 3), 806),
        (call("irecv", 3), 806),
        (call("irecvConsumed", 3), 807),
        (call("connect", 3), 717),
        (call("accept", 2), 717),
        (call("init", 3), 730),
        (Error::UnusablePlugin { path: path(), reason: "no NICs".into() }, 211),
        (no_nic(""), 301),
        (no_nic("eth1"), 316),
        (unavailable("bounce", "is RxDM running?"), 510),
        (unavailable("cuda", "libcuda.so.1 is not there"), 221),
        (unavailable("cuda", "no such GPU"), 228),
        (unpack.clone().into(), 912),
        (Error::UnpackFailed(Arc::new(failed_chunk(unpack))), 912),
        (deadline(Phase::Accept), 725),
        (deadline(Phase::Close), 726),
        (deadline(Phase::Receive), 902),
        (gone(Departure::Goodbye), 724),
        (gone(Departure::LinkClosed), 722),
        (gone(Departure::LinkFailed("reset".into())), 722),
        (gone(Departure::HostGone(Duration::from_secs(20))), 731),
        (gone(Departure::Silent(Duration::from_secs(20))), 731),
        (gone(Departure::Abort("out of patience".into())), 723),
        (gone(Departure::Abort("plugin call test returned 2 [TCPX-709]".into())), 709),
        (gone(Departure::Abort("words of a newer release [TCPX-9999]".into())), 723),
        (Error::Handshake { peer: "p".into(), reason: "no proof".into() }, 727),
        (crate::ConnInfoError::Magic.into(), 728),
        (Error::Protocol { peer: "p".into(), detail: "Pong".into() }, 729),
        (sizes(2, 1), 813),
        (sizes(1, 2), 824),
        (registration(HOST_RECEIVE), 820),
        (registration("too long"), 825),
        (Error::InUse { id: 1, operations: 2 }, 822),
        (fragments(too_long), 813),
        (fragments(DescriptorError::ZeroLength { index: 0 }), 826),
        (io("10.0.0.1:9: Connection refused (os error 111)"), 607),
        (io("10.0.0.1:9: Network is unreachable"), 610),
        (io("10.0.0.1:9: connection timed out"), 606),
    ]
}

#[test]
fn errors_have_the_id_of_their_diagnosis_and_end_with_it() {
    for (error, number) in with_id() {
        let id = error.id().unwrap_or_else(|| panic!("{error:?}"));
        assert_eq!(id.number(), number, "{error}");
        assert_eq!(explain(id), error.diagnosis(), "{error}");
        assert!(explain(id).is_some(), "{id} is not in the table");
        let text = error.to_string();
        assert_eq!(
            text.matches("[TCPX-").count(),
            1 + usize::from(text.contains("9999")),
            "{text}"
        );
        assert!(text.ends_with(&format!(" [{id}]")), "{text}");
    }
}

#[test]
fn mistakes_of_the_calling_program_need_no_id() {
    for error in [
        Error::UnknownPeer { peer: "p".into(), known: String::new() },
        Error::PeerState { peer: "p".into(), state: "up", cure: "wait" },
        Error::UnknownRegistration { id: 1 },
        Error::Cancelled,
        Error::Released,
        Error::Closed,
        Error::Io { what: "listening".into(), error: "Address in use".into() },
    ] {
        assert_eq!((error.id(), error.diagnosis()), (None, None), "{error}");
        assert!(!error.to_string().contains('['), "{error}");
    }
}
