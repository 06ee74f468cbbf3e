//! Tests of the ways to measure: for a time, both ways, several clients at once; and of those to
//! show it.

use crate::tcpx::{Server, Signal, Tcpx, client, has_ipv6};
use serde_json::Value;

fn median(rates: &Value) -> f64 {
    rates["gb_per_s_median"].as_f64().unwrap_or_else(|| panic!("no rate: {rates}"))
}

#[test]
fn a_duration_says_how_many_iterations_there_are() {
    let words = ["perf", "--duration", "0.5", "--size", "1K,64K", "--json"];
    let object = Tcpx::new(&words).run().json();
    assert_eq!(object["duration_s"], 0.5);
    for case in object["sweep"].as_array().unwrap() {
        let iterations = case["iterations"].as_u64().unwrap();
        assert_eq!(case["receiver"]["iteration_ms"].as_array().unwrap().len() as u64, iterations);
        assert!(iterations >= 50 && case["verified"] == true, "{case}");
    }
    let latency = Tcpx::new(&["perf", "--latency", "--duration", "0.5", "--json"]).run().json();
    assert!(latency["iterations"].as_u64().unwrap() >= 50, "{latency}");
}

#[test]
fn sweeps_of_latencies_have_percentiles_and_a_histogram() {
    let words = ["perf", "--latency", "--sweep", "64..5000:8", "--iters", "1000", "--json"];
    let object = Tcpx::new(&words).run().json();
    let cases = object["sweep"].as_array().unwrap();
    let sizes: Vec<&Value> = cases.iter().map(|case| &case["size_bytes"]).collect();
    assert_eq!(sizes, [64, 512, 4096, 5000]);
    for case in cases {
        assert!(case["half_round_trip_us"]["p99_9"].as_f64().unwrap() > 0.0, "{case}");
        let buckets = case["histogram"].as_array().unwrap();
        let counted: u64 = buckets.iter().map(|it| it["count"].as_u64().unwrap()).sum();
        assert_eq!(counted, 1000, "{case}");
    }
}

#[test]
fn both_ways_at_once_are_verified_and_summed() {
    let words = ["perf", "--bidir", "--size", "300001", "--iters", "4", "--json"];
    for memory in ["host", "emulated"] {
        let object = Tcpx::new(&[&words[..], &["--memory", memory]].concat()).run().json();
        assert_eq!((&object["verified"], &object["iterations"]), (&true.into(), &4.into()));
        let (there, here) = (median(&object["receiver"]), median(&object["client_receiver"]));
        assert!(median(&object["both_ways"]) <= 2.0 * there.max(here) * 1.001, "{object}");
    }
}

#[test]
fn several_clients_send_at_once() {
    let server = Server::start(&["perf", "server", "--clients", "3", "--json"]);
    let words = ["perf", "--size", "100001", "--iters", "6", "--json"];
    let clients: Vec<_> = (0..3).map(|_| server.client(&words).start()).collect();
    for client in clients {
        let client = client.finish().json();
        assert_eq!((&client["verified"], &client["iterations"]), (&true.into(), &6.into()));
    }
    let object = server.finish().json();
    assert_eq!((&object["verified"], &object["iterations"]), (&true.into(), &6.into()));
    assert_eq!(object["clients"].as_array().unwrap().len(), 3);
    let hosts = object["hosts"].as_array().unwrap().iter();
    let ends: Vec<&Value> = hosts.map(|host| &host["end"]).collect();
    assert_eq!(ends, ["client", "client", "client", "server"], "{object}");
    let (slow, fast) = (&object["slowest_client_gb_per_s"], &object["fastest_client_gb_per_s"]);
    assert!(slow.as_f64().unwrap() <= fast.as_f64().unwrap());
    assert!(median(&object["all_clients"]) > 0.0, "{object}");
}

