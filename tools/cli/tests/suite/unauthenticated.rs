//! Unauthenticated connections at a server's port all the time, while its clients are far away.

use std::time::{Duration, Instant};

use tcpx_tests::{Network, Side, StrayConnections};

use crate::tcpx::{Server, Signal, client};

const ROUND_TRIP: Duration = Duration::from_millis(60);
const CONNECTIONS_A_SECOND: u32 = 600;
/// One after the other.
const CLIENTS: usize = 3;

#[test]
#[ignore = "deep: network namespaces"]
fn far_clients_are_served_among_unauthenticated_connections() {
    let Some(network) = Network::afar_or_skip(ROUND_TRIP) else { return };
    let server = network.at(Side::Right, || Server::start(&["perf", "server", "--forever"]));
    let address = format!("10.231.0.2:{}", server.port);
    let strays = network.at(Side::Left, || {
        StrayConnections::start(address.parse().unwrap(), Vec::new(), CONNECTIONS_A_SECOND)
    });
    strays.wait_until_all_there();
    let words = ["perf", "--size", "64K", "--iters", "3"];
    let serve_one = |_| {
        let began = Instant::now();
        let served = client(&address, &words).run();
        (served, began.elapsed())
    };
    let runs: Vec<_> = network.at(Side::Left, || (0..CLIENTS).map(serve_one).collect());
    let (failed, took): (Vec<_>, Vec<_>) =
        runs.iter().partition(|(served, _)| served.status != Some(0));
    let (count, a_second) = (strays.count(), strays.a_second());
    let out = strays.refused();
    assert!(failed.is_empty(), "{} of {CLIENTS}: {failed:?}", failed.len());
    let took: Vec<_> = took.iter().map(|(_, took)| took).collect();
    println!("{count} came, {a_second:.0} a second, {out} turned out; clients took {took:?}");
    let busy = network.at(Side::Left, || {
        let idle = ["perf", "--latency", "--idle-ms", "100", "--iters", "100000"];
        let long = client(&address, &idle).env("RUST_LOG", "tcpx=debug").start();
        long.wait_for_line("measuring");
        let busy = client(&address, &words).run();
        long.process.signal(Signal::KILL);
        long.finish();
        busy
    });
    busy.expect_error(&["the server is busy with 10.231.0.1:", "try again later"]);
    drop(strays);
    server.running.process.signal(Signal::TERM);
    let finished = server.finish();
    let served = finished.stdout.matches("recv GB/s").count();
    assert!(served >= CLIENTS, "{finished}");
}
