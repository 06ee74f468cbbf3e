//! `--isolate`: a plugin that exits, crashes or hangs while it is opened is an error and not the
//! end of the command.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::tcpx::{Finished, Server, Tcpx, leftovers};
use serial_test::serial;

/// A library that passes for the software plugin until `init` is called. `init` is the body of that
/// function.
fn plugin(directory: &Path, init: &str) -> PathBuf {
    let (source, library) = (directory.join("plugin.c"), directory.join("plugin.so"));
    let text = format!(
        "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
         const char mark[] = \"TCPX_SOFT_\";\n\
         static int init(void *logger) {{ (void)logger; {init} }}\n\
         static int other(void) {{ return 3; }}\n\
         struct {{ const char *name; void *members[18]; }} ncclNetPlugin_v7 =\n\
         {{\"TCPXSoft_v7\", {{init, other, other, other, other, other, other, 0, other, other,\n\
         other, other, other, other, other, other, other, other}}}};\n"
    );
    std::fs::write(&source, text).unwrap();
    let status =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    assert!(status.expect("a C compiler runs").success(), "{init} was compiled");
    library
}

fn connect(init: &str, flags: &[&str]) -> Finished {
    let directory = tempfile::tempdir().unwrap();
    let plugin = plugin(directory.path(), init);
    let words = ["connect", "--plugin", plugin.to_str().unwrap()];
    Tcpx::new(&[&words[..], flags].concat()).run()
}

/// One error line that has all of `words`.
fn expect(finished: &Finished, words: &[&str]) {
    assert_eq!(finished.status, Some(1), "{finished}");
    assert!(finished.stdout.is_empty(), "{finished}");
    assert_eq!(finished.stderr.lines().count(), 1, "{finished}");
    for words in [&["error: ", "plugin.so"], words].concat() {
        assert!(finished.stderr.contains(words), "{words}: {finished}");
    }
    assert_eq!(leftovers(), Vec::<String>::new());
}

#[test]
#[serial]
fn an_exit_is_reported_with_status_and_last_words() {
    let exits = "fputs(\"cuInit failed\\n\", stderr); exit(1);";
    let words = ["exit status: 1", "cuInit failed", "(see: tcpx explain TCPX-720)"];
    expect(&connect(exits, &["--isolate"]), &words);
    // This is what it spares: the whole command ends without a line of its own.
    let bare = connect(exits, &[]);
    assert_eq!((bare.status, bare.stderr.contains("error: ")), (Some(1), false), "{bare}");
}

#[test]
#[serial]
fn an_exit_that_claims_success_is_no_success() {
    expect(&connect("exit(0);", &["--isolate"]), &["exit status: 0", "the last it said: nothing"]);
}

#[test]
#[serial]
fn a_crash_is_reported_with_its_signal() {
    expect(&connect("abort();", &["--isolate"]), &["signal: 6 (SIGABRT)"]);
}

#[test]
#[serial]
fn a_hang_is_ended_at_the_deadline() {
    let hangs = "fputs(\"waiting for the daemon\\n\", stderr); for (;;) pause();";
    let start = Instant::now();
    let finished = connect(hangs, &["--isolate", "--timeout", "8"]);
    let last_words = "the last it said: \"waiting for the daemon\"";
    expect(&finished, &["within 6 s (of --timeout 8 s)", "killed", last_words]);
    assert!(start.elapsed() < Duration::from_secs(50));
}

/// A call that does not return cannot be interrupted; the command ends all the same.
#[test]
#[serial]
fn a_hang_without_isolation_ends_with_the_commands_time() {
    // More than enough to get as far as the plugin, also on a busy machine.
    let finished = connect("for (;;) pause();", &["--timeout", "8"]);
    assert_eq!(finished.status, Some(1), "{finished}");
    let expected = "error: no time was left: 8 s (--timeout) passed while this end was opening the \
                    plugin, in a call that does not return\n";
    assert_eq!(finished.stderr, expected, "{finished}");
    assert_eq!(leftovers(), Vec::<String>::new());
}

/// A plugin may start processes of its own. They end with the one that tried it out, and do not
/// hold its last words back.
#[test]
#[serial]
fn what_a_plugin_started_ends_with_its_trial() {
    let forks = "if (fork() == 0) for (;;) pause(); fputs(\"forked\\n\", stderr); _exit(1);";
    expect(&connect(forks, &["--isolate"]), &["exit status: 1", "the last it said: \"forked\""]);
}

#[test]
#[serial]
fn a_plugin_that_refuses_is_the_librarys_error() {
    let finished = connect("return 3;", &["--isolate"]);
    assert_eq!(finished.status, Some(1), "{finished}");
    let expected = "error: plugin call init returned ";
    assert!(finished.stderr.starts_with(expected), "{finished}");
    assert_eq!(finished.stderr.lines().count(), 1, "{finished}");
}

#[test]
#[serial]
fn a_server_is_isolated_too() {
    let directory = tempfile::tempdir().unwrap();
    let plugin = plugin(directory.path(), "abort();");
    let words = ["perf", "server", "--port", "0", "--isolate", "--plugin"];
    let finished = Tcpx::new(&[&words[..], &[plugin.to_str().unwrap()]].concat()).run();
    expect(&finished, &["SIGABRT"]);
}

#[test]
#[serial]
fn a_good_plugin_works_as_without() {
    let finished = Tcpx::new(&["connect", "--isolate", "--plugin", "soft"]).run();
    assert_eq!(finished.status, Some(0), "{finished}");
    let server = Server::start(&["connect", "server", "--isolate"]);
    let address = format!("127.0.0.1:{}", server.port);
    let client = Tcpx::new(&["connect", "client", &address, "--isolate"]).run();
    let server = server.finish();
    assert_eq!((client.status, server.status), (Some(0), Some(0)), "{client}{server}");
    assert_eq!(leftovers(), Vec::<String>::new());
}
