//! One plain socket.
//!
//! For throughput it blocks. For round trips it waits as the session does: it spins, then yields,
//! then sleeps. A program that blocks in its receive gives its processor away at once and pays for
//! being woken in each round trip, which would make the session look better than it is.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use crate::budget::Budget;
use crate::deadline::Deadline;

/// After spinning an end yields for this long before it sleeps.
const YIELD_TIME: Duration = Duration::from_micros(500);
const SLEEP: Duration = Duration::from_micros(100);
const SHORTEST_BLOCK: Duration = Duration::from_millis(1);
const STUCK: &str = "nothing moved until the deadline; is the other end stopped, or does it need a longer \
     --timeout?";

#[derive(Debug)]
pub(crate) struct PlainSocket {
    stream: TcpStream,
    budget: Budget,
    spin: Option<Duration>,
}

impl PlainSocket {
    /// `budget`: a step of it is how long nothing may move. `spin`: how long to spin first; `None`
    /// blocks.
    pub(super) fn new(stream: TcpStream, budget: Budget, spin: Option<Duration>) -> Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(spin.is_some())?;
        let socket = Self { stream, budget, spin };
        socket.limit_blocking()?;
        Ok(socket)
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> Result<()> {
        self.move_all(bytes.len(), |done| (&self.stream).write(&bytes[done..]))
    }

    pub(crate) fn receive(&self, out: &mut [u8]) -> Result<()> {
        self.move_all(out.len(), |done| (&self.stream).read(&mut out[done..]))
    }

    fn move_all(&self, bytes: usize, mut step: impl FnMut(usize) -> Result<usize>) -> Result<()> {
        let has_whole = self.budget.end().is_some();
        if has_whole && self.spin.is_none() {
            self.limit_blocking()?;
        }
        let mut done = 0;
        let mut idle: Option<(Instant, Deadline)> = None;
        while done < bytes {
            match step(done) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    done += count;
                    idle = None;
                    // However slowly it trickles.
                    if has_whole && done < bytes && self.budget.step().left().is_zero() {
                        return Err(Error::new(ErrorKind::TimedOut, STUCK));
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let (since, deadline) =
                        *idle.get_or_insert_with(|| (Instant::now(), self.budget.step()));
                    match self.spin {
                        Some(spin) if !deadline.left().is_zero() => pause(since.elapsed(), spin),
                        // A blocking socket says so when its deadline has passed.
                        _ => return Err(Error::new(ErrorKind::TimedOut, STUCK)),
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Tells the kernel how long to block. It takes zero for no limit.
    fn limit_blocking(&self) -> Result<()> {
        let left = Some(self.budget.step().left().max(SHORTEST_BLOCK));
        self.stream.set_read_timeout(left)?;
        self.stream.set_write_timeout(left)
    }
}

fn pause(idle: Duration, spin: Duration) {
    if idle < spin {
        std::hint::spin_loop();
    } else if idle < spin + YIELD_TIME {
        thread::yield_now();
    } else {
        thread::sleep(SLEEP);
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn pair(budget: Budget, spin: Option<Duration>) -> [PlainSocket; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let left = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let right = listener.accept().unwrap().0;
        [left, right].map(|stream| PlainSocket::new(stream, budget, spin).unwrap())
    }

    #[test]
    fn more_than_the_kernel_buffers_arrives_whole() {
        let sent: Vec<u8> = (0..20_000_000u32).map(|at| (at % 251) as u8).collect();
        for spin in [None, Some(Duration::from_micros(50))] {
            let [left, right] = pair(Budget::new(None), spin);
            let mut received = vec![0; sent.len()];
            thread::scope(|scope| {
                scope.spawn(|| left.send(&sent).unwrap());
                right.receive(&mut received).unwrap();
            });
            assert!(received == sent);
        }
    }

    #[test]
    fn silence_and_the_end_are_errors() {
        for spin in [None, Some(Duration::ZERO)] {
            let [left, right] = pair(Budget::new(Some(Duration::from_millis(5))), spin);
            assert_eq!(right.receive(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
            drop(left);
            assert_eq!(right.receive(&mut [0]).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        }
    }
}
