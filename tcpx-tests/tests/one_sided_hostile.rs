//! A peer with the secret that says what no correct one says about exported memory. A proxy on the
//! control link says it in the name of a correct peer. Whatever it is, nothing outside exports is
//! read or written, a third session moves its bytes on, and memory stays bounded.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use serial_test::{parallel, serial};
use tcpx_core::{
    Error, ExportOptions, MemoryId, MemoryRange, MemoryType, OperationKind, PluginChoice,
    RemoteAccess, RemoteKey, RemoteRange, Session, SessionOptions,
};
use tcpx_tests::proxy::{Direction, LinkProxy, kind};
use tcpx_wire::frame;

const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than what travels on the control link: the proxy knows frames alone.
const LONG: u64 = 100_000;
/// What is exported lies this far inside of its registration.
const MARGIN: u64 = 4096;
const CANARY: u8 = 0xc5;
/// Numbers of lists and requests that the correct peer does not come to.
const LIST: u32 = 1 << 20;
const REQUEST: u64 = 77 << 32 | 5;
/// In the place of a note's length: there is none.
const NO_NOTE: u32 = u32::MAX;

/// Why a request is refused, as it is on the wire.
mod why {
    pub(super) const UNKNOWN_KEY: u8 = 1;
    pub(super) const REVOKED: u8 = 2;
    pub(super) const OUT_OF_RANGE: u8 = 3;
    pub(super) const ACCESS: u8 = 4;
}

fn session() -> Session {
    let mut options = SessionOptions::default().plugin(PluginChoice::Soft).progress_thread(true);
    options.advertise = vec![Ipv4Addr::LOCALHOST.into()];
    options.close_timeout = Duration::from_secs(1);
    Session::new(options).expect("the software plugin is always there")
}

fn meet(left: &Session, right: &Session, names: [&str; 2], conn_info: &[u8]) {
    left.load_remote_conn_info(names[1], conn_info).expect("it loads");
    std::thread::scope(|scope| {
        let accepted = scope.spawn(|| right.accept(names[0]));
        left.connect(names[1]).expect("they connect");
        accepted.join().expect("no panic").expect("they connect");
    });
}

/// A target with two exports in the middle of canaries, a peer that is made to lie, and one that
/// must not notice.
struct Scene {
    target: Session,
    liar: Session,
    witness: Session,
    proxy: LinkProxy,
    memory: MemoryId,
    readable: RemoteKey,
    writable: RemoteKey,
    /// What is written, and read back, by the liar as long as it is correct.
    own: MemoryId,
}

/// A key as it is in the frame of a list.
type WireKey = [u8; 24];

impl Scene {
    fn new() -> Self {
        let [target, liar, witness] = [session(), session(), session()];
        let conn_info = target.listen().expect("listen");
        let proxy = LinkProxy::start(tcpx_tests::control_addresses(&conn_info)[0]);
        meet(&witness, &target, ["witness", "target"], &conn_info);
        let port = proxy.address().port();
        let lying = tcpx_tests::with_address(&conn_info, Ipv4Addr::LOCALHOST, port);
        meet(&liar, &target, ["liar", "target"], &lying);
        let memory = target.allocate(LONG + 2 * MARGIN, MemoryType::Host).expect("memory");
        let all = vec![CANARY; (LONG + 2 * MARGIN) as usize];
        target.write_memory(memory, 0, &all).expect("it is ours");
        let export = |access| {
            let options = ExportOptions::new(access).range(MARGIN, LONG);
            target.export(memory, options).expect("it is registered")
        };
        let (readable, writable) = (export(RemoteAccess::Read), export(RemoteAccess::Write));
        let own = liar.allocate(LONG, MemoryType::Host).expect("memory");
        Self { target, liar, witness, proxy, memory, readable, writable, own }
    }

    /// The liar's honest operation. Returns the key as it has told it.
    fn behave(&self, kind: OperationKind, key: &RemoteKey) -> WireKey {
        let local = [MemoryRange { memory: self.own, offset: 0, bytes: LONG }];
        let remote = [RemoteRange { key, offset: 0, bytes: LONG }];
        let operation = self.liar.prepare("target", kind, &local, &remote).expect("it fits");
        operation.post(None).expect("it is not under way");
        operation.wait(Some(PATIENCE)).expect("it is allowed");
        let told = self.proxy.passed(Direction::ToListener, kind::LIST_KEYS);
        let body = &told.last().expect("it told its list")[frame::HEADER_BYTES..];
        // Not forgotten, so that nothing but what is injected goes to the target.
        std::mem::forget(operation);
        body[4..].try_into().expect("one key")
    }

