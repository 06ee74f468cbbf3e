//! Tests of the retransmits and round-trip times that `tcpx perf` shows.

use serde_json::Value;
use tcpx_tests::{Network, Side};

use crate::tcpx::{Server, Tcpx, client};

fn retransmits(object: &Value) -> u64 {
    let tcp = &object["tcp"];
    let figure = |name: &str| tcp[name].as_f64().unwrap_or_else(|| panic!("{name}: {object}"));
    let (mean, longest) = (figure("rtt_us_mean"), figure("rtt_us_max"));
    assert!(0.0 < mean && mean <= longest, "{object}");
    tcp["retransmits"].as_u64().unwrap()
}

/// Payload on channels, small messages on the control link, and operations.
#[test]
fn round_trips_take_time_over_every_path() {
    for flags in
        [&["--size", "1M"][..], &["--latency", "--size", "64"], &["--op", "read", "--size", "64K"]]
    {
        let words = [&["perf", "--json", "--iters", "3", "--warmup", "0"], flags].concat();
        retransmits(&Tcpx::new(&words).run().json());
    }
}

/// The same figures in each format.
#[test]
fn the_table_and_the_lines_for_spreadsheets_have_them() {
    let words = ["perf", "--size", "64K", "--iters", "3"];
    let table = Tcpx::new(&words).run();
    let line = table.stdout.lines().find(|line| line.starts_with("64 KiB: retransmits "));
    assert!(line.is_some_and(|line| line.contains(", RTT: mean ")), "{table}");
    let lines = Tcpx::new(&[&words[..], &["--csv"]].concat()).run();
    let (names, values) = lines.stdout.trim_end().split_once('\n').unwrap();
    let place = names.split(',').position(|name| name == "rtt_us_mean").unwrap();
    // Only one field has commas in it, and it stands before.
    let from_the_end = names.split(',').count() - place;
    let value: f64 = values.rsplit(',').nth(from_the_end - 1).unwrap().parse().unwrap();
    assert!(value > 0.0, "{lines}");
}

#[test]
fn lost_packets_are_counted_as_sent_again() {
    let Some(network) = Network::with_filters_or_skip() else { return };
    network.lose(3).expect("packets can be lost");
    let server = network.at(Side::Right, || Server::start(&["perf", "server", "--timeout", "120"]));
    let address = format!("10.231.0.2:{}", server.port);
    let words = ["perf", "--json", "--size", "4M", "--iters", "10", "--timeout", "120"];
    let measured = network.at(Side::Left, || client(&address, &words).run().json());
    server.finish();
    // Of 48 MiB hundreds are lost. On a busy machine a few are sent again without any loss.
    assert!(retransmits(&measured) > 50, "{measured}");
}
