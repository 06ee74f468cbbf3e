//! Names of peers, shared by all devices of a session. A peer's name is the one under which its
//! connection info was loaded, or else the one that the peer gives itself. A peer that has a name
//! and gets another is known by both, and called by the first. Pure.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::HashMap;
use tcpx_protocol::frames::conn_info::{ConnInfo, SessionId};
use tcpx_protocol::frames::handshake_frame::Introduction;
use tcpx_protocol::types::memory::{Device, LONGEST_SUFFIX};
use tcpx_sys::printable;

use crate::types::MAX_NAME_BYTES;

/// Maximum number of names of peers whose connection info was not loaded. Beyond this number, the
/// oldest are forgotten.
const MOST_UNLOADED: usize = 4096;

/// Names, shared by the devices of a session.
#[derive(Debug, Default)]
pub(crate) struct PeerNames(Mutex<NameTable>);

#[derive(Debug, Default)]
struct NameTable {
    /// Connection info by each name that the program may use.
    loaded: HashMap<String, ConnInfo>,
    /// Names of the sessions that these lead to, by session id: the first name that each has had.
    /// An id has several names only if connection info was forged.
    called: HashMap<SessionId, Vec<String>>,
    unloaded: HashMap<SessionId, UnloadedPeer>,
    /// Ids in order of age, the oldest first.
    order: VecDeque<SessionId>,
    made_up: u64,
}

/// Peer that is present although its connection info is not loaded.
#[derive(Debug)]
struct UnloadedPeer {
    name: String,
    who: NameOwner,
}

#[derive(Debug)]
enum NameOwner {
    /// The peer has connected to this session.
    Came(Box<Introduction>),
    /// The peer stays though its connection info was forgotten.
    Stayed(ConnInfo),
}

impl NameOwner {
    /// Returns whether the connection info leads to this peer.
    fn is_of(&self, info: &ConnInfo) -> bool {
        match self {
            Self::Came(introduction) => is_of(introduction, info),
            Self::Stayed(known) => is_same(known, info),
        }
    }
}

impl PeerNames {
    /// Records that this connection info leads to the peer of this name. Returns the name that the
    /// peer is called by: an earlier name, if it had one.
    pub(crate) fn load(&self, name: &str, info: ConnInfo) -> String {
        let mut names = self.names();
        let peer = Device::Host.session_of(info.session);
        names.unload(name);
        let unloaded = names.forget_unloaded_peer(&peer);
        let is_it = |unloaded: &UnloadedPeer| unloaded.who.is_of(&info);
        if let Some(UnloadedPeer { name, .. }) = unloaded.filter(is_it)
            && !names.loaded.contains_key(&name)
        {
            names.add_loaded(&name, info.clone());
        }
        names.add_loaded(name, info);
        names.called(name).unwrap_or(name).to_owned()
    }

    /// Forgets the peer that this name leads to, under all its names. Returns whether there was
    /// one. A peer that `stays` becomes an unloaded peer, with the name that it is called by.
    pub(crate) fn forget(&self, name: &str, stays: bool) -> bool {
        let mut names = self.names();
        let Some(called) = names.called(name).map(str::to_owned) else { return false };
        let Some(info) = names.loaded.remove(&called) else { return false };
        names.loaded.retain(|_, other| !is_same(other, &info));
        names.rename(&called, &info, None);
        if stays {
            let peer = Device::Host.session_of(info.session);
            names.forget_unloaded_peer(&peer);
            names.add_unloaded(peer, UnloadedPeer { name: called, who: NameOwner::Stayed(info) });
        }
        true
    }

    /// Returns the name of the peer that this connection info leads to, if the peer has connected
    /// to this session.
    pub(crate) fn unloaded_name(&self, info: &ConnInfo) -> Option<String> {
        let names = self.names();
        let unloaded = names.unloaded.get(&Device::Host.session_of(info.session))?;
        unloaded.who.is_of(info).then(|| unloaded.name.clone())
    }

    /// Records that the peer that this connection info leads to has left.
    pub(crate) fn unloaded_peer_left(&self, info: &ConnInfo) {
        self.names().forget_unloaded_peer(&Device::Host.session_of(info.session));
    }

    /// Returns the name by which the peer of this name is called.
    pub(crate) fn called(&self, name: &str) -> String {
        self.names().called(name).unwrap_or(name).to_owned()
    }

