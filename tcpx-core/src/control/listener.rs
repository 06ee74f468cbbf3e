//! The control listener, and the inbound handshakes: connections that have not become peers yet.
//!
//! One look asks the system who is ready, and costs the same for any number of connections on which
//! nothing happens. It is time to look when something happens in the listener's set.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};

use crate::control::admission::{Admission, MAX_HANDSHAKES, Occupant, Places, admit};
use crate::control::epoll_set::{EpollSet, Interest};
use crate::control::identity::Identity;
use crate::control::inbound_handshake::{HandshakeState, InboundHandshake};
use crate::control::introduction::Introduction;
use crate::control::refusal_log::RefusalLog;
use crate::error::{Error, Result};
use crate::reactor::attention::Attention;
use crate::reactor::poller::{Poller, Target};
use crate::reactor::watch::{Events, Watched};

/// Connections taken from the system in one round.
const ACCEPTS_PER_ROUND: usize = 64;
/// Time until connections are taken again after that has failed. Mostly the process has no file
/// descriptor left.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// How long a connection may take to say hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// The listening socket's number in the set. Handshakes have the others, in the order in which they
/// came.
const LISTENER: u64 = 0;

fn occupant(handshake: &InboundHandshake) -> Occupant {
    let (is_proven, is_silent) = (handshake.is_proven(), handshake.is_silent());
    Occupant { from: handshake.from(), is_proven, is_silent }
}

/// The listener and its handshakes.
#[derive(Debug)]
pub(crate) struct ControlListener {
    /// `None`: only those are here that another listener has handed over.
    listener: Option<TcpListener>,
    /// The listening socket and those of all handshakes.
    set: Watched<EpollSet>,
    /// When connections are taken again, after that has failed.
    retry_at: Option<Instant>,
    /// Those that have not proven themselves yet, the oldest first: it is the first to be late.
    unproven: BTreeMap<u64, InboundHandshake>,
    /// Those that wait to become peers.
    proven: BTreeMap<u64, InboundHandshake>,
    last_number: u64,
    hello_timeout: Duration,
    refusals: RefusalLog,
}

