//! Set of plain sockets; each socket carries its part of every message.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::opening;
use super::socket::PlainSocket;
use crate::failure::Failure;
use crate::perf::data_path::{DataPath, Payload, Step};
use crate::perf::pattern::Mismatch;
use crate::rendezvous::Agreed;

/// Parts are multiples of this many bytes: a shorter part costs more to hand to its thread than a
/// socket of its own saves.
const GRAIN_BYTES: u64 = 1 << 20;

/// As many plain sockets as the session has data sockets, a thread for each. The calling thread
/// moves the first socket's part.
pub(crate) struct PlainSockets {
    first: Share,
    others: Vec<Worker>,
}

/// Outcome of a step: the first wrong byte, if it was a check.
type Outcome = std::io::Result<Option<Mismatch>>;

impl PlainSockets {
    /// Opens them at both ends. `is_latency`: one, for round trips.
    pub(crate) fn open(agreed: &mut Agreed<'_>, is_latency: bool) -> Result<Self, Failure> {
        let sockets = opening::open(agreed, is_latency)?;
        let count = sockets.len() as u64;
        let mut shares = (0..).zip(sockets).map(|(index, socket)| Share::new(socket, index, count));
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

    fn begin(&self, step: Step, payload: Payload) {
        for worker in self.workers(payload) {
            // A thread that is gone shows when it is asked for its outcome.
            let _ = worker.steps.send((step, payload));
        }
    }

    /// Does the first part here and waits for the others.
    fn finish(&mut self, step: Step, payload: Payload) -> Outcome {
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

    fn run(&mut self, step: Step, payload: Payload) -> Result<Option<Mismatch>, Failure> {
        // Receiving begins with the post and ends with the wait.
        if !matches!(step, Step::Wait) {
            self.begin(step, payload);
        }
        if matches!(step, Step::Post) {
            return Ok(None);
        }
        self.finish(step, payload).map_err(Failure::io(match step {
            Step::Send => "sending over plain sockets",
            Step::Post | Step::Wait => "receiving over plain sockets",
            Step::Prepare(_) | Step::Check => "preparing plain sockets",
        }))
    }
}

/// A socket with the memory of its part.
#[derive(Debug)]
struct Share {
    socket: PlainSocket,
    index: u64,
    sockets: u64,
    buffer: Vec<u8>,
}

impl Share {
    fn new(socket: PlainSocket, index: u64, sockets: u64) -> Self {
        Self { socket, index, sockets, buffer: Vec::new() }
    }

    fn run(&mut self, step: Step, Payload { pattern, bytes }: Payload) -> Outcome {
        let (offset, length) = part(bytes, self.sockets, self.index);
        if self.buffer.len() < length {
            self.buffer.resize(length, 0);
        }
        let buffer = &mut self.buffer[..length];
        match step {
            Step::Prepare(content) => pattern.write(content, offset, buffer),
            Step::Send => self.socket.send(buffer)?,
            Step::Post | Step::Wait => self.socket.receive(buffer)?,
            Step::Check => return Ok(pattern.check(offset, buffer)),
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

/// Share that is moved by a thread of its own.
struct Worker {
    steps: Sender<(Step, Payload)>,
    outcomes: Receiver<Outcome>,
}

impl Worker {
    fn start(mut share: Share) -> std::io::Result<Self> {
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
