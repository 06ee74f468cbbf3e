//! Strangers who come to a port all the time, also from a distance and from several addresses.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use tcpx_testkit::until;

/// How many are there at once: more than a session or a command has places for.
const KEPT: usize = 300;

/// Strangers who come one after the other, until dropped. Each says a byte, which an honest end at
/// a distance has not done by then. The oldest goes for each new one.
#[derive(Debug)]
pub struct Newcomers {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    began: Instant,
    /// Who has come in and said its byte.
    spoken: AtomicUsize,
    is_over: AtomicBool,
}

impl Newcomers {
    /// Has this many come to a port each second, from the host that this thread is on and from its
    /// addresses `from` by turns; without any from the one that the system chooses. On a slow
    /// machine they are fewer.
    ///
    /// # Panics
    /// When `a_second` is 0.
    #[must_use]
    pub fn start(to: SocketAddr, from: Vec<Ipv4Addr>, a_second: u32) -> Self {
        let (began, spoken, is_over) =
            (Instant::now(), AtomicUsize::new(0), AtomicBool::new(false));
        let shared = Arc::new(Shared { began, spoken, is_over });
        let (theirs, gap) = (Arc::clone(&shared), Duration::from_secs(1) / a_second);
        Self { shared, thread: Some(thread::spawn(move || theirs.come(to, &from, gap))) }
    }

    /// Waits until more have come than there are at once, so all places are taken.
    ///
    /// # Panics
    /// When they do not come.
    pub fn wait_until_all_there(&self) {
        until("all places are taken", || self.count() > KEPT);
    }

    /// How many have come.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shared.spoken.load(Ordering::Relaxed)
    }

    /// How many have come each second.
    #[must_use]
    pub fn a_second(&self) -> f64 {
        self.count() as f64 / self.shared.began.elapsed().as_secs_f64()
    }
}

impl Drop for Newcomers {
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
        let mut there = VecDeque::new();
        let mut due = Instant::now();
        while !self.is_over.load(Ordering::Relaxed) {
            // The system may have no room either.
            if let Ok(stream) = dial(to, from.next()) {
                there.push_back(Stranger { stream, is_connecting: true });
            }
            if there.len() > KEPT {
                there.pop_front();
            }
            let spoke = there.iter_mut().filter_map(|stranger| stranger.speak().then_some(()));
            self.spoken.fetch_add(spoke.count(), Ordering::Relaxed);
            let now = Instant::now();
            due = now.max(due + gap);
            thread::sleep(due - now);
        }
    }
}

/// A connection that may not stand yet.
struct Stranger {
    stream: TcpStream,
    is_connecting: bool,
}

impl Stranger {
    /// Says its byte as soon as it can. Returns whether it has done so now.
    fn speak(&mut self) -> bool {
        let said = if self.is_connecting { self.stream.write(&[7]) } else { return false };
        self.is_connecting =
            said.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        said.is_ok()
    }
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
