#![allow(unsafe_code)]
//! Tests of a peer that ends in the middle of an unpack that is late, or never seen to end: nothing
//! is freed under it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tcpx_cuda::CudaError;
use tcpx_protocol::types::MemoryType;
use tcpx_testkit::{PATIENCE, until};
use tcpx_unpack::{Backend, Ticket, Unpack, UnpackError, UnpackJob};

use super::{LOOPBACK, connect, open, pass_unpack_timeout, soft, take_turns, uses};
use crate::engine::UNPACK_TIMEOUT;
use crate::settings::LinkBytes;
use crate::{
    Departure, Error, ExportOptions, MemoryId, MemoryRange, OperationKind, OperationStatus,
    PeerState, Phase, Post, RemoteAccess, RemoteRange, Session, Transfer,
};

const BYTES: u64 = 50_000;

/// Controls of the backend for the test, and what the test sees of it.
#[derive(Default)]
pub(super) struct BackendControls {
    /// Whether no job is seen to finish.
    pub(super) hangs: AtomicBool,
    /// Whether polling reports the stall.
    is_stalled: AtomicBool,
    /// Whether nothing more can be submitted.
    refuses: AtomicBool,
    pub(super) submitted: AtomicUsize,
    pub(super) polled: AtomicUsize,
    dropped: AtomicBool,
}

struct HoldingBackend {
    real: Box<dyn Unpack>,
    gpu: Arc<BackendControls>,
}

impl Unpack for HoldingBackend {
    fn backend(&self) -> Backend {
        self.real.backend()
    }

