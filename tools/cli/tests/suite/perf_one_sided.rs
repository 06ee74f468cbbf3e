//! Tests of `tcpx perf --op write`, `--op read` and `--notify` between two processes.

use crate::tcpx::{Server, Tcpx};
use serde_json::Value;

/// p50 and the percentiles that there are enough times for, ascending.
fn assert_percentiles(times: &Value, percentiles: &[&str]) {
    let figure = |name: &str| times[name].as_f64().unwrap();
    let names = [&["min", "p50"], percentiles, &["max"]].concat();
    assert!(names.windows(2).all(|pair| figure(pair[0]) <= figure(pair[1])), "{times}");
    assert!(figure("min") > 0.0 && times.as_object().unwrap().len() == names.len(), "{times}");
}

/// Both ends cost processor time: about as many core seconds for a GB as cores by GB a second. The
/// ends' clocks run for different times, so not exactly as many; an iteration has hundreds of
/// operations, so one that counts as a single one is found out.
fn assert_costs(object: &Value) {
    let figure = |name: &str| object["processor"][name].as_f64().unwrap();
    assert!(figure("client_cores") > 0.0 && figure("server_cores") > 0.0, "{object}");
    let cores = figure("client_cores") + figure("server_cores");
    let rate = |name: &str| object["initiator"][name].as_f64().unwrap();
    let (least, most) = (cores / rate("gb_per_s_max"), cores / rate("gb_per_s_min"));
    let cost = figure("core_s_per_gb");
    assert!(0.05 * least <= cost && cost <= 20.0 * most, "{least} to {most}: {object}");
}

/// Streams operations, and expects as many of them as a turn has: `depth` at once, in `rounds`
/// rounds. An iteration has 256 MiB, or 256 rounds.
fn stream(op: &str, flags: &[&str], depth: u64, rounds: u64) {
    let words = ["perf", "--json", "--iters", "2", "--warmup", "0", "--op", op];
    let object = Tcpx::new(&[&words[..], flags].concat()).run().json();
    assert_eq!((&object["op"], &object["verified"]), (&op.into(), &true.into()), "{object}");
    assert_eq!((&object["depth"], &object["descriptors"]), (&depth.into(), &1.into()));
    assert_eq!(object["operations"], depth * rounds, "{object}");
    assert!(object["initiator"]["gb_per_s_median"].as_f64().unwrap() > 0.0, "{object}");
    assert_eq!(object["initiator"]["iteration_ms"].as_array().unwrap().len(), 2);
    assert!(object["repost_us"]["p50"].as_f64().unwrap() > 0.0, "{object}");
    assert_costs(&object);
    for name in ["receiver", "sender", "operation_us", "time_ratio_to_one_range", "stages"] {
        assert!(object.get(name).is_none(), "{name}: {object}");
    }
}

#[test]
fn operations_are_streamed_with_as_many_under_way_as_asked_for() {
    stream("write", &["--size", "4097"], 8, 256);
    stream("read", &["--size", "4097", "--depth", "3"], 3, 256);
}

/// The flags stand for a list of ranges, and one of each request's times is known.
#[test]
fn kv_caches_are_moved_block_by_block() {
    for (op, flags, ranges, range_bytes) in [
        ("read", &["--kv", "llama-3.1-8b", "--tokens", "17"][..], 2 * 32 * 2, 32 << 10),
        ("write", &["--kv", "deepseek-r1", "--tokens", "1", "--op", "write"], 61, 73_728),
        ("read", &["--kv", "llama-3.1-70b", "--tokens", "1", "--kv-together"], 80, 65_536),
    ] {
        let words = ["perf", "--json", "--iters", "2", "--warmup", "0", "--depth", "3"];
        let object = Tcpx::new(&[&words[..], flags].concat()).run().json();
        let kv = &object["kv"];
        assert_eq!((&object["op"], &object["verified"]), (&op.into(), &true.into()), "{object}");
        assert_eq!((&object["descriptors"], &kv["ranges"]), (&ranges.into(), &ranges.into()));
        assert_eq!(
            (&object["size_bytes"], &kv["range_bytes"]),
            (&range_bytes.into(), &range_bytes.into())
        );
        assert_eq!(kv["request_bytes"], ranges * range_bytes, "{kv}");
        assert_eq!((&object["scattered"], &object["depth"]), (&true.into(), &3.into()));
        assert_eq!(object["notified"], op == "write", "{object}");
        assert!(kv["break_even_gbit_per_s"].as_f64().unwrap() > 0.0, "{kv}");
        let of_each = object["under_way_us"].as_object().unwrap();
        assert!(of_each["min"].as_f64() <= of_each["p50"].as_f64(), "{object}");
    }
}

