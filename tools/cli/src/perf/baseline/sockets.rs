//! Set of plain sockets; each socket carries its part of every message.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::opening;
use super::socket::PlainSocket;
use crate::failure::Failure;
use crate::perf::data_path::{DataPath, PathStep, Payload};
use crate::perf::pattern::Mismatch;
use crate::rendezvous::ConnectedEnd;

/// Unit of parts, in bytes: passing a shorter part to its thread costs more than a socket of its
/// own saves.
const GRAIN_BYTES: u64 = 1 << 20;

/// Plain sockets, one for each data socket of the session, each with a thread. The calling thread
/// moves the first socket's part.
pub(crate) struct PlainSockets {
    first: SocketShare,
    others: Vec<Worker>,
}

/// Result of a step: the first wrong byte, if it was a check.
type StepResult = std::io::Result<Option<Mismatch>>;

impl PlainSockets {
    /// Opens the sockets at both ends. `is_latency`: one, for round trips.
    pub(crate) fn open(
        connected: &mut ConnectedEnd<'_>,
        is_latency: bool,
    ) -> Result<Self, Failure> {
        let sockets = opening::open(connected, is_latency)?;
        let count = sockets.len() as u64;
        let mut shares =
            (0..).zip(sockets).map(|(index, socket)| SocketShare::new(socket, index, count));
        let first = shares.next().ok_or_else(|| Failure::OtherEnd("it offers no socket".into()))?;
        let others: std::io::Result<_> = shares.map(Worker::start).collect();
        let others = others.map_err(Failure::io("starting a thread for a plain socket"))?;
        Ok(Self { first, others })
    }

    /// Returns the first socket itself, for round trips.
    pub(crate) fn first(&self) -> &PlainSocket {
        &self.first.socket
    }

    /// Returns the threads that have a part of such a message.
    fn workers(&self, payload: Payload) -> &[Worker] {
        let parts = payload.bytes.div_ceil(unit(payload.bytes, self.first.sockets));
        &self.others[..(parts.saturating_sub(1) as usize).min(self.others.len())]
    }

    fn begin(&self, step: PathStep, payload: Payload) {
        for worker in self.workers(payload) {
            // The loss of a thread is reported when its result is received.
            let _ = worker.steps.send((step, payload));
        }
    }

    /// Moves the first part here and waits for the others.
    fn finish(&mut self, step: PathStep, payload: Payload) -> StepResult {
        let mut outcome = self.first.run(step, payload);
        for worker in self.workers(payload) {
            let gone = |_| Err(std::io::Error::other("the thread of a plain socket ended"));
            let other = worker.outcomes.recv().unwrap_or_else(gone);
            outcome = if let Ok(None) = outcome { other } else { outcome };
        }
        outcome
    }
}

impl DataPath for PlainSockets {
    fn name(&self) -> &'static str {
        "plain sockets"
    }

    fn run(&mut self, step: PathStep, payload: Payload) -> Result<Option<Mismatch>, Failure> {
        // Receiving begins with the post and ends with the wait.
        if !matches!(step, PathStep::Wait) {
            self.begin(step, payload);
        }
        if matches!(step, PathStep::Post) {
            return Ok(None);
        }
        self.finish(step, payload).map_err(Failure::io(match step {
            PathStep::Send => "sending over plain sockets",
            PathStep::Post | PathStep::Wait => "receiving over plain sockets",
            PathStep::Prepare(_) | PathStep::Check => "preparing plain sockets",
        }))
    }
}

/// A socket with the memory of its part.
#[derive(Debug)]
struct SocketShare {
    socket: PlainSocket,
    index: u64,
    sockets: u64,
    buffer: Vec<u8>,
}

impl SocketShare {
    fn new(socket: PlainSocket, index: u64, sockets: u64) -> Self {
        Self { socket, index, sockets, buffer: Vec::new() }
    }

    fn run(&mut self, step: PathStep, Payload { pattern, bytes }: Payload) -> StepResult {
        let (offset, length) = part(bytes, self.sockets, self.index);
        if self.buffer.len() < length {
            self.buffer.resize(length, 0);
        }
        let buffer = &mut self.buffer[..length];
        match step {
            PathStep::Prepare(content) => pattern.write(content, offset, buffer),
            PathStep::Send => self.socket.send(buffer)?,
            PathStep::Post | PathStep::Wait => self.socket.receive(buffer)?,
            PathStep::Check => return Ok(pattern.check(offset, buffer)),
        }
        Ok(None)
    }
}

/// Returns offset and length of the part that socket number `index` of `sockets` carries.
fn part(bytes: u64, sockets: u64, index: u64) -> (u64, usize) {
    let unit = unit(bytes, sockets);
    let start = (unit * index).min(bytes);
    let end = (start + unit).min(bytes);
    (start, (end - start) as usize)
}

/// Returns the bytes of a part.
fn unit(bytes: u64, sockets: u64) -> u64 {
    bytes.div_ceil(sockets).next_multiple_of(GRAIN_BYTES)
}

/// Thread that moves the part of one socket.
struct Worker {
    steps: Sender<(PathStep, Payload)>,
    outcomes: Receiver<StepResult>,
}

impl Worker {
    fn start(mut share: SocketShare) -> std::io::Result<Self> {
        let (steps, todo) = channel();
        let (done, outcomes) = channel();
        thread::Builder::new().name("plain-socket".into()).spawn(move || {
            // Ends when either channel does.
            for (step, payload) in todo {
                if done.send(share.run(step, payload)).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self { steps, outcomes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_a_message_once_and_in_order() {
        for bytes in [1, 4096, GRAIN_BYTES, GRAIN_BYTES + 1, 10_000_019, 64 << 20] {
            for sockets in [1, 2, 3, 8] {
                let mut end = 0;
                for index in 0..sockets {
                    let (start, length) = part(bytes, sockets, index);
                    assert_eq!(start, end);
                    end = start + length as u64;
                }
                assert_eq!(end, bytes, "{sockets} sockets");
            }
        }
        assert_eq!(part(512 << 10, 8, 0), (0, 512 << 10), "a small message is not cut up");
        assert_eq!(part(64 << 20, 2, 1), (32 << 20, 32 << 20));
    }
}
