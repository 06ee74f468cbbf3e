//! The thread of a listen comm: it puts together the sockets of one peer.

use std::fmt;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tcpx_comm::poll::{Interest, Waker, wait};
use tcpx_comm::wire::{Hello, HelloReply, HelloStatus, SocketRole};
use tcpx_seal::exchange::{Answer, ExchangeError};
use tcpx_seal::secret::SharedSecret;
use tcpx_seal::suite::Suite;
use tcpx_sys::without_forks;

use tcpx_devmem::DevmemError;

use super::handle::ListenHandle;
use super::handshake::{Handshake, HelloRead};
use super::pairing::{Decision, Pairing};
use super::sockets::{Connection, Sockets};
use crate::hooks::{HookSet, Side};
use crate::log;
use crate::nic_memory::Steering;
use crate::sync::AtomicBool;

/// Most connections that may be in the middle of their hello. For one more, the oldest is turned
/// away. A hello has no deadline but that of the listen comm: its duration says nothing about its
/// sender, as either process may stand still between two steps.
const MAX_HANDSHAKES: usize = 64;

/// Signal by which the listen comm ends its thread.
#[derive(Debug)]
pub(super) struct StopSignal {
    wake: Waker,
    stopped: AtomicBool,
}

impl StopSignal {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { wake: Waker::new()?, stopped: AtomicBool::new(false) })
    }

    /// The thread ends soon, with an error.
    pub(super) fn request(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.wake.notify();
    }
}

/// What the thread works on.
pub(super) struct Acceptor {
    listener: TcpListener,
    stop: Arc<StopSignal>,
    pairing: Pairing,
    /// What the peer has in common with this end, if all is to be encrypted.
    secret: Option<SharedSecret>,
    handshakes: Vec<Handshake>,
    control: Option<Connection>,
    data: Vec<Option<Connection>>,
    deadline: Instant,
    /// Connections that were not those of the peer, and peers that left before they were complete.
    refusals: u64,
    strays: u64,
    hooks: HookSet,
    /// Where the data sockets' packets are to go to a NIC's region.
    steering: Option<Steering>,
    /// Why one cannot be steered, by a region or by a rule.
    refusal: Option<AcceptError>,
}

/// Why no peer is taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum AcceptError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Nic(DevmemError),
    #[error("{0}")]
    Rule(io::Error),
}

impl Acceptor {
    /// `listener` is non-blocking, and bound to the address of `handle`.
    pub(super) fn new(
        listener: TcpListener,
        stop: Arc<StopSignal>,
        handle: &ListenHandle,
        secret: Option<SharedSecret>,
        deadline: Instant,
        hooks: HookSet,
        steering: Option<Steering>,
    ) -> Self {
        Self {
            listener,
            stop,
            pairing: Pairing::new(handle.id, handle.sockets, handle.recv_sync, secret.is_some()),
            secret,
            handshakes: Vec::new(),
            control: None,
            data: (0..handle.sockets).map(|_| None).collect(),
            deadline,
            refusals: 0,
            strays: 0,
            hooks,
            steering,
            refusal: None,
        }
    }

