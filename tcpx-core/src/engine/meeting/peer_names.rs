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
mod tests {
    use tcpx_protocol::frames::conn_info::Secret;
    use tcpx_protocol::frames::eager_terms::EagerOffer;
    use tcpx_protocol::frames::hello::{Hello, Role};
    use tcpx_protocol::frames::link_frame::PROTOCOL_VERSION;
    use tcpx_protocol::types::encryption::Encryption;

    use super::*;

    const LISTENERS: Secret = Secret([3; 32]);
    const OWN: Secret = Secret([5; 32]);

    /// Returns the device of session `peer`, which calls itself `name`, vouched for with `own`.
    fn session(peer: u8, device: Device, name: &str, own: &Secret) -> Introduction {
        let session = device.session_of([peer; 16]);
        let hello = Hello {
            protocol: PROTOCOL_VERSION,
            session,
            name: name.to_owned(),
            build: "0.1.0".into(),
            plugin: "TCPXSoft_v7".into(),
            unpack_version: 7,
            chunk_bytes: 524_288,
            channels: 2,
            gpu: None,
            progress_thread: false,
            accept_all: false,
            on_demand: false,
            eager: EagerOffer::default(),
            note_bytes: 1 << 20,
            encryption: Encryption::Off,
            to: 0,
            connection: 1,
            instead_of: None,
            nonce: [2; 32],
        };
        Introduction::new(hello.prove(Role::Connector, &[9; 32], &LISTENERS), own)
    }

    fn info(peer: u8) -> ConnInfo {
        let session = Device::Host.session_of([peer; 16]);
        ConnInfo {
            session,
            secret: OWN,
            encryption: Encryption::Off,
            addresses: vec!["10.0.0.1:4000".parse().unwrap()],
        }
    }

    #[test]
    fn all_devices_of_a_peer_have_its_name() {
        let names = PeerNames::default();
        for (peer, given, name) in [(1, "a", "a"), (2, "a", "peer-1"), (3, "", "peer-2")] {
            for device in [Device::Gpu(2), Device::Host, Device::Gpu(2)] {
                let came = session(peer, device, given, &OWN);
                assert_eq!(names.of(&came), device.name_in(name));
            }
        }
        for (peer, bad) in [(4, "a/gpu0"), (5, "b\n")] {
            let name = names.of(&session(peer, Device::Host, bad, &OWN));
            assert!(name.starts_with("peer-"), "{name}");
        }
    }

    #[test]
    fn whose_way_is_known_has_the_name_that_the_program_gave() {
        let names = PeerNames::default();
        assert_eq!(names.of(&session(1, Device::Host, "a", &OWN)), "a");
        // The peer has come and gone.
        names.unloaded_peer_left(&info(1));
        assert_eq!(names.load("decode", info(1)), "decode");
        assert_eq!(names.of(&session(1, Device::Gpu(0), "a", &OWN)), "decode/gpu0");
        let (called, way) = names.way("decode", Device::Gpu(0));
        assert_eq!(called, "decode");
        let peer = Device::Host.session_of([1; 16]);
        assert_eq!(way.map(|info| info.session), Some(Device::Gpu(0).session_of(peer)));
        assert!(names.way("a", Device::Host).1.is_none());
        // A peer that knows only the id does not get its name.
        let pretender = session(1, Device::Gpu(1), "decode", &LISTENERS);
        assert_eq!(names.of(&pretender), "peer-1/gpu1");
    }

