#![allow(unsafe_code)]
//! Precautions that the library takes because a plugin has the hardware plugin's name. Each case is
//! a process of its own, because a plugin is loaded once and a signal's disposition is the
//! process's.

use std::process::Command;

use tcpx_core::{PluginChoice, Session, SessionOptions};
use tcpx_testkit::{again, process, report_skip};
use tcpx_tests::null;

/// Runs the test that `command` names once more, in the role of a case over the plugin that moves
/// nothing, under the hardware plugin's name and without the checks. It must succeed. Returns all
/// that it printed.
fn run(mut command: Command, variables: &[(&str, &str)]) -> String {
    command.env("TCPX_PLUGIN", null::plugin());
    command.envs([("TCPX_PREFLIGHT", "0"), ("TCPX_NULL_NAME", "hardware")]);
    process::pass(command.envs(variables.iter().copied()))
}

/// Whether this process has the role of a case, which it then is.
fn is_case() -> bool {
    let Some(case) = process::role() else { return false };
    tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stdout).init();
    let options = || SessionOptions::from_env().expect("readable");
    match case.as_str() {
        "a C program" => {
            set_sigpipe(libc::SIG_DFL);
            make_session(options());
            assert_eq!(sigpipe(), libc::SIG_IGN);
            // A program that takes it back has it ignored again by the next session.
            set_sigpipe(libc::SIG_DFL);
            make_session(options().keep_sigpipe(true));
            assert_eq!(sigpipe(), libc::SIG_DFL);
            make_session(options());
            assert_eq!(sigpipe(), libc::SIG_IGN);
        }
        "SIGPIPE is as before" => {
            for disposition in [libc::SIG_DFL, libc::SIG_IGN, handler as *const () as usize] {
                set_sigpipe(disposition);
                make_session(options());
                assert_eq!(sigpipe(), disposition);
            }
        }
        "a handler" => {
            set_sigpipe(handler as *const () as usize);
            make_session(options());
            assert_eq!(sigpipe(), handler as *const () as usize);
        }
        "a refusal" => {
            let error = Session::new(options()).expect_err("it must be refused");
            println!("refused: {error}");
        }
        other => panic!("no such case: {other}"),
    }
    true
}

/// Whether the session comes about is another question: the plugin is loaded either way.
fn make_session(options: SessionOptions) {
    assert!(matches!(options.plugin, PluginChoice::Path(_)));
    drop(Session::new(options));
}

extern "C" fn handler(_: libc::c_int) {}

fn set_sigpipe(disposition: libc::sighandler_t) {
    // SAFETY: the default, to ignore it, or a function that does nothing.
    assert_ne!(unsafe { libc::signal(libc::SIGPIPE, disposition) }, libc::SIG_ERR);
}

fn sigpipe() -> libc::sighandler_t {
    // SAFETY: plain numbers and an optional function, for which zero bytes are values.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: nothing is set; the output is a live variable.
    assert_eq!(unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action) }, 0);
    action.sa_sigaction
}

#[test]
fn sigpipe_is_ignored_where_it_would_end_the_process_and_the_log_says_so() {
    if is_case() {
        return;
    }
    let said = run(again!("a C program"), &[]);
    let line = "SIGPIPE is ignored from now on";
    assert_eq!(said.matches(line).count(), 2, "each time that it changes: {said}");
    assert!(said.lines().any(|said| said.contains(line) && said.contains(" INFO ")), "{said}");
}

#[test]
fn sigpipe_is_left_alone_when_the_program_has_chosen() {
    if is_case() {
        return;
    }
    for (case, variables) in [
        ("a handler", &[][..]),
        ("SIGPIPE is as before", &[("TCPX_KEEP_SIGPIPE", "1")]),
        ("SIGPIPE is as before", &[("TCPX_NULL_NAME", "")]),
    ] {
        let said = run(again!(case), variables);
        assert!(!said.contains("SIGPIPE is ignored"), "{said}");
    }
}

#[test]
fn inline_messages_are_refused_without_the_checks_too() {
    if is_case() {
        return;
    }
    let said = run(again!("a refusal"), &[("NCCL_INLINE_THRESHOLD", "64")]);
    assert!(said.contains("refused: NCCL_INLINE_THRESHOLD = 64: must be 0 or unset"), "{said}");
    assert!(said.contains("[TCPX-115]"), "{said}");
}

#[test]
fn a_chunk_of_too_many_packets_is_refused_with_the_nics_numbers() {
    if is_case() {
        return;
    }
    let Some((nic, mtu)) = nic_of_small_mtu() else {
        report_skip("no interface here has an MTU that bounds a chunk");
        return;
    };
    let chunk = [("NCCL_DYNAMIC_CHUNK_SIZE", "4194304"), ("TCPX_CHUNK_BYTES", "4194304")];
    let said = run(again!("a refusal"), &[&chunk[..], &[("TCPX_NULL_NIC", &nic)]].concat());
    let expected = format!("refused: chunk_bytes = 4194304: with the MTU of {nic}, {mtu}, ");
    assert!(said.contains(&expected) && said.contains("[TCPX-814]"), "{said}");
}

/// An interface whose packets make 2048 fragments of 4 MiB.
fn nic_of_small_mtu() -> Option<(String, u32)> {
    let interfaces = std::fs::read_dir("/sys/class/net").ok()?;
    interfaces.flatten().find_map(|interface| {
        let mtu = std::fs::read_to_string(interface.path().join("mtu")).ok()?;
        let mtu = mtu.trim().parse().ok().filter(|mtu| *mtu <= 2000)?;
        Some((interface.file_name().into_string().ok()?, mtu))
    })
}
