//! Runs of the tests' steps, by tier or by name.

mod steps;

use std::error::Error;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use self::steps::{STEPS, TestStep, Tier};

/// Threads for the steps that run in parallel. Where one step waits for a network, a linker or its
/// own tests, two others have the processors.
const HELPERS: usize = 2;
/// Most lines of a failed step that are printed once more at the end, where they are looked for.
const REASON_LINES: usize = 80;

/// Returns the text that `--list` prints: each step with its tier.
pub(crate) fn list() -> String {
    let mut lines = String::new();
    for TestStep { name, tier, about, .. } in STEPS {
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "{name:14} {:8} {about}", tier.name());
    }
    lines.trim_end().to_owned()
}

/// Runs the steps that `words` name, each a step or a tier, in the table's order. Returns a table
/// of their seconds.
///
/// # Errors
/// When a word is neither a step nor a tier, or a step cannot be started or fails. The others run
/// all the same, and the error names the failed ones.
pub(crate) fn run(root: &Path, words: &[String]) -> Result<String, Box<dyn Error>> {
    let steps = select(words)?;
    let (mut parallel, mut main): (Vec<_>, Vec<_>) =
        steps.into_iter().partition(|it| it.is_parallel);
    if main.is_empty() {
        std::mem::swap(&mut main, &mut parallel);
    }
    let next = Mutex::new(parallel.into_iter());
    // The output of each is printed when no other step prints.
    let help = || {
        let next = || next.lock().unwrap_or_else(PoisonError::into_inner).next();
        std::iter::from_fn(next).map(|step| step.run(root, false)).collect()
    };
    let (main, helpers) = std::thread::scope(|scope| {
        let helpers: Vec<_> = (0..HELPERS).map(|_| scope.spawn(help)).collect();
        let main = main.iter().map(|step| {
            print_line(&format!("\n== {}: {}\n+ {}", step.name, step.about, step.command));
            step.run(root, true)
        });
        let main = main.collect::<std::io::Result<Vec<_>>>();
        (main, helpers.into_iter().map(|helper| helper.join()).collect::<Vec<_>>())
    });
    let mut finished = main?;
    for ended in helpers {
        let ended: std::io::Result<Vec<_>> =
            ended.map_err(|_| "a thread of the parallel steps panicked")?;
        for ended in ended? {
            print_line(&format!("\n== {}, which ran in parallel\n{}", ended.name, ended.printed));
            finished.push(ended);
        }
    }
    report(&finished)
}

fn select(words: &[String]) -> Result<Vec<&'static TestStep>, Box<dyn Error>> {
    for word in words {
        let is_known = STEPS.iter().any(|step| step.name == word)
            || Tier::ALL.iter().any(|tier| tier.name() == word);
        if !is_known {
            return Err(
                format!("{word} is neither a tier nor one of the steps:\n{}", list()).into()
            );
        }
    }
    let is_named = |step: &&TestStep| {
        words.iter().any(|word| {
            step.name == word
                || Tier::ALL.iter().any(|tier| tier.name() == word && tier.holds(step))
        })
    };
    Ok(STEPS.iter().filter(is_named).collect())
}

/// Result of a step.
struct StepResult {
    name: &'static str,
    is_good: bool,
    took: Duration,
    printed: String,
}