    unsafe fn submit(&mut self, jobs: &[UnpackJob<'_>]) -> Result<Ticket, UnpackError> {
        if self.gpu.refuses.load(Ordering::Relaxed) {
            return Err(UnpackError::Cuda(CudaError::NoDriver));
        }
        self.gpu.submitted.fetch_add(jobs.len(), Ordering::Relaxed);
        // SAFETY: passed on from the caller.
        unsafe { self.real.submit(jobs) }
    }

    fn poll(&mut self) -> Result<Ticket, UnpackError> {
        self.gpu.polled.fetch_add(1, Ordering::Relaxed);
        if self.gpu.is_stalled.load(Ordering::Relaxed) {
            return Err(UnpackError::Cuda(CudaError::Stalled { waited_ms: 1 }));
        }
        if self.gpu.hangs.load(Ordering::Relaxed) { Ok(Ticket::NONE) } else { self.real.poll() }
    }

    fn shutdown(&mut self) -> bool {
        let is_copying =
            self.gpu.hangs.load(Ordering::Relaxed) || self.gpu.is_stalled.load(Ordering::Relaxed);
        !is_copying && self.real.shutdown()
    }
}

impl Drop for HoldingBackend {
    fn drop(&mut self) {
        self.gpu.dropped.store(true, Ordering::Relaxed);
    }
}

struct UnpackingSessions {
    left: Session,
    right: Session,
    receive: Transfer,
    memory: MemoryId,
    gpu: Arc<BackendControls>,
}

/// Has a session unpack with a GPU that hangs.
pub(super) fn hang(session: &Session) -> Arc<BackendControls> {
    let gpu =
        Arc::new(BackendControls { hangs: AtomicBool::new(true), ..BackendControls::default() });
    let held = Arc::clone(&gpu);
    let mut engine = session.shared.engine().expect("no fork");
    engine.unpack_with(|real| Box::new(HoldingBackend { real, gpu: held }));
    gpu
}

/// Returns a receiver whose GPU hangs while it unpacks.
fn unpacking() -> UnpackingSessions {
    let [left, right] = [(); 2].map(|()| open(soft().channels(1)));
    let gpu = hang(&right);
    connect(&left, &right);
    let [source, memory] = [&left, &right]
        .map(|session| session.allocate(BYTES, MemoryType::Device).expect("there is room"));
    let (send, receive) =
        (left.create_transfer("right").unwrap(), right.create_transfer("left").unwrap());
    receive.post_recv(Post { memory, offset: 0, bytes: BYTES, tag: 1 }).unwrap();
    send.post_send(Post { memory: source, offset: 0, bytes: BYTES, tag: 1 }).unwrap();
    take_turns(&[&left, &right], "a chunk comes", || gpu.submitted.load(Ordering::Relaxed) > 0);
    UnpackingSessions { left, right, receive, memory, gpu }
}

/// Returns the same receiver after its peer, left, has given up.
fn abandoned_while_unpacking() -> UnpackingSessions {
    let scene = unpacking();
    let UnpackingSessions { left, right, memory, .. } = &scene;
    let key = left.shared.engine().expect("no fork").peer("right").expect("it is up").0;
    left.shared.engine().expect("no fork").fail_peer(key, Error::Cancelled);
    take_turns(&[right], "the abort comes", || right.stats().peers[0].state != "up");
    assert_eq!(right.stats().peers_parked, 1);
    assert_eq!(uses(right, *memory), 1);
    scene
}

pub(super) fn assert_aborted(outcome: crate::Result<()>) {
    let error = outcome.expect_err("the peer gave up");
    assert!(matches!(error, Error::PeerGone { how: Departure::Abort(_), .. }), "{error}");
}

/// Closes a session with a timeout of a millisecond, which may be too short on a busy machine.
pub(super) fn close_at_last(session: &Session) {
    until("nothing is left", || session.close().is_ok());
}

#[test]
fn a_process_that_was_stopped_has_not_waited() {
    let UnpackingSessions { right, receive, gpu, .. } = abandoned_while_unpacking();
    right.shared.progress_at(Instant::now() + 10 * UNPACK_TIMEOUT);
    assert!(!receive.is_complete().expect("it has not ended"));
    pass_unpack_timeout(&right);
    assert_aborted(receive.wait(Some(PATIENCE)));
    gpu.hangs.store(false, Ordering::Relaxed);
    close_at_last(&right);
}

#[test]
fn memory_is_free_when_a_late_unpack_has_finished() {
    let UnpackingSessions { right, receive, memory, gpu, .. } = abandoned_while_unpacking();
    assert!(!receive.is_complete().expect("it has not ended"));
    gpu.hangs.store(false, Ordering::Relaxed);
    assert_aborted(receive.wait(Some(PATIENCE)));
    assert_eq!(right.stats().peers_parked, 0);
    right.deregister_memory(memory).expect("nothing touches it");
    close_at_last(&right);
    drop(right);
    drop(receive);
    assert!(gpu.dropped.load(Ordering::Relaxed));
}

#[test]
fn a_wait_ends_before_an_unpack_that_does_not_and_its_memory_stays() {
    let UnpackingSessions { mut right, receive, memory, gpu, .. } = abandoned_while_unpacking();
    pass_unpack_timeout(&right);
    assert_aborted(receive.wait(Some(PATIENCE)));
    right.release_timeout = Duration::from_millis(1);
    let error = right.deregister_memory(memory).expect_err("it still unpacks");
    assert!(matches!(error, Error::InUse { id, operations: 1, .. } if id == memory), "{error}");
    assert!(
        error.to_string().contains("peer left: its chunks are still being unpacked"),
        "{error}"
    );
    right.release_timeout = crate::session::RELEASE_TIMEOUT;
    assert_eq!(right.stats().peers_parked, 1);
    let error = right.close().expect_err("it still unpacks");
    assert!(matches!(error, Error::Deadline { phase: Phase::Unpack, .. }), "{error}");
    assert!(error.to_string().contains("left"), "{error}");
    // The unpack finishes after all.
    gpu.hangs.store(false, Ordering::Relaxed);
    close_at_last(&right);
    assert_eq!(right.stats().peers_parked, 0);
    right.deregister_memory(memory).expect("nothing touches it");
}

#[test]
fn what_never_ends_is_left_behind_with_the_session() {
    for is_stalled in [false, true] {
        let UnpackingSessions { right, receive, memory, gpu, .. } = abandoned_while_unpacking();
        gpu.is_stalled.store(is_stalled, Ordering::Relaxed);
        if !is_stalled {
            pass_unpack_timeout(&right);
        }
        assert_aborted(receive.wait(Some(PATIENCE)));
        assert_eq!(uses(&right, memory), 1);
        assert!(right.close().is_err());
        drop((receive, right));
        assert!(!gpu.dropped.load(Ordering::Relaxed), "it uses what its drop would free");
    }
}

#[test]
fn an_unpacker_that_has_failed_may_still_copy() {
    let UnpackingSessions { left, right, receive, memory, gpu } = unpacking();
    gpu.refuses.store(true, Ordering::Relaxed);
    // The submit of one more message fails.
    let source = left.allocate(BYTES, MemoryType::Device).unwrap();
    let (send, more) =
        (left.create_transfer("right").unwrap(), right.create_transfer("left").unwrap());
    let target = right.allocate(BYTES, MemoryType::Device).unwrap();
    more.post_recv(Post { memory: target, offset: 0, bytes: BYTES, tag: 2 }).unwrap();
    send.post_send(Post { memory: source, offset: 0, bytes: BYTES, tag: 2 }).unwrap();
    take_turns(&[&left, &right], "it is noticed", || right.stats().peers[0].state != "up");
    // Jobs submitted before the failure go on.
    for _ in 0..100 {
        right.progress();
        assert!(!receive.is_complete().expect("it has not ended"));
    }
    assert_eq!(uses(&right, memory), 1);
    pass_unpack_timeout(&right);
    for transfer in [&receive, &more] {
        let error = transfer.wait(Some(PATIENCE)).expect_err("unpacking failed");
        assert!(matches!(error, Error::UnpackFailed(_)), "{error}");
    }
    assert_eq!(uses(&right, memory), 1);
    assert!(right.close().is_err() && !right.is_settled());
    assert!(!gpu.dropped.load(Ordering::Relaxed));
    gpu.hangs.store(false, Ordering::Relaxed);
    close_at_last(&right);
    assert!(right.is_settled());
    right.deregister_memory(memory).expect("nothing touches it");
}

fn is_up(session: &Session, name: &str) -> bool {
    matches!(session.peer_state(name), Ok(PeerState::Up))
}

/// Either end may begin anew: bytes written then must not arrive before the old ones.
#[test]
fn a_lost_peer_whose_write_is_still_unpacked_is_not_met_again_before_it_is() {
    let options = || {
        let options = soft().channels(1).accept_all(true).listen(LOOPBACK);
        options.eager_bytes(0).link_bytes(LinkBytes::Most(0))
    };
    for begins in ["left", "right"] {
        let [left, right] = ["left", "right"].map(|name| open(options().name(name)));
        let gpu = hang(&right);
        right.load_remote_conn_info("left", &left.listen().expect("listen")).expect("they load");
        let info = right.listen().expect("listen");
        left.load_remote_conn_info("right", &info).expect("they load");
        let [source, memory] = [&left, &right]
            .map(|session| session.allocate(BYTES, MemoryType::Device).expect("there is room"));
        let key = right.export(memory, ExportOptions::new(RemoteAccess::Write)).expect("it fits");
        let local = [MemoryRange { memory: source, offset: 0, bytes: BYTES }];
        let remote = [RemoteRange { key: &key, offset: 0, bytes: BYTES }];
        let write = left.prepare("right", OperationKind::Write, &local, &remote).expect("it fits");
        write.post(None).expect("it is connected");
        let both = [&left, &right];
        take_turns(&both, "a chunk comes", || gpu.submitted.load(Ordering::Relaxed) > 0);
        let lost = left.shared.engine().expect("no fork").peer("right").expect("it is up").0;
        left.shared.engine().expect("no fork").fail_peer(lost, Error::Cancelled);
        take_turns(&both, "the abort comes", || !is_up(&right, "left"));
        take_turns(&both, "it fails", || matches!(write.status(), OperationStatus::Failed(_)));

        match begins {
            "left" => write.post(None).expect("it is there"),
            _ => right.notify("left", b"again").expect("it is there"),
        }
        let is_met = || is_up(&right, "left") || is_up(&left, "right");
        for name in ["first", "second"] {
            // Another peer, which comes later, is served.
            let other = open(options().name(name));
            other.load_remote_conn_info("right", &info).expect("they load");
            other.notify("right", b"").expect("it is there");
            take_turns(&[&left, &right, &other], "another comes", || {
                assert!(!is_met(), "{begins} begins");
                is_up(&right, name)
            });
            // Not even when nothing waits for the unpack any more.
            pass_unpack_timeout(&right);
        }
        gpu.hangs.store(false, Ordering::Relaxed);
        take_turns(&both, "they meet", || is_up(&right, "left") && is_up(&left, "right"));
        if begins == "right" {
            write.post(None).expect("it is up");
        }
        take_turns(&both, "the next one", || matches!(write.status(), OperationStatus::Done));
    }
}
