#![allow(unsafe_code)]
//! Tests of sessions whose unpack fails in the middle, with a backend that fails on purpose.
//!
//! Tests of a session whose unpack does not keep up, with a backend that finishes on demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tcpx_cuda::CudaError;
use tcpx_protocol::types::MemoryType;
use tcpx_testkit::{PATIENCE, until};
use tcpx_unpack::{Backend, Choice, Ticket, Unpack, UnpackError, UnpackJob};

use super::{connected, soft};
use crate::{
    Departure, Device, Error, ExportOptions, LinkBytes, MemoryId, MemoryRange, OperationKind, Post,
    RemoteAccess, RemoteRange, Session, UnpackFailure,
};

const CHUNK_BYTES: u32 = 16 << 10;
const MESSAGE_BYTES: u64 = 10 * CHUNK_BYTES as u64 + 5;

/// Call in which a backend fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BackendCall {
    Submit,
    Poll,
}

/// Backend that copies as the real one until `healthy` chunks were submitted, and fails from the
/// next on.
struct FaultyBackend {
    real: Box<dyn Unpack>,
    healthy: usize,
    at: BackendCall,
    /// Last ticket of the real backend, once there will be no more.
    stuck_after: Option<Ticket>,
}

fn error() -> UnpackError {
    UnpackError::Cuda(CudaError::Call { call: "cuTestCall", code: 700, name: "SICK".into() })
}

impl Unpack for FaultyBackend {
    fn backend(&self) -> Backend {
        self.real.backend()
    }

    unsafe fn submit(&mut self, jobs: &[UnpackJob<'_>]) -> Result<Ticket, UnpackError> {
        if let Some(left) = self.healthy.checked_sub(jobs.len()) {
            self.healthy = left;
            // SAFETY: passed on from the caller.
            return unsafe { self.real.submit(jobs) };
        }
        if self.at == BackendCall::Submit {
            return Err(error());
        }
        let done = self.real.poll()?;
        self.stuck_after.get_or_insert(done);
        Ok(done.next())
    }

    fn poll(&mut self) -> Result<Ticket, UnpackError> {
        if self.stuck_after.is_some() { Err(error()) } else { self.real.poll() }
    }

    fn shutdown(&mut self) -> bool {
        self.real.shutdown()
    }
}

/// Returns two sessions in which bytes on the link are copied, not unpacked.
fn ends() -> [Session; 2] {
    connected(soft().channels(1).chunk_bytes(CHUNK_BYTES).link_bytes(LinkBytes::Most(0)))
}

/// Sends one message from left to right. Returns the results of the two waits, and the number of
/// chunks that right has given back.
fn send(left: &Session, right: &Session, memories: [MemoryId; 2], tag: i64) -> (Ends, u64) {
    let post = |memory| Post { memory, offset: 0, bytes: MESSAGE_BYTES, tag };
    let (from, to) = (
        left.create_transfer("right").expect("a transfer"),
        right.create_transfer("left").expect("a transfer"),
    );
    to.post_recv(post(memories[1])).expect("post_recv");
    from.post_send(post(memories[0])).expect("post_send");
    let ends = thread::scope(|scope| {
        let sent = scope.spawn(|| from.wait(Some(PATIENCE)));
        [to.wait(Some(PATIENCE)), sent.join().expect("no panic")]
    });
    let done = to.counts().expect("it is there").chunks_done;
    (ends, done)
}

/// Results of the receiver's end, then of the sender's.
type Ends = [crate::Result<()>; 2];

fn chunk_named_by(outcome: &crate::Result<()>) -> &UnpackFailure {
    match outcome {
        Err(Error::UnpackFailed(failure)) => failure,
        other => panic!("no unpack failed: {other:?}"),
    }
}

#[test]
fn a_failed_unpack_names_the_chunk_and_ends_the_session_without_hanging() {
    for at in [BackendCall::Submit, BackendCall::Poll] {
        let [left, right] = ends();
        let memories = [&left, &right].map(|session| {
            session.allocate(MESSAGE_BYTES, MemoryType::Device).expect("there is room")
        });
        // The first message gets through.
        let healthy = MESSAGE_BYTES.div_ceil(u64::from(CHUNK_BYTES)) as usize;
        right
            .shared
            .engine()
            .expect("no fork")
            .unpack_with(|real| Box::new(FaultyBackend { real, healthy, at, stuck_after: None }));
        let (ends, _) = send(&left, &right, memories, 1);
        ends.into_iter().for_each(|end| end.expect("the first message is healthy"));

        let (ends, done) = send(&left, &right, memories, 2);
        let failure = chunk_named_by(&ends[0]);
        assert_eq!(done, 0, "{at:?}: a chunk that was not unpacked counts as done");
        assert_eq!(
            (failure.peer.as_str(), failure.channel, failure.registration, failure.tag),
            ("left", 0, Some(memories[1]), 2)
        );
        assert_eq!((failure.chunk, failure.chunk_bytes), (0, u64::from(CHUNK_BYTES)));
        assert_eq!(failure.source, error());
        // A send is complete when its bytes have left; an incomplete send reports the reason.
        if let Err(Error::PeerGone { how: Departure::Abort(reason), .. }) = &ends[1] {
            assert!(reason.contains("cuTestCall"), "{reason}");
        }

        // The memory is free, and later posts report what happened.
        right.deregister_memory(memories[1]).expect("no operation uses it");
        chunk_named_by(&right.create_transfer("left").map(drop));
        drop((right, left));
    }
}

/// Runs an operation of left on right's memory, whose first chunk cannot be unpacked. Returns the
/// result of its wait.
fn operate(
    [left, right]: [&Session; 2],
    memories: [MemoryId; 2],
    kind: OperationKind,
) -> crate::Result<()> {
    let options = ExportOptions::new(RemoteAccess::ReadWrite);
    let key = right.export(memories[1], options).expect("it is registered");
    let local = [MemoryRange { memory: memories[0], offset: 0, bytes: MESSAGE_BYTES }];
    let remote = [RemoteRange { key: &key, offset: 0, bytes: MESSAGE_BYTES }];
    let operation = left.prepare("right", kind, &local, &remote).expect("it fits");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                right.progress();
            }
        });
        operation.post(Some(b"never")).expect("it is not under way");
        let ended = operation.wait(Some(PATIENCE));
        is_over.store(true, Ordering::Release);
        ended
    })
}

