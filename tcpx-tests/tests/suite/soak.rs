#![allow(unsafe_code)]
//! A hub and eight peers: random sizes, random posting order, both directions, every fragment
//! shape. At random peers are killed, frozen for a while or for good, and leave, with several
//! threads of the hub taking leave of them at once; each is replaced by one of the same name.
//! Operations are cancelled. Every operation ends, and every byte is verified. At the end files,
//! threads, bounce pages and, after a long run, memory are what they were.
//!
//! Runs for ten seconds; `TCPX_SOAK_SECONDS=600` for a real soak. The seed is printed and can be
//! set with `TCPX_SOAK_SEED`.

mod fate;
mod lane;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tcpx_core::{PluginChoice, Session, SessionOptions};
use tcpx_testkit::{PATIENCE, Random, in_own_process};
use tcpx_tests::script::{Command, Options};

use self::lane::Lane;

use crate::peers_to_run;

const PEERS: u64 = 8;

#[derive(Debug, Default)]
struct Totals {
    messages: AtomicU64,
    bytes: AtomicU64,
    kills: AtomicU64,
    freezes: AtomicU64,
    frozen_for_good: AtomicU64,
    cancels: AtomicU64,
    departures: AtomicU64,
    /// Most that the hub's process has had resident in the first quarter of the time.
    warm_mib: AtomicU64,
}

fn first_peer(hub: &Session, conn_info: &[u8]) {
    let mut agent = peers_to_run::agent();
    agent.run(Command::New(Options { progress_thread: true, ..Options::default() }));
    agent.run(Command::Load { peer: "hub".into(), conn_info: conn_info.to_vec() });
    agent.send_command(Command::Connect { peer: "hub".into() });
    hub.accept("first").unwrap();
    agent.receive_reply(PATIENCE).unwrap();
    agent.send_command(Command::Disconnect { peer: "hub".into() });
    hub.disconnect("first").unwrap();
    agent.receive_reply(PATIENCE).unwrap();
}

fn resident_mib() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    (pages * rustix::param::page_size() as u64) >> 20
}

fn count(folder: &str) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
#[ignore = "deep: ten seconds of it, or TCPX_SOAK_SECONDS"]
fn soak() {
    in_own_process!();
    let seconds =
        std::env::var("TCPX_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let seed = std::env::var("TCPX_SOAK_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("TCPX_SOAK_SEED={seed} TCPX_SOAK_SECONDS={seconds}");
    let options = SessionOptions::default()
        .plugin(PluginChoice::Soft)
        .progress_thread(false)
        .name("hub")
        .channels(2)
        .chunk_bytes(131_072)
        .connect_timeout(PATIENCE)
        // Longer than a living peer takes to answer; a frozen one never does.
        .close_timeout(Duration::from_secs(20))
        .peer_timeout(Some(PATIENCE));
    let hub = Session::new(options).unwrap();
    let conn_info = hub.listen().unwrap();
    let expected = (count("/proc/self/fd"), count("/proc/self/task"));
    first_peer(&hub, &conn_info);
    let end = Instant::now() + Duration::from_secs(seconds);
    let warm = Instant::now() + Duration::from_secs(seconds / 4);
    let (accepting, totals) = (Mutex::new(()), Totals::default());
    thread::scope(|scope| {
        for number in 0..PEERS {
            let mut lane = Lane {
                hub: &hub,
                conn_info: &conn_info,
                accepting: &accepting,
                name: format!("peer-{number}"),
                random: Random::new(seed * 1000 + number),
                totals: &totals,
            };
            scope.spawn(move || {
                let mut agent = lane.start_peer();
                while Instant::now() < end {
                    agent = lane.round(agent);
                    if Instant::now() < warm {
                        lane.totals.warm_mib.fetch_max(resident_mib(), Ordering::Relaxed);
                    }
                }
                agent.send_command(Command::Disconnect { peer: "hub".into() });
                lane.hub.disconnect(&lane.name).unwrap();
                agent.receive_reply(PATIENCE).unwrap();
            });
        }
    });
    let stats = hub.stats();
    let messages = totals.messages.load(Ordering::Relaxed);
    println!(
        "{totals:?}, {} peers failed, {} MiB resident at the end",
        stats.peers_failed,
        resident_mib()
    );
    if seconds >= 120 {
        // The C library keeps what each of very many threads has freed. That is not counted.
        // SAFETY: it gives free memory back to the system, and touches none that is in use.
        unsafe { libc::malloc_trim(0) };
        println!("{} MiB resident, trimmed", resident_mib());
        assert!(resident_mib() <= totals.warm_mib.into_inner() + 32, "memory grows");
    }
    assert!(messages > PEERS && stats.peers.is_empty());
    assert_eq!(stats.alarms, [], "nothing was wrong");
    // The threads that read the peers' answers end by themselves, a moment after their peers, and
    // so do those of the session that have nothing more to do.
    let give_up_at = Instant::now() + PATIENCE;
    let footprint = || (count("/proc/self/fd"), count("/proc/self/task"));
    while footprint() != expected && Instant::now() < give_up_at {
        thread::yield_now();
    }
    assert_eq!(footprint(), expected);
    let pool = tcpx_softnet::pool_stats();
    assert_eq!(pool.free_pages, pool.total_pages, "bounce pages were lost");
}