/// A line of the CSV says whose cache it is of. Writes are answered one at a time, too.
#[test]
fn csv_names_the_model_and_the_depth() {
    let words = ["perf", "--csv", "--iters", "2", "--warmup", "0", "--op", "write", "--latency"];
    let run = Tcpx::new(&[&words[..], &["--kv", "deepseek-r1", "--tokens", "1"]].concat()).run();
    let &[heading, row] = &run.stdout.lines().collect::<Vec<_>>()[..] else {
        panic!("{}", run.stdout)
    };
    let field = |name| heading.split(',').zip(row.split(',')).find(|(it, _)| *it == name);
    assert_eq!(field("model"), Some(("model", "deepseek-r1")), "{row}");
    assert_eq!(field("depth"), Some(("depth", "1")), "{row}");
    assert_eq!(field("verified"), Some(("verified", "true")), "{row}");
}

/// As many ranges, of another size.
#[test]
fn a_server_refuses_another_kv_cache_than_its_own() {
    let server = Server::start(&["perf", "server", "--kv", "llama-3.1-8b", "--tokens", "16"]);
    let request = ["perf", "--kv", "llama-3.1-8b", "--tokens", "32", "--kv-together"];
    server.client(&request).run().expect_error(&["--size"]);
    server.finish().expect_error(&["--size"]);
}

#[test]
fn kv_caches_are_not_moved_with_flags_that_say_otherwise() {
    for (flags, words) in [
        (&["--op", "send"][..], "--kv: only with --op write or read"),
        (&["--size", "4K"], "cannot be used with"),
        (&["--descriptors", "2"], "cannot be used with"),
        (&["--scattered"], "cannot be used with"),
        (&["--tflops", "0"], "a number above 0"),
        (&["--tokens", "0"], "0 is not in 1..=1000000"),
        (&["--tokens", "1000000"], "4000000 descriptors"),
        (&["--latency", "--depth", "2"], "--depth 2"),
    ] {
        let all = [&["perf", "--kv", "llama-3.1-8b"], flags].concat();
        let run = Tcpx::new(&all).run();
        assert!(run.stderr.contains(words), "{flags:?}: {}", run.stderr);
        assert_eq!(run.status, Some(2), "{flags:?}");
    }
    let run = Tcpx::new(&["perf", "--tokens", "5"]).run();
    assert!(run.stderr.contains("--kv <MODEL>"), "{}", run.stderr);
}

#[test]
#[ignore = "deep: a gigabyte"]
fn large_operations_are_streamed_with_as_many_under_way_as_asked_for() {
    let large = ["--size", "10000019", "--depth", "2", "--memory"];
    stream("write", &[&large[..], &["host"]].concat(), 2, 13);
    stream("read", &[&large[..], &["emulated"]].concat(), 2, 13);
}

#[test]
fn latencies_are_of_one_operation_at_a_time() {
    for op in ["write", "read"] {
        let words = ["perf", "--json", "--latency", "--iters", "101", "--warmup", "5", "--op", op];
        let object = Tcpx::new(&[&words[..], &["--size", "100,100001"]].concat()).run().json();
        for case in object["sweep"].as_array().unwrap() {
            assert_eq!((&case["operations"], &case["verified"]), (&1.into(), &true.into()));
            assert_percentiles(&case["operation_us"], &["p90", "p99"]);
            assert_percentiles(&case["repost_us"], &["p90", "p99"]);
            assert!(case.get("initiator").is_none() && case.get("half_round_trip_us").is_none());
        }
        assert_eq!((&object["depth"], &object["size_bytes"]), (&1.into(), &100_001.into()));
    }
}

/// An operation, a kind of memory, further flags, and whether they scatter the ranges.
type Shape = (&'static str, &'static str, &'static [&'static str], bool);

const SHAPES: [Shape; 4] = [
    ("write", "emulated", &["--scattered"], true),
    ("read", "emulated", &["--latency"], false),
    ("write", "host", &[], false),
    ("read", "host", &["--scattered", "--depth", "2"], true),
];

fn compare_with_one_range(shapes: &[Shape]) {
    for (op, memory, flags, scattered) in shapes {
        let words = ["perf", "--json", "--descriptors", "700", "--size", "3001", "--iters", "2"];
        let words = [&words[..], &["--warmup", "0", "--op", op, "--memory", memory], flags];
        let object = Tcpx::new(&words.concat()).run().json();
        assert_eq!((&object["op"], &object["verified"]), (&(*op).into(), &true.into()), "{object}");
        let shape = [&object["descriptors"], &object["scattered"], &object["size_bytes"]];
        assert_eq!(shape, [&Value::from(700), &(*scattered).into(), &3001.into()]);
        assert!(object["time_ratio_to_one_range"].as_f64().unwrap() > 0.0, "{object}");
    }
}

#[test]
fn operations_of_many_ranges_are_compared_with_one_range_of_the_same_bytes() {
    compare_with_one_range(&SHAPES[..2]);
}

#[test]
#[ignore = "deep: a gigabyte"]
fn all_operations_of_many_ranges_are_compared_with_one_range_of_the_same_bytes() {
    compare_with_one_range(&SHAPES);
}