fn assert_aborted(outcome: &crate::Result<()>) {
    let Err(Error::PeerGone { how: Departure::Abort(reason), .. }) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(reason.contains("cuTestCall"), "{reason}");
}

#[test]
fn a_failed_unpack_ends_an_operation_at_both_ends_and_leaves_no_memory_in_use() {
    for at in [BackendCall::Submit, BackendCall::Poll] {
        for kind in [OperationKind::Write, OperationKind::Read] {
            let sessions = ends();
            let [left, right] = &sessions;
            let memories = [left, right].map(|session| {
                session.allocate(MESSAGE_BYTES, MemoryType::Device).expect("there is room")
            });
            let receiver = usize::from(kind == OperationKind::Write);
            let faulty = |real| FaultyBackend { real, healthy: 0, at, stuck_after: None };
            let mut engine = sessions[receiver].shared.engine().expect("no fork");
            engine.unpack_with(|real| Box::new(faulty(real)));
            drop(engine);
            let ended = operate([left, right], memories, kind);
            // The receiving end names the chunk; the other end passes on this message.
            let at_target = || loop {
                right.progress();
                match right.create_transfer("left").map(drop) {
                    Err(Error::PeerState { .. }) | Ok(()) => {}
                    ended => return ended,
                }
            };
            let failure = match kind {
                OperationKind::Write => {
                    assert_aborted(&ended);
                    chunk_named_by(&at_target()).clone()
                }
                OperationKind::Read => {
                    assert_aborted(&at_target());
                    chunk_named_by(&ended).clone()
                }
            };
            assert_eq!((failure.channel, failure.chunk), (0, 0));
            assert_eq!(failure.registration, Some(memories[receiver]), "{at:?} {kind:?}");
            assert_eq!(failure.source, error());
            for (session, memory) in [(left, memories[0]), (right, memories[1])] {
                session.deregister_memory(memory).expect("nothing uses it");
            }
            assert_eq!(right.poll_notifications(&mut Vec::new(), 1).expect("no fork"), 0);
        }
    }
}

