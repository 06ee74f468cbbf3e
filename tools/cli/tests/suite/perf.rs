//! Tests of `tcpx perf` between two processes: what it prints, and that every byte counts.

use crate::tcpx::{Server, Tcpx};
use serde_json::Value;

fn assert_rates(figures: &Value) {
    let rate = |name: &str| figures[name].as_f64().unwrap();
    let (low, median, high) = (rate("gb_per_s_min"), rate("gb_per_s_median"), rate("gb_per_s_max"));
    assert!(0.0 < low && low <= median && median <= high, "{figures}");
}

#[test]
fn json_has_every_figure_and_both_views() {
    let object = Tcpx::new(&["perf", "--json", "--size", "1M", "--iters", "3"]).run().json();
    for (name, expected) in [
        ("transport", Value::from("software")),
        ("plugin_name", "TCPXSoft_v7".into()),
        ("memory", "emulated".into()),
        ("unpack", "host".into()),
        ("size_bytes", (1 << 20).into()),
        ("chunk_bytes", (512 << 10).into()),
        ("iterations", 3.into()),
        ("verified", true.into()),
    ] {
        assert_eq!(object[name], expected, "{name}");
    }
    assert_rates(&object["receiver"]);
    assert_eq!(object["receiver"]["iteration_ms"].as_array().unwrap().len(), 3);
    let median = object["receiver"]["gb_per_s_median"].as_f64().unwrap();
    let ops_per_s = object["ops_per_s"].as_f64().unwrap();
    assert!((ops_per_s * f64::from(1 << 20) / 1e9 / median - 1.0).abs() < 1e-6, "{object}");
    for name in ["client_cores", "server_cores", "core_s_per_gb"] {
        assert!(object["processor"][name].as_f64().unwrap() > 0.0, "{name}: {object}");
    }
    assert!(object.get("raw_socket").is_none() && object.get("sweep").is_none(), "{object}");
}

#[test]
fn odd_sizes_chunks_and_kinds_of_memory_are_verified() {
    for (flags, size) in [
        (&["--size", "10000019", "--chunk", "65536"][..], 10_000_019),
        (&["--size", "10000019", "--memory", "host"], 10_000_019),
        (&["--size", "1"], 1),
        (&["--size", "4097", "--chunk", "4096", "--channels", "5"], 4097),
    ] {
        let words = [&["perf", "--json", "--iters", "2", "--warmup", "0"], flags].concat();
        let object = Tcpx::new(&words).run().json();
        assert_eq!((&object["verified"], &object["size_bytes"]), (&true.into(), &size.into()));
    }
}

#[test]
fn a_table_without_json() {
    let finished = Tcpx::new(&["perf", "--size", "1M", "--iters", "2"]).run();
    assert_eq!(finished.status, Some(0), "{finished}");
    let (constants, table) = finished.stdout.split_once("\n\n").unwrap();
    let constants = constants.replace('\n', " ");
    for fact in ["chunk 512 KiB", " channels", "software transport", "unpack host", "2 iterations"]
    {
        assert!(constants.contains(fact), "{fact}: {finished}");
    }
    assert!(table.contains("busy cores: client ") && table.contains("core s/GB"), "{finished}");
    let lines: Vec<&str> = table.lines().collect();
    for heading in ["size", "recv GB/s", "send GB/s", "p99", "ops/s", "verified"] {
        assert!(lines[0].contains(heading), "{heading}: {finished}");
    }
    for cell in ["1 MiB", "yes"] {
        assert!(lines[1].contains(cell), "{cell}: {finished}");
    }
    let p99 = lines[0].find("p99").unwrap();
    assert_eq!(&lines[1][p99..p99 + 3], "  -", "two iterations have none: {finished}");
    assert!(finished.stderr.is_empty(), "no terminal, no bar, no log: {finished}");
    assert!(finished.stdout.lines().all(|line| line.chars().count() <= 80), "{finished}");
}

