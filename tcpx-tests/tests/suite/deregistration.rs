#![allow(unsafe_code)]
//! Deregistered memory is touched by nothing: whatever was under way, and whatever has become of
//! the peer. After each deregistration the pages are taken away from the process, so that an access
//! of the library ends it, and one of the system ends a connection; then traffic goes on.

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tcpx_core::{
    Access, Encryption, Error, LinkBytes, MemoryAddress, MemoryId, MemoryRange, MemoryType,
    Operation, OperationKind, OperationStatus, Post, PostOptions, RemoteKey, RemoteRange, Session,
    SessionOptions, Transfer,
};
use tcpx_testkit::{PATIENCE, scaled, until};
use tcpx_tests::proxy::LinkProxy;
use tcpx_tests::sessions::{export, join_by, open, soft};
use tcpx_tests::{control_addresses, with_address};

const BYTES: usize = 12 << 20;
const TAG: i64 = 7;

/// Memory of the program, which it can make unreachable.
struct Pages {
    start: NonNull<u8>,
}

impl Pages {
    fn new() -> Self {
        // SAFETY: a new mapping of anonymous memory, wherever there is room.
        let start = unsafe {
            let (protection, flags) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            libc::mmap(std::ptr::null_mut(), BYTES, protection, flags, -1, 0)
        };
        assert_ne!(start, libc::MAP_FAILED);
        Self { start: NonNull::new(start.cast()).expect("not zero") }
    }

    fn protect(&self, protection: i32) {
        // SAFETY: the mapping is this one's own, and nothing in this program refers into it.
        let code = unsafe { libc::mprotect(self.start.as_ptr().cast(), BYTES, protection) };
        assert_eq!(code, 0);
    }

    fn contents(&self) -> Vec<u8> {
        // SAFETY: the memory is readable, and was deregistered: nothing writes it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), BYTES) }.to_vec()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: as in `protect`; it is not used any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), BYTES) };
    }
}

/// A session driven by a thread of the test, unless it is frozen.
struct DrivenSession {
    session: Arc<Session>,
    is_frozen: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl DrivenSession {
    fn new(options: SessionOptions) -> Self {
        let session = Arc::new(open(options));
        let (is_frozen, is_over) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (driven, frozen, over) =
            (Arc::clone(&session), Arc::clone(&is_frozen), Arc::clone(&is_over));
        let thread = thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                if frozen.load(Ordering::Relaxed) || !driven.progress() {
                    thread::park_timeout(Duration::from_millis(1));
                }
            }
        });
        Self { session, is_frozen, is_over, thread: Some(thread) }
    }
}

impl Deref for DrivenSession {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl Drop for DrivenSession {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().into_iter().for_each(|thread| thread.join().expect("no panic"));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    Well,
    /// It does nothing any more, but its system does.
    Frozen,
    /// Its link ends.
    Cut,
}

/// The user of the memory, and the purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemoryUse {
    Own(OperationKind),
    Peers(OperationKind),
    Send,
    Receive,
}

/// What the program does before it deregisters.
#[derive(Clone, Copy, Debug)]
enum EndOfUse {
    Release,
    Cancel,
    Expiry,
    Nothing,
}

const USES: [MemoryUse; 6] = [
    MemoryUse::Own(OperationKind::Read),
    MemoryUse::Own(OperationKind::Write),
    MemoryUse::Peers(OperationKind::Read),
    MemoryUse::Peers(OperationKind::Write),
    MemoryUse::Send,
    MemoryUse::Receive,
];
const ENDS_OF_USE: [EndOfUse; 4] =
    [EndOfUse::Release, EndOfUse::Cancel, EndOfUse::Expiry, EndOfUse::Nothing];

/// Two sessions; the first is under test.
struct SessionPair {
    left: Session,
    right: DrivenSession,
    proxy: Option<LinkProxy>,
    pages: Pages,
    ours: MemoryId,
    theirs: MemoryId,
    our_key: RemoteKey,
    their_key: RemoteKey,
}

fn prepare(
    from: (&Session, &str),
    kind: OperationKind,
    own: MemoryId,
    key: &RemoteKey,
) -> Operation {
    // Pieces that lie apart, and are gathered where that pays.
    let starts = (0..BYTES as u64).step_by(256 << 10);
    let local: Vec<_> = starts
        .clone()
        .map(|offset| MemoryRange { memory: own, offset, bytes: 200 << 10 })
        .collect();
    let remote: Vec<_> =
        starts.map(|offset| RemoteRange { key, offset, bytes: 200 << 10 }).collect();
    from.0.prepare(from.1, kind, &local, &remote).expect("it fits")
}

