//! Stray connections to a port, one after the other, also from a distance and from several
//! addresses.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::mem;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use tcpx_testkit::until;

/// Number that stay connected: twice what a session or a command has places for. So each new one
/// makes an older one close and finds no free place.
const MAX_OPEN: usize = 512;

/// Connections that come one after the other, until dropped. Each sends a byte, which an honest end
/// at a distance has not done by then. The oldest closes for each new one.
#[derive(Debug)]
pub struct StrayConnections {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    began: Instant,
    /// Connections that were accepted and have sent their byte.
    connected: AtomicUsize,
    /// Connections that the other end closed before they would have closed.
    refused: AtomicUsize,
    is_over: AtomicBool,
}

impl StrayConnections {
    /// Starts this many connections to a port each second, from the host that this thread is on and
    /// from its addresses `from` by turns; without any from the one that the system chooses. On a
    /// slow machine they are fewer.
    ///
    /// # Panics
    /// When `a_second` is 0.
    #[must_use]
    pub fn start(to: SocketAddr, from: Vec<Ipv4Addr>, a_second: u32) -> Self {
        let shared = Arc::new(Shared {
            began: Instant::now(),
            connected: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        });
        let (theirs, gap) = (Arc::clone(&shared), Duration::from_secs(1) / a_second);
        Self { shared, thread: Some(thread::spawn(move || theirs.come(to, &from, gap))) }
    }

    /// Waits until the other end has closed one, so all places are taken.
    ///
    /// # Panics
    /// When that does not happen.
    pub fn wait_until_all_there(&self) {
        until("all places are taken", || self.refused() > 0);
    }

    /// Returns how many have connected.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shared.connected.load(Ordering::Relaxed)
    }

    /// Returns how many the other end has closed.
    #[must_use]
    pub fn refused(&self) -> usize {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// Returns how many have connected each second.
    #[must_use]
    pub fn a_second(&self) -> f64 {
        self.count() as f64 / self.shared.began.elapsed().as_secs_f64()
    }
}

impl Drop for StrayConnections {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic was printed.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn come(&self, to: SocketAddr, from: &[Ipv4Addr], gap: Duration) {
        let mut from = from.iter().cycle();
        let (mut come, mut there) = (Vec::new(), VecDeque::new());
        let mut due = Instant::now();
        while !self.is_over.load(Ordering::Relaxed) {
            if come.len() < MAX_OPEN {
                // The system may have no room either.
                come.extend(dial(to, from.next()));
            }
            for mut stream in mem::take(&mut come) {
                match stream.write(&[7]) {
                    Ok(_) => {
                        self.connected.fetch_add(1, Ordering::Relaxed);
                        there.push_back(stream);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => come.push(stream),
                    Err(_) => {}
                }
            }
            while there.len() > MAX_OPEN {
                let oldest = there.pop_front();
                let has_lost = oldest.is_some_and(is_hung_up);
                self.refused.fetch_add(usize::from(has_lost), Ordering::Relaxed);
            }
            let now = Instant::now();
            due = now.max(due + gap);
            thread::sleep(due - now);
        }
    }
}

/// Whether the other end has hung up, whatever it said before.
fn is_hung_up(mut stream: TcpStream) -> bool {
    let said = stream.read_to_end(&mut Vec::new());
    said.map_or_else(|error| error.kind() != ErrorKind::WouldBlock, |_| true)
}

/// Begins to connect, without waiting for it.
fn dial(to: SocketAddr, from: Option<&Ipv4Addr>) -> io::Result<TcpStream> {
    let (family, flags) = (AddressFamily::INET, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC);
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    if let Some(from) = from {
        bind(&socket, &SocketAddrV4::new(*from, 0))?;
    }
    match connect(&socket, &to) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(socket.into()),
        Err(error) => Err(error.into()),
    }
}
