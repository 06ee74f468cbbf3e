//! Sessions of the calling process over the software plugin, and what tests do with them.

use std::net::{IpAddr, Ipv4Addr};
use std::thread;

use tcpx_core::{
    Error, ExportOptions, MemoryId, MemoryType, Notification, PluginChoice, RemoteAccess,
    RemoteKey, Session, SessionOptions,
};
use tcpx_testkit::{PATIENCE, pattern, until};

/// Options that tests start from: the software plugin, this host's own address, and deadlines that
/// pass in no test.
#[must_use]
pub fn soft() -> SessionOptions {
    SessionOptions::default()
        .plugin(PluginChoice::Soft)
        .progress_thread(false)
        .advertise(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)])
        .connect_timeout(PATIENCE)
        .close_timeout(PATIENCE)
}

/// The same with a progress thread.
#[must_use]
pub fn lively() -> SessionOptions {
    soft().progress_thread(true)
}

/// Opens a session.
///
/// # Panics
/// When it does not open.
#[must_use]
pub fn open(options: SessionOptions) -> Session {
    Session::new(options).expect("the software plugin is always there")
}

/// Opens two connected sessions that call each other "left" and "right".
///
/// # Panics
/// When a step fails.
#[must_use]
pub fn pair(options: SessionOptions) -> [Session; 2] {
    let pair = [open(options.clone()), open(options)];
    connect(&pair[0], &pair[1]);
    pair
}

/// Connects two sessions, which call each other "left" and "right" from now on.
///
/// # Panics
/// When a step fails.
pub fn connect(left: &Session, right: &Session) {
    join((left, "left"), (right, "right"));
}

/// Lets one session connect to another, each given with the name that the other has for it.
///
/// # Panics
/// When a step fails.
pub fn join(from: (&Session, &str), to: (&Session, &str)) {
    let conn_info = to.0.listen().expect("it listens");
    join_by(from, to, &conn_info);
}

/// The same by connection info that is given.
///
/// # Panics
/// When a step fails.
pub fn join_by(from: (&Session, &str), to: (&Session, &str), conn_info: &[u8]) {
    from.0.load_remote_conn_info(to.1, conn_info).expect("own bytes load");
    thread::scope(|scope| {
        let accepted = scope.spawn(|| to.0.accept(from.1));
        let connected = from.0.connect(to.1);
        // The error of the end that failed first is the one that says why.
        let ends = (connected, accepted.join().expect("no panic"));
        assert!(matches!(ends, (Ok(()), Ok(()))), "{ends:?}");
    });
}

/// Says goodbye from "left" and "right" at once.
///
/// # Panics
/// When one of them fails.
pub fn disconnect_both(left: &Session, right: &Session) {
    thread::scope(|scope| {
        let parted = scope.spawn(|| left.disconnect("right"));
        right.disconnect("left").expect("the other end answers");
        parted.join().expect("no panic").expect("the other end answers");
    });
}

/// Drops sessions that know each other all at once, so that every goodbye has an answer.
pub fn drop_all<const COUNT: usize>(sessions: [Session; COUNT]) {
    thread::scope(|scope| {
        for session in sessions {
            scope.spawn(move || drop(session));
        }
    });
}

/// Bytes of this seed's pattern.
#[must_use]
pub fn some_bytes(seed: u64, bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    pattern::fill(seed, 0, &mut content);
    content
}

/// Allocates memory that holds these bytes.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn memory(session: &Session, kind: MemoryType, bytes: &[u8]) -> MemoryId {
    let memory = session.allocate(bytes.len() as u64, kind).expect("there is room");
    session.write_memory(memory, 0, bytes).expect("nothing uses it");
    memory
}

/// The first bytes of memory.
///
/// # Panics
/// When something uses it.
#[must_use]
pub fn contents(session: &Session, memory: MemoryId, bytes: usize) -> Vec<u8> {
    let mut contents = vec![0; bytes];
    session.read_memory(memory, 0, &mut contents).expect("nothing uses it");
    contents
}

/// Exports memory for reading and writing.
///
/// # Panics
/// When it is not registered.
#[must_use]
pub fn export(session: &Session, memory: MemoryId) -> RemoteKey {
    session.export(memory, ExportOptions::new(RemoteAccess::ReadWrite)).expect("it is registered")
}

/// Takes `count` notifications as soon as they have come.
///
/// # Panics
/// When they do not come.
#[must_use]
pub fn notifications(session: &Session, count: usize) -> Vec<Notification> {
    take(count, |taken, room| session.poll_notifications(taken, room))
}

/// The same from where `poll` takes them.
///
/// # Panics
/// When they do not come.
#[must_use]
pub fn take(
    count: usize,
    poll: impl Fn(&mut Vec<Notification>, usize) -> Result<usize, Error>,
) -> Vec<Notification> {
    let mut taken = Vec::new();
    until("all notifications have come", || {
        let room = count - taken.len();
        poll(&mut taken, room).expect("no fork");
        taken.len() == count
    });
    taken
}
