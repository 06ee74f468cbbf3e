//! Control listener, and the inbound handshakes: connections that have not become peers yet.
//!
//! One poll returns the ready sockets. Its cost does not depend on the number of idle connections.
//! The listener polls when its set reports an event.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};
use tcpx_protocol::frames::handshake_frame::Introduction;

use crate::control::admission::{Admission, MAX_HANDSHAKES, Occupant, RefusalLog, admit, places};
use crate::control::epoll_set::{EpollSet, Interest};
use crate::control::identity::{Identity, random};
use crate::control::inbound_handshake::{HandshakeState, InboundHandshake};
use crate::control::listening_sockets::ListeningSockets;
use crate::error::{Error, Result};
use crate::reactor::Attention;
use crate::reactor::poller::{Poller, Target};
use crate::reactor::watch::{Events, Watched};
use crate::types::ObservedTime;

/// Number of connections accepted in one round.
const ACCEPTS_PER_ROUND: usize = 64;
/// Time until connections are accepted again after accepting has failed. The usual cause is that
/// the process has no file descriptor left.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Time in which a connection must say hello. While this process stands still, the other end may
/// wait for it.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns a random number below `count`.
fn draw(count: usize) -> usize {
    let [first, second, ..] = random().unwrap_or([0; 32]);
    usize::from(u16::from_ne_bytes([first, second])) % count.max(1)
}

/// Listener and its handshakes.
#[derive(Debug)]
pub(crate) struct ControlListener {
    /// Listening sockets. Without sockets, all handshakes here come from another listener.
    /// Handshakes have the numbers above those of the sockets, in order of arrival.
    sockets: ListeningSockets,
    /// Set of the listening sockets and the sockets of all handshakes.
    set: Watched<EpollSet>,
    /// Time at which connections are accepted again, after accepting has failed.
    retry_at: Option<Instant>,
    /// Handshakes that have not proven themselves yet. The oldest comes first, and is the first to
    /// be late.
    unproven: BTreeMap<u64, InboundHandshake>,
    /// Handshakes that wait to become peers.
    proven: BTreeMap<u64, InboundHandshake>,
    last_number: u64,
    hello_timeout: Duration,
    /// Clock by which hellos are due.
    clock: ObservedTime,
    refusals: RefusalLog,
}

impl ControlListener {
    /// Listens at an address, or at the `advertised` addresses. With port 0 the system chooses a
    /// port.
    pub(crate) fn listen(address: SocketAddr, advertised: &[IpAddr]) -> Result<Self> {
        let open = || {
            let sockets = ListeningSockets::bind(address, advertised)?;
            let set = EpollSet::new()?;
            sockets.watch_in(&set)?;
            Ok((sockets, set))
        };
        let (sockets, set) =
            open().map_err(|error| Error::io(format!("listening on {address}"), &error))?;
        Ok(Self::new(sockets, set))
    }

    /// Makes a listener without sockets, for handshakes that another listener hands over.
    pub(crate) fn without_socket() -> Result<Self> {
        let set = EpollSet::new()
            .map_err(|error| Error::io("making the set of descriptors of a listener", &error))?;
        Ok(Self::new(ListeningSockets::none(), set))
    }

    fn new(sockets: ListeningSockets, set: EpollSet) -> Self {
        Self {
            last_number: sockets.count(),
            sockets,
            set: Watched::new(set),
            retry_at: None,
            unproven: BTreeMap::new(),
            proven: BTreeMap::new(),
            hello_timeout: HELLO_TIMEOUT,
            clock: ObservedTime::since(Instant::now()),
            refusals: RefusalLog::default(),
        }
    }

    /// Returns the address and port at which it listens.
    pub(crate) fn address(&self) -> Result<SocketAddr> {
        self.sockets
            .address()
            .map_err(|error| Error::io("asking for the listener's address", &error))
    }

    /// Adds a handshake that was proven at another listener.
    pub(crate) fn take_in(&mut self, handshake: InboundHandshake) -> Result<()> {
        self.last_number += 1;
        self.set
            .add(&handshake, self.last_number, handshake.interest())
            .map_err(|error| Error::io("watching a control connection", &error))?;
        self.proven.insert(self.last_number, handshake);
        Ok(())
    }

    /// Registers the set with the poller, which reports its events from now on.
    pub(crate) fn watch(&mut self, poller: &Arc<Poller>) {
        self.set.watch(poller, Events::Read, Target::Listener);
    }

    /// Returns when to poll next, if no event comes earlier.
    pub(crate) fn attention(&self) -> Attention {
        let first = self.unproven.first_key_value();
        let late = first.map(|(_, first)| self.clock.next_look(first.due()));
        let timeout = [late, self.retry_at].into_iter().flatten().min();
        Attention { polls: !self.set.is_watched(), timeout, ..Attention::default() }
    }

    /// Accepts new connections, and drives every handshake that has an event one step. Returns
    /// whether a connection came, spoke or left: then more work may be ready.
    pub(crate) fn progress(&mut self, now: Instant, identity: &Identity) -> bool {
        let mut moved = false;
        let observed = self.clock.look(now);
        let (tries_again, failed_before) =
            (self.retry_at.is_some_and(|at| now >= at), self.retry_at);
        // Polling the session's own set does not fail. If it ever did, the next poll would ask
        // again.
        for number in self.set.ready().unwrap_or_default() {
            moved |= match number {
                number if self.sockets.has(number) => self.accept(number, now, identity),
                number => self.step(number, now, identity),
            };
        }
        if tries_again && self.retry_at == failed_before {
            // No connection waits to be accepted any more.
            self.retry_at = None;
        }
        self.drop_late(observed, now);
        moved
    }

