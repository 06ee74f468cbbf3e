//! One plain socket and its part of each message.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use super::pattern::{Mismatch, Pattern};

/// Parts begin at multiples of this many bytes, so that small messages use few sockets.
const GRAIN_BYTES: u64 = 64 << 10;

/// What is to be done with a part of a message of so many bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Job {
    Fill(Pattern, u64),
    Poison(Pattern, u64),
    Send(u64),
    Receive(u64),
    Check(Pattern, u64),
}

/// A socket with the memory of its part.
#[derive(Debug)]
pub(super) struct Share {
    stream: TcpStream,
    index: u64,
    sockets: u64,
    buffer: Vec<u8>,
    expected: Vec<u8>,
}

/// How a job went: the first wrong byte, if it was a check.
pub(super) type Answer = std::io::Result<Option<Mismatch>>;

impl Share {
    pub(super) fn new(stream: TcpStream, index: usize, sockets: usize) -> Self {
        let (index, sockets) = (index as u64, sockets as u64);
        Self { stream, index, sockets, buffer: Vec::new(), expected: Vec::new() }
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn run(&mut self, job: Job) -> Answer {
        let (Job::Fill(_, bytes)
        | Job::Poison(_, bytes)
        | Job::Send(bytes)
        | Job::Receive(bytes)
        | Job::Check(_, bytes)) = job;
        let (offset, length) = part(bytes, self.sockets, self.index);
        if self.buffer.len() < length {
            self.buffer.resize(length, 0);
        }
        let buffer = &mut self.buffer[..length];
        match job {
            Job::Fill(pattern, _) => pattern.fill(offset, buffer),
            Job::Poison(pattern, _) => pattern.poison(offset, buffer),
            Job::Send(_) => self.stream.write_all(buffer)?,
            Job::Receive(_) => self.stream.read_exact(buffer)?,
            Job::Check(pattern, _) => {
                self.expected.resize(buffer.len(), 0);
                return Ok(pattern.check(offset, buffer, &mut self.expected).err());
            }
        }
        Ok(None)
    }
}

/// Offset and length of the part that socket number `index` of `sockets` carries.
fn part(bytes: u64, sockets: u64, index: u64) -> (u64, usize) {
    let unit = bytes.div_ceil(sockets).next_multiple_of(GRAIN_BYTES);
    let start = (unit * index).min(bytes);
    let end = (start + unit).min(bytes);
    (start, (end - start) as usize)
}

/// A share that is moved by a thread of its own.
#[derive(Debug)]
pub(super) struct Worker {
    jobs: Option<Sender<Job>>,
    answers: Receiver<Answer>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub(super) fn start(mut share: Share) -> std::io::Result<Self> {
        let (jobs, todo) = channel();
        let (done, answers) = channel();
        let thread = std::thread::Builder::new().name("raw-socket".into()).spawn(move || {
            // Ends when either channel does.
            for job in todo {
                if done.send(share.run(job)).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self { jobs: Some(jobs), answers, thread: Some(thread) })
    }

    pub(super) fn begin(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // A thread that is gone shows when it is asked for its answer.
            let _ = jobs.send(job);
        }
    }

    pub(super) fn finish(&self) -> Answer {
        self.answers
            .recv()
            .unwrap_or_else(|_| Err(std::io::Error::other("the thread of a plain socket ended")))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
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
        assert_eq!(part(4096, 8, 0), (0, 4096), "a small message is not cut up");
        assert_eq!(part(64 << 20, 2, 1), (32 << 20, 32 << 20));
    }
}
