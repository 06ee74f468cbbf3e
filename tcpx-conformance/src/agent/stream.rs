//! Streams of equal messages, driven by the agent itself so that both ends run at full speed.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tcpx_cuda::CudaError;
use tcpx_sys::{LoadMeta, MAX_REQUESTS, UNPACK_QUEUE_DEPTH};

use super::calls::Calls;
use super::device_memory::Memory;
use super::host_memory::allocate;
use crate::link::command::{Reply, Stream, StreamQueue, Tested};
use crate::message::unpack_row;

/// Requests in flight at each end.
const WINDOW: usize = MAX_REQUESTS;

/// Ends a loop in which nothing completes.
struct Stall {
    limit: Duration,
    last: Instant,
}

impl Stall {
    fn new(stall_ms: u64) -> Self {
        Self { limit: Duration::from_millis(stall_ms), last: Instant::now() }
    }

    fn moved(&mut self) {
        self.last = Instant::now();
    }

    fn check(&self, what: &str, message: u64) -> Result<(), String> {
        if self.last.elapsed() < self.limit {
            return Ok(());
        }
        Err(format!("{what} of message {message} was not done after {:?}", self.limit))
    }
}

/// Sends `stream.messages` messages and waits for the last to be done.
pub(super) fn send(calls: &mut Calls, memory: &Memory<'_>, stream: &Stream) -> Result<(), String> {
    let (mut inflight, mut posted, mut done) = (VecDeque::with_capacity(WINDOW), 0, 0);
    let mut stall = Stall::new(stream.stall_ms);
    while done < stream.messages {
        while posted < stream.messages && inflight.len() < WINDOW {
            // The place of the oldest message is free again once its send is done.
            let place = stream.buffer + (posted % WINDOW as u64) * u64::from(stream.message_bytes);
            memory
                .fill(place, stream.message_bytes as usize, stream.first_seed + posted)
                .map_err(on_gpu)?;
            let made = calls.isend(stream.comm, place, int(stream.message_bytes)?, stream.mhandle);
            if made.rc != 0 {
                return Err(format!(
                    "isend of message {posted} returned {} with {} in flight",
                    made.rc,
                    inflight.len()
                ));
            }
            inflight.push_back(made.pointer);
            posted += 1;
        }
        if finished(calls, inflight[0], done)? {
            inflight.pop_front();
            done += 1;
            stall.moved();
        }
        stall.check("the send", done)?;
    }
    Ok(())
}

/// Receives `stream.messages` messages, checks every row and every byte, and consumes in order.
pub(super) fn receive(
    calls: &mut Calls,
    memory: &Memory<'_>,
    stream: &Stream,
    queue: Option<StreamQueue>,
) -> Result<(), String> {
    let Reply::Address(scratch) = allocate(u64::from(stream.message_bytes)) else {
        return Err("no memory for one message".to_owned());
    };
    let (mut inflight, mut posted, mut done) = (VecDeque::with_capacity(WINDOW), 0, 0);
    let mut stall = Stall::new(stream.stall_ms);
    while done < stream.messages {
        while posted < stream.messages && inflight.len() < WINDOW {
            let place = stream.buffer + (posted % WINDOW as u64) * u64::from(stream.message_bytes);
            let made = calls.irecv(stream.comm, place, int(stream.message_bytes)?, stream.mhandle);
            if made.rc != 0 {
                return Err(format!(
                    "irecv of message {posted} returned {} with {} in flight",
                    made.rc,
                    inflight.len()
                ));
            }
            inflight.push_back((made.pointer, place));
            posted += 1;
        }
        let (request, place) = inflight[0];
        if finished(calls, request, done)? {
            let bytes = match &queue {
                Some(queue) => {
                    unpack(memory, queue, done, stream.message_bytes, scratch)?;
                    scratch
                }
                None => place,
            };
            let seed = stream.first_seed + done;
            let length = stream.message_bytes as usize;
            if let Some(wrong) = memory.verify(bytes, length, seed).map_err(on_gpu)? {
                return Err(format!("message {done} is not what was sent: {wrong:?}"));
            }
            let rc = calls.consumed(stream.comm, request);
            if rc != 0 {
                return Err(format!("irecvConsumed of message {done} returned {rc}"));
            }
            inflight.pop_front();
            done += 1;
            stall.moved();
        }
        stall.check("the receive", done)?;
    }
    Ok(())
}

fn int(bytes: u32) -> Result<i32, String> {
    i32::try_from(bytes).map_err(|_| format!("a message of {bytes} bytes"))
}

fn finished(calls: &mut Calls, request: u64, message: u64) -> Result<bool, String> {
    match calls.test(request) {
        Tested { rc: 0, done: 0, .. } => Ok(false),
        Tested { rc: 0, done: 1, .. } => Ok(true),
        Tested { rc, done, .. } => {
            Err(format!("test of message {message} returned {rc} with done {done}"))
        }
    }
}

/// Checks the row of message `index` of the stream and copies its bytes to `scratch`.
fn unpack(
    memory: &Memory<'_>,
    queue: &StreamQueue,
    index: u64,
    bytes: u32,
    scratch: u64,
) -> Result<(), String> {
    let slot = (queue.received + index) % UNPACK_QUEUE_DEPTH as u64;
    let named = |text| format!("message {index}, slot {slot}: {text}");
    let row = unpack_row::row_address(queue.meta, slot);
    let count = memory.read_word(unpack_row::count_address(queue.meta, slot)).map_err(on_gpu)?;
    let count = unpack_row::check_count(count).map_err(named)?;
    let row = memory.read(row, count * size_of::<LoadMeta>()).map_err(on_gpu)?;
    let entries = unpack_row::parse_row(&row);
    unpack_row::check_cover(&entries, u64::from(bytes)).map_err(named)?;
    memory.gather(queue.bounce, &entries, scratch).map_err(on_gpu)
}

fn on_gpu(error: CudaError) -> String {
    format!("memory of the GPU: {error}")
}
