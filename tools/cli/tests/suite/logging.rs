//! Tests of the command's log: where it goes, how much it says, and that it need not be taken.

use std::fs::{File, read_to_string};
use std::process::{Command, Stdio};

use crate::tcpx::{EXECUTABLE, Tcpx};

/// A line of the log: time, level, the end that says it, words.
fn is_log_line(line: &str) -> bool {
    let Some((time, rest)) = line.split_once(" [") else { return false };
    let is_time = time.len() == "2026-01-31T12:00:00.123456Z".len()
        && time.ends_with('Z')
        && time.as_bytes()[10] == b'T';
    let levels = ["ERROR] ", "WARN] ", "INFO] ", "DEBUG] ", "TRACE] "];
    let words = levels.iter().find_map(|level| rest.strip_prefix(level));
    is_time
        && words
            .is_some_and(|words| ["client: ", "server: "].iter().any(|it| words.starts_with(it)))
}

fn transfer(words: &[&str]) -> Command {
    let mut command = Command::new(EXECUTABLE);
    command.args(["transfer", "--plugin", "soft", "--timeout", "60"]).args(words);
    command
}

#[test]
fn every_line_has_its_time_level_and_end() {
    let finished = Tcpx::of(transfer(&[])).run();
    assert_eq!(finished.status, Some(0), "{finished}");
    assert!(finished.stderr.lines().all(is_log_line), "{finished}");
    for words in ["[TRACE] server: descriptor[0]", "[INFO] client: session created"] {
        assert!(finished.stderr.contains(words), "{words}: {finished}");
    }
}

#[test]
fn a_full_disk_or_a_reader_that_left_changes_nothing_but_the_log() {
    // Every write to it fails as on a full disk.
    let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    // There is no reader, so that every write fails with EPIPE.
    let broken = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Stdio::from(writer)
    };
    for stderr in [full as fn() -> Stdio, broken] {
        let mut command = transfer(&["-vvv"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr());
        let output = command.spawn().unwrap().wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(!output.stdout.is_empty(), "{output:?}");
        // Only the exit status reports the failure.
        let mut refused = Command::new(EXECUTABLE);
        refused.args(["perf", "--channels", "65"]).stdout(Stdio::null()).stderr(stderr());
        assert_eq!(refused.status().unwrap().code(), Some(2));
    }
}

#[test]
fn a_file_takes_the_log_of_both_ends() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tcpx.log");
    std::fs::write(&path, "an earlier line\n").unwrap();
    let finished = Tcpx::of(transfer(&["--log-file", path.to_str().unwrap()])).run();
    assert_eq!((finished.status, finished.stderr.as_str()), (Some(0), ""), "{finished}");
    let log = read_to_string(&path).unwrap();
    let (earlier, lines) = log.split_once('\n').unwrap();
    assert_eq!(earlier, "an earlier line");
    assert!(lines.lines().all(is_log_line), "{log}");
    assert!(log.contains(" server: ") && log.contains(" client: "), "{log}");
}

#[test]
fn a_file_that_cannot_take_the_log_is_named_before_or_once() {
    let refused = Tcpx::of(transfer(&["--log-file", "/nonexistent/tcpx.log"])).run();
    assert_eq!(refused.status, Some(2), "{refused}");
    assert!(refused.stderr.starts_with("error: --log-file /nonexistent/tcpx.log: "), "{refused}");

    let full = Tcpx::of(transfer(&["--log-file", "/dev/full"])).run();
    assert_eq!(full.status, Some(0), "{full}");
    // Once for each of the two processes.
    let lines: Vec<_> = full.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{full}");
    let words = "the log is not complete: /dev/full: No space left on device";
    assert!(lines.iter().all(|line| line.starts_with(words)), "{full}");
}

#[test]
fn the_flag_says_more_each_time_at_both_ends() {
    let run = |flag: &str| {
        let mut command = Command::new(EXECUTABLE);
        command
            .args(["connect", "--plugin", "soft", "--timeout", "60"])
            .args(flag.split_whitespace());
        let finished = Tcpx::of(command).env("RUST_LOG", "error").run();
        assert_eq!(finished.status, Some(0), "{finished}");
        finished.stderr
    };
    assert_eq!(run(""), "", "RUST_LOG counts");
    let (sessions, steps) = (run("-v"), run("--verbose --verbose"));
    for end in ["client", "server"] {
        let is_up = format!("[INFO] {end}: peer is up");
        assert!(sessions.contains(&is_up) && steps.contains(&is_up), "{sessions}");
        assert!(steps.contains(&format!("[DEBUG] {end}: ")), "{steps}");
    }
    assert!(!sessions.contains("[DEBUG]"), "{sessions}");
}
