#![allow(unsafe_code)]
//! Tests of scattered sends whose gathering is late, or fails: with a backend that copies on
//! demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tcpx_cuda::CudaError;
use tcpx_protocol::types::MemoryType;
use tcpx_rx::UnpackDescriptor;
use tcpx_testkit::{PATIENCE, until};
use tcpx_unpack::{Backend, Ticket, Unpack, UnpackError, UnpackJob};

use super::{connect, open, part, pass_unpack_timeout, patient, take_turns, uses};
use crate::stats::ChannelStats;
use crate::{Departure, Error, MemoryId, Post, Session, Transfer};

const STALL_AFTER: Duration = Duration::from_secs(1);
const MESSAGES: u64 = 20;
const MESSAGE_BYTES: u64 = 1000;
/// Distance from one message to the next at the sender.
const STEP: u64 = 1500;
const BYTES: u64 = MESSAGES * STEP;

/// Controls of the backend for the test, and what the test sees of it.
#[derive(Default)]
struct BackendControls {
    /// Whether submitted jobs are kept, and not copied yet.
    is_slow: AtomicBool,
    /// Whether polling fails.
    is_sick: AtomicBool,
    submitted: AtomicUsize,
}

/// Job with descriptors of its own.
struct HeldJob {
    job: UnpackJob<'static>,
    descriptors: Vec<UnpackDescriptor>,
}

/// Backend that touches memory as late as it may.
struct LateBackend {
    real: Box<dyn Unpack>,
    gpu: Arc<BackendControls>,
    kept: Vec<HeldJob>,
    submits: u64,
}

fn sickness() -> UnpackError {
    UnpackError::Cuda(CudaError::Call { call: "cuTestCall", code: 700, name: "SICK".into() })
}

impl Unpack for LateBackend {
    fn backend(&self) -> Backend {
        self.real.backend()
    }

    unsafe fn submit(&mut self, jobs: &[UnpackJob<'_>]) -> Result<Ticket, UnpackError> {
        self.gpu.submitted.fetch_add(jobs.len(), Ordering::Relaxed);
        self.kept.extend(jobs.iter().map(|job| {
            HeldJob {
                job: UnpackJob::new(&[])
                    .with_bounce(job.bounce, job.bounce_bytes)
                    .with_destination(job.dst, job.dst_bytes),
                descriptors: job.descriptors.to_vec(),
            }
        }));
        self.submits += 1;
        Ok(Ticket::new(self.submits))
    }

    fn poll(&mut self) -> Result<Ticket, UnpackError> {
        if self.gpu.is_sick.load(Ordering::Relaxed) {
            return Err(sickness());
        }
        if self.gpu.is_slow.load(Ordering::Relaxed) {
            return Ok(Ticket::NONE);
        }
        self.copy_kept()?;
        Ok(Ticket::new(self.submits))
    }

    fn shutdown(&mut self) -> bool {
        !self.gpu.is_slow.load(Ordering::Relaxed)
            && self.copy_kept().is_ok()
            && self.real.shutdown()
    }
}

impl LateBackend {
    fn copy_kept(&mut self) -> Result<(), UnpackError> {
        for HeldJob { mut job, descriptors } in self.kept.drain(..) {
            job.descriptors = &descriptors;
            // SAFETY: what `submit` was promised of the job's memory holds until `poll` has
            // returned its ticket, or `shutdown` true.
            unsafe { self.real.submit(&[job]) }?;
        }
        Ok(())
    }
}

struct GatheringSessions {
    left: Session,
    right: Session,
    gpu: Arc<BackendControls>,
    source: MemoryId,
    target: MemoryId,
    send: Transfer,
    receive: Transfer,
}

/// Returns scattered sends from left to right, which left's slow GPU is gathering.
fn gathering() -> GatheringSessions {
    let [left, right] =
        [(); 2].map(|()| open(patient().channels(1).stall_after(Some(STALL_AFTER))));
    let gpu =
        Arc::new(BackendControls { is_slow: AtomicBool::new(true), ..BackendControls::default() });
    let held = Arc::clone(&gpu);
    let late = |real| -> Box<dyn Unpack> {
        Box::new(LateBackend { real, gpu: held, kept: Vec::new(), submits: 0 })
    };
    left.shared.engine().expect("no fork").unpack_with(late);
    connect(&left, &right);
    let [source, target] = [&left, &right]
        .map(|session| session.allocate(BYTES, MemoryType::Device).expect("there is room"));
    left.write_memory(source, 0, &pattern()).expect("nothing is posted");
    let posts = |memory, step| -> Vec<Post> {
        let post = |at: u64| Post { memory, offset: at * step, bytes: MESSAGE_BYTES, tag: 1 };
        (0..MESSAGES).map(post).collect()
    };
    let send = left.create_transfer("right").expect("it is up");
    let receive = right.create_transfer("left").expect("it is up");
    receive.post_recv_batch(&posts(target, MESSAGE_BYTES)).expect("they fit");
    let scene = GatheringSessions { left, right, gpu, source, target, send, receive };
    // The receives come first, so that all are matched in one call.
    scene.progress_until("the receives are announced", |scene| {
        scene.left.stats().peers[0].announced == MESSAGES as usize
    });
    scene.send.post_send_batch(&posts(source, STEP)).expect("they fit");
    scene.progress_until("something is gathered", |scene| {
        scene.gpu.submitted.load(Ordering::Relaxed) > 0
    });
    assert!(!scene.send.is_complete().expect("it is under way"));
    let ChannelStats { gathered, posts, .. } = scene.left.stats().total.send;
    assert_eq!(gathered, 1, "they lie apart");
    assert_eq!(posts, 0, "a chunk is sent when its bytes are there");
    scene
}

fn pattern() -> Vec<u8> {
    (0..BYTES).map(|at| (at * 7 + at / 256) as u8).collect()
}

impl GatheringSessions {
    fn progress_until(&self, what: &str, is_there: impl Fn(&Self) -> bool) {
        take_turns(&[&self.left, &self.right], what, || is_there(self));
    }