    /// Returns the name by which the peer of this name is called, and connection info for a device
    /// of the peer.
    pub(crate) fn way(&self, name: &str, device: Device) -> (String, Option<ConnInfo>) {
        let names = self.names();
        let info = names.loaded.get(name).cloned();
        let info = info.map(|info| ConnInfo { session: device.session_of(info.session), ..info });
        (names.called(name).unwrap_or(name).to_owned(), info)
    }

    /// Returns the name of a session that has come in.
    pub(super) fn of(&self, introduction: &Introduction) -> String {
        let session = introduction.session();
        let peer = Device::Host.session_of(*session);
        let mut names = self.names();
        let mut called = names.called.get(&peer).into_iter().flatten();
        let is_it = |info: &ConnInfo| is_of(introduction, info);
        let loaded = called.find(|name| names.loaded.get(*name).is_some_and(is_it));
        let name = loaded.or_else(|| Some(&names.unloaded.get(&peer)?.name)).cloned();
        let name = name.unwrap_or_else(|| names.add(peer, introduction));
        Device::of_session(session).name_in(&name)
    }

    fn names(&self) -> MutexGuard<'_, NameTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether this is a device of the peer that the connection info leads to.
fn is_of(introduction: &Introduction, info: &ConnInfo) -> bool {
    let session = *introduction.session();
    Device::Host.session_of(session) == Device::Host.session_of(info.session)
        && introduction.is_of(&ConnInfo { session, ..info.clone() })
}

/// Returns whether both lead to the same peer.
fn is_same(one: &ConnInfo, other: &ConnInfo) -> bool {
    one.session == other.session && one.secret == other.secret
}

impl NameTable {
    fn called(&self, name: &str) -> Option<&str> {
        let info = self.loaded.get(name)?;
        let called = self.called.get(&Device::Host.session_of(info.session))?;
        let leads_there = |other: &&String| {
            *other == name || self.loaded.get(*other).is_some_and(|other| is_same(other, info))
        };
        called.iter().find(leads_there).map(String::as_str)
    }

    fn add_loaded(&mut self, name: &str, info: ConnInfo) {
        let peer = Device::Host.session_of(info.session);
        self.loaded.insert(name.to_owned(), info);
        if self.called(name).is_none() {
            self.called.entry(peer).or_default().push(name.to_owned());
        }
    }

    /// Frees the name, which is about to lead elsewhere. Peers that were called by it are called by
    /// another of their names.
    fn unload(&mut self, name: &str) {
        let Some(info) = self.loaded.remove(name) else { return };
        let other = self.loaded.iter().find(|(_, other)| is_same(other, &info));
        let other = other.map(|(other, _)| other.clone());
        self.rename(name, &info, other);
    }

    /// Takes the name from the peer that this connection info leads to, if the peer was called by
    /// it; the peer is perhaps called by `other` then.
    fn rename(&mut self, name: &str, info: &ConnInfo, other: Option<String>) {
        let peer = Device::Host.session_of(info.session);
        let Some(called) = self.called.get_mut(&peer) else { return };
        let before = called.len();
        called.retain(|called| called != name);
        if called.len() < before {
            called.extend(other);
        }
        if called.is_empty() {
            self.called.remove(&peer);
        }
    }

    fn forget_unloaded_peer(&mut self, peer: &SessionId) -> Option<UnloadedPeer> {
        self.order.retain(|unloaded| unloaded != peer);
        self.unloaded.remove(peer)
    }

    /// Names an unloaded peer: as the peer calls itself, if that is a valid name that no other peer
    /// has.
    fn add(&mut self, peer: SessionId, introduction: &Introduction) -> String {
        let given = &introduction.proven.hello.name;
        let is_name = !given.is_empty()
            && given.len() + LONGEST_SUFFIX <= MAX_NAME_BYTES
            && Device::peer_name(given) == given
            && printable(given) == *given;
        let mut name = given.clone();
        while !is_name && name == *given || self.is_taken(&name) {
            self.made_up += 1;
            name = format!("peer-{}", self.made_up);
        }
        let who = NameOwner::Came(Box::new(introduction.clone()));
        self.add_unloaded(peer, UnloadedPeer { name: name.clone(), who });
        name
    }

    fn add_unloaded(&mut self, peer: SessionId, unloaded: UnloadedPeer) {
        if self.order.len() == MOST_UNLOADED
            && let Some(oldest) = self.order.pop_front()
        {
            self.unloaded.remove(&oldest);
        }
        self.order.push_back(peer);
        self.unloaded.insert(peer, unloaded);
    }

    fn is_taken(&self, name: &str) -> bool {
        self.loaded.contains_key(name) || self.unloaded.values().any(|taken| taken.name == name)
    }
}

#[cfg(test)]
mod tests;