#[test]
fn several_clients_may_send_both_ways() {
    let server = Server::start(&["perf", "server", "--clients", "2"]);
    let words = ["perf", "--bidir", "--size", "64K", "--iters", "3"];
    let clients = [(), ()].map(|()| server.client(&words).start());
    for client in clients {
        assert_eq!(client.finish().status, Some(0));
    }
    let server = server.finish();
    let row = server.stdout.lines().find(|line| line.starts_with("  64 KiB ")).unwrap();
    assert!(server.stdout.contains("slowest GB/s") && !row.contains(" - "), "{server}");
}

/// The row of a size is there while the next one is measured, and stays when that one fails.
#[test]
fn rows_of_several_clients_come_as_they_are_measured() {
    for format in [&[][..], &["--csv"]] {
        let words = [&["perf", "server", "--clients", "2"], format].concat();
        let server = Server::of(Tcpx::new(&words).env("RUST_LOG", "tcpx=debug"));
        let words = ["perf", "--size", "4K,64M", "--iters", "100", "--warmup", "0"];
        let clients = [(), ()].map(|()| server.client(&words).start());
        // The one that ends the first size shows its row before it goes on.
        for _ in &clients {
            server.wait_for_line("measuring bytes=67108864");
        }
        clients[0].process.signal(Signal::KILL);
        let server = server.finish();
        assert_eq!(server.status, Some(1), "{server}");
        let is_row = |line: &&str| line.starts_with("   4 KiB ") || line.contains(",4096,");
        assert_eq!(server.stdout.lines().filter(is_row).count(), 1, "{server}");
        for client in clients {
            client.finish();
        }
    }
}

#[test]
fn clients_with_other_flags_are_refused_and_delay_no_other() {
    let server = Server::start(&["perf", "server", "--clients", "2"]);
    let client = |size| server.client(&["perf", "--size", size]).start();
    let ends = [client("4K"), client("8K")].map(|client| client.finish());
    assert!(ends.iter().all(|end| end.status == Some(1)), "{} {}", ends[0], ends[1]);
    assert!(ends.iter().any(|end| end.stderr.contains("other flags")), "{} {}", ends[0], ends[1]);
    let server = server.finish();
    assert!(server.stderr.contains("other flags"), "{server}");
}

#[test]
fn csv_has_a_line_for_each_size() {
    let words = ["perf", "--csv", "--sweep", "4K..64K", "--iters", "2"];
    let finished = Tcpx::new(&words).run();
    assert_eq!(finished.status, Some(0), "{finished}");
    let lines: Vec<&str> = finished.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{finished}");
    let names: Vec<&str> = lines[0].split(',').collect();
    let at = |name: &str| names.iter().position(|it| *it == name).unwrap();
    for (line, size) in lines[1..].iter().zip(["4096", "16384", "65536"]) {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!((cells[at("size_bytes")], cells[at("verified")]), (size, "true"));
        assert!(cells[at("gb_per_s_median")].parse::<f64>().unwrap() > 0.0);
        assert_eq!(cells[at("p50_us")], "", "{line}");
    }
}

#[test]
fn a_page_shows_it_without_anything_else() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let path = page.to_str().unwrap();
    let words = ["perf", "--html", path, "--size", "64K,1M", "--iters", "3", "--baseline"];
    assert_eq!(Tcpx::new(&words).run().status, Some(0));
    let text = std::fs::read_to_string(&page).unwrap();
    for words in [
        "<svg",
        "receiver (server)",
        "plain sockets",
        "What the time went to",
        " UTC",
        "client: ",
        "server: ",
        "Linux ",
        "--size 64K,1M",
    ] {
        assert!(text.contains(words), "{words}");
    }
    for outside in ["src=", "href=", "@import", "<script"] {
        assert!(!text.contains(outside), "{outside}");
    }
    assert_eq!(text.matches("<svg").count(), text.matches("</svg>").count());
    let nowhere = Tcpx::new(&["perf", "--html", "/nowhere/page.html", "--size", "1K"]).run();
    nowhere.expect_error(&["--html /nowhere/page.html: ", "may write"]);
    assert_eq!((nowhere.status, nowhere.stdout.as_str()), (Some(2), ""), "before it measures");
}

