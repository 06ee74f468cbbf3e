//! Each broken rule is caught by the check of that rule, and the unbroken plugin passes.

use tcpx_conformance::{Outcome, Report};

use crate::broken::{at_once, run_broken};

/// Mode, the check that must fail, and words of its finding.
const CAUGHT: &[(&str, &str, &str)] = &[
    ("max-recvs", "abi.limits", "8"),
    ("devices-early", "lifecycle.devices_before_init", "0"),
    ("init-twice", "lifecycle.init_twice", "0 (ncclSuccess)"),
    ("listen-range", "lifecycle.listen_beyond", "0 (ncclSuccess)"),
    ("handle-overrun", "lifecycle.handle_bounds", "1 bytes written"),
    ("device-handle-early", "lifecycle.accept_pending", "written without a peer"),
    ("device-version", "lifecycle.accept_device_handle", "version: 8"),
    ("close-null", "lifecycle.close_null", "2 (ncclSystemError)"),
    ("alignment", "registration.unaligned", "0 (ncclSuccess)"),
    ("dma-buf", "registration.type_dma_buf", "0 (ncclSuccess)"),
    ("odd-size", "registration.odd_size", "2 (ncclSystemError)"),
    ("dereg-null", "registration.dereg_null", "3 (ncclInternalError)"),
    ("device-mr", "registration.device_mr", "0x"),
    ("group", "requests.irecv_n", "0 (ncclSuccess)"),
    ("tags", "requests.tags_null", "3 (ncclInternalError)"),
    ("limit", "requests.seventeenth_send", "0 (ncclSuccess)"),
    ("limit", "requests.seventeenth_receive", "0 (ncclSuccess)"),
    ("request-touched", "requests.seventeenth_receive", "0x0"),
    ("fifo", "fifo.receive_out_of_order", "done 1"),
    ("fifo", "fifo.send_out_of_order", "done 1"),
    ("done-twice", "fifo.receive_done_once", "done 1"),
    ("done-twice", "fifo.send_done_once", "done 1"),
    ("sizes", "fifo.sizes_untouched", "0"),
    ("posted-size", "fifo.iflush_size_differs", "the 100000 that were posted"),
    ("consume-early", "fifo.consume_early", "0 (ncclSuccess)"),
    ("consume-early", "fifo.consume_out_of_order", "0 (ncclSuccess)"),
    ("cover", "entries.cover", "entries for 0 bytes of a message of 1"),
    ("overlap", "entries.cover", "overlap"),
    ("outside", "entries.region", "in a region of"),
    ("content", "entries.content", "Mismatch"),
    ("slot", "queue.slots", "entries for 0 bytes"),
    ("cnt-early", "queue.cnt_stale", "7 after"),
    ("head", "queue.head", "after 1 receives"),
    ("host-cnt", "host.to_host", "1 in slot"),
    ("recycle-early", "entries.unconsumed_stay", ""),
    ("recycle-never", "progress.recycling", "irecv of message"),
    ("progress", "progress.none_without_test", "the receive was done"),
    ("listen-range", "lifecycle.listen_negative", "0 (ncclSuccess)"),
    ("dma-buf", "registration.type_unknown", "0 (ncclSuccess)"),
    ("handle-state", "lifecycle.handle_state", "1"),
    ("slow-connect", "lifecycle.connect_prompt", "it took "),
    ("connect-device", "lifecycle.connect_leaves_device_handle", "7"),
    ("shared-connect", "lifecycle.connect_copies", " and 0x"),
    ("stranger", "lifecycle.strays", "0x1000"),
    ("leak", "registration.no_leak", "after"),
    ("close-leak", "lifecycle.close_leaks_nothing", "more comms"),
    ("wild-data", "requests.irecv_wild_data", "3 (ncclInternalError)"),
    ("unaligned-send", "requests.isend_unaligned", "3 (ncclInternalError)"),
    ("shared-limit", "comms.independent", "3 (ncclInternalError)"),
    ("test-null", "fifo.test_null", "0 (ncclSuccess)"),
    ("page-cross", "entries.pages", "crosses a 4096-byte page"),
    ("shared-bounce", "entries.sources_disjoint", "share bounce bytes"),
    ("empty-cnt", "queue.empty_cnt", "1"),
    ("host-overrun", "host.bounds", "1 bytes"),
    ("no-sync", "progress.rendezvous", "done without one"),
    ("peer-done", "peer.closed_idle", "Done"),
    ("peer-abort", "peer.closed_idle", "SIGABRT"),
    ("peer-abort", "peer.killed_receiver", "SIGABRT"),
    ("cover", "sizes.bytes_4097", "bytes of a message of 4097"),
    ("content", "sizes.sequence", "Mismatch"),
    ("content", "comms.interleaved", "Mismatch"),
    ("fifo", "fifo.refusal_not_fatal", "done 1"),
];

#[test]
fn every_broken_rule_is_caught_by_its_check() {
    let missed =
        at_once(CAUGHT, |&(mode, check, words)| match run_broken(mode, &[check]).outcome(check) {
            Some(Outcome::Fail { got, .. }) if got.contains(words) => None,
            other => Some(format!("{mode} by {check}: {other:?}")),
        });
    assert_eq!(missed, Vec::<String>::new());
}

/// What the original does and another plugin should not: mode, check, and the end of its answer.
const ORIGINAL: &[(&str, &str, &str)] = &[
    ("stdin", "registration.odd_size", "pass"),
    ("stdin", "registration.keeps_stdin", "closes file descriptor 0 of the process, as 3.1.9 does"),
    ("quiet-retest", "fifo.send_done_once", "pass"),
    ("quiet-retest", "fifo.receive_done_once", "pass"),
    ("consume-send", "fifo.consume_send", "pass"),
];

#[test]
fn quirks_of_the_original_are_no_failures() {
    for &(mode, check, words) in ORIGINAL {
        let report = run_broken(mode, &[check]);
        let outcome = report.outcome(check).expect("the check was selected");
        assert!(!outcome.failed() && outcome.to_string().ends_with(words), "{mode}: {outcome}");
        let skipped = matches!(outcome, Outcome::Skip { .. } | Outcome::NotRun { .. });
        assert!(!skipped, "{mode}: {outcome}");
    }
}

/// What only a file has.
const FILE: [&str; 3] = ["abi.symbol", "abi.other_symbols", "abi.members"];

#[test]
fn nothing_is_caught_where_nothing_is_broken() {
    passes_unbroken(run_broken("", &FILE), FILE);
}

#[test]
#[ignore = "deep: all checks, over a file that passes everything on to the software plugin"]
fn nothing_at_all_is_caught_where_nothing_is_broken() {
    let caught = CAUGHT.iter().map(|&(_, check, _)| check);
    passes_unbroken(run_broken("", &[]), caught.chain(FILE));
}

fn passes_unbroken<'a>(report: Report, certainly: impl IntoIterator<Item = &'a str>) {
    for check in &report.checks {
        assert!(!check.outcome.failed(), "{}: {}", check.name, check.outcome);
    }
    for check in certainly {
        // The software plugin takes sizes that the original does not.
        if check != "registration.odd_size" {
            assert_eq!(report.outcome(check), Some(&Outcome::Pass), "{check}");
        }
    }
}

#[test]
fn a_name_that_is_no_mode_breaks_init() {
    let report = run_broken("no-such-mode", &["lifecycle.init"]);
    assert!(report.failed(), "{report:?}");
}
