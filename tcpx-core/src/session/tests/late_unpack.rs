#![allow(unsafe_code)]
//! A session whose unpack does not keep up, with a backend that waits to be told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tcpx_protocol::types::MemoryType;
use tcpx_testkit::{PATIENCE, until};
use tcpx_unpack::{Backend, Ticket, Unpack, UnpackError, UnpackJob};

use super::{connected, soft};
use crate::{Error, Post, Session};

const STALL_AFTER: Duration = Duration::from_secs(1);
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

#[test]
fn chunks_that_wait_for_their_unpack_are_noticed_once() {
    let options = soft().channels(1).chunk_bytes(16 << 10).progress_thread(true);
    let [left, right] = connected(options.stall_after(Some(STALL_AFTER)));
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