impl TestStep {
    /// Runs the step to its end. `is_shown`: this program prints what the step prints, meanwhile.
    fn run(&self, root: &Path, is_shown: bool) -> std::io::Result<StepResult> {
        let since = Instant::now();
        // No pipe: what a step left running would hold it open.
        let log = tempfile::NamedTempFile::new()?;
        let output = log.reopen()?;
        let mut command = Command::new("bash");
        command.args(["-c", self.command]).current_dir(root).stdin(Stdio::null());
        command.stdout(output.try_clone()?).stderr(output);
        let mut child = command.spawn()?;
        let (mut reader, mut printed) = (log.reopen()?, Vec::new());
        let status = loop {
            // What it printed before it ended is read after it has.
            let ended = if is_shown { child.try_wait()? } else { Some(child.wait()?) };
            let shown = printed.len();
            reader.read_to_end(&mut printed)?;
            if is_shown {
                std::io::stdout().write_all(&printed[shown..])?;
            }
            if let Some(status) = ended {
                break status;
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        let printed = String::from_utf8_lossy(&printed).into_owned();
        Ok(StepResult {
            name: self.name,
            is_good: status.success(),
            took: since.elapsed(),
            printed,
        })
    }
}

/// Returns the part of a failed step's output that says why: its failed tests without their
/// backtraces, or its end.
fn reason(printed: &str) -> String {
    let is_frame = |line: &str| {
        let (number, _) = line.split_once(": ").unwrap_or_default();
        line.starts_with("             at ") || number.trim_start().parse::<u32>().is_ok()
    };
    let mut is_failure = false;
    let failures = printed.lines().filter(|line| {
        is_failure |= *line == "failures:";
        is_failure &= !line.starts_with("test result: ");
        is_failure && !is_frame(line)
    });
    let mut lines: Vec<_> = failures.collect();
    if lines.is_empty() {
        lines = printed.lines().collect();
    }
    lines.split_off(lines.len().saturating_sub(REASON_LINES)).join("\n")
}

fn report(finished: &[StepResult]) -> Result<String, Box<dyn Error>> {
    let (mut table, mut reasons) = (String::new(), String::new());
    for StepResult { name, is_good, took, printed } in finished {
        let word = if *is_good { "passed" } else { "FAILED" };
        // Writing to a string cannot fail.
        let _ = writeln!(table, "{name:14} {word} {:6} s", took.as_secs());
        if !is_good {
            let _ = writeln!(reasons, "\n== {name}, which failed\n{}", reason(printed));
        }
    }
    let table = table.trim_end().to_owned();
    if finished.iter().all(|step| step.is_good) {
        return Ok(table);
    }
    Err(format!("not all steps passed\n{reasons}\n{table}").into())
}

#[allow(clippy::print_stdout, reason = "a program's output")]
fn print_line(line: &str) {
    println!("{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn names(asked: &[&str]) -> Vec<&'static str> {
        select(&words(asked)).unwrap().iter().map(|step| step.name).collect()
    }

    #[test]
    fn a_tier_has_its_steps_and_those_of_the_one_before() {
        assert_eq!(names(&["fast"]), ["tests"]);
        assert!(names(&["deep"]).starts_with(&["tests", "devmem", "ignored"]));
        assert!(!names(&["nightly"]).contains(&"tests"));
        assert_eq!(names(&["nixl", "tests"]), ["tests", "nixl"]);
    }

    #[test]
    fn an_unknown_word_is_refused_with_all_steps() {
        let error = select(&words(&["tests", "nlxi"])).unwrap_err().to_string();
        assert!(error.contains("nlxi") && error.contains("nixl "), "{error}");
    }

    fn ended(name: &'static str, is_good: bool, printed: &str) -> StepResult {
        StepResult { name, is_good, took: Duration::from_secs(3), printed: printed.to_owned() }
    }

    #[test]
    fn a_step_that_fails_does_not_hide_the_others_and_says_why_at_the_end() {
        let steps = [ended("one", false, "no such file\n"), ended("two", true, "all is well")];
        let error = report(&steps).unwrap_err().to_string();
        assert!(error.contains("one            FAILED      3 s"), "{error}");
        assert!(error.contains("two            passed      3 s"), "{error}");
        assert!(error.contains("no such file") && !error.contains("all is well"), "{error}");
    }

    #[test]
    fn the_reason_is_the_failed_tests_of_all_programs_or_the_last_lines() {
        let tests = "test a ... FAILED\n\nfailures:\n\n---- a stdout ----\nwrong\n  10: main\n             at ./a.rs:1:2\n\n\
                     failures:\n    a\n\ntest result: FAILED. 9 passed\ntest b ... ok\n\
                     failures:\n    c\n\ntest result: FAILED. 8 passed\nerror: 2 failed";
        let expected = "failures:\n\n---- a stdout ----\nwrong\n\nfailures:\n    a\n\n\
                        failures:\n    c\n";
        assert_eq!(reason(tests), expected);
        let lines: String = (0..100).map(|line| format!("{line}\n")).collect();
        assert!(reason(&lines).starts_with("20\n21\n") && reason(&lines).ends_with("\n99"));
        assert_eq!(reason(""), "");
    }

    #[test]
    fn a_step_keeps_what_it_printed_whether_it_is_shown_or_not() {
        let command = "echo out; echo error >&2; exit 3";
        for is_shown in [false, true] {
            let step = TestStep { command, ..STEPS[0] };
            let ended = step.run(Path::new("/"), is_shown).unwrap();
            assert_eq!((ended.is_good, &*ended.printed), (false, "out\nerror\n"));
        }
    }

    #[test]
    fn every_script_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for step in STEPS.iter().filter(|step| step.command.contains('/')) {
            let mut words = step.command.split(' ');
            let script = words.find(|word| !word.contains('=')).unwrap_or_default();
            assert!(root.join(script).is_file(), "{}: {script}", step.name);
        }
    }
}
