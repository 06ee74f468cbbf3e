//! Plain socket, as a good program uses it: no delay, blocking reads and writes that are as large
//! as the message.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::budget::Budget;

const SHORTEST_BLOCK: Duration = Duration::from_millis(1);
const STUCK: &str = "no byte moved until the deadline; is the other end stopped, or does it need a longer \
     --timeout?";

#[derive(Debug)]
pub(crate) struct PlainSocket {
    stream: TcpStream,
    budget: Budget,
}

impl PlainSocket {
    /// `budget`: a step of it is the longest time without any byte moved.
    pub(super) fn new(stream: TcpStream, budget: Budget) -> Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(false)?;
        let socket = Self { stream, budget };
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
        if has_whole {
            self.limit_blocking()?;
        }
        let mut done = 0;
        while done < bytes {
            match step(done) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    done += count;
                    // However slowly it trickles.
                    if has_whole && done < bytes && self.budget.step().left().is_zero() {
                        return Err(Error::new(ErrorKind::TimedOut, STUCK));
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The kernel's error for a call that has blocked for its time limit.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Err(Error::new(ErrorKind::TimedOut, STUCK));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sets the kernel's time limit of blocking calls. The kernel takes zero for no limit.
    fn limit_blocking(&self) -> Result<()> {
        let left = Some(self.budget.step().left().max(SHORTEST_BLOCK));
        self.stream.set_read_timeout(left)?;
        self.stream.set_write_timeout(left)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    fn pair(budget: Budget) -> [PlainSocket; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let left = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let right = listener.accept().unwrap().0;
        [left, right].map(|stream| PlainSocket::new(stream, budget).unwrap())
    }

    #[test]
    fn more_than_the_kernel_buffers_arrives_whole() {
        let sent: Vec<u8> = (0..20_000_000u32).map(|at| (at % 251) as u8).collect();
        let [left, right] = pair(Budget::new(None));
        let mut received = vec![0; sent.len()];
        thread::scope(|scope| {
            scope.spawn(|| left.send(&sent).unwrap());
            right.receive(&mut received).unwrap();
        });
        assert!(received == sent);
    }

    #[test]
    fn silence_and_the_end_are_errors() {
        let [_left, right] = pair(Budget::new(Some(Duration::from_millis(5))));
        assert_eq!(right.receive(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        // On a busy machine the time would be over before the end is seen.
        let [left, right] = pair(Budget::new(None));
        drop(left);
        assert_eq!(right.receive(&mut [0]).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }
}