/// What is under way.
enum PendingUse {
    Operation(Operation),
    Transfer(Transfer),
}

impl PendingUse {
    fn is_over(&self) -> bool {
        match self {
            Self::Operation(operation) => !matches!(operation.status(), OperationStatus::Active),
            Self::Transfer(transfer) => !matches!(transfer.is_complete(), Ok(false)),
        }
    }
}

impl SessionPair {
    fn new(peer: Peer, way: LinkBytes, kind: MemoryType) -> Self {
        // What a peer that is well uses is not waited for in vain.
        let close_timeout =
            if peer == Peer::Well { PATIENCE } else { scaled(Duration::from_millis(200)) };
        let options = soft()
            .link_bytes(way)
            .channels(2)
            .encryption(if peer == Peer::Cut { Encryption::Require } else { Encryption::Off })
            .close_timeout(close_timeout);
        let left = open(options.clone().progress_thread(true));
        let right = DrivenSession::new(options);
        let mut info = right.listen().expect("it listens");
        let proxy = (peer == Peer::Cut).then(|| LinkProxy::of_records(control_addresses(&info)[0]));
        if let Some(proxy) = &proxy {
            info = with_address(&info, [127, 0, 0, 1].into(), proxy.address().port());
        }
        join_by((&left, "left"), (&right, "right"), &info);
        let pages = Pages::new();
        let address = MemoryAddress::from_ptr(pages.start.as_ptr());
        // SAFETY: the pages stay until after they were deregistered, and this program touches them
        // only then.
        let ours = unsafe { left.register_memory(address, BYTES as u64, kind, Access::ReadWrite) };
        let ours = ours.expect("it fits");
        let theirs = right.allocate(BYTES as u64, kind).expect("there is room");
        let (our_key, their_key) = (export(&left, ours), export(&right, theirs));
        Self { left, right, proxy, pages, ours, theirs, our_key, their_key }
    }

    fn begin(
        &self,
        what: MemoryUse,
        note: Option<&[u8]>,
        time: Option<Duration>,
    ) -> Vec<PendingUse> {
        let post = |operation: Operation, time: Option<Duration>| {
            let options =
                note.map_or(PostOptions::default(), |it| PostOptions::default().notification(it));
            let options = time.map_or(options, |time| options.timeout(time));
            operation.post_with(options).expect("it is not under way");
            PendingUse::Operation(operation)
        };
        let message = |memory| Post { memory, offset: 0, bytes: BYTES as u64, tag: TAG };
        let (left, right) = ((&self.left, "right"), (&*self.right, "left"));
        match what {
            MemoryUse::Own(kind) => {
                vec![post(prepare(left, kind, self.ours, &self.their_key), time)]
            }
            MemoryUse::Peers(kind) => {
                vec![post(prepare(right, kind, self.theirs, &self.our_key), None)]
            }
            MemoryUse::Send | MemoryUse::Receive => {
                let here = self.left.create_transfer("right").expect("it is up");
                let there = self.right.create_transfer("left").expect("it is up");
                here.set_timeout(time).expect("no fork");
                let (here_posted, there_posted) = match what {
                    MemoryUse::Send => {
                        (here.post_send(message(self.ours)), there.post_recv(message(self.theirs)))
                    }
                    _ => {
                        (here.post_recv(message(self.ours)), there.post_send(message(self.theirs)))
                    }
                };
                here_posted.and(there_posted).expect("it fits");
                vec![PendingUse::Transfer(here), PendingUse::Transfer(there)]
            }
        }
    }

    /// Bytes that the two have moved.
    fn moved(&self) -> u64 {
        let total = self.left.stats().total;
        let on_link = total.one_sided.link_bytes_sent + total.one_sided.link_bytes_received;
        total.send.bytes + total.recv.bytes + on_link
    }

    /// Waits until bytes move, or time was too short for that.
    fn wait_for_first_bytes(&self, under_way: &[PendingUse]) {
        until("bytes move", || self.moved() > 0 || under_way.iter().any(PendingUse::is_over));
    }

    fn harm(&self, peer: Peer) {
        match peer {
            Peer::Well => {}
            Peer::Frozen => self.right.is_frozen.store(true, Ordering::Relaxed),
            Peer::Cut => self.proxy.iter().for_each(LinkProxy::cut),
        }
    }
}

