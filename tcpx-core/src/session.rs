#![allow(unsafe_code)]
//! The session: what a program holds.

#[cfg(all(test, feature = "soft"))]
mod late_unpack_tests;
#[cfg(all(test, feature = "soft"))]
mod unpack_tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::device_memory::{DeviceMemory, OwnedMemory};
use crate::engine::Engine;
use crate::error::{Departure, Error, HOST_RECEIVE, Phase, Result};
use crate::memory::MemoryType;
use crate::peer::{PeerKey, Stage};
use crate::plugin::Nic;
use crate::registration::{MemoryInfo, Span};
use crate::settings::SessionOptions;
use crate::stats::SessionReport;
use crate::transfer::Transfer;
use crate::wait::{Patience, Waiter};

/// Ends a wait for a final answer.
pub(crate) enum Outcome<T> {
    Done(T),
    NotYet,
}

/// The engine and what waiting threads need to know.
#[derive(Debug)]
pub(crate) struct Shared {
    engine: Mutex<Engine>,
    spin: Duration,
    stop: AtomicBool,
}

impl Shared {
    /// Locks the engine. A panic while it was locked cannot have come from a caller's code, which never runs inside.
    pub(crate) fn engine(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One round of progress. Returns whether anything moved.
    fn progress(&self) -> bool {
        self.engine().progress(Instant::now())
    }

    /// Makes progress until `check` has an answer. `on_deadline` says what was missing.
    pub(crate) fn wait<T>(
        &self,
        patience: Patience,
        mut check: impl FnMut(&mut Engine) -> Result<Outcome<T>>,
        on_deadline: impl FnOnce(&mut Engine, Duration, Instant) -> Error,
    ) -> Result<T> {
        let mut waiter = Waiter::new(patience, self.spin);
        loop {
            let mut engine = self.engine();
            let now = Instant::now();
            let moved = engine.progress(now);
            if let Outcome::Done(value) = check(&mut engine)? {
                return Ok(value);
            }
            if waiter.is_over(now) {
                return Err(on_deadline(&mut engine, waiter.waited(now), now));
            }
            drop(engine);
            waiter.pause(moved, now);
        }
    }
}

/// One GPU (or host memory), its NICs, its peers and its registrations.
///
/// `Send + Sync`: any thread may call anything; calls are serialised inside. Progress is made inside the calls of this
/// library, or by a thread of the session ([`SessionOptions::progress_thread`]).
///
/// Dropping it says goodbye to every peer, for at most [`SessionOptions::close_timeout`], then closes everything.
/// Transfers that are still alive then answer [`Error::Closed`].
#[derive(Debug)]
pub struct Session {
    shared: Arc<Shared>,
    options: SessionOptions,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Session {
    /// Opens the plugin (once per process) and the unpack backend.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::Load`], [`Error::Plugin`], [`Error::UnusablePlugin`], [`Error::NoNic`],
    /// [`Error::Unpack`], [`Error::MemoryUnavailable`].
    pub fn new(options: SessionOptions) -> Result<Self> {
        let engine = Engine::new(options.clone())?;
        let shared = Arc::new(Shared {
            engine: Mutex::new(engine),
            spin: options.spin,
            stop: AtomicBool::new(false),
        });
        let thread = if options.progress_thread { Some(spawn_progress(&shared)?) } else { None };
        Ok(Self { shared, options, thread: Mutex::new(thread) })
    }

    /// Opens the control listener and returns the connection info that peers load.
    ///
    /// Any number of peers may use the same bytes. They contain a secret: hand them over on a trusted way.
    ///
    /// # Errors
    /// [`Error::Io`] when the address cannot be listened on.
    pub fn listen(&self) -> Result<Vec<u8>> {
        self.shared.engine().listen()
    }

    /// Gives a peer that connects, or has connected, the name that it has here from then on; waits for one if need be. A
    /// connecting session that has a name of its own ([`SessionOptions::name`]) is only accepted under that name.
    ///
    /// Peers do not wait for it: a session that listens and makes progress connects whoever proves to have its connection
    /// info. One that is gone by the time of its accept is passed over.
    ///
    /// # Errors
    /// [`Error::Deadline`] when nobody came within [`SessionOptions::connect_timeout`]; [`Error::PeerState`] for a name that
    /// is taken; what connecting can end in.
    pub fn accept(&self, peer: &str) -> Result<()> {
        self.shared.engine().start_accept(peer)?;
        let patience = Patience::for_time(self.options.connect_timeout);
        let accepted = self.shared.wait(
            patience,
            |engine| Ok(engine.accepted(peer)?.map_or(Outcome::NotYet, Outcome::Done)),
            |engine, waited, _| {
                let detail = engine.stop_accept(peer);
                Error::Deadline {
                    phase: Phase::Accept,
                    peer: Some(peer.to_owned()),
                    waited,
                    detail,
                }
            },
        )?;
        self.wait_until_up(accepted, peer, patience, Phase::Accept)
    }

    /// Remembers how `peer` is reached: bytes that its `listen` returned.
    ///
    /// # Errors
    /// [`Error::ConnInfo`] when the bytes are damaged or of another version.
    pub fn load_remote_conn_info(&self, peer: &str, conn_info: &[u8]) -> Result<()> {
        self.shared.engine().load_conn_info(peer, conn_info)
    }

    /// Connects to a peer whose connection info was loaded. Afterwards both ends can send and receive; what is posted before
    /// the other end has called `accept` waits for its counterpart, as always.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Handshake`], [`Error::Io`] when no address of the peer answers,
    /// [`Error::Deadline`] after [`SessionOptions::connect_timeout`], [`Error::PeerGone`], [`Error::Plugin`].
    pub fn connect(&self, peer: &str) -> Result<()> {
        let key = self.shared.engine().start_connect(peer, Instant::now())?;
        self.wait_until_up(
            key,
            peer,
            Patience::for_time(self.options.connect_timeout),
            Phase::Connect,
        )
    }

    fn wait_until_up(
        &self,
        key: PeerKey,
        peer: &str,
        patience: Patience,
        phase: Phase,
    ) -> Result<()> {
        let outcome = self.shared.wait(
            patience,
            |engine| match engine.peers.get(key).map(|peer| &peer.stage) {
                Some(Stage::Up | Stage::Closing(_)) => Ok(Outcome::Done(())),
                // It was up and has parted before anybody looked.
                Some(Stage::Gone(Error::PeerGone { how: Departure::Goodbye, .. })) => {
                    Ok(Outcome::Done(()))
                }
                Some(Stage::Gone(error)) => Err(error.clone()),
                Some(_) => Ok(Outcome::NotYet),
                None => Err(Error::Closed),
            },
            |engine, waited, now| {
                let error = engine.deadline(phase, Some(key), waited, now);
                engine.fail_peer(key, error.clone());
                error
            },
        );
        if outcome.is_err() {
            self.shared.engine().forget(peer);
        }
        outcome
    }

    /// Says goodbye to a peer: withdraws what has no counterpart, finishes what has one, closes both ends' comms in the
    /// order that loses nothing. The name is free again afterwards, whatever the result.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`]; [`Error::Deadline`] when the peer did not answer within
    /// [`SessionOptions::close_timeout`], [`Error::PeerGone`] when it went away in the middle of the goodbye: everything is
    /// closed here all the same. A peer that was gone before needs no goodbye.
    pub fn disconnect(&self, peer: &str) -> Result<()> {
        let (key, was_over) = {
            let mut engine = self.shared.engine();
            let (key, found) = engine.peer(peer)?;
            let was_over = matches!(found.stage, Stage::Gone(_));
            let engine = &mut *engine;
            if let Some(peer) = engine.peers.get_mut(key) {
                peer.start_farewell(&mut engine.ledger);
            }
            (key, was_over)
        };
        let outcome = self.shared.wait(
            Patience::for_time(self.options.close_timeout),
            |engine| match engine.peers.get(key).map(|peer| &peer.stage) {
                None | Some(Stage::Gone(Error::PeerGone { how: Departure::Goodbye, .. })) => {
                    Ok(Outcome::Done(()))
                }
                Some(Stage::Gone(error)) if !was_over => Err(error.clone()),
                Some(Stage::Gone(_)) => Ok(Outcome::Done(())),
                Some(_) => Ok(Outcome::NotYet),
            },
            |engine, waited, now| {
                let error = engine.deadline(Phase::Close, Some(key), waited, now);
                engine.fail_peer(key, error.clone());
                error
            },
        );
        self.shared.engine().forget(peer);
        outcome
    }

    /// Makes memory known to the session and returns its id, from 1 upwards. It is valid for every peer and channel.
    ///
    /// `memory` says how it is received into: [`MemoryType::Host`] straight, [`MemoryType::Device`] through the bounce
    /// buffer. Any address, any size; the same memory may be registered more than once.
    ///
    /// # Errors
    /// [`Error::Registration`] when the memory cannot be, when the session's GPU does not reach device memory, or when the
    /// plugin cannot receive into memory of this type.
    ///
    /// # Safety
    /// `address` is the start of `bytes` bytes that stay valid until [`deregister_memory`](Self::deregister_memory) has
    /// returned `Ok` or the session is dropped: readable, and writable if `is_recv`. While an operation is posted on a
    /// part of it, nobody else writes that part, and for receives nobody else reads it either.
    pub unsafe fn register_memory(
        &self,
        address: u64,
        bytes: u64,
        memory: MemoryType,
        is_recv: bool,
    ) -> Result<u64> {
        self.register(address, bytes, memory, is_recv, None)
    }

    /// Allocates zeroed, page-aligned memory and registers it for both directions: host memory, or for
    /// [`MemoryType::Device`] memory of the session's GPU, if it has one. It is freed with its registration.
    ///
    /// # Errors
    /// [`Error::Io`] when there is no memory, [`Error::MemoryUnavailable`] when the GPU has none; as for [`register_memory`](Self::register_memory).
    pub fn allocate(&self, bytes: u64, memory: MemoryType) -> Result<u64> {
        let length = usize::try_from(bytes).map_err(|_| Error::Registration {
            id: 0,
            reason: format!("{bytes} bytes do not fit this machine"),
        })?;
        let buffer = self.shared.engine().env.memory.allocate(length, memory)?;
        self.register(buffer.address(), bytes, memory, true, Some(buffer))
    }

    fn register(
        &self,
        address: u64,
        bytes: u64,
        memory: MemoryType,
        is_recv: bool,
        owned: Option<OwnedMemory>,
    ) -> Result<u64> {
        let mut engine = self.shared.engine();
        if is_recv && memory == MemoryType::Host && engine.env.plugin.is_hardware() {
            let reason = format!(
                "{HOST_RECEIVE}: its data sockets are steered to the GPU; register GPU memory, or register this for \
                 sending only"
            );
            return Err(Error::Registration { id: 0, reason });
        }
        // What is wrong with an impossible range is said by `add`.
        let is_range = address != 0 && bytes != 0 && address.checked_add(bytes).is_some();
        if is_range && memory == MemoryType::Device && !engine.env.memory.reaches(address, bytes)? {
            let reason = format!(
                "the session's GPU does not reach {bytes} bytes at {address:#x}; register memory of that GPU, or host \
                 memory as host memory"
            );
            return Err(Error::Registration { id: 0, reason });
        }
        let id = engine.ledger.registrations.add(address, bytes, memory, is_recv, owned)?;
        tracing::debug!(id, address = format_args!("{address:#x}"), bytes, %memory, is_recv, "registered memory");
        Ok(id)
    }

    /// Takes a registration back. Afterwards nobody touches its memory any more.
    ///
    /// # Errors
    /// [`Error::UnknownRegistration`]; [`Error::InUse`] while operations on it are posted.
    pub fn deregister_memory(&self, id: u64) -> Result<()> {
        self.shared.engine().deregister(id)
    }

    /// What is known of a registration.
    ///
    /// # Errors
    /// [`Error::UnknownRegistration`].
    pub fn memory_info(&self, id: u64) -> Result<MemoryInfo> {
        self.shared.engine().ledger.registrations.info(id)
    }

    /// Copies bytes into memory made by [`allocate`](Self::allocate).
    ///
    /// # Errors
    /// [`Error::InUse`] while operations on it are posted; [`Error::Registration`] when the bytes do not fit or the
    /// memory is not the session's own.
    pub fn write_memory(&self, id: u64, offset: u64, bytes: &[u8]) -> Result<()> {
        let engine = self.shared.engine();
        let span = own_span(&engine, id, offset, bytes.len())?;
        // SAFETY: the span lies in memory that the registration owns; the engine is locked and no operation is posted on
        // it, so nobody else touches it.
        unsafe { memory_of(&engine, span).write(span.address, bytes) }
    }

    /// Copies bytes out of memory made by [`allocate`](Self::allocate).
    ///
    /// # Errors
    /// As for [`write_memory`](Self::write_memory).
    pub fn read_memory(&self, id: u64, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let engine = self.shared.engine();
        let span = own_span(&engine, id, offset, bytes.len())?;
        // SAFETY: as for `write_memory`.
        unsafe { memory_of(&engine, span).read(span.address, bytes) }
    }

    /// A transfer with a peer: a set of sends and receives that are waited for together.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`]; [`Error::PeerState`] or the peer's own error when it is not up.
    pub fn create_transfer(&self, peer: &str) -> Result<Transfer> {
        let mut engine = self.shared.engine();
        let (key, _) = engine.peer(peer)?;
        engine.peer_up(key)?;
        let transfer = engine.ledger.add_transfer(key);
        Ok(Transfer::new(Arc::clone(&self.shared), transfer))
    }

    /// One round of progress over everything, without waiting. Returns whether anything moved.
    pub fn progress(&self) -> bool {
        self.shared.progress()
    }

    /// The NICs that the plugin offers.
    pub fn nics(&self) -> Vec<Nic> {
        self.shared.engine().env.plugin.nics().to_vec()
    }

    /// The session as it is now.
    pub fn stats(&self) -> SessionReport {
        self.shared.engine().report()
    }

    /// The settings it was made with.
    pub fn options(&self) -> &SessionOptions {
        &self.options
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.engine().start_close();
        let closed = self.shared.wait(
            Patience::for_time(self.options.close_timeout),
            |engine| Ok(if engine.is_quiet() { Outcome::Done(()) } else { Outcome::NotYet }),
            |engine, waited, now| engine.deadline(Phase::Close, None, waited, now),
        );
        if let Err(error) = closed {
            tracing::warn!(%error, "peers did not answer the goodbye");
        }
        self.shared.engine().finish_close();
        self.shared.stop.store(true, Ordering::Release);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

/// What copies to and from a span.
fn memory_of(engine: &Engine, span: Span) -> &DeviceMemory {
    match span.memory {
        MemoryType::Host => &DeviceMemory::Emulated,
        MemoryType::Device => &engine.env.memory,
    }
}

fn own_span(engine: &Engine, id: u64, offset: u64, bytes: usize) -> Result<Span> {
    let registrations = &engine.ledger.registrations;
    let span = registrations.span(id, offset, bytes as u64, false)?;
    if !registrations.is_owned(id) {
        let reason =
            "the session did not allocate this memory, so it cannot know that nobody else uses it"
                .to_owned();
        return Err(Error::Registration { id, reason });
    }
    match registrations.operations(id) {
        0 => Ok(span),
        operations => Err(Error::InUse { id, operations }),
    }
}

fn spawn_progress(shared: &Arc<Shared>) -> Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    std::thread::Builder::new()
        .name("tcpx-progress".into())
        .spawn(move || {
            let mut waiter = Waiter::new(Patience::endless(), shared.spin);
            while !shared.stop.load(Ordering::Acquire) {
                let moved = shared.progress();
                waiter.pause(moved, Instant::now());
            }
        })
        .map_err(|error| Error::io("starting the progress thread", &error))
}