#[test]
fn intervals_of_a_duration_have_lines_of_their_own() {
    let words = ["perf", "--duration", "2", "--interval", "0.2", "--size", "64K", "--bits"];
    let shown = Tcpx::new(&words).run();
    assert_eq!(shown.status, Some(0), "{shown}");
    let lines: Vec<&str> = shown.stdout.lines().filter(|line| line.contains(" s  ")).collect();
    let names = shown.stdout.find("recv Gbit/s").unwrap();
    assert!(lines.len() >= 2, "{shown}");
    let mut end = 0.0;
    for line in lines {
        assert!(shown.stdout.find(line).unwrap() < names, "above the row: {shown}");
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(
            [cells[0], cells[1], cells[3], cells[7]],
            ["64", "KiB", "-", "Gbit/s"],
            "{line}"
        );
        let number = |at: usize| cells[at].parse::<f64>().unwrap();
        assert_eq!(number(2), end, "each begins where the one before ends: {shown}");
        end = number(4);
        let of_ops = number(8) * f64::from(64 << 10) * 8.0 / 1e9;
        assert!(number(6) > 0.0 && (of_ops - number(6)).abs() < 0.001 + of_ops / 100.0, "{line}");
    }
    assert!(end >= 1.0, "{shown}");
}

#[test]
fn intervals_are_a_list_of_json() {
    let words = ["perf", "--json", "--duration", "2", "--interval", "0.2", "--size", "64K"];
    let object = Tcpx::new(&words).run().json();
    let intervals = object["intervals"].as_array().unwrap();
    assert!(intervals.len() >= 2, "{object}");
    let mut end = 0.0;
    for interval in intervals {
        let number = |name: &str| interval[name].as_f64().unwrap();
        assert_eq!(number("from_s"), end, "each begins where the one before ends: {object}");
        end = number("to_s");
        let of_ops = number("ops_per_s") * f64::from(64 << 10) / 1e9;
        assert!(number("gb_per_s") > 0.0 && (of_ops / number("gb_per_s") - 1.0).abs() < 1e-6);
    }
    assert!(end >= 1.0, "{object}");
}

/// The server sends, at a distance and with the plain sockets in turns. Both ends print the same.
#[test]
fn the_server_sends_in_reverse() {
    let server = Server::start(&["perf", "server", "--json"]);
    let words = ["perf", "--json", "--reverse", "--baseline", "--size", "3000001", "--iters", "3"];
    let client = server.client(&words).run().figures();
    assert_eq!(client, server.finish().figures());
    assert_eq!((&client["reverse"], &client["verified"]), (&true.into(), &true.into()));
    assert!(client["receiver"]["gb_per_s_median"].as_f64().unwrap() > 0.0, "{client}");
    assert!(client["ratio_to_raw"].as_f64().unwrap() > 0.0, "{client}");
    let table = Tcpx::new(&["perf", "--reverse", "--messages", "100", "--iters", "2"]).run();
    assert!(table.stdout.replace('\n', " ").contains("server to client"), "{table}");
}

#[test]
fn what_cannot_be_reversed_says_why() {
    for (flags, why) in [
        (&["--latency"][..], "sent back"),
        (&["--latency", "--notify"], "sent back"),
        (&["--bidir"], "both ends send already"),
        (&["--op", "write"], "is --op read"),
    ] {
        let refused = Tcpx::new(&[&["perf", "--reverse"], flags].concat()).run();
        assert_eq!(refused.status, Some(2), "{refused}");
        refused.expect_error(&["--reverse: ", why]);
    }
}