#[test]
fn the_time_of_a_run_is_told_by_stage() {
    let words = ["perf", "--size", "5000001", "--iters", "3", "--memory", "emulated"];
    let stages = &Tcpx::new(&[&words[..], &["--json"]].concat()).run().json()["stages"];
    let share = |name: &str| {
        let share = stages[name].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&share), "{name}: {stages}");
        share
    };
    let parts =
        ["receiver_network", "receiver_network_and_unpack", "receiver_unpack", "receiver_submit"];
    let sum: f64 = parts.into_iter().map(share).sum();
    assert!((0.999..=1.001).contains(&sum), "{stages}");
    assert!(share("receiver_submit") > 0.0, "emulated memory is copied while it is submitted");
    assert_eq!((share("sender_copies_down"), share("receiver_copies_up")), (0.0, 0.0));
    assert!(stages["bound_by"].is_string(), "{stages}");

    let table = Tcpx::new(&words).run();
    assert!(table.stdout.contains("  bound by  "), "{table}");
    assert!(table.stdout.contains(": the receiver waited for the network"), "{table}");
    let sizes = Tcpx::new(&["perf", "--size", "1M,2M", "--iters", "3"]).run();
    assert!(!sizes.stdout.contains("waited for the network "), "only in the column: {sizes}");
}

#[test]
fn a_baseline_is_measured_and_compared() {
    let words = ["perf", "--json", "--baseline", "--size", "3000001", "--iters", "3"];
    for (sockets, channels) in [("1", "2"), ("2", "3")] {
        let object = Tcpx::new(&[&words[..], &["--channels", channels]].concat())
            .env("NCCL_NSOCKS_PERTHREAD", sockets)
            .run()
            .json();
        assert_rates(&object["raw_socket"]);
        let median = |end: &str| object[end]["gb_per_s_median"].as_f64().unwrap();
        let ratio = object["ratio_to_raw"].as_f64().unwrap();
        assert!(
            (ratio - median("receiver") / median("raw_socket")).abs() < 1e-3 * ratio,
            "{object}"
        );
        assert_eq!(object["verified"], true);
    }
}

#[test]
fn a_sweep_has_every_size() {
    let words = ["perf", "--json", "--sweep", "--iters", "1", "--warmup", "0", "--memory", "host"];
    let object = Tcpx::new(&words).run().json();
    let sweep = object["sweep"].as_array().unwrap();
    let sizes: Vec<u64> = sweep.iter().map(|case| case["size_bytes"].as_u64().unwrap()).collect();
    assert_eq!(sizes, (0..8).map(|power| 4096 << (2 * power)).collect::<Vec<u64>>());
    for case in sweep {
        assert_eq!(case["verified"], true);
        assert_rates(&case["receiver"]);
    }
    assert_eq!(object["size_bytes"], 64 << 20);
}

/// p50 and the percentiles that there are enough round trips for, ascending.
fn assert_half_trips(half_trips: &Value, percentiles: &[&str]) {
    let figure = |name: &str| half_trips[name].as_f64().unwrap();
    let names = [&["min", "p50"], percentiles, &["max"]].concat();
    assert!(names.windows(2).all(|pair| figure(pair[0]) <= figure(pair[1])), "{half_trips}");
    assert!(figure("min") > 0.0 && half_trips.as_object().unwrap().len() == names.len());
}

