//! Tests that every variant has an id or is exempt, and that its text ends with the id that `id`
//! returns.

use std::sync::Arc;
use std::time::Duration;

use tcpx_diagnosis::table::daemon;
use tcpx_diagnosis::variables::{Env, lint};
use tcpx_diagnosis::{Finding, Report};
use tcpx_protocol::error::RemoteKeyError;
use tcpx_protocol::types::memory::{MemoryId, OperationKind};
use tcpx_sys::NcclResult;
use tcpx_unpack::{Backend, UnpackError};

use super::*;
use crate::error::awaited::Awaited;
use crate::error::problems::BounceBufferProblem;
use crate::error::unpack_failure::UnpackFailure;

fn call(call: &'static str, code: i32) -> Error {
    Error::Plugin(PluginFailure {
        call,
        code: NcclResult(code),
        phase: Phase::Load,
        peer: None,
        channel: None,
        nic: None,
        cause: None,
    })
}

fn setting(name: &'static str, problem: SettingProblem) -> Error {
    Error::setting(name, "512K", problem)
}

fn plugin_chunk(problem: PluginChunkProblem) -> Error {
    setting("NCCL_DYNAMIC_CHUNK_SIZE", SettingProblem::PluginChunk(problem))
}

fn open(reason: &str) -> Error {
    LoadError::Open { path: "/x.so".into(), reason: reason.into() }.into()
}

fn gone(how: Departure) -> Error {
    Error::PeerGone { peer: "p".into(), phase: Phase::Send, how }
}

fn chunks_lost() -> Departure {
    Departure::ChunksLost { channel: 1, sent: 6, arrived: 5, waited: Duration::from_secs(14) }
}

fn deadline(phase: Phase) -> Error {
    let (waited, detail) = (Duration::from_secs(1), Awaited::words("up"));
    Error::Deadline { phase, peer: Some("p".into()), waited, detail }
}

fn sizes(send_bytes: u64, recv_bytes: u64) -> Error {
    Error::SizeMismatch { peer: "p".into(), tag: 1, send_bytes, recv_bytes }
}

fn registration(problem: RegistrationProblem) -> Error {
    Error::Registration { id: MemoryId::new(1), problem }
}

fn remote(problem: RemoteProblem) -> Error {
    Error::Remote { peer: Some("p".into()), memory: MemoryId::new(1), problem }
}

fn cuda(error: CudaError) -> Error {
    Error::MemoryUnavailable(MemoryUnavailable::Cuda(error))
}

fn unreachable(kinds: &[Option<ErrorKind>]) -> Error {
    let attempt =
        |kind| DialFailure { address: "10.0.0.1:9".into(), kind, error: "not reached".into() };
    let attempts = kinds.iter().copied().map(attempt).collect();
    Error::Unreachable { peer: "p".into(), attempts }
}