/// Deregisters in one case. Returns the pair, with what the memory held then.
fn deregister(
    number: usize,
    (peer, way, kind, what): (Peer, LinkBytes, MemoryType, MemoryUse),
) -> (SessionPair, Vec<u8>) {
    let before = ENDS_OF_USE[number % ENDS_OF_USE.len()];
    let (has_note, is_early) = ((number / 2).is_multiple_of(2), (number / 3).is_multiple_of(2));
    let case = (peer, way, kind, what, before, has_note, is_early);
    let pair = SessionPair::new(peer, way, kind);
    if is_early {
        pair.harm(peer);
    }
    let time = matches!(before, EndOfUse::Expiry).then_some(Duration::from_millis(2));
    let mut under_way = match (peer, is_early, what) {
        // Nothing can be posted to a peer that has ended.
        (Peer::Cut, true, _) => Vec::new(),
        _ => pair.begin(what, has_note.then_some(b"a note"), time),
    };
    if !is_early {
        pair.wait_for_first_bytes(&under_way);
        pair.harm(peer);
    }
    match (before, under_way.first()) {
        (EndOfUse::Release, _) => under_way.truncate(0),
        (EndOfUse::Cancel, Some(PendingUse::Operation(operation))) => {
            operation.cancel().expect("no fork")
        }
        (EndOfUse::Cancel, Some(PendingUse::Transfer(transfer))) => transfer.cancel(),
        _ => {}
    }
    let deregistered = pair.left.deregister_memory(pair.ours);
    assert!(deregistered.is_ok(), "{case:?}: {deregistered:?}");
    let contents = pair.pages.contents();
    pair.pages.protect(libc::PROT_NONE);
    pair.right.is_frozen.store(false, Ordering::Relaxed);
    if peer == Peer::Well {
        refuse(&pair);
    }
    (pair, contents)
}

/// A peer's request to the memory is refused, and its connection lives.
fn refuse(pair: &SessionPair) {
    let write = prepare((&pair.right, "left"), OperationKind::Write, pair.theirs, &pair.our_key);
    write.post(None).expect("the peer is up");
    let refused = write.wait(Some(PATIENCE)).expect_err("it was taken back");
    assert!(matches!(refused, Error::Remote { .. }), "{refused}");
}

/// All uses by all peers, each by one way and of one kind of memory.
#[test]
fn nothing_touches_memory_after_its_deregistration() {
    deregister_all(4, Duration::from_millis(300));
}

#[test]
#[ignore = "deep: also by each way, and of each kind of memory"]
fn nothing_touches_memory_after_its_deregistration_whatever_its_kind() {
    deregister_all(1, Duration::from_secs(3));
}

/// Deregisters in one case of `step`, and lets traffic go on for `traffic_time`.
fn deregister_all(step: usize, traffic_time: Duration) {
    let ways = [LinkBytes::Most(0), LinkBytes::Most(u64::MAX)];
    let kinds = [MemoryType::Host, MemoryType::Device];
    let mut cases = Vec::new();
    for (number, peer) in [Peer::Well, Peer::Frozen, Peer::Cut].into_iter().enumerate() {
        for (place, what) in USES.into_iter().enumerate() {
            // The first of four differs from row to row.
            for at in 0..4 {
                let at = at + number + place;
                cases.push((peer, ways[at / 2 % 2], kinds[at % 2], what));
            }
        }
    }
    let mut scenes = Vec::new();
    for case in cases.into_iter().step_by(step) {
        scenes.push((case.0, deregister(scenes.len(), case)));
    }
    let (ends_at, mut turns) = (Instant::now() + traffic_time, 0);
    while Instant::now() < ends_at {
        for (_, (pair, _)) in scenes.iter().filter(|(peer, _)| *peer == Peer::Well) {
            let more = pair.left.allocate(1 << 20, MemoryType::Host).expect("there is room");
            let local = [MemoryRange { memory: more, offset: 0, bytes: 1 << 20 }];
            let remote = [RemoteRange { key: &pair.their_key, offset: 0, bytes: 1 << 20 }];
            let read = pair.left.prepare("right", OperationKind::Read, &local, &remote);
            let read = read.expect("it fits");
            read.post(None).expect("the peer is up");
            read.wait(Some(PATIENCE)).expect("all is well");
            pair.left.deregister_memory(more).expect("it is idle");
            turns += 1;
        }
    }
    assert!(turns > 0);
    for (peer, (pair, contents)) in &scenes {
        pair.pages.protect(libc::PROT_READ);
        assert!(pair.pages.contents() == *contents, "{peer:?}: it was written");
    }
}