/// A device whose unpack fails ends its own operations; the other seven go on.
#[test]
fn a_failed_unpack_of_one_of_eight_devices_ends_no_other() {
    const GPUS: u32 = 8;
    const SICK: u32 = 3;
    let options = |name| {
        let options = soft().emulated_gpus(GPUS).channels(1).link_bytes(LinkBytes::Most(0));
        Session::new(options.name(name).all_devices(true))
            .expect("the software plugin is always there")
    };
    let (here, there) = (options("here"), options("there"));
    here.load_remote_conn_info("there", &there.listen().expect("listen")).expect("they load");
    let writes: Vec<_> = (0..GPUS)
        .map(|gpu| {
            let [memory, target] = [&here, &there].map(|session| {
                session.allocate(MESSAGE_BYTES, Device::Gpu(gpu)).expect("there is room")
            });
            let key = there.export(target, ExportOptions::new(RemoteAccess::Write));
            let key = key.expect("it is registered");
            let local = [MemoryRange { memory, offset: 0, bytes: MESSAGE_BYTES }];
            let remote = [RemoteRange { key: &key, offset: 0, bytes: MESSAGE_BYTES }];
            here.prepare("there", OperationKind::Write, &local, &remote).expect("it fits")
        })
        .collect();
    let run = || {
        writes.iter().for_each(|write| write.post(None).expect("it is connected"));
        let ends = writes.iter().map(|write| write.wait(Some(PATIENCE)));
        ends.collect::<Vec<_>>()
    };
    assert!(run().iter().all(Result::is_ok), "nothing is wrong yet");
    let sick = there.engine_of(Device::Gpu(SICK)).expect("no fork").expect("it is made");
    sick.engine().expect("no fork").unpack_with(|real| {
        Box::new(FaultyBackend { real, healthy: 0, at: BackendCall::Submit, stuck_after: None })
    });
    // Twice: the operations of the others still run.
    for round in 1..=2 {
        let sick: Vec<_> = (0..GPUS).zip(run()).filter(|(_, end)| end.is_err()).collect();
        let [(SICK, Err(error))] = &sick[..] else { panic!("round {round}: {sick:?}") };
        let reason = error.to_string();
        assert!(reason.contains("cuTestCall") || reason.contains("gone"), "{reason}");
    }
}

/// In a session of all devices, a backend that GPUs alone have is no error of the host's memory,
/// nor of memory that stands in for a GPU's.
#[test]
fn a_backend_of_gpus_is_no_error_for_other_memory() {
    for choice in [Choice::D2d, Choice::Kernel] {
        let options = || soft().unpack(choice).emulated_gpus(1);
        let refused = Session::new(options()).map(drop).expect_err("it is a session of the host");
        assert!(matches!(refused, Error::Unpack(_)), "{refused:?}");
        let [here, there] = ["here", "there"].map(|name| {
            Session::new(options().name(name).all_devices(true)).expect("it has other memory")
        });
        here.load_remote_conn_info("there", &there.listen().expect("listen")).expect("they load");
        for device in [Device::Host, Device::Gpu(0)] {
            let [memory, target] = [&here, &there]
                .map(|session| session.allocate(MESSAGE_BYTES, device).expect("there is room"));
            let key = there.export(target, ExportOptions::new(RemoteAccess::Write));
            let key = key.expect("it is registered");
            let local = [MemoryRange { memory, offset: 0, bytes: MESSAGE_BYTES }];
            let remote = [RemoteRange { key: &key, offset: 0, bytes: MESSAGE_BYTES }];
            let write = here.prepare("there", OperationKind::Write, &local, &remote);
            let write = write.expect("it fits");
            write.post(None).expect("it is connected");
            write.wait(Some(PATIENCE)).expect("it is written");
        }
        assert_eq!(there.stats().unpack, "host");
    }
}

const STALL_AFTER: Duration = Duration::from_secs(1);
const LATE_BYTES: u64 = 100_000;

/// Backend that copies at once and reports the end late.
struct LateBackend {
    real: Box<dyn Unpack>,
    may_finish: Arc<AtomicBool>,
    /// Number of submitted chunks.
    submitted: Arc<AtomicUsize>,
}

impl LateBackend {
    /// Has a session unpack late. Returns the switch that lets it finish, and the number of chunks
    /// that wait for the switch.
    fn hold(session: &Session) -> (Arc<AtomicBool>, Arc<AtomicUsize>) {
        let (may_finish, submitted) = (Arc::default(), Arc::default());
        let told = (Arc::clone(&may_finish), Arc::clone(&submitted));
        session.shared.engine().expect("no fork").unpack_with(|real| {
            let (may_finish, submitted) = told;
            Box::new(Self { real, may_finish, submitted })
        });
        (may_finish, submitted)
    }
}