#[test]
fn intervals_without_a_duration_are_refused() {
    let refused = |words: &[&str]| Tcpx::new(&[&["perf", "--interval"], words].concat()).run();
    for (words, expected) in [
        (&["1"][..], "only with --duration"),
        (&["1", "--duration", "2", "--latency"], "not with --latency"),
        (&["0", "--duration", "2"], "not a number of seconds"),
        (&["1", "--duration", "2", "--csv"], "cannot be used with"),
    ] {
        let refused = refused(words);
        assert_eq!(refused.status, Some(2), "{refused}");
        assert!(refused.stderr.contains(expected), "{refused}");
    }
}

/// A rate in Gbit/s has three decimals in the table, and JSON has the same one in GB/s.
#[test]
fn rates_are_in_bits_where_people_read_them() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let path = page.to_str().unwrap();
    let words = ["perf", "--bits", "--baseline", "--size", "64K,1M", "--iters", "3"];
    let table = Tcpx::new(&[&words[..], &["--html", path]].concat()).run();
    assert_eq!(table.status, Some(0), "{table}");
    let page = std::fs::read_to_string(&page).unwrap();
    for text in [&table.stdout, &page] {
        for words in ["recv Gbit/s", "raw Gbit/s", "Gbit/s (10^9 bits a second)"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains("GB/s"), "{text}");
    }
    assert!(page.contains(">Gbit/s</text>"), "the plot's unit");
    let object = Tcpx::new(&[&words[..], &["--json"]].concat()).run().json();
    let largest = &object["receiver"];
    let of_time = f64::from(1 << 20) / largest["mean_ms"].as_f64().unwrap() / 1e6;
    let least = largest["gb_per_s_min"].as_f64().unwrap();
    let most = largest["gb_per_s_max"].as_f64().unwrap();
    assert!(least <= of_time * 1.001 && of_time <= most * 1.001, "GB/s as before: {largest}");
    let csv = Tcpx::new(&[&words[..], &["--csv"]].concat()).run();
    assert!(csv.stdout.contains("gb_per_s_median"), "{csv}");
}

#[test]
fn every_nic_says_what_went_over_it() {
    let object = Tcpx::new(&["perf", "--size", "1M", "--iters", "3", "--json"]).run().json();
    let nics = object["nics"].as_array().unwrap();
    let bytes: u64 = nics.iter().map(|nic| nic["bytes"].as_u64().unwrap()).sum();
    assert_eq!(bytes, 5 << 20, "two of warmup: {object}");
    let rates: f64 = nics.iter().map(|nic| nic["gb_per_s"].as_f64().unwrap()).sum();
    assert!((rates - median(&object["receiver"])).abs() < 1e-6, "{object}");
}

#[test]
fn channels_go_over_the_nics_that_are_named() {
    let words = ["perf", "--size", "1M", "--iters", "2", "--json"];
    let object = Tcpx::new(&[&words[..], &["--nic", "lo"]].concat()).run().json();
    assert_eq!(object["nics"][0]["nic"], "lo", "{object}");
    let finished = Tcpx::new(&[&words[..], &["--nic", "lo,eth-none"]].concat()).run();
    assert!(finished.status != Some(0) && finished.stderr.contains("eth-none"), "{finished}");
}

#[test]
fn every_pair_is_measured_in_one_run() {
    let words = ["perf", "--pairs", "--nic", "lo", "--size", "4K,64K", "--iters", "2"];
    let object = Tcpx::new(&[&words[..], &["--json"]].concat()).run().json();
    let [pair] = object["pairs"].as_array().unwrap().as_slice() else { panic!("{object}") };
    assert_eq!(
        (&pair["nic"], &pair["gpu"], &pair["verified"]),
        (&"lo".into(), &Value::Null, &true.into())
    );
    assert_eq!(pair["sweep"].as_array().unwrap().len(), 2);
    let table = Tcpx::new(&words).run();
    assert_eq!(table.stdout.lines().count(), 3, "a heading, two sizes: {table}");

    let server = Server::start(&["perf", "server", "--forever"]);
    let csv = server.client(&["perf", "--pairs", "--csv", "--size", "4K"]).run();
    assert_eq!(csv.status, Some(0), "{csv}");
    // The software plugin offers at least loopback.
    let nics: Vec<&str> =
        csv.stdout.lines().skip(1).map(|line| line.split(',').nth(1).unwrap()).collect();
    assert!(nics.contains(&"lo"), "{csv}");
    server.running.process.signal(Signal::KILL);
    server.finish();
}

