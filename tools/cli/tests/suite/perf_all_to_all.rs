//! Tests of `tcpx perf --all-to-all`: the server and its clients send to each other.

use crate::tcpx::{Server, Signal, Tcpx};

const CLIENT: [&str; 5] = ["perf", "--all-to-all", "--size", "4K,100001", "--iters"];

#[test]
fn every_end_sends_to_every_other_one() {
    for format in [&["--json"][..], &[]] {
        let words = [&["perf", "server", "--clients", "2", "--all-to-all"], format].concat();
        let server = Server::start(&words);
        let words = [&CLIENT[..], &["5", "--json"]].concat();
        let clients = [(), ()].map(|()| server.client(&words).start());
        for client in clients {
            let client = client.finish().json();
            assert_eq!((&client["verified"], &client["iterations"]), (&true.into(), &5.into()));
        }
        let server = server.finish();
        assert_eq!(server.status, Some(0), "{server}");
        if format.is_empty() {
            assert!(server.stdout.contains("all to all"), "{server}");
            for words in ["all GB/s", "least GB/s", "median GB/s", "most GB/s"] {
                assert!(server.stdout.contains(words), "{words}: {server}");
            }
            continue;
        }
        let object = server.json();
        assert_eq!((&object["verified"], &object["iterations"]), (&true.into(), &5.into()));
        for size in object["sweep"].as_array().unwrap() {
            let each = &size["each_way"];
            assert_eq!(each["ways"], 6, "three ends: {size}");
            let rate = |name: &str| each[name].as_f64().unwrap();
            assert!(0.0 < rate("gb_per_s_min"), "{size}");
            assert!(rate("gb_per_s_min") <= rate("gb_per_s_median"), "{size}");
            assert!(rate("gb_per_s_median") <= rate("gb_per_s_max"), "{size}");
            let all = &size["all_clients"];
            let of_time = 6.0 * size["size_bytes"].as_f64().unwrap() / 1e6;
            let (least, most) = (&all["gb_per_s_min"], &all["gb_per_s_max"]);
            let mean = of_time / all["mean_ms"].as_f64().unwrap();
            assert!(least.as_f64().unwrap() <= mean * 1.01, "all bytes count: {size}");
            assert!(mean <= most.as_f64().unwrap() * 1.01, "all bytes count: {size}");
        }
    }
}

/// Four ends, so that a client has others before and after it, who know one token.
#[test]
fn clients_connect_with_their_token() {
    let token = ["--token", "a token of some length"];
    let words =
        [&["perf", "server", "--clients", "3", "--all-to-all", "--json"], &token[..]].concat();
    let server = Server::start(&words);
    let words = [&CLIENT[..], &["2"], &token].concat();
    let clients = [(), (), ()].map(|()| server.client(&words).start());
    for client in clients {
        let client = client.finish();
        assert_eq!((client.status, client.stderr.as_str()), (Some(0), ""), "{client}");
    }
    assert_eq!(server.finish().json()["each_way"]["ways"], 12);
}

#[test]
fn an_end_that_is_lost_ends_all_others() {
    let server = Server::of(
        Tcpx::new(&["perf", "server", "--clients", "2", "--all-to-all"])
            .env("RUST_LOG", "tcpx=debug"),
    );
    let words = ["perf", "--all-to-all", "--size", "4K,64M", "--iters", "10000"];
    let [lost, other] = [(), ()].map(|()| server.client(&words).start());
    for _ in 0..2 {
        server.wait_for_line("measuring bytes=4096");
    }
    lost.process.signal(Signal::KILL);
    let (other, server) = (other.finish(), server.finish());
    for end in [&other, &server] {
        assert_eq!(end.status, Some(1), "{end}");
        assert!(end.stderr.contains("error: "), "{end}");
    }
    lost.finish();
}

#[test]
fn all_ends_must_have_the_flag() {
    for words in [&["perf", "--all-to-all"][..], &["perf", "server", "--all-to-all"]] {
        let refused = Tcpx::new(words).run();
        assert_eq!(refused.status, Some(2), "{refused}");
        refused.expect_error(&["--clients N --all-to-all"]);
    }
    let server = Server::start(&["perf", "server", "--clients", "2"]);
    let clients = [(), ()].map(|()| server.client(&[&CLIENT[..], &["2"]].concat()).start());
    for client in clients {
        let client = client.finish();
        assert!(client.status == Some(1) && client.stderr.contains("--all-to-all"), "{client}");
    }
    assert_eq!(server.finish().status, Some(1));
}
