//! A plain socket whose ends wait as the session's do: they spin, then yield, then sleep.
//!
//! A program that blocks in its receive gives its processor away at once and pays for being woken in each round trip,
//! which would make the session look better than it is.

use std::io::{ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

/// After spinning an end yields for this long before it sleeps.
const YIELD_TIME: Duration = Duration::from_micros(500);
const SLEEP: Duration = Duration::from_micros(100);

pub(super) struct PatientSocket<'a> {
    stream: &'a TcpStream,
    spin: Duration,
    timeout: Duration,
}

impl<'a> PatientSocket<'a> {
    /// `timeout`: how long nothing may move.
    pub(super) fn new(stream: &'a TcpStream, spin: Duration, timeout: Duration) -> Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, spin, timeout })
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let mut stream = self.stream;
        self.move_all(bytes.len(), |done| stream.write(&bytes[done..]))
    }

    pub(super) fn receive(&mut self, out: &mut [u8]) -> Result<()> {
        let mut stream = self.stream;
        self.move_all(out.len(), |done| stream.read(&mut out[done..]))
    }

    fn move_all(&self, bytes: usize, mut step: impl FnMut(usize) -> Result<usize>) -> Result<()> {
        let mut done = 0;
        let mut idle_since = None;
        while done < bytes {
            match step(done) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    done += count;
                    idle_since = None;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let idle = idle_since.get_or_insert_with(Instant::now).elapsed();
                    if idle >= self.timeout {
                        return Err(error);
                    }
                    self.pause(idle);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn pause(&self, idle: Duration) {
        if idle < self.spin {
            std::hint::spin_loop();
        } else if idle < self.spin + YIELD_TIME {
            thread::yield_now();
        } else {
            thread::sleep(SLEEP);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let left = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (left, listener.accept().unwrap().0)
    }

    #[test]
    fn more_than_the_kernel_buffers_arrives_whole() {
        let (left, right) = pair();
        let sent: Vec<u8> = (0..20_000_000u32).map(|at| (at % 251) as u8).collect();
        let mut received = vec![0; sent.len()];
        let (spin, timeout) = (Duration::from_micros(50), Duration::from_secs(60));
        thread::scope(|scope| {
            scope.spawn(|| PatientSocket::new(&left, spin, timeout).unwrap().send(&sent).unwrap());
            PatientSocket::new(&right, spin, timeout).unwrap().receive(&mut received).unwrap();
        });
        assert!(received == sent);
    }

    #[test]
    fn silence_and_the_end_are_errors() {
        let (left, right) = pair();
        let mut socket =
            PatientSocket::new(&right, Duration::ZERO, Duration::from_millis(5)).unwrap();
        assert_eq!(socket.receive(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(left);
        assert_eq!(socket.receive(&mut [0]).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }
}
