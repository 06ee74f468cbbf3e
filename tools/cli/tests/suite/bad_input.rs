//! Tests of mistakes and failures: one line that names cause and cure, the right exit status, in
//! time, and nothing left running.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::tcpx::{EXECUTABLE, Finished, NO_SERVER, Server, Tcpx, client};

const USAGE: i32 = 2;
const FAILED: i32 = 1;

/// Asserts one error line with `words`, an empty stdout and `status`.
fn expect(finished: &Finished, status: i32, words: &[&str]) {
    assert_eq!(finished.status, Some(status), "{finished}");
    assert!(finished.stdout.is_empty(), "{finished}");
    finished.expect_error(words);
    finished.expect_alone();
}

/// As `expect`, and not a line besides.
fn expect_only(finished: &Finished, status: i32, words: &[&str]) {
    expect(finished, status, words);
    assert_eq!(finished.stderr.lines().count(), 1, "{finished}");
}

#[test]
fn settings_out_of_range() {
    for (words, status, expected) in [
        (&["perf", "--size", "0"][..], USAGE, &["--size", "at least 1 byte"][..]),
        (&["perf", "--size", "lots"], USAGE, &["--size", "64MiB"]),
        (&["perf", "--size", "17G"], USAGE, &["size 18253611008", "17179869184"]),
        (&["perf", "--iters", "0"], USAGE, &["--iters", "1..="]),
        (&["perf", "--channels", "9999"], USAGE, &["channels = 9999", "0 to 64"]),
        (&["perf", "--chunk", "100"], USAGE, &["chunk_bytes = 100", "4096"]),
        (&["perf", "--chunk", "64G"], USAGE, &["chunk_bytes"]),
        (&["perf", "--unpack", "gpu"], USAGE, &["gpu", "d2d"]),
        (&["perf", "--timeout", "0"], USAGE, &["--timeout", "seconds"]),
        (&["perf", "--memory", "host", "--gpu", "0"], USAGE, &["--gpu 0", "--memory cuda"]),
        (&["perf", "client"], USAGE, &["<ADDR>"]),
        (&["perf", "server", "10.0.0.1"], USAGE, &["takes no address", "--port"]),
        (&["perf", "--sweep", "--size", "1M"], USAGE, &["--sweep", "cannot be used"]),
        (&["transfer", "--size", "1"], USAGE, &["--size"]),
        (&["perf", "--unpack", "kernel"], FAILED, &["kernel", "unavailable", "ordinary memory"]),
        (&["perf", "--unpack", "d2d", "--json"], FAILED, &["d2d", "unavailable"]),
        (&["perf", "--memory", "cuda"], FAILED, &["CUDA"]),
        (&["transfer", "--gpu", "7"], FAILED, &["CUDA"]),
    ] {
        expect(&Tcpx::new(words).run(), status, expected);
    }
}

#[test]
fn mistakes_are_answered_with_cause_cure_and_id() {
    for (words, status, expected) in [
        (
            &["perf", "--size", "-1"][..],
            USAGE,
            &["invalid value '-1' for '--size", "64MiB", "920"][..],
        ),
        (&["bogus"], USAGE, &["'bogus'", "commands: perf, transfer, connect,", "920"]),
        (&["pref"], USAGE, &["a similar subcommand exists: 'perf'", "920"]),
        (&["perf", "--plugin", ""], USAGE, &["--plugin", "auto, soft, devmem or the path", "920"]),
        (&["doctor", "--plugin", ""], 64, &["--plugin", "auto, soft, devmem or the path", "920"]),
        (&["perf", "client"], USAGE, &["<ADDR>", "tcpx perf client 10.0.0.1", "920"]),
        (&["connect", "client"], USAGE, &["tcpx connect client 10.0.0.1", "920"]),
        (&["perf", "server", "0"], USAGE, &["got 0", "--gpu N", "--port N", "920"]),
        (
            &["perf", "client", "10.0.0.1:0"],
            USAGE,
            &["\"10.0.0.1:0\"", "port 0", "10.0.0.1:12345", "735"],
        ),
        (&["perf", "client", ""], USAGE, &["\"\"", "the host is missing", "735"]),
        (&["connect", "client", "[::1"], USAGE, &["\"[::1\"", "the ] is missing", "735"]),
        (
            &["connect", "client", "no.such.host.invalid", "--timeout", "20"],
            FAILED,
            &["no.such.host", "735"],
        ),
    ] {
        let (id, expected) = expected.split_last().unwrap();
        let hint = format!("(see: tcpx explain TCPX-{id})");
        expect_only(&Tcpx::new(words).run(), status, &[&[hint.as_str()], expected].concat());
    }
}

