//! Tests of `--isolate`: a plugin that exits, crashes or hangs while it is opened is an error and
//! not the end of the command.

use std::fs;
use std::path::Path;
use std::time::{Instant, SystemTime};

use tcpx_testkit::PATIENCE;

use crate::tcpx::timeout::{Timeout, with_timeout};
use crate::tcpx::{Finished, Server, Tcpx, library};

/// A plugin that passes for the software plugin until `init` is called. `init` is the body of that
/// function.
fn plugin(directory: &Path, init: &str) -> String {
    let code = format!(
        "const char mark[] = \"TCPX_SOFT_\";\n\
         static int init(void *logger) {{ (void)logger; {init} }}\n\
         static int other(void) {{ return 3; }}"
    );
    library(directory, "TCPXSoft_v7", &code)
}

fn connect(init: &str, flags: &[&str]) -> Finished {
    let directory = tempfile::tempdir().unwrap();
    let plugin = plugin(directory.path(), init);
    Tcpx::new(&[&["connect", "--plugin", &plugin], flags].concat()).run()
}

/// Connects over a plugin that hangs, and says something before. `None`: it came to that too late.
fn connect_over_one_that_hangs(flags: &[&str], timeout: Timeout) -> Option<Finished> {
    let directory = tempfile::tempdir().unwrap();
    let marker = directory.path().join("it hangs");
    let hangs = format!(
        "fputs(\"waiting for the daemon\\n\", stderr); fclose(fopen(\"{}\", \"w\")); for (;;) \
         pause();",
        marker.display()
    );
    let plugin = plugin(directory.path(), &hangs);
    let start = (Instant::now(), SystemTime::now());
    let words = ["connect", "--plugin", &plugin, "--timeout", &timeout.flag()];
    let finished = Tcpx::new(&[&words[..], flags].concat()).run();
    let made = fs::metadata(&marker).ok()?.modified().unwrap();
    // The file system's clock is coarser.
    let after = made.duration_since(start.1).unwrap_or_default();
    timeout.had_half(start.0, start.0 + after).then_some(finished)
}

/// One error line that has all of `words`.
fn expect(finished: &Finished, words: &[&str]) {
    assert_eq!(finished.status, Some(1), "{finished}");
    assert!(finished.stdout.is_empty(), "{finished}");
    assert_eq!(finished.stderr.lines().count(), 1, "{finished}");
    finished.expect_error(&[&["plugin.so"], words].concat());
    finished.expect_alone();
}

#[test]
fn an_exit_is_reported_with_status_and_last_line() {
    let exits = "fputs(\"cuInit failed\\n\", stderr); exit(1);";
    let words = ["exit status: 1", "cuInit failed", "(see: tcpx explain TCPX-720)"];
    expect(&connect(exits, &["--isolate"]), &words);
    // This is what it spares: the whole command ends without a line of its own.
    let bare = connect(exits, &[]);
    assert_eq!((bare.status, bare.stderr.contains("error: ")), (Some(1), false), "{bare}");
}

#[test]
fn an_exit_that_claims_success_is_no_success() {
    expect(&connect("exit(0);", &["--isolate"]), &["exit status: 0", "last line of its log: none"]);
}

#[test]
fn a_crash_is_reported_with_its_signal() {
    expect(&connect("abort();", &["--isolate"]), &["signal: 6 (SIGABRT)"]);
}

#[test]
fn a_hang_is_ended_at_the_deadline() {
    let start = Instant::now();
    with_timeout(2, |timeout| {
        let finished = connect_over_one_that_hangs(&["--isolate"], timeout)?;
        let last_line = "last line of its log: \"waiting for the daemon\"";
        expect(&finished, &[&timeout.work(), "killed", last_line]);
        Some(())
    });
    assert!(start.elapsed() < PATIENCE);
}

/// A call that does not return cannot be interrupted; the command ends all the same.
#[test]
fn a_hang_without_isolation_ends_with_the_commands_time() {
    with_timeout(2, |timeout| {
        let finished = connect_over_one_that_hangs(&[], timeout)?;
        assert_eq!(finished.status, Some(1), "{finished}");
        let expected = format!(
            "error: no time was left: {} s (--timeout) passed while this end was opening the \
             plugin, in a call that does not return",
            timeout.flag()
        );
        let lines: Vec<&str> = finished.stderr.lines().collect();
        assert_eq!(lines, ["waiting for the daemon", &expected], "{finished}");
        finished.expect_alone();
        Some(())
    });
}

/// A plugin may start processes of its own. They end with the one that opened it, and do not
/// delay its last line.
#[test]
fn processes_of_a_plugin_end_with_its_trial() {
    let forks = "if (fork() == 0) for (;;) pause(); fputs(\"forked\\n\", stderr); _exit(1);";
    expect(
        &connect(forks, &["--isolate"]),
        &["exit status: 1", "last line of its log: \"forked\""],
    );
}

#[test]
fn a_plugin_that_refuses_is_the_librarys_error() {
    let finished = connect("return 3;", &["--isolate"]);
    assert_eq!(finished.status, Some(1), "{finished}");
    let expected = "error: plugin call init returned ";
    assert!(finished.stderr.starts_with(expected), "{finished}");
    assert_eq!(finished.stderr.lines().count(), 1, "{finished}");
}

#[test]
fn a_server_is_isolated_too() {
    let directory = tempfile::tempdir().unwrap();
    let plugin = plugin(directory.path(), "abort();");
    let words = ["perf", "server", "--port", "0", "--isolate", "--plugin", &plugin];
    let finished = Tcpx::new(&words).run();
    expect(&finished, &["SIGABRT"]);
}

#[test]
fn a_good_plugin_works_as_without() {
    let finished = Tcpx::new(&["connect", "--isolate", "--plugin", "soft"]).run();
    assert_eq!(finished.status, Some(0), "{finished}");
    let server = Server::start(&["connect", "server", "--isolate"]);
    let client = server.client(&["connect", "--isolate"]).run();
    let server = server.finish();
    assert_eq!((client.status, server.status), (Some(0), Some(0)), "{client}{server}");
}
