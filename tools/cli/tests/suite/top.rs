//! Tests of `tcpx top`: peers of sessions of this process, read over HTTP and from a file.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use serde_json::Value;
use tcpx_core::{MemoryRange, MemoryType, OperationKind, RemoteRange, Session};
use tcpx_testkit::PATIENCE;
use tcpx_tests::sessions::{export, lively, memory, pair};

use crate::tcpx::{Tcpx, schema};

const BYTES: u64 = 3_000_000;

/// Writes to memory of the peer.
fn write(left: &Session, right: &Session) {
    let content = vec![7; BYTES as usize];
    let [local, remote] =
        [left, right].map(|session| memory(session, MemoryType::Device, &content));
    let key = export(right, remote);
    let local = MemoryRange { memory: local, offset: 0, bytes: BYTES };
    let remote = RemoteRange { key: &key, offset: 0, bytes: BYTES };
    let write = left.prepare("right", OperationKind::Write, &[local], &[remote]).expect("it fits");
    write.post(None).expect("the peer is up");
    write.wait(Some(PATIENCE)).expect("it is served");
}

/// Answers this many requests for a page, each with what `page` returns, and listens no more.
fn serve(listener: &TcpListener, answers: usize, mut page: impl FnMut() -> String) {
    for _ in 0..answers {
        let (mut asks, _) = listener.accept().expect("the command comes");
        let lines = BufReader::new(asks.try_clone().expect("a socket")).lines();
        let asked: Vec<String> =
            lines.map(|line| line.expect("text")).take_while(|line| !line.is_empty()).collect();
        assert_eq!(asked[0], "GET /metrics HTTP/1.0");
        write!(asks, "HTTP/1.0 200 OK\r\n\r\n{}", page()).expect("it reads");
    }
}

/// Returns the schema of all objects.
fn objects() -> Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json.schema.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn peers_of_a_process_have_their_rates_and_what_carries_their_bytes() {
    let [left, right] = pair(lively());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let source = format!("http://{}", listener.local_addr().expect("a port"));
    let run = Tcpx::new(&["top", &source, "--once", "--json", "--interval", "0.01"]).start();
    let mut pages = 0;
    serve(&listener, 2, || {
        pages += 1;
        // Between the two pages.
        if pages == 2 {
            write(&left, &right);
        }
        left.metrics_text()
    });
    let top = run.finish().json();
    schema::check(&objects(), "top", &top).unwrap_or_else(|error| panic!("{error}: {top}"));
    let peer = &top["peers"][0];
    assert_eq!((&peer["peer"], &peer["state"]), (&"right".into(), &"up".into()), "{top}");
    let (rate, seconds) = (peer["sent_gb_per_s"].as_f64(), top["between_s"].as_f64());
    let moved = rate.expect("two pages") * seconds.expect("two pages") * 1e9;
    assert!((moved - BYTES as f64).abs() < 10_000.0, "{moved}: {top}");
    for (fact, text) in left.stats().peers[0].transport.as_ref().expect("it is up").facts() {
        assert_eq!(peer["peer_transport"][fact], text, "{top}");
    }
}

#[test]
fn it_goes_on_until_the_process_is_gone_and_needs_no_terminal() {
    let [left, _right] = pair(lively());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let source = format!("http://{}/metrics", listener.local_addr().expect("a port"));
    let run = Tcpx::new(&["top", &source, "--interval", "0.01"]).start();
    serve(&listener, 4, || left.metrics_text());
    drop(listener);
    let finished = run.finish();
    finished.expect_error(&["reading http://"]);
    assert_eq!(finished.stdout.matches("send GB/s").count(), 3, "{finished}");
    assert!(finished.stdout.contains("right") && !finished.stdout.contains('\u{1b}'), "{finished}");
}

#[test]
fn a_file_that_is_not_written_again_has_no_rates() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.prom");
    let path = file.to_str().unwrap();
    Tcpx::new(&["top", path, "--once"]).run().expect_error(&["reading", "page.prom"]);
    let [left, _right] = pair(lively());
    std::fs::write(&file, left.metrics_text()).unwrap();
    let words = ["top", path, "--once", "--interval", "0.01"];
    let table = Tcpx::new(&words).run();
    let line = table.stdout.lines().nth(1).unwrap_or_default();
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(cells[..5], ["-", "-", "0", "0", "up"], "{table}");
    let top = Tcpx::new(&[&words[..], &["--json"]].concat()).run().json();
    assert_eq!(
        (&top["between_s"], &top["peers"][0]["sent_gb_per_s"]),
        (&Value::Null, &Value::Null)
    );
    std::fs::write(&file, "").unwrap();
    assert!(Tcpx::new(&words).run().stdout.ends_with("no peers\n"));
    Tcpx::new(&["top", "https://a:1/"]).run().expect_error(&["http://HOST:PORT/PATH"]);
}