#[test]
fn a_variable_that_keeps_the_plugin_from_starting_is_named() {
    for variable in ["TCPX_SOFT_IFNAME", "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME"] {
        let command = || Tcpx::new(&["connect", "--plugin", "soft"]);
        let nowhere = command().env(variable, "nosuchnic0").run();
        let seen = format!("{variable}=nosuchnic0, interfaces are ");
        let words = ["init returned 3", &seen, "cure: ip -br -4 addr", "tcpx explain TCPX-117)"];
        expect(&nowhere, FAILED, &words);
        let warning = "no network interface with an IPv4 address matches nosuchnic0 ";
        assert!(nowhere.stderr.contains(warning), "{nowhere}");
        let nonsense = command().env(variable, "=").run();
        let value = format!("{variable} = =: allowed: names or prefixes");
        expect_only(&nonsense, USAGE, &[&value, "unset it", "TCPX-133"]);
    }
}

#[test]
fn a_process_that_may_open_no_more_files_says_so() {
    let mut few = std::process::Command::new("sh");
    let line = "ulimit -n 16; exec \"$0\" connect --plugin soft --channels 8 --timeout 60";
    few.args(["-c", line, EXECUTABLE]);
    expect(&Tcpx::of(few).run(), FAILED, &["16 may be (ulimit -n)", "ulimit -n 65536", "TCPX-608"]);
}

/// However many threads a host allows, a command ends well, or with an error of one line.
#[test]
fn a_process_that_may_start_no_more_threads_says_so() {
    use std::os::unix::process::CommandExt;
    if !rustix::process::geteuid().is_root() {
        tcpx_testkit::skip("root", "only root can be a user who has no other threads");
        return;
    }
    // A user of this test alone, whose threads are counted.
    let user = 2_000_000_000 + std::process::id();
    let mut good = 0;
    for threads in 1..30 {
        let mut few = std::process::Command::new("sh");
        // Shells differ in the letter.
        let line = format!(
            "ulimit -u {threads} 2>/dev/null || ulimit -p {threads} || exit 3
             exec \"$0\" perf --size 64K --iters 1 --warmup 0"
        );
        few.args(["-c", &line, EXECUTABLE]).uid(user).gid(user).current_dir("/");
        let finished = Tcpx::of(few).run();
        if finished.status == Some(0) {
            good += 1;
            continue;
        }
        assert_eq!(finished.status, Some(FAILED), "{threads} threads: {finished}");
        finished.expect_error(&[]);
        finished.expect_alone();
    }
    assert!((1..29).contains(&good), "{good} ended well");
}

#[test]
fn a_larger_chunk_is_refused_only_where_a_variable_forbids_it() {
    let words = ["transfer", "--plugin", "soft", "--chunk", "1M"];
    let free = Tcpx::new(&words).run();
    assert_eq!(free.status, Some(0), "{free}");
    let bound = Tcpx::new(&words).env("NCCL_DYNAMIC_CHUNK_SIZE", "524288").run();
    let words = ["chunk_bytes = 1048576", "at most 524288", "NCCL_DYNAMIC_CHUNK_SIZE=1048576"];
    expect(&bound, USAGE, &words);
}

