//! First READ of 64 MiB from a peer 0.5 ms away, and one after a rest, beside warm ones: what
//! connecting, first windows of TCP, its slow start after idle time, and cold threads cost.
//!
//! `cargo bench -p tcpx-tests --bench first_use [-- SECONDS]`: SECONDS of rest, 3 unless it says
//! so; 600 is what may lie between two requests. All pairs of sessions rest at once. The hosts are
//! network namespaces, and the link is a pair of TUN interfaces and threads of this program. Needs
//! root, `ip` and /dev/net/tun. The bar: connecting and the first READ take at most 1.5 times the
//! tenth READ, and so does one after a rest.

#![allow(clippy::print_stdout, reason = "the figures are what the bench is for")]

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use tcpx_core::{MemoryRange, MemoryType, Operation, OperationKind, RemoteRange, Session};
use tcpx_testkit::PATIENCE;
use tcpx_tests::sessions::{export, join_by, lively, memory, open};
use tcpx_tests::{Network, Side};

const ROUND_TRIP: Duration = Duration::from_micros(500);
const BYTES: u64 = 64 << 20;
/// Longer than TCP keeps its window without traffic, in seconds.
const REST: u64 = 3;
const READS: usize = 10;
const RUNS: usize = 7;

/// Does something on one of two hosts. The threads of sessions that it opens stay there.
fn on<T: Send>(network: &Network, side: Side, work: impl FnOnce() -> T + Send) -> T {
    let there = || {
        network.enter(side).expect("the namespace is there");
        work()
    };
    thread::scope(|scope| scope.spawn(there).join().expect("no panic"))
}

fn prepare(left: &Session, right: &Session) -> Operation {
    let content = vec![7; BYTES as usize];
    let [here, there] = [left, right].map(|it| memory(it, MemoryType::Host, &content));
    let key = export(right, there);
    let local = [MemoryRange { memory: here, offset: 0, bytes: BYTES }];
    let remote = [RemoteRange { key: &key, offset: 0, bytes: BYTES }];
    left.prepare("right", OperationKind::Read, &local, &remote).expect("it fits")
}

fn read(operation: &Operation) -> Duration {
    let began = Instant::now();
    operation.post(None).expect("it is not under way");
    operation.wait(Some(PATIENCE)).expect("it comes");
    began.elapsed()
}

/// Two sessions that have read from each other.
struct Used {
    /// Times of connecting and the first READ, and of the tenth.
    times: [Duration; 2],
    operation: Operation,
    /// Sessions of both ends, which live as long as the operation.
    _ends: [Session; 2],
}

fn measure(network: &Network) -> Used {
    let of = |name: &str, number: u8| {
        let address = [10, 231, 0, number];
        let listen = SocketAddr::from((address, 0));
        lively().name(name).listen(listen).advertise(vec![address.into()])
    };
    let left = on(network, Side::Left, || open(of("left", 1)));
    let (right, info) = on(network, Side::Right, || {
        let right = open(of("right", 2));
        let info = right.listen().expect("it listens");
        (right, info)
    });
    let began = Instant::now();
    on(network, Side::Left, || join_by((&left, "left"), (&right, "right"), &info));
    let connected = began.elapsed();
    let operation = prepare(&left, &right);
    let reads: Vec<_> = (0..READS).map(|_| read(&operation)).collect();
    let times = [connected + reads[0], reads[READS - 1]];
    Used { times, operation, _ends: [left, right] }
}

fn main() {
    let Some(network) = Network::afar_or_skip(ROUND_TRIP) else { return };
    let rest = std::env::args().find_map(|word| word.parse().ok()).unwrap_or(REST);
    let used: Vec<_> = (0..RUNS).map(|_| measure(&network)).collect();
    thread::sleep(Duration::from_secs(rest));
    let rested = used.iter().map(|it| read(&it.operation));
    let times: Vec<_> =
        used.iter().zip(rested).map(|(it, rested)| [it.times[0], it.times[1], rested]).collect();
    let after = format!("after {rest} s of rest");
    for (at, what) in ["connecting and the first READ", "the tenth", &after].iter().enumerate() {
        let mut column: Vec<_> = times.iter().map(|run| run[at].as_secs_f64() * 1e3).collect();
        column.sort_by(f64::total_cmp);
        println!("{what}: {:.0} ms, of {column:.0?}", column[RUNS / 2]);
    }
}
