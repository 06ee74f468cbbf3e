//! Runs of the tests' steps, by tier or by name.

mod steps;

use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use self::steps::{STEPS, TestStep, Tier};

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
    let (main, parallel) = std::thread::scope(|scope| {
        let parallel = scope.spawn(|| {
            // The output of each is printed when no other step prints.
            let each = parallel.iter().map(|step| {
                let log = tempfile::NamedTempFile::new()?;
                let ended = step.run(root, Some(log.reopen()?))?;
                Ok((ended, std::fs::read(log.path())?))
            });
            each.collect::<std::io::Result<Vec<_>>>()
        });
        let main = main.iter().map(|step| {
            print_line(&format!("\n== {}: {}\n+ {}", step.name, step.about, step.command));
            step.run(root, None)
        });
        (main.collect::<std::io::Result<Vec<_>>>(), parallel.join())
    });
    let mut finished = main?;
    let mut parallel = parallel.map_err(|_| "the thread of the parallel steps panicked")??;
    // A failure stands at the end, where it is looked for.
    parallel.sort_by_key(|(ended, _)| !ended.is_good);
    for (ended, printed) in parallel {
        print_line(&format!("\n== {}, which ran in parallel", ended.name));
        print_line(&String::from_utf8_lossy(&printed));
        finished.push(ended);
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
}

impl TestStep {
    /// Runs the step to its end. Its output goes to `log`, or to this program's output.
    fn run(&self, root: &Path, log: Option<std::fs::File>) -> std::io::Result<StepResult> {
        let since = Instant::now();
        let mut command = Command::new("bash");
        command.args(["-c", self.command]).current_dir(root).stdin(Stdio::null());
        if let Some(log) = log {
            command.stdout(log.try_clone()?).stderr(log);
        }
        let is_good = command.status()?.success();
        Ok(StepResult { name: self.name, is_good, took: since.elapsed() })
    }
}

fn report(finished: &[StepResult]) -> Result<String, Box<dyn Error>> {
    let mut table = String::new();
    for StepResult { name, is_good, took } in finished {
        let word = if *is_good { "passed" } else { "FAILED" };
        // Writing to a string cannot fail.
        let _ = writeln!(table, "{name:14} {word} {:6} s", took.as_secs());
    }
    let table = table.trim_end().to_owned();
    if finished.iter().all(|step| step.is_good) {
        return Ok(table);
    }
    Err(format!("not all steps passed\n{table}").into())
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

    #[test]
    fn a_step_that_fails_does_not_hide_the_others() {
        let failed = |name, is_good| StepResult { name, is_good, took: Duration::from_secs(3) };
        let error = report(&[failed("one", false), failed("two", true)]).unwrap_err().to_string();
        assert!(error.contains("one            FAILED      3 s"), "{error}");
        assert!(error.contains("two            passed      3 s"), "{error}");
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