    /// Waits for the one peer, until the deadline or the request to stop.
    pub(super) fn run(&mut self) -> Result<Sockets, AcceptError> {
        loop {
            if self.stop.stopped.load(Ordering::SeqCst) {
                return Err(io::Error::other("the listen comm was closed").into());
            }
            let now = Instant::now();
            if now >= self.deadline {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "no peer within the time allowed",
                )
                .into());
            }
            let (connecting, peer_ready, readable) = self.wait(now)?;
            if peer_ready {
                self.drop_claimant();
            }
            self.read_hellos(&readable);
            if let Some(error) = self.refusal.take() {
                return Err(error);
            }
            if connecting {
                self.accept_some()?;
            }
            if let Some(chunk_bytes) = self.pairing.complete()
                && let Some(control) = self.control.take()
            {
                self.wait_setup_delay()?;
                let data = self.data.iter_mut().filter_map(Option::take).collect();
                let steering = self.steering.take();
                return Ok(Sockets { control, data, chunk_bytes, steering });
            }
        }
    }

    /// Waits for the delay of the hooks, or for the request to stop.
    fn wait_setup_delay(&self) -> io::Result<()> {
        let Some(hooks) = self.hooks.get() else { return Ok(()) };
        let end = Instant::now() + hooks.setup_delay(Side::Recv, self.data.len() as u16);
        while !self.stop.stopped.load(Ordering::SeqCst) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            wait(&[(self.stop.wake.as_fd(), Interest::Read)], Some(left))?;
        }
        Ok(())
    }

    /// Returns the connections whose hello has not come yet.
    fn pending_hellos(&self) -> impl Iterator<Item = &Handshake> {
        let most = self.hooks.get().map_or(usize::MAX, |hooks| hooks.max_pending_hellos());
        self.handshakes.iter().take(most)
    }

    /// Waits for anything to happen. Says whether there are connections to accept, whether a kept
    /// socket is readable, and which handshakes are.
    ///
    /// The peer sends nothing on a kept socket until the comm is complete, so a readable one means
    /// that the peer is gone.
    fn wait(&self, now: Instant) -> io::Result<(bool, bool, Vec<bool>)> {
        let kept: Vec<BorrowedFd<'_>> = self.kept().map(AsFd::as_fd).collect();
        let descriptors: Vec<_> = [self.stop.wake.as_fd(), self.listener.as_fd()]
            .into_iter()
            .chain(kept.iter().copied())
            .chain(self.pending_hellos().map(|handshake| handshake.socket.as_fd()))
            .map(|fd| (fd, Interest::Read))
            .collect();
        let ready = wait(&descriptors, Some(self.deadline.saturating_duration_since(now)))?;
        let (kept_ready, handshakes) = ready[2..].split_at(kept.len());
        Ok((ready[1], kept_ready.contains(&true), handshakes.to_vec()))
    }

    /// Returns the sockets that are kept.
    fn kept(&self) -> impl Iterator<Item = &TcpStream> {
        let kept = self.control.iter().chain(self.data.iter().flatten());
        kept.map(|connection| &connection.socket)
    }

    /// Returns whether the peer whose sockets are kept has gone since the last wait.
    fn is_claimant_gone(&self) -> bool {
        let kept: Vec<_> = self.kept().map(|socket| (socket.as_fd(), Interest::Read)).collect();
        wait(&kept, Some(Duration::ZERO)).is_ok_and(|ready| ready.contains(&true))
    }

    /// A line about a stray connection, or about a peer that left: the first, second, fourth and so
    /// on, so that a flood of them does not fill the log.
    fn log_refusal(&mut self, words: fmt::Arguments<'_>) {
        self.refusals += 1;
        if self.refusals.is_power_of_two() {
            log::warn!("accept: {words}; waiting for another (number {})", self.refusals);
        }
    }

    /// Drops the kept sockets: their peer closed, or sent bytes, before all of them were there.
    fn drop_claimant(&mut self) {
        self.log_refusal(format_args!("the peer went away in the middle of the handshake"));
        self.pairing.reset();
        if let Some(steering) = &mut self.steering {
            steering.end_flows();
        }
        self.control = None;
        self.data.iter_mut().for_each(|socket| *socket = None);
    }

    /// Takes up to a set of connections: a flood of them keeps the thread neither from the peer nor
    /// from its deadline.
    fn accept_some(&mut self) -> io::Result<()> {
        for _ in 0..MAX_HANDSHAKES {
            match self.listener.accept() {
                Ok((socket, from)) => {
                    if socket.set_nonblocking(true).and_then(|()| socket.set_nodelay(true)).is_ok()
                    {
                        self.make_room();
                        self.handshakes.push(Handshake::new(socket, from));
                    }
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(()),
                    // The connection was gone before it was accepted.
                    io::ErrorKind::Interrupted
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::ConnectionReset => {}
                    _ => return Err(error),
                },
            }
        }
        Ok(())
    }

    /// The oldest handshake leaves where there is no room for one more. It is read first: its
    /// hello may have come since the last look.
    fn make_room(&mut self) {
        if self.handshakes.len() < MAX_HANDSHAKES {
            return;
        }
        let mut oldest = self.handshakes.remove(0);
        match oldest.read_hello() {
            HelloRead::All => self.answer_hello(oldest),
            HelloRead::More => oldest.turn_away(),
            HelloRead::Closed => {}
        }
    }

    /// Reads from the handshakes that are readable. One leaves the list with its whole hello, or
    /// when it was closed.
    fn read_hellos(&mut self, readable: &[bool]) {
        let handshakes = std::mem::take(&mut self.handshakes);
        let readable = readable.iter().copied().chain(std::iter::repeat(false));
        for (mut handshake, speaks) in handshakes.into_iter().zip(readable) {
            match if speaks { handshake.read_hello() } else { HelloRead::More } {
                HelloRead::More => self.handshakes.push(handshake),
                HelloRead::Closed => self.count_stray(),
                HelloRead::All => self.answer_hello(handshake),
            }
        }
    }

    /// Counts and logs a connection that is not the peer's.
    fn count_stray(&mut self) {
        self.strays = self.strays.saturating_add(1);
        if self.hooks.get().is_some_and(|hooks| hooks.gives_up_after(self.strays)) {
            self.refusal = Some(AcceptError::Rule(io::Error::other("no peer in three tries")));
        }
    }

    /// Has a data socket's packets go where they are to.
    fn steer(&mut self, socket: &TcpStream) -> Result<(), AcceptError> {
        if let Some(steering) = &mut self.steering {
            steering.steer(socket).map_err(AcceptError::Nic)?;
        }
        let Some(hooks) = self.hooks.get() else { return Ok(()) };
        hooks.steer(socket, self.stop.wake.as_fd()).map_err(|error| {
            log::warn!("Create FlowSteerRule Failed: {error}");
            AcceptError::Rule(error)
        })
    }

    fn answer_hello(&mut self, handshake: Handshake) {
        let from = handshake.from;
        let hello = match handshake.hello() {
            Ok(hello) => hello,
            Err(error) => return self.refuse_stray(from, &error),
        };
        // Before the pairing: who merely knows the id, which is said in clear, claims nothing.
        let keys = match self.answer_offer(&handshake, &hello) {
            Ok(keys) => keys,
            Err(error) => return self.refuse_stray(from, &error),
        };
        let mut decision = self.pairing.offer(&hello);
        if decision == Decision::Refuse(HelloStatus::InUse) && self.is_claimant_gone() {
            self.drop_claimant();
            decision = self.pairing.offer(&hello);
        }
        let status = match decision {
            Decision::Ignore => return self.refuse_stray(from, &"unknown connection id"),
            Decision::Refuse(status) => status,
            Decision::Keep(_) => HelloStatus::Accepted,
        };
        if status != HelloStatus::Accepted {
            self.log_refusal(format_args!("a connection from {from} was refused: {status:?}"));
        }
        // From the answer on the peer may send.
        if let Decision::Keep(SocketRole::Data(_)) = decision
            && let Err(error) = self.steer(&handshake.socket)
        {
            self.refusal = Some(error);
            return;
        }
        let mut answer = HelloReply { attempt: hello.attempt, status }.encode().to_vec();
        let keys =
            keys.filter(|_| status == HelloStatus::Accepted).map(|Answer { bytes, keys }| {
                answer.extend_from_slice(&bytes);
                Box::new(keys)
            });
        // The socket's send buffer is empty, so the answer fits; if the peer is gone already, its
        // socket shows it.
        let answered = (&handshake.socket).write(&answer).is_ok_and(|count| count == answer.len());
        let connection = Connection { socket: handshake.socket, keys };
        match decision {
            Decision::Keep(SocketRole::Control) => self.control = Some(connection),
            Decision::Keep(SocketRole::Data(index)) => {
                self.data[usize::from(index)] = Some(connection)
            }
            Decision::Refuse(_) | Decision::Ignore => return,
        }
        if !answered {
            self.drop_claimant();
        }
    }

    /// Answers the offer of a key that came with a hello. `None`: the connection is in clear, or
    /// the pairing refuses it, because one end wants no encryption.
    fn answer_offer(
        &self,
        handshake: &Handshake,
        hello: &Hello,
    ) -> Result<Option<Answer>, ExchangeError> {
        let Some(secret) = self.secret.as_ref().filter(|_| hello.encrypted) else {
            return Ok(None);
        };
        let reply = HelloReply { attempt: hello.attempt, status: HelloStatus::Accepted }.encode();
        let (said, offer) = (handshake.hello_bytes(), handshake.offer());
        without_forks(|| Answer::new(secret, Suite::fastest(), said, offer, &reply)).map(Some)
    }

    /// Closes and counts a connection that is not the peer's.
    fn refuse_stray(&mut self, from: SocketAddr, why: &dyn fmt::Display) {
        self.log_refusal(format_args!("a stray connection from {from} was closed: {why}"));
        self.count_stray();
    }
}
