#![allow(unsafe_code)]
//! A session whose unpack does not keep up, with a backend that waits to be told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tcpx_unpack::{Backend, Ticket, Unpack, UnpackError, UnpackJob};

use super::connect;
use crate::Session;
use crate::types::MemoryType;
use crate::{PluginChoice, Post, SessionOptions};

const PATIENCE: Duration = Duration::from_secs(60);
const MESSAGE_BYTES: u64 = 100_000;

/// Copies at once and says so late.
struct Late {
    real: Box<dyn Unpack>,
    may_finish: Arc<AtomicBool>,
}

impl Unpack for Late {
    fn backend(&self) -> Backend {
        self.real.backend()
    }

    unsafe fn submit(&mut self, jobs: &[UnpackJob<'_>]) -> Result<Ticket, UnpackError> {
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

fn session() -> Session {
    let options = SessionOptions {
        plugin: PluginChoice::Soft,
        channels: Some(1),
        chunk_bytes: Some(16 << 10),
        stall_after: Some(Duration::from_secs(1)),
        progress_thread: true,
        ..SessionOptions::default()
    };
    Session::new(options).expect("a session opens")
}

#[test]
fn chunks_that_wait_for_their_unpack_are_noticed_once() {
    let (left, right) = (session(), session());
    connect(&left, &right);
    let may_finish = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&may_finish);
    right
        .shared
        .engine()
        .expect("no fork")
        .unpack_with(|real| Box::new(Late { real, may_finish: told }));
    let allocate = |session: &Session| session.allocate(MESSAGE_BYTES, MemoryType::Device);
    let post = |memory| Post { memory, offset: 0, bytes: MESSAGE_BYTES, tag: 1 };
    let from = left.create_transfer("right").expect("a transfer");
    let to = right.create_transfer("left").expect("a transfer");
    to.post_recv(post(allocate(&right).expect("there is room"))).expect("post_recv");
    from.post_send(post(allocate(&left).expect("there is room"))).expect("post_send");

    let give_up_at = Instant::now() + PATIENCE;
    while right.stats().alarms.is_empty() {
        assert!(Instant::now() < give_up_at, "nothing was noticed");
        thread::yield_now();
    }
    may_finish.store(true, Ordering::Release);
    to.wait(Some(PATIENCE)).expect("the backend finishes");
    from.wait(Some(PATIENCE)).expect("the bytes have left");
    let alarms = right.stats().alarms;
    assert_eq!(alarms.len(), 1, "{alarms:?}");
    assert_eq!((alarms[0].id.as_str(), alarms[0].count), ("TCPX-914", 1));
    assert!(left.stats().alarms.is_empty(), "the sender's chunks have left");
}