    fn say(&self, words: &[u8]) {
        // Once it has given up, nobody reads any more.
        let _ = self.proxy.inject(Direction::ToListener, words);
    }

    /// Says `words`, and waits for what the target says to it. The liar gets that: it is its end,
    /// for it knows nothing of the request.
    fn ask(&self, words: &[u8], answer: u16) -> Vec<u8> {
        let before = self.proxy.passed(Direction::ToConnector, answer).len();
        self.proxy.hold(Direction::ToConnector, answer);
        self.say(words);
        assert!(self.proxy.wait_until_held(PATIENCE), "the target answers");
        self.proxy.release();
        let give_up_at = Instant::now() + PATIENCE;
        loop {
            let heard = self.proxy.passed(Direction::ToConnector, answer);
            if let Some(frame) = heard.get(before) {
                return frame[frame::HEADER_BYTES..].to_vec();
            }
            assert!(Instant::now() < give_up_at, "what was held passes");
            std::thread::yield_now();
        }
    }

    /// The target has thrown the liar out for what it said.
    fn assert_thrown_out(&self, case: &str) {
        let give_up_at = Instant::now() + PATIENCE;
        loop {
            match self.target.create_transfer("liar") {
                Err(Error::Protocol { .. }) => return,
                Ok(_) | Err(Error::PeerState { .. }) => {}
                Err(error) => panic!("{case}: {error}"),
            }
            assert!(Instant::now() < give_up_at, "{case}: it is still there");
            std::thread::yield_now();
        }
    }

    /// Nothing but exported bytes can have changed, and everybody else is served.
    fn assert_unharmed(&self, case: &str) {
        let mut all = vec![0; (LONG + 2 * MARGIN) as usize];
        for key in [&self.readable, &self.writable] {
            match self.target.unexport(key) {
                Ok(()) | Err(Error::Remote { .. }) => {}
                Err(error) => panic!("{case}: {error}"),
            }
        }
        self.target.read_memory(self.memory, 0, &mut all).expect("nothing uses it");
        let margin = MARGIN as usize;
        let (before, behind) = (&all[..margin], &all[all.len() - margin..]);
        assert!(before.iter().chain(behind).all(|byte| *byte == CANARY), "{case}: outside");
        let (here, there) = (
            self.witness.allocate(LONG, MemoryType::Host).expect("memory"),
            self.target.allocate(LONG, MemoryType::Device).expect("memory"),
        );
        let options = ExportOptions::new(RemoteAccess::ReadWrite);
        let key = self.target.export(there, options).expect("it is registered");
        self.witness.write_memory(here, 0, &vec![7; LONG as usize]).expect("it is ours");
        let local = [MemoryRange { memory: here, offset: 0, bytes: LONG }];
        let remote = [RemoteRange { key: &key, offset: 0, bytes: LONG }];
        let kind = OperationKind::Write;
        let write = self.witness.prepare("target", kind, &local, &remote).expect("it fits");
        write.post(None).expect("it is not under way");
        write.wait(Some(PATIENCE)).expect("the witness is served");
        self.target.unexport(&key).expect("nothing uses it");
        let mut moved = vec![0; LONG as usize];
        self.target.read_memory(there, 0, &mut moved).expect("nothing uses it");
        assert!(moved.iter().all(|byte| *byte == 7), "{case}: the witness's bytes");
    }
}

fn framed(word: u16, fields: &[&[u8]]) -> Vec<u8> {
    let mut whole = Vec::new();
    frame::append(&mut whole, word, |out| out.extend_from_slice(&fields.concat()));
    whole
}

/// A whole list of one key.
fn list(is_write: bool, key: &WireKey, ranges: &[(u32, u64, u64)], bytes: u64) -> Vec<u8> {
    let (number, count) = (LIST.to_le_bytes(), (ranges.len() as u32).to_le_bytes());
    let kind = [u8::from(is_write)];
    let keys = 1u32.to_le_bytes();
    let ranges: Vec<u8> = ranges
        .iter()
        .flat_map(|(key, offset, bytes)| {
            [&key.to_le_bytes()[..], &offset.to_le_bytes(), &bytes.to_le_bytes()].concat()
        })
        .collect();
    [
        framed(kind::LIST, &[&number, &kind, &keys, &count, &bytes.to_le_bytes()]),
        framed(kind::LIST_KEYS, &[&number, key]),
        framed(kind::LIST_RANGES, &[&number, &ranges]),
    ]
    .concat()
}

fn write(request: u64) -> Vec<u8> {
    let [list, note] = [LIST, NO_NOTE].map(u32::to_le_bytes);
    framed(kind::WRITE, &[&request.to_le_bytes(), &list, &note])
}

