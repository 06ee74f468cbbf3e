//! Tests of the rows, the summary and the status of a run.

use super::*;
use std::time::Duration;

fn report(outcome: Outcome) -> CheckReport {
    let check = checks().iter().find(|check| check.name == "fifo.receive_done_once");
    CheckReport::new(check.expect("a check"), outcome, Duration::from_millis(3))
}

fn of(checks: Vec<CheckReport>) -> Report {
    let mut report = Report::default();
    report.checks = checks;
    report
}

#[test]
fn a_row_says_all_there_is_to_say() {
    let row = |outcome| row(&report(outcome)).expect("a row");
    let text = row(Outcome::Pass);
    assert!(
        text.starts_with("  pass     fifo.receive_done_once ") && text.ends_with("§2.9"),
        "{text}"
    );
    let failed = Outcome::Fail { expected: "rc 3".into(), got: "rc 0".into() };
    let text = row(failed);
    assert!(text.starts_with("  FAIL     fifo.receive_done_once "), "{text}");
    for words in ["a receive is reported done once", "expected: rc 3", "got:      rc 0"] {
        assert!(text.contains(words), "{text}");
    }
    let text = row(Outcome::Skip { reason: "no symbol".into() });
    assert!(text.ends_with("\n           no symbol"), "{text}");
}

#[test]
fn every_name_fits_its_column() {
    for check in checks() {
        assert!(check.name.len() <= NAME, "{}", check.name);
    }
}

#[test]
fn the_status_says_what_was_broken_and_whether_all_was_tried() {
    let skip = || report(Outcome::Skip { reason: "no symbol".into() });
    let fail = || report(Outcome::Fail { expected: "3".into(), got: "0".into() });
    let not_run = || report(Outcome::NotRun { reason: "no GPU".into() });
    let run = |checks: Vec<CheckReport>| status(&of(checks));
    assert_eq!(run(vec![skip(), report(Outcome::Pass)]), 0);
    assert_eq!(run(vec![skip(), skip()]), 3);
    assert_eq!(run(vec![report(Outcome::Pass), not_run()]), 3);
    assert_eq!(run(vec![report(Outcome::Pass), fail()]), 1);
    assert_eq!(run(vec![fail(), not_run()]), 1);
}

#[test]
fn a_run_has_the_more_time_the_fewer_checks_run_at_once() {
    let seconds = [1, 2, 3, 4, 8, 64].map(|jobs| usual_time(jobs).as_secs());
    assert_eq!(seconds, [720, 360, 360, 180, 180, 180]);
}

#[test]
fn each_reason_why_checks_were_not_run_is_told_once() {
    let not_run_for = |reason: &str| report(Outcome::NotRun { reason: reason.into() });
    let [gpu, time] = ["no GPU", "no time"];
    let all = of([gpu, time, gpu].map(not_run_for).into());
    assert_eq!(
        not_run(&all),
        [
            "2 checks not run: no GPU\n  they are of fifo",
            "1 checks not run: no time\n  they are of fifo"
        ]
    );
    assert_eq!(all.checks.iter().filter_map(row).count(), 0);
}

#[test]
fn the_summary_counts_by_outcome() {
    let differs = Outcome::Differs { text: "stricter".into() };
    let report = of(vec![report(Outcome::Pass), report(differs)]);
    let expected = "2 checks over emulated memory: 1 passed, 0 failed, 1 differing, 0 skipped, \
                    0 not run";
    assert_eq!(summary(&report), expected);
}