    #[test]
    fn a_peer_with_several_names_is_called_by_the_first() {
        let names = PeerNames::default();
        assert_eq!(names.of(&session(1, Device::Host, "a", &OWN)), "a");
        assert_eq!(names.unloaded_name(&info(1)).as_deref(), Some("a"));
        assert_eq!(names.load("decode", info(1)), "a");
        assert_eq!(names.load("again", info(1)), "a");
        assert_eq!(names.of(&session(1, Device::Gpu(0), "a", &OWN)), "a/gpu0");
        for name in ["a", "decode", "again"] {
            let (called, way) = names.way(name, Device::Host);
            assert_eq!((called.as_str(), way), ("a", Some(info(1))));
        }
        // This name leads elsewhere now.
        assert_eq!(names.load("a", info(2)), "a");
        let next = names.called("decode");
        assert!(["decode", "again"].contains(&&*next), "{next}");
        assert_eq!(names.called("again"), next);
        assert_eq!(names.of(&session(1, Device::Host, "a", &OWN)), next);
        assert_eq!(names.of(&session(2, Device::Host, "b", &OWN)), "a");
        let forget = |name| names.forget(name, false);
        assert!(forget("again") && !forget("decode") && !forget("x"));
        assert_eq!(names.called("decode"), "decode");
        assert!(names.way("decode", Device::Host).1.is_none());
        assert!(forget("a"));
        let names = names.names();
        assert!(names.loaded.is_empty() && names.called.is_empty());
    }

    #[test]
    fn forged_connection_info_takes_no_other_peers_name() {
        let names = PeerNames::default();
        assert_eq!(names.load("a", info(1)), "a");
        let forged = ConnInfo { secret: LISTENERS, ..info(1) };
        assert_eq!(names.load("b", forged.clone()), "b");
        assert_eq!(names.way("a", Device::Host), ("a".to_owned(), Some(info(1))));
        assert_eq!(names.way("b", Device::Host), ("b".to_owned(), Some(forged)));
        assert_eq!(names.of(&session(1, Device::Gpu(1), "x", &OWN)), "a/gpu1");
        assert!(names.forget("b", false));
        assert_eq!(names.of(&session(1, Device::Gpu(1), "x", &OWN)), "a/gpu1");
    }

    #[test]
    fn a_peer_that_stays_when_it_is_forgotten_keeps_its_name() {
        let names = PeerNames::default();
        for name in ["a", "b", "c"] {
            assert_eq!(names.load(name, info(1)), "a");
            assert_eq!(names.of(&session(1, Device::Gpu(0), "x", &OWN)), "a/gpu0");
            assert!(names.forget(name, true));
            assert_eq!(names.of(&session(1, Device::Gpu(1), "x", &OWN)), "a/gpu1");
            assert_eq!(names.unloaded_name(&info(1)).as_deref(), Some("a"));
            assert_eq!(names.unloaded_name(&ConnInfo { secret: LISTENERS, ..info(1) }), None);
        }
        // Another peer has the name meanwhile.
        assert_eq!(names.load("a", info(2)), "a");
        assert_eq!(names.load("d", info(1)), "d");
        assert_eq!(names.way("a", Device::Host), ("a".to_owned(), Some(info(2))));
        assert!(names.forget("a", false) && names.forget("d", false));
        let names = names.names();
        assert!(names.loaded.is_empty() && names.called.is_empty());
        assert!(names.unloaded.is_empty() && names.order.is_empty());
    }

    /// A peer that comes in under another session's id is not found.
    #[test]
    fn a_pretender_that_came_first_is_not_the_one_that_is_loaded() {
        let names = PeerNames::default();
        assert_eq!(names.of(&session(1, Device::Host, "a", &LISTENERS)), "a");
        assert_eq!(names.unloaded_name(&info(1)), None);
        assert_eq!(names.load("decode", info(1)), "decode");
        assert_eq!(names.of(&session(1, Device::Host, "a", &OWN)), "decode");
    }

    #[test]
    fn unloaded_peers_are_forgotten_when_there_are_too_many() {
        let names = PeerNames::default();
        let peer = |number: usize| {
            let mut id = [0; 16];
            id[..8].copy_from_slice(&number.to_le_bytes());
            id
        };
        let mut names = names.names();
        let mut unloaded = session(1, Device::Host, "", &OWN);
        for number in 0..=MOST_UNLOADED {
            unloaded.proven.hello.name = format!("name {number}");
            names.add(peer(number), &unloaded);
        }
        assert_eq!((names.order.len(), names.unloaded.len()), (MOST_UNLOADED, MOST_UNLOADED));
        assert!(!names.unloaded.contains_key(&peer(0)));
        assert_eq!(names.unloaded[&peer(1)].name, "name 1");
    }
}
