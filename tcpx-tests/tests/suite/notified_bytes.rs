//! A notification between two sessions is shown after every byte of its write is in place, whatever
//! rests on the route: sockets of the channels, bounce pages, threads that copy, the link. The
//! program that is shown it reads the memory at once; each write brings bytes of its own.

use std::net::Ipv4Addr;

use tcpx_core::{
    CopyThreads, LinkBytes, MemoryId, MemoryRange, MemoryType, Notification, Operation,
    OperationKind, PluginChoice, RemoteRange, Session, SessionOptions,
};
use tcpx_testkit::{PATIENCE, in_own_process, process};
use tcpx_tests::proxy::{Direction, LinkProxy, kind};
use tcpx_tests::sessions::{connect, contents, drop_all, export, join_by, lively, memory, open};

/// Bytes of the memory that is written. Between two pairs as much is left alone.
const BYTES: usize = 600_000;

/// How bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DataRoute {
    Inline,
    LinkParts,
    InPlace,
    Gathered,
}

impl DataRoute {
    const ALL: [Self; 4] = [Self::Inline, Self::LinkParts, Self::InPlace, Self::Gathered];

    /// Pairs that a write has, and bytes of each.
    fn pairs(self) -> (u64, u64) {
        match self {
            Self::Inline => (4, 1000),
            Self::LinkParts | Self::InPlace => (1, BYTES as u64 / 2),
            Self::Gathered => (BYTES as u64 / 2 / 1000, 1000),
        }
    }

    fn options(self) -> SessionOptions {
        let most = match self {
            Self::Inline | Self::LinkParts => LinkBytes::Most(u64::MAX),
            Self::InPlace | Self::Gathered => LinkBytes::Most(0),
        };
        let options = lively().plugin(PluginChoice::Path(process::library(FAULTY)));
        options.link_bytes(most).channels(3).chunk_bytes(16 << 10).preflight(false)
    }
}

/// The software plugin that does as the environment asks.
const FAULTY: &str = "libnccl_net_tcpx_faulty.so";

/// A writer, and the session that receives its notifications.
struct NotifiedPair {
    left: Session,
    right: Session,
    write: Operation,
    here: MemoryId,
    there: MemoryId,
    route: DataRoute,
}

impl NotifiedPair {
    fn new([left, right]: [Session; 2], route: DataRoute) -> Self {
        let here = memory(&left, MemoryType::Device, &vec![0; BYTES]);
        let there = memory(&right, MemoryType::Device, &vec![0; BYTES]);
        let key = export(&right, there);
        let (count, bytes) = route.pairs();
        let offsets = || (0..count).map(|index| 2 * index * bytes);
        let local: Vec<_> =
            offsets().map(|offset| MemoryRange { memory: here, offset, bytes }).collect();
        let remote: Vec<_> =
            offsets().map(|offset| RemoteRange { key: &key, offset, bytes }).collect();
        let write = left.prepare("right", OperationKind::Write, &local, &remote);
        let write = write.expect("it fits");
        Self { left, right, write, here, there, route }
    }

    /// Writes bytes of this generation, with a notification.
    fn post(&self, generation: u8, note: &[u8]) {
        self.left.write_memory(self.here, 0, &vec![generation; BYTES]).expect("nothing uses it");
        self.write.post(Some(note)).expect("it is not under way");
    }

    fn no_notification(&self) {
        let mut none = Vec::new();
        assert_eq!(self.right.poll_notifications(&mut none, 1).expect("no fork"), 0, "{none:?}");
    }

    /// Waits for the notification, and looks at every byte.
    fn check_notified(&self, generation: u8) -> Notification {
        let mut taken = Vec::new();
        self.right.wait_notifications(&mut taken, 1, Some(PATIENCE)).expect("one comes");
        let came = contents(&self.right, self.there, BYTES);
        let (count, bytes) = self.route.pairs();
        for index in 0..count {
            let from = (2 * index * bytes) as usize;
            let early = came[from..from + bytes as usize].iter().position(|it| *it != generation);
            assert_eq!(early, None, "{:?}: a byte of pair {index} comes later", self.route);
        }
        self.write.wait(Some(PATIENCE)).expect("it succeeds");
        taken.remove(0)
    }

    fn finish(self) {
        let on_link = self.right.stats().total.one_sided.link_bytes_received > 0;
        assert_eq!(
            on_link,
            matches!(self.route, DataRoute::Inline | DataRoute::LinkParts),
            "{:?}",
            self.route
        );
        let Self { left, right, write, .. } = self;
        drop(write);
        drop_all([left, right]);
    }
}

fn written_while_lanes_rest(generations: u8) {
    for route in DataRoute::ALL {
        for copy_threads in [0, 2] {
            let options = route.options().copy_threads(CopyThreads::Count(copy_threads));
            let both = [open(options.clone()), open(options)];
            connect(&both[0], &both[1]);
            let ends = NotifiedPair::new(both, route);
            for generation in 1..=generations {
                ends.post(generation, &[generation]);
                assert_eq!(ends.check_notified(generation).bytes, [generation]);
            }
            ends.finish();
        }
    }
}

/// Sockets rest at random, each for itself, and pages seem to have run out.
#[test]
fn a_notification_waits_for_bytes_whose_sockets_rest() {
    in_own_process!("TCPX_SOFT_SHAPE" = "delay,again,starve", "TCPX_SOFT_SEED" = "1");
    written_while_lanes_rest(10);
}

#[test]
#[ignore = "deep: many times"]
fn a_notification_waits_for_bytes_whatever_rests() {
    in_own_process!("TCPX_SOFT_SHAPE" = "all", "TCPX_SOFT_SEED" = "2");
    written_while_lanes_rest(80);
}

/// The next bytes, or the frame where the next chunks belong, are held on the link.
#[test]
fn a_notification_waits_for_what_is_held_on_the_link() {
    in_own_process!("TCPX_SOFT_SEED" = "3");
    for (route, frame) in [
        (DataRoute::LinkParts, kind::LINK_CHUNK),
        (DataRoute::InPlace, kind::CHUNKS),
        (DataRoute::Gathered, kind::CHUNKS),
    ] {
        let [left, right] = [open(route.options()), open(route.options())];
        let info = right.listen().expect("it listens");
        let proxy = LinkProxy::start(tcpx_tests::control_addresses(&info)[0]);
        let port = proxy.address().port();
        let info = tcpx_tests::with_address(&info, Ipv4Addr::LOCALHOST, port);
        join_by((&left, "left"), (&right, "right"), &info);
        let ends = NotifiedPair::new([left, right], route);
        for generation in 1..=5 {
            proxy.hold(Direction::ToListener, frame);
            // The proxy knows of no bytes behind a request.
            ends.post(generation, b"");
            assert!(proxy.wait_until_held(PATIENCE), "{route:?}: the frame comes");
            ends.no_notification();
            proxy.release();
            assert_eq!(ends.check_notified(generation).bytes, b"");
        }
        ends.finish();
    }
}
