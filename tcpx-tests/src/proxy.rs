//! A proxy on a control link. It knows frames: it keeps them, and holds one back on request, so
//! that a test can stop two peers between any two of their frames. It knows the records of an
//! encrypted link. It may tamper with what passes.

pub mod kind;

use std::collections::VecDeque;
use std::io::{self, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub use tcpx_testkit::Tampering;
pub use tcpx_testkit::attacker::Direction;
use tcpx_testkit::attacker::{Next, read_next};
use tcpx_wire::frame;

/// Longest body that passes; no peer sends one as long.
const MAX_BODY_BYTES: usize = 1 << 20;

#[derive(Debug, Default)]
struct ProxyState {
    hold: Option<(Direction, u16)>,
    has_held: bool,
    /// Frames that never pass, and those of them that came.
    withholds: Vec<(Direction, u16)>,
    withheld: VecDeque<(Direction, u16, Vec<u8>)>,
    /// What is done to the next frame of this type.
    tampering: Option<(Direction, u16, Tampering)>,
    /// What was tampered with has passed, or never will.
    has_tampered: bool,
    /// What passes that way behind the next frame or record.
    late: Option<(Direction, Vec<u8>)>,
    /// Nothing passes that way.
    to_listener_is_shut: bool,
    to_connector_is_shut: bool,
    is_over: bool,
    streams: Vec<TcpStream>,
    passed: Vec<(Direction, u16, Vec<u8>)>,
}

impl ProxyState {
    fn is_shut(&mut self, direction: Direction) -> &mut bool {
        match direction {
            Direction::ToListener => &mut self.to_listener_is_shut,
            Direction::ToConnector => &mut self.to_connector_is_shut,
        }
    }
}

#[derive(Debug, Default)]
struct Shared {
    /// Records follow the exchange of keys.
    has_records: bool,
    state: Mutex<ProxyState>,
    changed: Condvar,
    /// Held while a frame is written.
    writing: Mutex<()>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, ProxyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See the module. Ends with everything that goes through it when dropped.
#[derive(Debug)]
pub struct LinkProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl LinkProxy {
    /// Listens on loopback and passes connections on to `target`.
    ///
    /// # Panics
    /// When there is no port to be had.
    #[must_use]
    pub fn start(target: SocketAddr) -> Self {
        Self::with(target, false)
    }

    /// The same for links that their ends encrypt.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    pub fn of_records(target: SocketAddr) -> Self {
        Self::with(target, true)
    }

    fn with(target: SocketAddr, has_records: bool) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port of loopback");
        let address = listener.local_addr().expect("a bound listener has an address");
        let shared = Arc::new(Shared { has_records, ..Shared::default() });
        let acceptor = thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, target, &shared)
        });
        Self { address, shared, acceptor: Some(acceptor) }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Holds the next frame of this type, and what follows it in its direction.
    pub fn hold(&self, direction: Direction, kind: u16) {
        let mut state = self.shared.state();
        state.hold = Some((direction, kind));
        state.has_held = false;
    }

    /// Takes frames of this type out from now on, and lets the others pass. No payload may follow
    /// them.
    pub fn withhold(&self, direction: Direction, kind: u16) {
        self.shared.state().withholds.push((direction, kind));
    }

    /// The oldest frame of this type that was taken out and not asked for, as it was on the wire.
    /// `None`: none came in time.
    #[must_use]
    pub fn take_withheld(
        &self,
        direction: Direction,
        kind: u16,
        timeout: Duration,
    ) -> Option<Vec<u8>> {
        let give_up_at = Instant::now() + timeout;
        let mut state = self.shared.state();
        loop {
            let found = state.withheld.iter().position(|it| (it.0, it.1) == (direction, kind));
            if let Some(found) = found {
                return state.withheld.remove(found).map(|(.., frame)| frame);
            }
            let rest = give_up_at.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return None;
            }
            let waited = self.shared.changed.wait_timeout(state, rest);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Forgets all frames that were taken out and not asked for. Returns how many there were.
    #[must_use]
    pub fn forget_withheld(&self) -> usize {
        std::mem::take(&mut self.shared.state().withheld).len()
    }

    /// Does this to the next frame of this type.
    pub fn tamper(&self, direction: Direction, kind: u16, tampering: Tampering) {
        let mut state = self.shared.state();
        state.tampering = Some((direction, kind, tampering));
        state.has_tampered = false;
    }

    /// Waits until that is done. False when it was not in time.
    #[must_use]
    pub fn wait_until_tampered(&self, timeout: Duration) -> bool {
        self.wait_for(timeout, |state| state.has_tampered)
    }

    /// Waits until the frame is here. False when it did not come in time.
    #[must_use]
    pub fn wait_until_held(&self, timeout: Duration) -> bool {
        self.wait_for(timeout, |state| state.has_held)
    }

    /// Waits until a frame of this type passes. False when none did in time.
    #[must_use]
    pub fn wait_until_passed(&self, direction: Direction, kind: u16, timeout: Duration) -> bool {
        let is_it = |it: &(Direction, u16, Vec<u8>)| (it.0, it.1) == (direction, kind);
        self.wait_for(timeout, |state| state.passed.iter().any(is_it))
    }

    fn wait_for(&self, timeout: Duration, has_happened: impl Fn(&ProxyState) -> bool) -> bool {
        let give_up_at = Instant::now() + timeout;
        let mut state = self.shared.state();
        while !has_happened(&state) {
            let rest = give_up_at.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return false;
            }
            let waited = self.shared.changed.wait_timeout(state, rest);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Lets everything pass again.
    pub fn release(&self) {
        let mut state = self.shared.state();
        (state.to_listener_is_shut, state.to_connector_is_shut) = (false, false);
        self.shared.changed.notify_all();
    }

    /// Lets nothing pass any more, either way, without notice to either end. Nor is anything taken
    /// out that is withheld: no thread reads.
    pub fn swallow(&self) {
        let mut state = self.shared.state();
        (state.to_listener_is_shut, state.to_connector_is_shut) = (true, true);
    }

    /// Says this to the end in that direction as if the other one had, between two frames of the
    /// newest connection.
    ///
    /// # Errors
    /// The connection is over.
    ///
    /// # Panics
    /// When nothing goes through.
    pub fn inject(&self, direction: Direction, bytes: &[u8]) -> io::Result<()> {
        let from_the_end = match direction {
            Direction::ToListener => 1,
            Direction::ToConnector => 2,
        };
        let mut to = {
            let streams = &self.shared.state().streams;
            let at = streams.len().checked_sub(from_the_end).expect("a connection goes through");
            streams[at].try_clone()?
        };
        let _writing = self.shared.writing.lock().unwrap_or_else(PoisonError::into_inner);
        to.write_all(bytes)
    }

    /// Closes every connection that goes through, both ways. New ones are passed on.
    pub fn cut(&self) {
        for stream in self.shared.state().streams.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// All bytes that have passed, either way.
    #[must_use]
    pub fn passed_bytes(&self) -> Vec<u8> {
        self.shared.state().passed.iter().flat_map(|(.., bytes)| bytes.clone()).collect()
    }

    /// The frames of this type that have passed, as they were on the wire.
    #[must_use]
    pub fn passed(&self, direction: Direction, kind: u16) -> Vec<Vec<u8>> {
        let state = self.shared.state();
        let is_asked = |it: &&(Direction, u16, Vec<u8>)| (it.0, it.1) == (direction, kind);
        state.passed.iter().filter(is_asked).map(|(.., frame)| frame.clone()).collect()
    }
}

impl Drop for LinkProxy {
    fn drop(&mut self) {
        self.shared.state().is_over = true;
        self.shared.changed.notify_all();
        self.cut();
        // The acceptor waits for a connection: this is its last.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

fn accept(listener: &TcpListener, target: SocketAddr, shared: &Arc<Shared>) {
    while let Ok((connector, _)) = listener.accept() {
        if shared.state().is_over {
            return;
        }
        // A client that cannot be passed on sees its connection end.
        let _ = pass_on(connector, target, shared);
    }
}

fn pass_on(connector: TcpStream, target: SocketAddr, shared: &Arc<Shared>) -> io::Result<()> {
    let listener = TcpStream::connect(target)?;
    connector.set_nodelay(true)?;
    listener.set_nodelay(true)?;
    shared.state().streams.extend([connector.try_clone()?, listener.try_clone()?]);
    for (from, to, direction) in [
        (connector.try_clone()?, listener.try_clone()?, Direction::ToListener),
        (listener, connector, Direction::ToConnector),
    ] {
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            let mut from = BufReader::new(from);
            let mut to = to;
            if pump(&mut from, &mut to, direction, &shared).is_err() {
                let _ = from.get_ref().shutdown(Shutdown::Both);
            }
            // The end of one direction goes on as such; a broken one ends the other too.
            let _ = to.shutdown(Shutdown::Write);
        });
    }
    Ok(())
}

/// Passes frames on until the stream ends.
fn pump(
    from: &mut impl Read,
    to: &mut TcpStream,
    direction: Direction,
    shared: &Shared,
) -> io::Result<()> {
    loop {
        let next = if shared.has_records { read_either(from) } else { read_frame(from) };
        let Some((kind, whole)) = next? else { break };
        match wait_for_fate(direction, kind, whole.clone(), shared) {
            FrameFate::Free => {}
            FrameFate::Withheld => continue,
            FrameFate::Over => break,
        }
        let passes = tampered(direction, kind, whole, shared);
        let _writing = shared.writing.lock().unwrap_or_else(PoisonError::into_inner);
        to.write_all(&passes)?;
    }
    Ok(())
}

/// The next frame, with the bytes that follow it. `None`: the stream has ended.
fn read_frame(from: &mut impl Read) -> io::Result<Option<(u16, Vec<u8>)>> {
    let Some((number, body)) = frame::read(from, MAX_BODY_BYTES)? else { return Ok(None) };
    let mut whole = Vec::with_capacity(frame::HEADER_BYTES + body.len());
    frame::append(&mut whole, number, |out| out.extend_from_slice(&body));
    let kind = kind::of(number, &body);
    io::copy(&mut from.take(kind::payload_bytes(kind, &body)), &mut whole)?;
    Ok(Some((kind, whole)))
}

/// The next frame or record. `None`: the stream has ended. No frame of the handshake is as long as
/// the first bytes of a record would say.
fn read_either(from: &mut impl Read) -> io::Result<Option<(u16, Vec<u8>)>> {
    match read_next(from)? {
        Next::Record(whole) => Ok(Some((kind::RECORD, whole))),
        Next::Other(begin) => read_frame(&mut begin.as_slice().chain(from)),
    }
}

/// What passes in the place of this.
fn tampered(direction: Direction, kind: u16, whole: Vec<u8>, shared: &Shared) -> Vec<u8> {
    let mut state = shared.state();
    let what = match state.tampering {
        Some((way, of, what)) if (way, of) == (direction, kind) => what,
        _ => {
            let late = state.late.take_if(|(way, _)| *way == direction);
            state.has_tampered |= late.is_some();
            shared.changed.notify_all();
            return [whole, late.map(|(_, late)| late).unwrap_or_default()].concat();
        }
    };
    let (now, late) = what.apply(whole);
    state.tampering = None;
    state.has_tampered = late.is_empty();
    state.late = (!late.is_empty()).then_some((direction, late));
    shared.changed.notify_all();
    now
}

/// What becomes of a frame.
enum FrameFate {
    Free,
    Withheld,
    /// The proxy has ended meanwhile.
    Over,
}

fn wait_for_fate(direction: Direction, kind: u16, frame: Vec<u8>, shared: &Shared) -> FrameFate {
    let mut state = shared.state();
    if state.withholds.contains(&(direction, kind)) && !*state.is_shut(direction) {
        state.withheld.push_back((direction, kind, frame));
        shared.changed.notify_all();
        return FrameFate::Withheld;
    }
    if state.hold == Some((direction, kind)) {
        state.hold = None;
        state.has_held = true;
        *state.is_shut(direction) = true;
        shared.changed.notify_all();
    }
    while *state.is_shut(direction) && !state.is_over {
        state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    state.passed.push((direction, kind, frame));
    shared.changed.notify_all();
    if state.is_over { FrameFate::Over } else { FrameFate::Free }
}

#[cfg(test)]
mod tests;