#[test]
fn notifications_go_there_and_back() {
    let words = ["perf", "--json", "--latency", "--notify", "--iters", "100", "--size", "1,65536"];
    let object = Tcpx::new(&words).run().json();
    assert_eq!((&object["op"], &object["verified"]), (&"notify".into(), &true.into()), "{object}");
    for case in object["sweep"].as_array().unwrap() {
        assert_percentiles(&case["half_round_trip_us"], &["p90", "p99"]);
        assert!(case.get("repost_us").is_none(), "{case}");
    }
}

#[test]
fn the_table_has_a_column_for_each_figure() {
    let run = |flags: &[&str]| {
        let words = ["perf", "--op", "write", "--size", "3K", "--iters", "2", "--descriptors", "9"];
        let finished = Tcpx::new(&[&words[..], flags].concat()).run();
        assert_eq!(finished.status, Some(0), "{finished}");
        finished.stdout
    };
    for (flags, headings) in [
        (&["--scattered"][..], &["GB/s", "us/op"][..]),
        (&["--latency"], &["p50 us", "p90 us", "p99 us", "p99.9 us"]),
    ] {
        let text = run(flags);
        let (constants, table) = text.split_once("\n\n").unwrap();
        for fact in ["write: ", "depth", "9 descriptors"] {
            assert!(constants.contains(fact), "{fact}: {text}");
        }
        let first_line = table.lines().next().unwrap();
        for heading in ["repost us", "ratio", "verified"].iter().chain(headings) {
            assert!(first_line.contains(heading), "{heading}: {text}");
        }
        for cell in ["3 KiB", "yes"] {
            assert!(table.lines().nth(1).unwrap().contains(cell), "{cell}: {text}");
        }
    }
}

#[test]
fn two_hosts_agree_and_a_server_insists_on_its_own_flags() {
    let server = Server::start(&["perf", "server", "--json"]);
    let flags = ["--op", "read", "--size", "30000", "--iters", "2", "--depth", "3", "--seed", "7"];
    let words = [&["perf", "--json"], &flags[..]].concat();
    let client = server.client(&words).run().figures();
    let server = server.finish().figures();
    assert_eq!(client, server, "both ends print what the client measured");

    for (flags, words) in [
        (["--op", "write"], "--op write, the client asks for read"),
        (["--depth", "4"], "--depth 4, the client asks for 3"),
        (["--descriptors", "2"], "--descriptors 2, the client asks for 1"),
    ] {
        // A flag that makes no sense alone is an error where the other end does not add the rest.
        let op: &[&str] = if flags[0] == "--op" { &[] } else { &["--op", "read"] };
        let server = Server::start(&[&["perf", "server"], op, &flags].concat());
        let client = server.client(&["perf", "--op", "read", "--depth", "3", "--size", "9"]).run();
        assert_eq!(client.status, Some(1), "{client}");
        assert!(client.stderr.contains(words), "{client}");
        assert_eq!(server.finish().status, Some(1));
    }
}

#[test]
fn flags_that_make_no_sense_together_are_refused() {
    for (flags, words) in [
        (&["--depth", "2"][..], "--depth: only with --op write or read"),
        (&["--descriptors", "2"], "--descriptors: only with --op write or read"),
        (&["--op", "send", "--depth", "2"], "--depth: only with --op write or read"),
        (&["--op", "push"], "invalid value"),
        (&["--op", "write", "--messages", "2"], "cannot be used with"),
        (&["--op", "write", "--baseline"], "--baseline: only beside sends"),
        (&["--op", "write", "--receives", "ahead"], "--receives: "),
        (&["--op", "write", "--latency", "--idle-ms", "1"], "--idle-ms: "),
        (&["--op", "write", "--latency", "--depth", "2"], "--depth 2: with --latency"),
        (&["--op", "read", "--scattered"], "--scattered: "),
        (&["--op", "read", "--depth", "0"], "invalid value"),
        (&["--op", "read", "--depth", "4097"], "invalid value"),
        (&["--op", "read", "--descriptors", "1000001"], "invalid value"),
        (&["--op", "read", "--descriptors", "1000", "--size", "16M"], "8000 descriptors: at most"),
        (&["--notify"], "--latency"),
        (&["--notify", "--latency", "--op", "write"], "cannot be used with"),
        (&["--notify", "--latency", "--size", "65537"], "notifications of 65537 bytes"),
        (&["--notify", "--latency", "--receives", "late"], "--receives: "),
        (&["--notify", "--latency", "--baseline"], "--baseline: only beside sends"),
        (&["--notify", "--latency", "--depth", "2"], "--depth: only with --op write or read"),
    ] {
        let finished = Tcpx::new(&[&["perf"], flags].concat()).run();
        assert_eq!(finished.status, Some(2), "{flags:?}: {finished}");
        assert!(finished.stderr.contains(words), "{flags:?}: {finished}");
    }
}
