//! Listen comms: a listening socket, and a thread that waits for one peer.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tcpx_comm::wire::ConnectionId;
use tcpx_seal::secret::SharedSecret;

use super::acceptor::{AcceptError, Acceptor, StopSignal};
use super::handle::ListenHandle;
use super::sockets::Sockets;
use crate::failure::Failure;
use crate::hooks::hooks;
use crate::last_failure::log_and_set_last_failure;
use crate::log;
use crate::nic_memory::Steering;

/// What polling a listen comm gives.
#[derive(Debug)]
pub(crate) enum AcceptPoll {
    /// Not yet.
    Pending,
    /// The peer's sockets. They are handed over once.
    Ready(Sockets),
    /// The final answer was given before.
    Over,
}

#[derive(Debug)]
enum Phase {
    /// `accept` was not called yet.
    Open(TcpListener),
    /// A thread is waiting for the peer.
    Accepting(JoinHandle<Result<Sockets, AcceptError>>),
    /// `accept` has given its final answer.
    Over,
}

/// A listen comm: it has one peer in its life.
#[derive(Debug)]
pub(crate) struct ListenComm {
    phase: Phase,
    handle: ListenHandle,
    stop: Arc<StopSignal>,
    timeout: Duration,
    /// What the peer has in common with this end, if all is to be encrypted.
    secret: Option<SharedSecret>,
    /// Where data sockets are to be steered; the thread takes it.
    steering: Option<Steering>,
}

impl ListenComm {
    /// Binds an ephemeral port of `address`.
    pub(crate) fn open(
        address: Ipv4Addr,
        sockets: u16,
        threads: u16,
        recv_sync: bool,
        timeout: Duration,
        steering: Option<Steering>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddrV4::new(address, 0))?;
        if let Some(steering) = &steering {
            steering.bound(&listener)?;
        }
        listener.set_nonblocking(true)?;
        let SocketAddr::V4(address) = listener.local_addr()? else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|error| io::Error::other(error.to_string()))?;
        let handle = ListenHandle { address, sockets, threads, recv_sync, id: ConnectionId(id) };
        let stop = Arc::new(StopSignal::new()?);
        let phase = Phase::Open(listener);
        Ok(Self { phase, handle, stop, timeout, secret: None, steering })
    }

    pub(crate) fn handle(&self) -> ListenHandle {
        self.handle
    }

    /// Has all encrypted that the peer's sockets carry. Returns false where that cannot be:
    /// `accept` was called, or a NIC brings the bytes.
    pub(crate) fn encrypt(&mut self, secret: SharedSecret) -> bool {
        let can = matches!(self.phase, Phase::Open(_)) && self.steering.is_none();
        self.secret = Some(secret).filter(|_| can);
        can
    }

    /// Polls for the peer; the first call starts the search.
    pub(crate) fn accept(&mut self) -> Result<AcceptPoll, Failure> {
        if matches!(self.phase, Phase::Open(_)) {
            self.start()?;
        }
        let Phase::Accepting(thread) = &self.phase else {
            return Ok(AcceptPoll::Over);
        };
        if !thread.is_finished() {
            return Ok(AcceptPoll::Pending);
        }
        match self.join() {
            Some(Ok(sockets)) => return Ok(AcceptPoll::Ready(sockets)),
            Some(Err(AcceptError::Nic(error))) => log_and_set_last_failure("accept failed", error),
            Some(Err(AcceptError::Io(error))) => log::warn!("accept failed: {error}"),
            Some(Err(AcceptError::Rule(error))) => {
                log::warn!("failed accept socket: {error}");
                return Err(Failure::Internal);
            }
            None => {}
        }
        Err(Failure::System)
    }

    fn start(&mut self) -> Result<(), Failure> {
        let Phase::Open(listener) = std::mem::replace(&mut self.phase, Phase::Over) else {
            return Ok(());
        };
        let deadline = Instant::now() + self.timeout;
        let stop = Arc::clone(&self.stop);
        let (secret, steering) = (self.secret.take(), self.steering.take());
        let mut acceptor =
            Acceptor::new(listener, stop, &self.handle, secret, deadline, hooks(), steering);
        let run = move || acceptor.run();
        let thread = std::thread::Builder::new().name("tcpx-soft-accept".to_owned()).spawn(run);
        match thread {
            Ok(thread) => {
                self.phase = Phase::Accepting(thread);
                Ok(())
            }
            Err(error) => {
                log::warn!("accept: cannot start a thread: {error}");
                Err(Failure::System)
            }
        }
    }

    /// Ends the thread, if there is one, and gives its answer.
    fn join(&mut self) -> Option<Result<Sockets, AcceptError>> {
        let Phase::Accepting(thread) = std::mem::replace(&mut self.phase, Phase::Over) else {
            return None;
        };
        self.stop.request();
        thread.join().inspect_err(|_| log::warn!("the accept thread panicked")).ok()
    }
}

impl Drop for ListenComm {
    fn drop(&mut self) {
        // The answer is not needed any more.
        let _ = self.join();
    }
}