fn io(kind: ErrorKind) -> Error {
    Error::io("reaching", &kind.into())
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
        registration: MemoryId::new(1),
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
    let past_end = RemoteProblem::OutOfRange { index: 0, offset: 1, bytes: 2, exported_bytes: 2 };
    let no_nic = |available: Vec<String>| Error::NoNic { wanted: "eth9".into(), available };
    let preflight = Report::new(lint(&Env::new(), &[], 0)).fatal();
    let unpack = UnpackError::Unavailable { backend: Backend::Kernel, reason: "no GPU".into() };
    let bounce = MemoryUnavailable::BounceBuffer(BounceBufferProblem::Missing);
    let too_many_fragments =
        SettingProblem::TooManyFragments { nic: "eth1".into(), mtu: 1500, largest: 2_138_112 };
    let small = MemoryUnavailable::BounceBuffer(BounceBufferProblem::TooSmall {
        pool_bytes: 64 << 20,
        channels: 16,
        chunk_bytes: 4 << 20,
        needed_bytes: 128 << 20,
        other_channels: 2,
        other_bytes: 16 << 20,
    });
    let other_transport =
        SettingProblem::OtherTransport { wanted: "device memory", opened: "plain sockets" };
    vec![
        (plugin_chunk(PluginChunkProblem::NotANumber), 102),
        (plugin_chunk(PluginChunkProblem::Zero), 101),
        (plugin_chunk(PluginChunkProblem::TooLarge), 104),
        (plugin_chunk(PluginChunkProblem::TooSmall), 103),
        (setting("NCCL_INLINE_THRESHOLD", SettingProblem::InlineThreshold), 115),
        (setting("chunk_bytes", too_many_fragments), 814),
        (setting("TCPX_CHANNELS", SettingProblem::OutOfRange { low: 1, high: 64 }), 133),
        (setting("gpu", SettingProblem::GpuNeeded), 229),
        (setting("plugin", other_transport), 230),
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
        (call("checkComm", 2), 732),
        (call("regMr", 3), 811),
        (call("isend", 3), 806),
        (call("irecv", 3), 806),
        (call("irecvConsumed", 3), 807),
        (call("connect", 3), 717),
        (call("accept", 2), 717),
        (call("init", 3), 730),
        (Error::UnusablePlugin { path: path(), reason: "no NICs".into() }, 211),
        (no_nic(vec![]), 301),
        (no_nic(vec!["eth1".into()]), 316),
        (Error::MemoryUnavailable(bounce), 510),
        (Error::MemoryUnavailable(small), 511),
        (cuda(CudaError::NoDriver), 221),
        (cuda(CudaError::NoSuchGpu { gpu: 9, count: 8 }), 228),
        (unpack.clone().into(), 912),
        (Error::UnpackFailed(Arc::new(failed_chunk(unpack))), 912),
        (deadline(Phase::Accept), 725),
        (deadline(Phase::Close), 726),
        (deadline(Phase::Receive), 902),
        (gone(Departure::Goodbye), 724),
        (gone(Departure::LinkClosed), 722),
        (gone(Departure::LinkFailed { kind: None, error: "reset".into() }), 722),
        (gone(Departure::HostGone(Duration::from_secs(20))), 731),
        (gone(Departure::Silent(Duration::from_secs(20))), 731),
        (gone(Departure::Unanswered(Duration::from_secs(5))), 726),
        (gone(Departure::NeverUp { waited: Duration::from_secs(5), state: "proven" }), 725),
        (gone(chunks_lost()), 732),
        (gone(Departure::Abort("out of patience".into())), 723),
        (gone(Departure::Abort("plugin call test returned 2 [TCPX-709]".into())), 709),
        (gone(Departure::Abort("words of a newer release [TCPX-9999]".into())), 723),
        (
            gone(Departure::ForeignAddress { channel: 1, address: ([10, 0, 0, 9], 5432).into() }),
            739,
        ),
        (gone(Departure::LinkTampered { record: 5, problem: "its MAC does not fit".into() }), 738),
        (Error::Handshake { peer: "p".into(), reason: "no proof".into() }, 727),
        (crate::ConnInfoError::Magic.into(), 728),
        (Error::Protocol { peer: "p".into(), detail: "Pong".into() }, 729),
        (sizes(2, 1), 813),
        (sizes(1, 2), 824),
        (registration(RegistrationProblem::ReceiveIntoHostMemory), 820),
        (registration(RegistrationProblem::Empty), 825),
        (registration(RegistrationProblem::GpuByTag { gpu: 1 }), 825),
        (registration(RegistrationProblem::ReadOnlyOnGpu { address: 4096, bytes: 1 }), 825),
        (registration(RegistrationProblem::NotExportable { address: 4096, bytes: 1 }), 829),
        (remote(RemoteProblem::AnotherSession), 830),
        (remote(RemoteProblem::UnknownKey), 830),
        (remote(RemoteProblem::Revoked), 831),
        (remote(past_end), 832),
        (remote(RemoteProblem::Access { wanted: OperationKind::Write }), 833),
        (RemoteKeyError::Digest.into(), 834),
        (remote(RemoteProblem::LengthsDiffer { index: 0, local_bytes: 1, remote_bytes: 2 }), 835),
        (remote(RemoteProblem::MixedMemory), 835),
        (remote(RemoteProblem::TooMany { ranges: 2 << 20, limit: 1 << 20 }), 835),
        (remote(RemoteProblem::ReceiveIntoHostMemory), 820),
        (remote(RemoteProblem::Leaves), 724),
        (Error::being_copied(MemoryId::after(0)), 822),
        (Error::Expired { peer: Some("p".into()), after: Duration::from_secs(2) }, 850),
        (fragments(too_long), 813),
        (fragments(DescriptorError::ZeroLength { index: 0 }), 826),
        (Error::Forked, 827),
        (unreachable(&[Some(ErrorKind::ConnectionRefused)]), 607),
        (unreachable(&[Some(ErrorKind::NetworkUnreachable), None]), 610),
        (unreachable(&[Some(ErrorKind::TimedOut), Some(ErrorKind::HostUnreachable)]), 610),
        (unreachable(&[Some(ErrorKind::TimedOut), Some(ErrorKind::ConnectionRefused)]), 607),
        (io(ErrorKind::ConnectionRefused), 607),
        (io(ErrorKind::HostUnreachable), 610),
        (io(ErrorKind::TimedOut), 606),
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
fn a_peer_learns_of_a_failed_dial_only_faults_of_the_host() {
    let failure = |code, cause: Option<Finding>| {
        let Error::Plugin(failure) = call("connect", code) else { panic!("it is one") };
        Error::Plugin(PluginFailure { cause: cause.map(Box::new), ..failure }).text_for_peer()
    };
    assert_eq!(failure(2, None), failure(3, None));
    let cause = || Some(Finding::new(&daemon::RXDM_REFUSES, "10.0.0.1:22".to_owned()));
    assert_eq!(failure(2, cause()), failure(3, cause()));
    let told = failure(3, cause());
    assert!(told.ends_with("[TCPX-504]") && !told.contains("10.0.0.1"), "{told}");
}

#[test]
fn mistakes_of_the_calling_program_need_no_id() {
    for error in [
        Error::PeerState { peer: "p".into(), state: "up", cure: "wait" },
        Error::MemoryUnavailable(MemoryUnavailable::Operations { count: 1 << 20 }),
        remote(RemoteProblem::NoMemory),
        Error::Cancelled,
        Error::Released,
        Error::Closed,
        unreachable(&[None]),
        unreachable(&[]),
    ] {
        assert_eq!((error.id(), error.diagnosis()), (None, None), "{error}");
        assert!(!error.to_string().contains('['), "{error}");
    }
}
