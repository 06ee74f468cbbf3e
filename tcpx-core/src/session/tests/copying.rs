#![allow(unsafe_code)]
//! Tests of sessions with threads that copy.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Instant;

use tcpx_protocol::types::MemoryType;
use tcpx_protocol::types::memory::MemoryId;
use tcpx_testkit::PATIENCE;
use tcpx_unpack::{Backend, OnFinished, Ticket, Unpack, UnpackError, UnpackJob};

use super::{connected, soft, take_turns};
use crate::engine::round::Rest;
use crate::{CopyThreads, Error, Post, Session, Transfer};

const BYTES: u64 = 2 << 20;

fn ends(channels: u16) -> [Session; 2] {
    connected(soft().channels(channels).copy_threads(CopyThreads::Count(3)))
}

struct PostedMessage {
    from: MemoryId,
    to: MemoryId,
    send: Transfer,
    receive: Transfer,
}

/// Posts a message from left to right into emulated device memory, at both ends.
fn post(left: &Session, right: &Session, bytes: &[u8]) -> PostedMessage {
    let [from, to] = [left, right]
        .map(|session| session.allocate(BYTES, MemoryType::Device).expect("there is room"));
    left.write_memory(from, 0, bytes).expect("nothing is posted");
    let post = |memory| Post { memory, offset: 0, bytes: BYTES, tag: 1 };
    let send = left.create_transfer("right").expect("a transfer");
    let receive = right.create_transfer("left").expect("a transfer");
    receive.post_recv(post(to)).expect("post_recv");
    send.post_send(post(from)).expect("post_send");
    PostedMessage { from, to, send, receive }
}

fn pattern(seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; BYTES as usize];
    tcpx_testkit::pattern::fill(seed, 0, &mut bytes);
    bytes
}

/// Returns whether every byte has arrived.
fn is_whole(session: &Session, memory: MemoryId, sent: &[u8]) -> bool {
    let mut received = vec![0; sent.len()];
    session.read_memory(memory, 0, &mut received).expect("nothing is posted");
    received == sent
}

#[test]
fn what_threads_copy_is_whole_when_its_transfer_is_complete() {
    let [left, right] = ends(3);
    for seed in 0..4 {
        let PostedMessage { from, to, send, receive } = post(&left, &right, &pattern(seed));
        thread::scope(|scope| {
            let sent = scope.spawn(|| send.wait(Some(PATIENCE)));
            receive.wait(Some(PATIENCE)).expect("everything arrives");
            assert!(is_whole(&right, to, &pattern(seed)), "message {seed}");
            sent.join().expect("no panic").expect("everything is sent");
        });
        left.deregister_memory(from).expect("nothing is posted");
        right.deregister_memory(to).expect("nothing is posted");
    }
}

#[test]
fn a_session_that_ends_while_threads_copy_waits_for_them() {
    for round in 0..8 {
        let [left, right] = ends(2);
        let PostedMessage { to, send, receive, .. } = post(&left, &right, &pattern(round));
        take_turns(&[&left, &right], "something arrives", || {
            right.stats().unpack_batches > round % 4
        });
        let key = right.shared.engine().expect("no fork").peer("left").expect("it is up").0;
        right.shared.engine().expect("no fork").fail_peer(key, Error::Cancelled);
        // The last chunk may have arrived before.
        let _ = receive.wait(Some(PATIENCE));
        right.deregister_memory(to).expect("no thread copies to it");
        drop((left, send));
    }
}

/// Backend that copies at once, and reports the end once the test says so.
struct GatedBackend {
    real: Box<dyn Unpack>,
    gate: Arc<BackendGate>,
}

#[derive(Default)]
struct BackendGate {
    is_open: AtomicBool,
    callback: OnceLock<OnFinished>,
}

impl Unpack for GatedBackend {
    fn backend(&self) -> Backend {
        self.real.backend()
    }

    unsafe fn submit(&mut self, jobs: &[UnpackJob<'_>]) -> Result<Ticket, UnpackError> {
        // SAFETY: passed on from the caller.
        unsafe { self.real.submit(jobs) }
    }

    fn poll(&mut self) -> Result<Ticket, UnpackError> {
        if self.gate.is_open.load(Ordering::SeqCst) { self.real.poll() } else { Ok(Ticket::NONE) }
    }

    fn shutdown(&mut self) -> bool {
        self.real.shutdown()
    }

    fn on_finished(&mut self, on_finished: OnFinished) -> bool {
        self.gate.callback.set(on_finished).is_ok()
    }
}

#[test]
fn an_unpacker_with_a_callback_is_not_polled() {
    let [left, right] = ends(1);
    let gate = Arc::new(BackendGate::default());
    let held = Arc::clone(&gate);
    let engine = || right.shared.engine().expect("no fork");
    engine().unpack_with(|real| Box::new(GatedBackend { real, gate: held }));
    let PostedMessage { to, send, receive, .. } = post(&left, &right, &pattern(1));
    let is_at_rest = || matches!(engine().rest(Instant::now()), Rest::Until(_));
    // Submitted jobs are never seen to finish.
    take_turns(&[&left, &right], "no round polls it", || {
        right.stats().unpack_batches > 0 && is_at_rest()
    });
    thread::scope(|scope| {
        let sent = scope.spawn(|| send.wait(Some(PATIENCE)));
        let received = scope.spawn(|| receive.wait(Some(PATIENCE)));
        gate.is_open.store(true, Ordering::SeqCst);
        while !received.is_finished() {
            gate.callback.get().expect("the callback is set")();
            thread::yield_now();
        }
        received.join().expect("no panic").expect("everything arrives");
        sent.join().expect("no panic").expect("everything is sent");
    });
    assert!(is_whole(&right, to, &pattern(1)));
}