    fn accept(&mut self, socket: u64, now: Instant, identity: &Identity) -> bool {
        if self.retry_at.is_some_and(|retry_at| now < retry_at) {
            return false;
        }
        let mut moved = false;
        for _ in 0..ACCEPTS_PER_ROUND {
            // While all handshakes are proven and wait to become peers, new connections wait in the
            // system's queue.
            if self.unproven.is_empty() && self.proven.len() >= MAX_HANDSHAKES {
                break;
            }
            match self.sockets.accept(socket) {
                Ok((stream, address)) => {
                    moved = true;
                    self.retry_at = None;
                    self.admit(stream, address, now, identity);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.retry_at = None;
                    break;
                }
                Err(error) => {
                    if self.retry_at.replace(now + RETRY_INTERVAL).is_none() {
                        tracing::error!(%error, "accepting control connections fails; it is tried again and again [TCPX-608]");
                    }
                    break;
                }
            }
        }
        moved
    }

    fn admit(&mut self, stream: TcpStream, address: SocketAddr, now: Instant, identity: &Identity) {
        let has_room = self.make_room(address.ip(), now, identity);
        let due = self.clock.so_far() + self.hello_timeout;
        match InboundHandshake::start(stream, address.ip(), due, now, identity) {
            Ok(new) if has_room => self.begin(new, now, identity),
            Ok(new) => {
                new.reject();
                self.refusals.log(now, &address.to_string(), "too many wait");
            }
            Err(error) => self.refusals.log(now, &address.to_string(), &error.to_string()),
        }
    }

    fn begin(&mut self, new: InboundHandshake, now: Instant, identity: &Identity) {
        self.last_number += 1;
        let number = self.last_number;
        if let Err(error) = self.set.add(&new, number, Interest::Read) {
            self.refusals.log(now, &new.address(), &error.to_string());
            return;
        }
        self.unproven.insert(number, new);
        self.step(number, now, identity);
    }

    /// Drives one handshake. Returns false when no handshake has this number.
    fn step(&mut self, number: u64, now: Instant, identity: &Identity) -> bool {
        let (unproven, proven) = (&mut self.unproven, &mut self.proven);
        let Some(handshake) = unproven.get_mut(&number).or_else(|| proven.get_mut(&number)) else {
            return false;
        };
        let before = handshake.interest();
        match handshake.poll(now, identity) {
            HandshakeState::AwaitingHello | HandshakeState::Proven => {}
            HandshakeState::Refused(reason) => {
                self.refusals.log(now, &handshake.address(), &reason);
                self.take(number);
                return true;
            }
            HandshakeState::Left => {
                tracing::debug!(from = %handshake.from(), "control connection left");
                self.take(number);
                return true;
            }
        }
        let interest = handshake.interest();
        if interest != before
            && let Err(error) = self.set.change(&*handshake, number, interest)
        {
            self.refusals.log(now, &handshake.address(), &error.to_string());
            self.take(number);
        } else if handshake.is_proven()
            && let Some(handshake) = self.unproven.remove(&number)
        {
            self.proven.insert(number, handshake);
        }
        true
    }

    /// Drops connections that have said no hello in time.
    fn drop_late(&mut self, observed: Duration, now: Instant) {
        while let Some(first) = self.unproven.first_entry().filter(|it| it.get().due() <= observed)
        {
            self.refusals.log(now, &first.get().address(), "it said no hello in time");
            let number = *first.key();
            self.take(number);
        }
    }

    /// Makes room for one more connection, and returns whether there is room. Never evicts a
    /// connection whose hello has arrived, read or not.
    fn make_room(&mut self, from: IpAddr, now: Instant, identity: &Identity) -> bool {
        let places = places(getrlimit(Resource::Nofile).current);
        // Each iteration removes one unproven connection.
        while self.unproven.len() + self.proven.len() >= places {
            let occupant = |handshake: &InboundHandshake| Occupant {
                from: handshake.from(),
                is_proven: handshake.is_proven(),
                age: now.saturating_duration_since(handshake.since()),
            };
            let table: Vec<Occupant> =
                self.unproven.values().chain(self.proven.values()).map(occupant).collect();
            let index = match admit(from, &table, places, draw) {
                Admission::Free => return true,
                Admission::Full => return false,
                Admission::Evict(index) => index,
            };
            let Some(number) = self.unproven.keys().nth(index).copied() else { return false };
            self.step(number, now, identity);
            if !self.unproven.contains_key(&number) {
                continue;
            }
            if let Some(evicted) = self.take(number) {
                self.refusals.log(now, &evicted.address(), "a newer one takes its place");
                evicted.reject();
            }
        }
        true
    }

    /// Returns the proven handshakes that wait, with their numbers, the oldest first.
    pub(crate) fn proven(&self) -> impl Iterator<Item = (u64, &Introduction)> {
        self.proven.iter().filter_map(|(number, it)| Some((*number, it.introduction()?)))
    }

    /// Returns whether a proven handshake waits.
    pub(crate) fn has_proven(&self) -> bool {
        !self.proven.is_empty()
    }

    /// Returns the introduction of the proven handshake with this number.
    pub(crate) fn introduction(&self, number: u64) -> Option<&Introduction> {
        self.proven.get(&number)?.introduction()
    }

    /// Removes a handshake, and returns it.
    pub(crate) fn take(&mut self, number: u64) -> Option<InboundHandshake> {
        let handshake = self.unproven.remove(&number).or_else(|| self.proven.remove(&number))?;
        if let Err(error) = self.set.remove(&handshake) {
            tracing::debug!(%error, "a control connection was not watched");
        }
        Some(handshake)
    }
}

#[cfg(test)]
mod tests;
