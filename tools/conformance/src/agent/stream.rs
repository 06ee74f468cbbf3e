//! Streams of equal messages, driven by the agent itself so that both ends run at full speed.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tcpx_sys::{LoadMeta, MAX_REQUESTS, UNPACK_QUEUE_DEPTH};

use crate::link::command::Commands;
use crate::link::values::{Stream, StreamQueue, TestReply};
use crate::message::unpack_row;

/// Requests in flight at each end.
const WINDOW: usize = MAX_REQUESTS;

/// Timer that ends a loop in which nothing completes.
struct StallTimer {
    limit: Duration,
    last: Instant,
}

impl StallTimer {
    /// Starts a timer of `stall_ms` milliseconds.
    fn new(stall_ms: u64) -> Self {
        Self { limit: Duration::from_millis(stall_ms), last: Instant::now() }
    }

    /// Restarts the timer after a completion.
    fn restart(&mut self) {
        self.last = Instant::now();
    }

    /// Fails if nothing has completed for the whole limit.
    fn check(&self, what: &str, message: u64) -> Result<(), String> {
        if self.last.elapsed() < self.limit {
            return Ok(());
        }
        Err(format!("{what} of message {message} was not done after {:?}", self.limit))
    }
}

/// Sends `stream.messages` messages and waits for the last to be done.
pub(super) fn send(agent: &mut impl Commands, stream: &Stream) -> Result<(), String> {
    let (mut inflight, mut posted, mut done) = (VecDeque::with_capacity(WINDOW), 0, 0);
    let mut stall = StallTimer::new(stream.stall_ms);
    while done < stream.messages {
        while posted < stream.messages && inflight.len() < WINDOW {
            // The buffer of the oldest message is free again once its send is done.
            let place = stream.buffer + (posted % WINDOW as u64) * u64::from(stream.message_bytes);
            agent.fill(place, u64::from(stream.message_bytes), stream.first_seed + posted)?;
            let bytes = int(stream.message_bytes)?;
            let reply = agent.isend(stream.comm, place, bytes, 0, stream.mhandle)?;
            if reply.rc != 0 {
                return Err(format!(
                    "isend of message {posted} returned {} with {} in flight",
                    reply.rc,
                    inflight.len()
                ));
            }
            inflight.push_back(reply.pointer);
            posted += 1;
        }
        if test_once(agent, inflight[0], done)? {
            inflight.pop_front();
            done += 1;
            stall.restart();
        }
        stall.check("the send", done)?;
    }
    Ok(())
}

/// Receives `stream.messages` messages, checks every row and every byte, and consumes in order.
pub(super) fn receive(
    agent: &mut impl Commands,
    stream: &Stream,
    queue: Option<StreamQueue>,
) -> Result<(), String> {
    let scratch = agent.allocate(u64::from(stream.message_bytes))?;
    let (mut inflight, mut posted, mut done) = (VecDeque::with_capacity(WINDOW), 0, 0);
    let mut stall = StallTimer::new(stream.stall_ms);
    while done < stream.messages {
        while posted < stream.messages && inflight.len() < WINDOW {
            let place = stream.buffer + (posted % WINDOW as u64) * u64::from(stream.message_bytes);
            let bytes = int(stream.message_bytes)?;
            let reply = agent.irecv(stream.comm, 1, place, bytes, Some(0), stream.mhandle)?;
            if reply.rc != 0 {
                return Err(format!(
                    "irecv of message {posted} returned {} with {} in flight",
                    reply.rc,
                    inflight.len()
                ));
            }
            inflight.push_back((reply.pointer, place));
            posted += 1;
        }
        let (request, place) = inflight[0];
        if test_once(agent, request, done)? {
            let bytes = match &queue {
                Some(queue) => {
                    unpack(agent, queue, done, stream.message_bytes, scratch)?;
                    scratch
                }
                None => place,
            };
            let seed = stream.first_seed + done;
            if let Some(wrong) = agent.verify(bytes, u64::from(stream.message_bytes), seed)? {
                return Err(format!("message {done} is not what was sent: {wrong:?}"));
            }
            let rc = agent.irecv_consumed(stream.comm, 1, request)?;
            if rc != 0 {
                return Err(format!("irecvConsumed of message {done} returned {rc}"));
            }
            inflight.pop_front();
            done += 1;
            stall.restart();
        }
        stall.check("the receive", done)?;
    }
    Ok(())
}

/// Converts a byte count to the type that the plugin takes.
fn int(bytes: u32) -> Result<i32, String> {
    i32::try_from(bytes).map_err(|_| format!("a message of {bytes} bytes"))
}

/// Tests a request once and returns whether it is done.
fn test_once(agent: &mut impl Commands, request: u64, message: u64) -> Result<bool, String> {
    match agent.test(request)? {
        TestReply { rc: 0, done: 0, .. } => Ok(false),
        TestReply { rc: 0, done: 1, .. } => Ok(true),
        TestReply { rc, done, .. } => {
            Err(format!("test of message {message} returned {rc} with done {done}"))
        }
    }
}

/// Checks the row of message `index` of the stream and copies its bytes to `scratch`.
fn unpack(
    agent: &mut impl Commands,
    queue: &StreamQueue,
    index: u64,
    bytes: u32,
    scratch: u64,
) -> Result<(), String> {
    let slot = (queue.received + index) % UNPACK_QUEUE_DEPTH as u64;
    let named = |text| format!("message {index}, slot {slot}: {text}");
    let row = unpack_row::row_address(queue.meta, slot);
    let count = agent.word(unpack_row::count_address(queue.meta, slot))?;
    let count = unpack_row::check_count(count).map_err(named)?;
    let row = agent.read_bytes(row, (count * size_of::<LoadMeta>()) as u32)?;
    let entries = unpack_row::parse_row(&row);
    unpack_row::check_cover(&entries, u64::from(bytes)).map_err(named)?;
    agent.gather(queue.bounce, entries, scratch)
}