fn write_now(request: u64, bytes: &[u8]) -> Vec<u8> {
    let [list, count, note] = [LIST, bytes.len() as u32, NO_NOTE].map(u32::to_le_bytes);
    let mut words = framed(kind::WRITE_NOW, &[&request.to_le_bytes(), &list, &count, &note]);
    words.extend_from_slice(bytes);
    words
}

fn read(request: u64) -> Vec<u8> {
    framed(kind::READ, &[&request.to_le_bytes(), &LIST.to_le_bytes(), &[0, 0]])
}

/// The same key with one bit of its secret changed.
fn forged(key: &WireKey) -> WireKey {
    let mut forged = *key;
    forged[23] ^= 0x80;
    forged
}

/// The same secret for another number.
fn of_another_number(key: &WireKey, number: u64) -> WireKey {
    let mut other = *key;
    other[..8].copy_from_slice(&number.to_le_bytes());
    other
}

#[test]
#[parallel]
fn keys_and_ranges_that_open_nothing_are_refused() {
    type Change = fn(&WireKey) -> WireKey;
    /// Where a range of so many bytes begins.
    type From = fn(u64) -> u64;
    const SAME: Change = |key| *key;
    const BEGINNING: From = |_| 0;
    let of_another_number: Change = |key| of_another_number(key, 1 << 40);
    let past_the_end: From = |bytes| LONG - bytes + 1;
    let wraps: From = |bytes| u64::MAX - bytes + 1;
    for (case, is_stale, change, from, expected) in [
        ("a secret that is not right", false, forged as Change, BEGINNING, why::UNKNOWN_KEY),
        ("a number never used", false, of_another_number, BEGINNING, why::UNKNOWN_KEY),
        ("a key taken back", true, SAME, BEGINNING, why::REVOKED),
        ("one byte past the end", false, SAME, past_the_end, why::OUT_OF_RANGE),
        ("an offset past everything", false, SAME, |_| u64::MAX, why::OUT_OF_RANGE),
        ("an end that wraps", false, SAME, wraps, why::OUT_OF_RANGE),
    ] {
        for is_now in [false, true] {
            let scene = Scene::new();
            let key = scene.behave(OperationKind::Write, &scene.writable);
            if is_stale {
                scene.target.unexport(&scene.writable).expect("nothing uses it");
            }
            let bytes = if is_now { 64 } else { LONG };
            let list = list(true, &change(&key), &[(0, from(bytes), bytes)], bytes);
            let request = if is_now { write_now(REQUEST, &[1; 64]) } else { write(REQUEST) };
            let answer = scene.ask(&[list, request].concat(), kind::ANSWER);
            assert_eq!(answer[..8], REQUEST.to_le_bytes(), "{case}");
            assert_eq!(answer[8], expected, "{case}, in one go: {is_now}");
            scene.assert_unharmed(case);
        }
    }
}

#[test]
#[parallel]
fn a_key_opens_memory_only_for_what_it_says() {
    let scene = Scene::new();
    let key = scene.behave(OperationKind::Read, &scene.readable);
    let words = [list(true, &key, &[(0, 0, LONG)], LONG), write(REQUEST)].concat();
    assert_eq!(scene.ask(&words, kind::ANSWER)[8], why::ACCESS);
    scene.assert_unharmed("write with a key to read");

    let scene = Scene::new();
    let key = scene.behave(OperationKind::Write, &scene.writable);
    let words = [list(false, &key, &[(0, 0, LONG)], LONG), read(REQUEST)].concat();
    let stopped = scene.ask(&words, kind::STOPPED);
    assert_eq!((&stopped[..8], stopped[8]), (&REQUEST.to_le_bytes()[..], why::ACCESS));
    scene.assert_unharmed("read with a key to write");
}