impl ControlListener {
    /// Listens at an address. Port 0 lets the system choose one.
    pub(crate) fn listen(address: SocketAddr) -> Result<Self> {
        let open = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let set = EpollSet::new()?;
            set.add(&listener, LISTENER, Interest::Read)?;
            Ok((listener, set))
        };
        let (listener, set) =
            open().map_err(|error| Error::io(format!("listening on {address}"), &error))?;
        Ok(Self::new(Some(listener), set))
    }

    /// For those that another listener hands over.
    pub(crate) fn without_socket() -> Result<Self> {
        let set = EpollSet::new()
            .map_err(|error| Error::io("making the set of descriptors of a listener", &error))?;
        Ok(Self::new(None, set))
    }

    fn new(listener: Option<TcpListener>, set: EpollSet) -> Self {
        Self {
            listener,
            set: Watched::new(set),
            retry_at: None,
            unproven: BTreeMap::new(),
            proven: BTreeMap::new(),
            last_number: LISTENER,
            hello_timeout: HELLO_TIMEOUT,
            refusals: RefusalLog::default(),
        }
    }

    /// The address and port at which it listens.
    pub(crate) fn address(&self) -> Result<SocketAddr> {
        let address = match &self.listener {
            Some(listener) => listener.local_addr(),
            None => Err(ErrorKind::NotConnected.into()),
        };
        address.map_err(|error| Error::io("asking for the listener's address", &error))
    }

    /// Takes in one that has proven itself at another listener.
    pub(crate) fn take_in(&mut self, handshake: InboundHandshake) -> Result<()> {
        self.last_number += 1;
        self.set
            .add(&handshake, self.last_number, handshake.interest())
            .map_err(|error| Error::io("watching a control connection", &error))?;
        self.proven.insert(self.last_number, handshake);
        Ok(())
    }

    /// Has the system say when something happens in the set, from now on.
    pub(crate) fn watch(&mut self, poller: &Arc<Poller>) {
        self.set.watch(poller, Events::Read, Target::Listener);
    }

    /// When to look next, apart from when something happens.
    pub(crate) fn attention(&self) -> Attention {
        let late = self.unproven.first_key_value().map(|(_, first)| first.give_up_at());
        let timeout = [late, self.retry_at].into_iter().flatten().min();
        Attention { polls: !self.set.is_watched(), timeout, ..Attention::default() }
    }

    /// Accepts new connections, and drives every handshake one step on which something happens.
    /// Returns whether somebody came, spoke or left: then more may have happened.
    pub(crate) fn progress(&mut self, now: Instant, identity: &Identity) -> bool {
        let mut moved = false;
        let (tries_again, failed_before) =
            (self.retry_at.is_some_and(|at| now >= at), self.retry_at);
        // Asking a set of one's own does not fail. If it ever did, the next look would ask again.
        for number in self.set.ready().unwrap_or_default() {
            moved |= match number {
                LISTENER => self.accept(now, identity),
                number => self.step(number, now, identity),
            };
        }
        if tries_again && self.retry_at == failed_before {
            // Nobody waits to be taken any more.
            self.retry_at = None;
        }
        self.drop_late(now);
        moved
    }

    fn accept(&mut self, now: Instant, identity: &Identity) -> bool {
        if self.retry_at.is_some_and(|retry_at| now < retry_at) {
            return false;
        }
        let mut moved = false;
        for _ in 0..ACCEPTS_PER_ROUND {
            let Some(listener) = &self.listener else { break };
            // While all are proven and wait to become peers, new ones wait in the system's queue.
            if self.unproven.is_empty() && self.proven.len() >= MAX_HANDSHAKES {
                break;
            }
            match listener.accept() {
                Ok((stream, address)) => {
                    moved = true;
                    self.retry_at = None;
                    if !self.make_room(address.ip(), now) {
                        self.refusals.say(now, &address.to_string(), "too many wait");
                        continue;
                    }
                    let give_up_at = now + self.hello_timeout;
                    let ip = address.ip();
                    match InboundHandshake::start(stream, ip, give_up_at, now, identity) {
                        Ok(new) => self.begin(new, now, identity),
                        Err(error) => {
                            self.refusals.say(now, &address.to_string(), &error.to_string());
                        }
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.retry_at = None;
                    break;
                }
                Err(error) => {
                    if self.retry_at.replace(now + RETRY_INTERVAL).is_none() {
                        tracing::warn!(%error, "accepting control connections fails; it is tried again and again [TCPX-608]");
                    }
                    break;
                }
            }
        }
        moved
    }

    fn begin(&mut self, new: InboundHandshake, now: Instant, identity: &Identity) {
        self.last_number += 1;
        let number = self.last_number;
        if let Err(error) = self.set.add(&new, number, Interest::Read) {
            self.refusals.say(now, &new.address(), &error.to_string());
            return;
        }
        self.unproven.insert(number, new);
        self.step(number, now, identity);
    }

    /// Drives one handshake. False when there is none of this number.
    fn step(&mut self, number: u64, now: Instant, identity: &Identity) -> bool {
        let (unproven, proven) = (&mut self.unproven, &mut self.proven);
        let Some(handshake) = unproven.get_mut(&number).or_else(|| proven.get_mut(&number)) else {
            return false;
        };
        let before = handshake.interest();
        match handshake.poll(now, identity) {
            HandshakeState::AwaitingHello | HandshakeState::Proven => {}
            HandshakeState::Refused(reason) => {
                self.refusals.say(now, &handshake.address(), &reason);
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
            self.refusals.say(now, &handshake.address(), &error.to_string());
            self.take(number);
        } else if handshake.is_proven()
            && let Some(handshake) = self.unproven.remove(&number)
        {
            self.proven.insert(number, handshake);
        }
        true
    }

    /// Drops connections that have said no hello in time.
    fn drop_late(&mut self, now: Instant) {
        while let Some(first) = self.unproven.first_entry().filter(|it| it.get().is_late(now)) {
            self.refusals.say(now, &first.get().address(), "it said no hello in time");
            let number = *first.key();
            self.take(number);
        }
    }

    fn make_room(&mut self, from: IpAddr, now: Instant) -> bool {
        let table: Vec<Occupant> =
            self.unproven.values().chain(self.proven.values()).map(occupant).collect();
        let places = Places::of_files(getrlimit(Resource::Nofile).current);
        match admit(from, &table, places) {
            Admission::Free => true,
            Admission::Evict(index) => {
                let number = self.unproven.keys().nth(index).copied();
                if let Some(evicted) = number.and_then(|number| self.take(number)) {
                    self.refusals.say(now, &evicted.address(), "a newer one takes its place");
                }
                true
            }
            Admission::Full => false,
        }
    }

    /// Those that have proven themselves and wait, with their numbers, the oldest first.
    pub(crate) fn proven(&self) -> impl Iterator<Item = (u64, &Introduction)> {
        self.proven.iter().filter_map(|(number, it)| Some((*number, it.introduction()?)))
    }

    /// Whether somebody has proven itself and waits.
    pub(crate) fn has_proven(&self) -> bool {
        !self.proven.is_empty()
    }

    /// Who has proven itself in the handshake of this number.
    pub(crate) fn introduction(&self, number: u64) -> Option<&Introduction> {
        self.proven.get(&number)?.introduction()
    }

    /// A handshake is not answered, because this session is connecting to the other one itself.
    pub(crate) fn hold(&mut self, number: u64) {
        if let Some(handshake) = self.proven.get_mut(&number) {
            handshake.hold();
        }
    }

    /// Takes a handshake out.
    pub(crate) fn take(&mut self, number: u64) -> Option<InboundHandshake> {
        let handshake = self.unproven.remove(&number).or_else(|| self.proven.remove(&number))?;
        if let Err(error) = self.set.remove(&handshake) {
            tracing::debug!(%error, "a control connection was not watched");
        }
        Some(handshake)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;
    use crate::control::admission::MAX_UNPROVEN_PER_ADDRESS;
    use crate::control::conn_info::ConnInfo;
    use crate::control::connector::Connector;
    use crate::settings::SessionOptions;

    fn identity() -> Identity {
        Identity::new(&SessionOptions::default(), "TCPXSoft_v7", 524_288).expect("random bytes")
    }

    /// No connection is refused for being late here: each has an hour.
    #[test]
    fn a_peer_comes_in_past_silent_connections_on_real_sockets() {
        let (ours, theirs) = (identity(), identity());
        let mut listener = ControlListener::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        listener.hello_timeout = Duration::from_secs(3_600);
        let address = listener.address().unwrap();
        let mut silent = Vec::new();
        for _ in 0..2 * MAX_HANDSHAKES {
            silent.push(TcpStream::connect(address).unwrap());
            listener.progress(Instant::now(), &ours);
        }
        let info = ConnInfo {
            session: ours.session,
            secret: ours.secret.clone(),
            addresses: vec![address],
        };
        let mut connector = Connector::new(info, 0);
        let give_up_at = Instant::now() + Duration::from_secs(60);
        let proven = loop {
            let now = Instant::now();
            assert!(now < give_up_at, "the peer is {}", connector.state());
            assert!(connector.poll("ours", now, &theirs).expect("it is let in").is_none());
            listener.progress(now, &ours);
            let first = listener.proven().next().map(|(number, _)| number);
            if let Some(proven) = first.and_then(|number| listener.take(number)) {
                break proven;
            }
        };
        assert!(proven.is_proven() && listener.unproven.len() <= MAX_UNPROVEN_PER_ADDRESS);
        drop(silent);
    }

    #[test]
    fn silent_connections_are_looked_at_together_and_nobody_is_driven_who_says_nothing() {
        let ours = identity();
        let mut listener = ControlListener::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.address().unwrap();
        let now = Instant::now();
        let mut silent = Vec::new();
        while listener.unproven.len() < MAX_UNPROVEN_PER_ADDRESS {
            silent.push(TcpStream::connect(address).unwrap());
            listener.progress(now, &ours);
        }
        let polls = |listener: &ControlListener| -> usize {
            listener.unproven.values().map(|handshake| handshake.polls).sum()
        };
        let polls_before = polls(&listener);
        for _ in 0..1_000 {
            assert!(!listener.progress(now, &ours));
        }
        assert_eq!(polls(&listener), polls_before);
        // Of two that leave, both are noticed, and nobody else is driven.
        silent.truncate(silent.len() - 2);
        let give_up_at = Instant::now() + Duration::from_secs(60);
        while listener.unproven.len() > MAX_UNPROVEN_PER_ADDRESS - 2 {
            assert!(Instant::now() < give_up_at, "they have left");
            listener.progress(now, &ours);
        }
        assert_eq!(polls(&listener), listener.unproven.len(), "once each, when they came");
    }

    /// What the session's poller says of the listener, in a minute at most.
    fn is_told(poller: &Poller) -> bool {
        let mut events = Vec::new();
        poller.wait(Duration::from_secs(60), &mut events);
        events.iter().any(|event| event.target == Target::Listener)
    }

    #[test]
    fn the_system_says_when_it_is_time_to_look() {
        let (ours, poller) = (identity(), Arc::new(Poller::new().unwrap()));
        let mut listener = ControlListener::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        listener.watch(&poller);
        assert_eq!(listener.attention(), Attention::default());
        let stream = TcpStream::connect(listener.address().unwrap()).unwrap();
        assert!(is_told(&poller), "somebody comes");
        while listener.progress(Instant::now(), &ours) {}
        assert!(listener.attention().timeout.is_some(), "it has said no hello yet");
        drop(stream);
        assert!(is_told(&poller), "it has left");
        assert!(listener.progress(Instant::now(), &ours));
        assert_eq!(listener.attention(), Attention::default());
    }

    #[test]
    fn who_says_no_hello_in_time_is_dropped_and_others_stay() {
        let ours = identity();
        let mut listener = ControlListener::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.address().unwrap();
        let start = Instant::now();
        let mut streams = Vec::new();
        for second in 0..5 {
            streams.push(TcpStream::connect(address).unwrap());
            assert!(listener.progress(start + Duration::from_secs(second), &ours));
        }
        let (late, left) = (Duration::from_millis(1), [(9, 5), (10, 4), (12, 2), (14, 0)]);
        for (second, expected) in left {
            listener.progress(start + Duration::from_secs(second) + late, &ours);
            assert_eq!(listener.unproven.len(), expected, "after {second} s");
        }
    }
}