#[test]
fn clear_and_encrypted_sessions_are_measured_in_one_run() {
    for kind in [&[][..], &["--latency"], &["--op", "read"]] {
        let words = [&["perf", "--encrypt", "--size", "4K,1M", "--iters", "4"], kind].concat();
        let object = Tcpx::new(&[&words[..], &["--json"]].concat()).run().json();
        let [clear, encrypted] = object["encryptions"].as_array().unwrap().as_slice() else {
            panic!("{object}")
        };
        assert_eq!(
            (&clear["encryption"], &encrypted["encryption"]),
            (&"off".into(), &"require".into())
        );
        assert_eq!((&clear["verified"], &encrypted["verified"]), (&true.into(), &true.into()));
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.html");
        let table = Tcpx::new(&[&words, &["--html", page.to_str().unwrap()][..]].concat()).run();
        let page = std::fs::read_to_string(&page).unwrap();
        for words in ["encryption off</h1>", "encryption require</h1>"] {
            assert!(page.contains(words), "{words}: {table}");
        }
        let (costs, rows): (Vec<_>, Vec<_>) =
            table.stdout.lines().skip(1).partition(|line| line.contains("core s/GB"));
        // Sends one way say what they cost.
        assert!(!kind.is_empty() || costs.len() == 4, "{table}");
        let ratios: Vec<_> = rows.iter().map(|line| line.split_whitespace().last()).collect();
        let [Some("-"), Some("-"), Some(small), Some(large)] = ratios[..] else {
            panic!("{table}")
        };
        assert!(
            [small, large].iter().all(|it| it.parse::<f64>().is_ok_and(|it| it > 0.0)),
            "{table}"
        );
    }
    let server = Server::start(&["perf", "server", "--forever"]);
    let csv = server.client(&["perf", "--encrypt", "--csv", "--size", "4K"]).run();
    assert_eq!(csv.status, Some(0), "{csv}");
    let first: Vec<&str> = csv.stdout.lines().filter_map(|line| line.split(',').next()).collect();
    assert_eq!(first, ["encryption", "off", "require"]);
    server.running.process.signal(Signal::KILL);
    server.finish();
}

#[test]
fn measuring_over_ipv6_works() {
    if !has_ipv6() {
        return;
    }
    let server = Server::start(&["perf", "server", "--bind", "::1"]);
    let address = format!("[::1]:{}", server.port);
    let words = ["perf", "--size", "100001", "--iters", "2", "--baseline"];
    let client = client(&address, &words).run();
    assert_eq!(client.status, Some(0), "{client}");
    assert_eq!(server.finish().status, Some(0));
}

#[test]
fn flags_that_do_not_go_together_are_refused() {
    for flags in [
        &["--bidir", "--latency"][..],
        &["--bidir", "--baseline"],
        &["--duration", "1", "--iters", "2"],
        &["--clients", "2"],
        &["server", "--clients", "2", "--forever"],
        &["--csv", "--json"],
        &["server", "--pairs"],
        &["server", "--encrypt"],
        &["--pairs", "--encrypt"],
        &["--sweep", "64K..4K"],
        &["--duration", "0"],
    ] {
        let finished = Tcpx::new(&[&["perf"], flags].concat()).run();
        assert_eq!(finished.status, Some(2), "{flags:?}: {finished}");
        if flags.contains(&"--clients") {
            let words = "--clients cannot be combined with --forever, and needs `server`";
            finished.expect_error(&[words]);
        }
    }
}