#[test]
fn variables_that_cannot_be_read() {
    for (name, value) in [
        ("UCCL_TCPX_PERF_SIZE", "big"),
        ("TCPX_PERF_ITERS", "many"),
        ("UCCL_TCPX_CHUNK_BYTES", "512Q"),
        ("UCCL_TCPX_UNPACK_IMPL", "gpu"),
        ("NCCL_DYNAMIC_CHUNK_SIZE", "512K"),
    ] {
        let finished = Tcpx::new(&["perf", "--json"]).env(name, value).run();
        expect_only(&finished, USAGE, &[name, value]);
    }
}

#[test]
fn plugins_that_are_none() {
    let missing = Tcpx::new(&["perf", "--plugin", "/nonexistent/plugin.so"]).run();
    expect_only(&missing, FAILED, &["/nonexistent/plugin.so", "no such file", "install"]);
    let text = Tcpx::new(&["connect", "--plugin", "/etc/passwd"]).run();
    expect_only(&text, FAILED, &["/etc/passwd", "not a shared ELF object"]);
    let library = path_of_loaded_library("libc.so");
    let other = Tcpx::new(&["transfer", "--plugin", &library]).env("RUST_LOG", "off").run();
    expect_only(&other, FAILED, &["ncclNetPlugin_v7", "no ncclNet v7 plugin"]);
    let server = Tcpx::new(&["perf", "server", "--plugin", "/nonexistent/plugin.so"]).run();
    expect_only(&server, FAILED, &["no such file"]);
}

/// The file of a library that this process has loaded: a library, but no plugin.
fn path_of_loaded_library(part: &str) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.contains(part)).unwrap();
    line[line.find('/').unwrap()..].to_owned()
}

#[test]
fn a_port_in_use() {
    let holder = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = holder.local_addr().unwrap().port().to_string();
    let finished = Tcpx::new(&["perf", "server", "--port", &port]).run();
    expect_only(&finished, FAILED, &[&port, "in use", "--port"]);
}

#[test]
fn a_peer_that_never_comes() {
    let start = Instant::now();
    let server = Tcpx::new(&["perf", "server", "--port", "0", "--timeout", "2"]).run();
    expect(&server, FAILED, &["no client connected", "within 1.5 s (of --timeout 2 s)"]);
    let client = client(NO_SERVER, &["perf", "--timeout", "2"]).run();
    expect_only(&client, FAILED, &["no server", NO_SERVER, "1.5 s", "refused"]);
    assert!(start.elapsed() < Duration::from_secs(40));
}

#[test]
fn a_server_that_accepts_and_is_silent() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let client = client(&address, &["connect", "--timeout", "2"]).run();
    expect_only(&client, FAILED, &["no greeting within 1.5 s (of --timeout 2 s)"]);
}

#[test]
fn ends_that_want_different_things_refuse_with_both_values() {
    for (server, client, words) in [
        (
            &["perf", "server", "--channels", "4"][..],
            &["perf", "--channels", "2"][..],
            &["--channels 4", "asks for 2"][..],
        ),
        (
            &["perf", "server", "--size", "1M"],
            &["perf", "--size", "2M"],
            &["--size 1 MiB", "2 MiB"],
        ),
        (&["perf", "server", "--memory", "host"], &["perf"], &["--memory host", "emulated"]),
        (&["transfer", "server"], &["perf"], &["tcpx transfer", "tcpx perf"]),
    ] {
        let server = Server::start(server);
        let client = server.client(client).run();
        expect_only(&client, FAILED, &[&["refused"], words].concat());
        expect(&server.finish(), FAILED, words);
    }
}

#[test]
fn a_server_that_cannot_tells_the_client_why() {
    let server = Server::start(&["perf", "server"]);
    // The client asks for larger chunks than the server's plugin takes.
    let client = server.client(&["perf", "--chunk", "1M"]).run();
    expect_only(&client, FAILED, &["refused", "at most 524288 bytes"]);
    expect(&server.finish(), FAILED, &["at most 524288 bytes"]);
}