    fn wait_both(&self) -> [crate::Result<()>; 2] {
        thread::scope(|scope| {
            let sent = scope.spawn(|| self.send.wait(Some(PATIENCE)));
            [self.receive.wait(Some(PATIENCE)), sent.join().expect("no panic")]
        })
    }

    fn verify(&self) {
        let mut received = vec![0; (MESSAGES * MESSAGE_BYTES) as usize];
        self.right.read_memory(self.target, 0, &mut received).expect("nothing is posted");
        let sent = pattern();
        let steps = sent.chunks(STEP as usize).zip(received.chunks(MESSAGE_BYTES as usize));
        for (at, (sent, received)) in steps.enumerate() {
            assert_eq!(&sent[..MESSAGE_BYTES as usize], received, "message {at}");
        }
    }

    /// Lets right give up, and left notice.
    fn abandon(&self) {
        let key = self.right.shared.engine().expect("no fork").peer("left").expect("it is up").0;
        self.right.shared.engine().expect("no fork").fail_peer(key, Error::Cancelled);
        self.progress_until("the abort comes", |scene| scene.left.stats().peers[0].state == "gone");
        assert_eq!(self.left.stats().peers_parked, 1);
        assert!(uses(&self.left, self.source) > 0);
        assert!(!self.send.is_complete().expect("it has not ended"));
    }
}

fn assert_aborted(outcome: crate::Result<()>) {
    let error = outcome.expect_err("the peer gave up");
    assert!(matches!(error, Error::PeerGone { how: Departure::Abort(_), .. }), "{error}");
}

#[test]
fn what_comes_behind_a_late_chunk_waits_for_it() {
    let scene = gathering();
    let large = 100_000;
    let [from, to] = [&scene.left, &scene.right]
        .map(|session| session.allocate(large, MemoryType::Device).expect("there is room"));
    let post = |memory| Post { memory, offset: 0, bytes: large, tag: 2 };
    scene.receive.post_recv(post(to)).expect("it fits");
    scene.send.post_send(post(from)).expect("it fits");
    scene.progress_until("the large one is matched", |scene| {
        scene.left.stats().peers[0].messages_sent == MESSAGES + 1
    });
    scene.left.progress();
    assert_eq!(scene.left.stats().total.send.posts, 0, "chunks leave in the order of matches");
    scene.gpu.is_slow.store(false, Ordering::Relaxed);
    scene.wait_both().into_iter().for_each(|end| end.expect("all is well"));
    scene.verify();
    part(&scene.left, &scene.right);
}

#[test]
fn a_gather_that_does_not_come_to_its_end_is_noticed_once() {
    let scene = gathering();
    let begin = Instant::now();
    for looks in 1..=3_u32 {
        scene.left.shared.progress_at(begin + (STALL_AFTER + Duration::from_millis(1)) * looks);
    }
    scene.gpu.is_slow.store(false, Ordering::Relaxed);
    scene.wait_both().into_iter().for_each(|end| end.expect("all is well"));
    let alarms = scene.left.stats().alarms;
    assert_eq!(alarms.len(), 1, "{alarms:?}");
    assert_eq!((alarms[0].id.as_str(), alarms[0].count), ("TCPX-914", 1));
    part(&scene.left, &scene.right);
}

#[test]
fn a_goodbye_waits_for_what_is_gathered() {
    let scene = gathering();
    thread::scope(|scope| {
        let parting = scope.spawn(|| scene.left.disconnect("right"));
        let answering = scope.spawn(|| scene.right.disconnect("left"));
        until("left parts", || scene.left.stats().peers[0].state == "closing");
        for _ in 0..100 {
            scene.left.progress();
        }
        assert_eq!(scene.left.stats().peers[0].state, "closing");
        scene.gpu.is_slow.store(false, Ordering::Relaxed);
        for end in [parting, answering] {
            end.join().expect("no panic").expect("both part in peace");
        }
    });
    scene.wait_both().into_iter().for_each(|end| end.expect("it was matched"));
    scene.verify();
}

#[test]
fn nothing_is_freed_before_a_late_gather_has_finished() {
    let scene = gathering();
    scene.abandon();
    // Now the backend reads the sends and writes the staging buffer.
    scene.gpu.is_slow.store(false, Ordering::Relaxed);
    assert_aborted(scene.send.wait(Some(PATIENCE)));
    assert_eq!(scene.left.stats().peers_parked, 0);
    scene.left.deregister_memory(scene.source).expect("nothing touches it");
    scene.left.close().expect("nothing is left");
}

#[test]
fn a_wait_ends_before_a_gather_that_does_not_and_its_memory_stays() {
    let scene = gathering();
    scene.abandon();
    pass_unpack_timeout(&scene.left);
    assert_aborted(scene.send.wait(Some(PATIENCE)));
    assert!(uses(&scene.left, scene.source) > 0);
    // The gathering finishes after all.
    scene.gpu.is_slow.store(false, Ordering::Relaxed);
    scene.progress_until("it ends", |scene| scene.left.stats().peers_parked == 0);
    scene.left.deregister_memory(scene.source).expect("nothing touches it");
    scene.left.close().expect("nothing is left");
}

#[test]
fn a_failed_gather_is_named_and_ends_the_session() {
    let scene = gathering();
    scene.gpu.is_sick.store(true, Ordering::Relaxed);
    scene.progress_until("it lingers", |scene| scene.left.stats().peers_parked == 1);
    pass_unpack_timeout(&scene.left);
    let [received, sent] = scene.wait_both();
    let failure = match &sent {
        Err(Error::UnpackFailed(failure)) => failure,
        other => panic!("nothing failed: {other:?}"),
    };
    assert!(failure.is_send);
    assert_eq!((failure.peer.as_str(), failure.channel, failure.tag), ("right", 0, 1));
    assert_eq!((failure.registration, &failure.source), (Some(scene.source), &sickness()));
    match received {
        Err(Error::PeerGone { how: Departure::Abort(reason), .. }) => {
            assert!(reason.contains("gathering") && reason.contains("cuTestCall"), "{reason}");
        }
        other => panic!("left did not say why: {other:?}"),
    }
    let counts = scene.send.counts().expect("it is there");
    assert_eq!(counts.chunks_done, 0, "nothing was sent");
    // Jobs submitted before the failure may still read the memory.
    assert!(uses(&scene.left, scene.source) > 0);
    scene.gpu.is_slow.store(false, Ordering::Relaxed);
    scene.progress_until("it ends", |scene| scene.left.stats().peers_parked == 0);
    scene.left.deregister_memory(scene.source).expect("nothing reads it");
    scene.left.close().expect("nothing is left");
}