#[test]
#[parallel]
fn words_against_the_protocol_end_the_peer() {
    let number = LIST.to_le_bytes();
    let header = |keys: u32, ranges: u32, bytes: u64| {
        let (keys, ranges) = (keys.to_le_bytes(), ranges.to_le_bytes());
        framed(kind::LIST, &[&number, &[1], &keys, &ranges, &bytes.to_le_bytes()])
    };
    let good = |key: &WireKey| list(true, key, &[(0, 0, LONG)], LONG);
    let section = |name: u64| {
        let (name, zero, bytes) = (name.to_le_bytes(), 0u64.to_le_bytes(), LONG.to_le_bytes());
        framed(kind::SECTION, &[&name, &zero, &bytes, &[0; 2], &65_536u32.to_le_bytes()])
    };
    type Words<'a> = Box<dyn Fn(&WireKey) -> Vec<u8> + 'a>;
    let cases: [(&str, Words<'_>); 14] = [
        ("a request of no list", Box::new(|_| write(REQUEST))),
        ("a read of a list to write", Box::new(|key| [good(key), read(REQUEST)].concat())),
        (
            "two requests of one name",
            Box::new(|key| [good(key), write(REQUEST), write(REQUEST)].concat()),
        ),
        ("a list told twice", Box::new(|key| [good(key), good(key)].concat())),
        ("a list of no keys", Box::new(|_| header(0, 0, 0))),
        ("more keys than ranges", Box::new(|_| header(2, 1, 9))),
        ("more ranges than anybody may tell", Box::new(|_| header(1, u32::MAX, 1 << 40))),
        (
            "a second list in the middle of one",
            Box::new(|_| [header(1, 2, 9), header(1, 2, 9)].concat()),
        ),
        (
            "more keys than announced",
            Box::new(|key| {
                [header(1, 2, 9), framed(kind::LIST_KEYS, &[&number, key, key])].concat()
            }),
        ),
        (
            "ranges of a key that is not there",
            Box::new(|key| list(true, key, &[(1, 0, LONG)], LONG)),
        ),
        ("ranges that do not sum up", Box::new(|key| list(true, key, &[(0, 0, LONG)], LONG + 1))),
        (
            "lengths whose sum wraps",
            Box::new(|key| list(true, key, &[(0, 0, u64::MAX), (0, 0, LONG + 1)], LONG)),
        ),
        ("a section of no grant", Box::new(|_| section(REQUEST))),
        (
            "a list forgotten with a write of it under way",
            Box::new(|key| [good(key), write(REQUEST), framed(kind::FORGET, &[&number])].concat()),
        ),
    ];
    for (case, words) in cases {
        let scene = Scene::new();
        let key = scene.behave(OperationKind::Write, &scene.writable);
        // The correct peer hears nothing of what was said in its name.
        scene.proxy.hold(Direction::ToConnector, kind::GRANT);
        scene.say(&words(&key));
        scene.assert_thrown_out(case);
        scene.assert_unharmed(case);
    }
}

/// As many writes as a peer may have, and none of them sends a byte.
#[test]
#[parallel]
fn memory_comes_back_from_writes_that_never_come() {
    let scene = Scene::new();
    let key = scene.behave(OperationKind::Write, &scene.writable);
    scene.proxy.hold(Direction::ToConnector, kind::GRANT);
    scene.say(&list(true, &key, &[(0, 0, LONG)], LONG));
    for request in 0..256 {
        scene.say(&write(REQUEST + (request << 32)));
    }
    assert!(scene.proxy.wait_until_held(PATIENCE), "the target grants them");
    let start = Instant::now();
    scene.target.unexport(&scene.writable).expect("the peer that keeps it is ended");
    assert!(start.elapsed() >= Duration::from_millis(900), "it has had its time");
    scene.assert_unharmed("writes that never come");
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it says so");
    line.split_whitespace().next().and_then(|it| it.parse().ok()).expect("a number")
}

/// Announced, and never told: nothing is set aside for it.
#[test]
#[serial]
fn a_list_that_is_announced_takes_no_memory() {
    let scene = Scene::new();
    let key = scene.behave(OperationKind::Write, &scene.writable);
    let before = resident_kib();
    let (number, ranges) = (LIST.to_le_bytes(), (1u32 << 20).to_le_bytes());
    let sum = (1u64 << 40).to_le_bytes();
    let words = [
        framed(kind::LIST, &[&number, &[1], &ranges, &ranges, &sum]),
        framed(kind::LIST_KEYS, &[&number, &key]),
    ];
    scene.say(&words.concat());
    // In order on the link: what comes behind it has been looked at when it is answered.
    scene.say(&framed(kind::LIST, &[&number, &[1], &ranges, &ranges, &sum]));
    scene.assert_thrown_out("a second list");
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 20_000, "{grown} KiB for a list that was never told");
    scene.assert_unharmed("a list without end");
}

/// Faster than they are read, past what the buffer takes.
#[test]
#[serial]
fn notifications_past_the_buffer_end_the_peer() {
    let scene = Scene::new();
    scene.proxy.hold(Direction::ToConnector, kind::ABORT);
    let before = resident_kib();
    let note = [framed(kind::NOTIFY, &[&60_000u32.to_le_bytes()]), vec![9; 60_000]].concat();
    for _ in 0..100 {
        scene.say(&note);
    }
    scene.assert_thrown_out("notifications");
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 20_000, "{grown} KiB for a buffer of 1 MiB");
    let mut notes = Vec::new();
    scene.target.poll_notifications(&mut notes, 1000).expect("no fork");
    assert!((1..=17).contains(&notes.len()), "{} were taken in", notes.len());
    scene.assert_unharmed("notifications");
}