#[test]
fn latency_is_half_a_round_trip() {
    let words = ["perf", "--json", "--latency", "--iters", "100", "--warmup", "5"];
    let object = Tcpx::new(&words).run().json();
    assert_eq!((&object["size_bytes"], &object["verified"]), (&4096.into(), &true.into()));
    assert_half_trips(&object["half_round_trip_us"], &["p90", "p99"]);
    assert!(object.get("raw_half_round_trip_us").is_none() && object.get("receiver").is_none());

    let words =
        ["perf", "--json", "--latency", "--iters", "5", "--baseline", "--size", "64,100001"];
    let object = Tcpx::new(&words).run().json();
    assert_eq!((&object["size_bytes"], &object["verified"]), (&100_001.into(), &true.into()));
    let cases = object["sweep"].as_array().unwrap();
    assert_eq!(cases.iter().map(|case| &case["size_bytes"]).collect::<Vec<_>>(), [64, 100_001]);
    for case in cases {
        assert_half_trips(&case["half_round_trip_us"], &[]);
        assert_half_trips(&case["raw_half_round_trip_us"], &[]);
        let median = |name: &str| case[name]["p50"].as_f64().unwrap();
        let ratio = median("half_round_trip_us") / median("raw_half_round_trip_us");
        assert!((case["latency_ratio_to_raw"].as_f64().unwrap() - ratio).abs() < 1e-2 * ratio);
    }
}

#[test]
fn receives_may_be_late_ends_idle_and_threads_busy() {
    let late = ["perf", "--json", "--latency", "--iters", "10", "--receives", "late"];
    let idle = ["--warmup", "0", "--idle-ms", "100", "--busy", "1", "--baseline"];
    let object = Tcpx::new(&[&late[..], &idle].concat()).run().json();
    let conditions = [&object["receives"], &object["idle_ms"], &object["busy"]];
    assert_eq!(conditions, [&Value::from("late"), &100.into(), &1.into()]);
    assert_eq!(object["verified"], true);
    assert_half_trips(&object["half_round_trip_us"], &["p90"]);
    for name in ["half_round_trip_us", "raw_half_round_trip_us"] {
        let least = object[name]["min"].as_f64().unwrap();
        assert!(least < 50_000.0, "the 100 ms at the server are taken off: {object}");
    }
    let go = ["perf", "--json", "--receives", "go", "--size", "300001", "--iters", "3"];
    let object = Tcpx::new(&[&go[..], &["--baseline"]].concat()).run().json();
    assert_eq!((&object["receives"], &object["verified"]), (&"go".into(), &true.into()));
    assert_rates(&object["receiver"]);
    assert_rates(&object["raw_socket"]);
}

#[test]
fn conditions_that_make_no_sense_are_refused() {
    for flags in [
        &["--receives", "late"][..],
        &["--receives", "go", "--latency"],
        &["--receives", "sometimes"],
        &["--idle-ms", "1"],
        &["--latency", "--idle-ms", "10001"],
        &["--busy", "1025"],
        &["--size", "4K,"],
        &["--size", "4K,0"],
    ] {
        let finished = Tcpx::new(&[&["perf"], flags].concat()).run();
        assert_eq!(finished.status, Some(2), "{flags:?}: {finished}");
    }
}

#[test]
fn variables_are_defaults_and_own_names_win() {
    let run = |pairs: &[(&str, &str)], flags: &[&str]| {
        let words = [&["perf", "--json"], flags].concat();
        let tcpx =
            pairs.iter().fold(Tcpx::new(&words), |tcpx, (name, value)| tcpx.env(name, value));
        let object = tcpx.run().json();
        ["size_bytes", "iterations", "chunk_bytes", "channels"]
            .map(|name| object[name].as_u64().unwrap())
    };
    let uccl = [
        ("UCCL_TCPX_PERF_SIZE", "262144"),
        ("UCCL_TCPX_PERF_ITERS", "2"),
        ("UCCL_TCPX_CHUNK_BYTES", "65536"),
        ("UCCL_TCPX_NUM_CHANNELS", "3"),
    ];
    assert_eq!(run(&uccl, &[]), [262_144, 2, 65_536, 3]);
    let own = [("TCPX_PERF_SIZE", "8K"), ("TCPX_PERF_ITERS", "3"), ("TCPX_CHANNELS", "1")];
    assert_eq!(run(&[&uccl[..], &own].concat(), &[]), [8192, 3, 65_536, 1]);
    assert_eq!(run(&uccl, &["--size", "4K", "--channels", "2"]), [4096, 2, 65_536, 2]);
    // With 0 it is chosen, as where nothing is said.
    let chosen = run(&uccl, &["--channels", "0"])[3];
    assert_eq!(chosen, run(&[], &["--size", "4K", "--iters", "2"])[3]);
    assert!((2..=8).contains(&chosen), "{chosen}");
}