impl Unpack for LateBackend {
    fn backend(&self) -> Backend {
        self.real.backend()
    }

    unsafe fn submit(&mut self, jobs: &[UnpackJob<'_>]) -> Result<Ticket, UnpackError> {
        self.submitted.fetch_add(jobs.len(), Ordering::AcqRel);
        // SAFETY: passed on from the caller.
        unsafe { self.real.submit(jobs) }
    }

    fn poll(&mut self) -> Result<Ticket, UnpackError> {
        if self.may_finish.load(Ordering::Acquire) { self.real.poll() } else { Ok(Ticket::NONE) }
    }

    fn shutdown(&mut self) -> bool {
        self.may_finish.load(Ordering::Acquire) && self.real.shutdown()
    }
}

#[test]
fn chunks_that_wait_for_their_unpack_are_noticed_once() {
    let options = soft().channels(1).chunk_bytes(16 << 10).progress_thread(true);
    let [left, right] = connected(options.stall_after(Some(STALL_AFTER)));
    let (may_finish, _) = LateBackend::hold(&right);
    let allocate = |session: &Session| session.allocate(LATE_BYTES, MemoryType::Device);
    let post = |memory| Post { memory, offset: 0, bytes: LATE_BYTES, tag: 1 };
    let from = left.create_transfer("right").expect("a transfer");
    let to = right.create_transfer("left").expect("a transfer");
    to.post_recv(post(allocate(&right).expect("there is room"))).expect("post_recv");
    from.post_send(post(allocate(&left).expect("there is room"))).expect("post_send");

    until("it is noticed", || {
        let waited = to.wait(Some(Duration::from_millis(100)));
        assert!(matches!(waited, Err(Error::Deadline { .. })), "{waited:?}");
        !right.stats().alarms.is_empty()
    });
    may_finish.store(true, Ordering::Release);
    to.wait(Some(PATIENCE)).expect("the backend finishes");
    from.wait(Some(PATIENCE)).expect("the bytes have left");
    let alarms = right.stats().alarms;
    assert_eq!(alarms.len(), 1, "{alarms:?}");
    assert_eq!((alarms[0].id.as_str(), alarms[0].count), ("TCPX-914", 1));
    assert!(left.stats().alarms.is_empty(), "the sender's chunks have left");
}

/// Every chunk of a write has arrived, and none is known to be unpacked.
#[test]
fn a_notification_waits_for_the_unpack_of_its_write() {
    let [left, right] = ends();
    let (may_finish, submitted) = LateBackend::hold(&right);
    let memories = [&left, &right]
        .map(|session| session.allocate(MESSAGE_BYTES, MemoryType::Device).expect("there is room"));
    left.write_memory(memories[0], 0, &[7; MESSAGE_BYTES as usize]).expect("nothing uses it");
    let options = ExportOptions::new(RemoteAccess::ReadWrite);
    let key = right.export(memories[1], options).expect("it is registered");
    let local = [MemoryRange { memory: memories[0], offset: 0, bytes: MESSAGE_BYTES }];
    let remote = [RemoteRange { key: &key, offset: 0, bytes: MESSAGE_BYTES }];
    let write = left.prepare("right", OperationKind::Write, &local, &remote).expect("it fits");
    write.post(Some(b"now")).expect("it is not under way");
    let mut notes = Vec::new();
    let mut comes = || {
        left.progress();
        right.progress();
        right.poll_notifications(&mut notes, 1).expect("no fork") == 1
    };
    let chunks = MESSAGE_BYTES.div_ceil(CHUNK_BYTES.into()) as usize;
    until("all chunks have arrived", || {
        assert!(!comes(), "it is shown before they have");
        submitted.load(Ordering::Acquire) == chunks
    });
    assert!((0..100).all(|_| !comes()), "it is shown before they are unpacked");
    may_finish.store(true, Ordering::Release);
    until("it comes", comes);
    let mut came = [0; MESSAGE_BYTES as usize];
    right.read_memory(memories[1], 0, &mut came).expect("nothing uses it");
    assert!(came.iter().all(|byte| *byte == 7));
}