#[test]
fn two_hosts_agree_and_both_print() {
    let server = Server::start(&["perf", "server", "--json"]);
    let flags = ["--size", "1M", "--iters", "2", "--channels", "3", "--chunk", "8K"];
    // 2^53 + 1, which no number of JSON says in every language.
    let (flags, seed) =
        ([&flags[..], &["--seed", "9007199254740993"]].concat(), "9007199254740993");
    let client = server.client(&[&["perf", "--json"], &flags[..]].concat()).run();
    let (client, server) = (client.figures(), server.finish().figures());
    assert_eq!(client, server, "both ends print both views");
    assert_eq!((&client["channels"], &client["chunk_bytes"]), (&3.into(), &8192.into()));
    assert_eq!((&client["seed"], &client["verified"]), (&seed.into(), &true.into()));
}

#[test]
fn many_messages_are_compared_with_large_ones_of_the_same_bytes() {
    let words = ["perf", "--json", "--messages", "700", "--size", "3001", "--iters", "2"];
    for (flags, scattered) in [
        (&["--memory", "host"][..], false),
        (&["--memory", "emulated", "--scattered", "--baseline"], true),
    ] {
        let object = Tcpx::new(&[&words[..], flags].concat()).run().json();
        let number = |name: &str| object[name].as_f64().unwrap();
        assert_eq!((number("messages"), number("size_bytes")), (700.0, 3001.0));
        assert_eq!(object["large_message_bytes"], 512 << 10);
        assert_eq!((&object["scattered"], &object["verified"]), (&scattered.into(), &true.into()));
        assert_rates(&object["receiver"]);
        assert_rates(&object["large_messages"]);
        let median = |name: &str| object[name]["gb_per_s_median"].as_f64().unwrap();
        let ratio = median("large_messages") / median("receiver");
        assert!((number("time_ratio_to_large_messages") - ratio).abs() < 1e-3 * ratio, "{object}");
        let micros = 3001.0 / 1e3 / median("receiver");
        assert!((number("us_per_message") - micros).abs() < 1e-3 * micros, "{object}");
        assert_eq!(object.get("raw_socket").is_some(), scattered);
    }
    let table = Tcpx::new(&["perf", "--messages", "100", "--iters", "2"]).run();
    for heading in ["100 messages", "us/msg", "large GB/s", "time ratio"] {
        assert!(table.stdout.contains(heading), "{heading}: {table}");
    }
}

#[test]
fn a_misspelt_variable_is_reported_and_figures_are_explained() {
    let words = ["perf", "--size", "64K", "--iters", "2"];
    let finished = Tcpx::new(&words).env("TCPX_CHANNEL", "2").run();
    assert_eq!(finished.status, Some(0), "{finished}");
    let warning = "TCPX_CHANNEL is set; did you mean TCPX_CHANNELS? (see: tcpx explain TCPX-110)";
    assert_eq!(finished.stderr.matches(warning).count(), 1, "{finished}");
    let text = finished.stdout.replace('\n', " ");
    assert!(text.contains("p99: 99 of 100 iterations were at least this fast."), "{finished}");
}

#[test]
fn flags_of_batches_that_make_no_sense_are_refused() {
    for flags in [
        &["--messages", "0"][..],
        &["--messages", "1000001"],
        &["--messages", "2", "--latency"],
        &["--messages", "2", "--sweep"],
        &["--messages", "1000000", "--size", "1M"],
        &["--scattered"],
    ] {
        let finished = Tcpx::new(&[&["perf"], flags].concat()).run();
        assert_eq!(finished.status, Some(2), "{flags:?}: {finished}");
    }
}
