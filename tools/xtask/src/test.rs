//! Tiers of tests, and their steps.
//!
//! A step is one shell command, run at the root of the repository. Its script checks what the
//! machine offers (installed tools, downloads): where one is missing it prints `skipped: ` and the
//! reason, and succeeds.

use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Tier of a step. `Deep` has the steps of `Fast`, too; `Nightly` repeats the subjects of `Deep` at
/// length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tier {
    Fast,
    Deep,
    Nightly,
}

impl Tier {
    const ALL: [Self; 3] = [Self::Fast, Self::Deep, Self::Nightly];

    fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Deep => "deep",
            Self::Nightly => "nightly",
        }
    }

    fn holds(self, step: &TestStep) -> bool {
        step.tier == self || (self == Self::Deep && step.tier == Tier::Fast)
    }
}

/// One command of a tier.
#[derive(Debug)]
struct TestStep {
    name: &'static str,
    tier: Tier,
    about: &'static str,
    command: &'static str,
    /// Whether it runs at the same time as the other steps: it builds in a folder of its own, or
    /// uses one processor at most.
    is_parallel: bool,
}

const fn step(
    name: &'static str,
    tier: Tier,
    about: &'static str,
    command: &'static str,
) -> TestStep {
    TestStep { name, tier, about, command, is_parallel: false }
}

const fn in_parallel(step: TestStep) -> TestStep {
    TestStep { is_parallel: true, ..step }
}

const STEPS: &[TestStep] = &[
    step("tests", Tier::Fast, "the README's test command", "cargo test --workspace --no-fail-fast"),
    in_parallel(step(
        "devmem",
        Tier::Deep,
        "device-memory TCP over a stock kernel in a guest",
        "tcpx-tests/doubles/devmem-vm.sh",
    )),
    step(
        "ignored",
        Tier::Deep,
        "tests marked `deep: `: soaks, kills and cuts in all phases, namespaces, compilers",
        "cargo test --workspace --no-fail-fast --lib --bins --tests -- --ignored",
    ),
    step(
        "gpu",
        Tier::Deep,
        "the GPU suite over a driver without a GPU",
        "tools/scripts/fake-gpu.sh",
    ),
    step(
        "conformance",
        Tier::Deep,
        "every rule of the plugin contract over the software plugin, built in and as a file",
        "tools/scripts/conformance-test.sh",
    ),
    step(
        "installation",
        Tier::Deep,
        "C and C++ programs against an installation",
        "tools/scripts/installation-test.sh",
    ),
    step(
        "packages",
        Tier::Deep,
        "the command as packages, and tools/deploy/gke",
        "tools/scripts/package-test.sh",
    ),
    in_parallel(step(
        "nixl",
        Tier::Deep,
        "the backend below an unmodified NIXL, and its wheel",
        "tools/scripts/nixl-test.sh all",
    )),
    step(
        "python",
        Tier::Deep,
        "the Python package, from its wheel in fresh environments",
        "tools/scripts/python-test.sh all",
    ),
    in_parallel(step(
        "asan",
        Tier::Deep,
        "AddressSanitizer over what decodes outside bytes",
        "tools/scripts/sanitize.sh asan pure",
    )),
    in_parallel(step(
        "fuzz",
        Tier::Deep,
        "each fuzz target for a moment",
        "tools/scripts/fuzz.sh 10",
    )),
    step(
        "aarch64",
        Tier::Deep,
        "the workspace for aarch64, without its tests",
        "tools/scripts/aarch64.sh check",
    ),
    step(
        "faults",
        Tier::Deep,
        "the inserted faults still apply",
        "tools/scripts/inserted_faults.py --check",
    ),
    step(
        "aarch64-tests",
        Tier::Nightly,
        "the workspace for aarch64, and the unit tests of its pure crates in an emulator",
        "tools/scripts/aarch64.sh",
    ),
    step(
        "adapters",
        Tier::Nightly,
        "the Python package below unmodified PyTorch, Ray and vLLM",
        "tools/scripts/python-adapters.sh all",
    ),
    step(
        "vllm",
        Tier::Nightly,
        "prefill and decode servers of vLLM on a CPU: answers, and kills of the prefill server",
        "examples/vllm/run.sh",
    ),
    step(
        "python-large",
        Tier::Nightly,
        "the Python package, with more than a GiB at once",
        "TCPX_TEST_LARGE=1 tools/scripts/python-test.sh all",
    ),
    step(
        "conversations",
        Tier::Nightly,
        "millions of conversations of two peers",
        "TCPX_TEST_INTERLEAVINGS=4000000 cargo test --release -p tcpx-protocol --lib interleavings -- --include-ignored",
    ),
    step(
        "orders",
        Tier::Nightly,
        "lanes, helper threads and comms in half a million orders of their threads",
        "TCPX_TEST_INTERLEAVINGS=10000 cargo test --release -p tcpx-softnet --lib interleavings -- --include-ignored",
    ),
    step(
        "soaks",
        Tier::Nightly,
        "sessions and the software plugin for ten minutes each",
        "TCPX_SOAK_SECONDS=600 cargo test -p tcpx-tests -p tcpx-softnet --test suite soak -- --ignored",
    ),
    step(
        "registrations",
        Tier::Nightly,
        "a million registrations",
        "TCPX_TEST_REGISTRATIONS=1000000 cargo test -p tcpx-tests --test suite registrations -- --include-ignored",
    ),
    step(
        "asan-whole",
        Tier::Nightly,
        "AddressSanitizer over all that moves bytes",
        "tools/scripts/sanitize.sh asan",
    ),
    step(
        "memcheck",
        Tier::Nightly,
        "valgrind's memcheck over transfers",
        "tools/scripts/sanitize.sh memcheck",
    ),
    step(
        "helgrind",
        Tier::Nightly,
        "valgrind's helgrind over the same",
        "tools/scripts/sanitize.sh helgrind",
    ),
    step(
        "fuzz-long",
        Tier::Nightly,
        "each fuzz target for five minutes",
        "tools/scripts/fuzz.sh 300",
    ),
    step(
        "devmem-whole",
        Tier::Nightly,
        "every rule of the contract in the guest",
        "tcpx-tests/doubles/devmem-vm.sh --whole",
    ),
    step(
        "nixl-soak",
        Tier::Nightly,
        "all that agents do, for ten minutes",
        "tools/scripts/nixl-test.sh soak-all 600",
    ),
    step(
        "nixl-idle",
        Tier::Nightly,
        "a transfer of an agent after ten minutes without one",
        "tools/scripts/nixl-test.sh idle-all 600",
    ),
    step(
        "nixl-programs",
        Tier::Nightly,
        "LMCache's channel and SGLang's caches over NIXL on a CPU: TCPX, encrypted, and UCX",
        "tools/scripts/nixl-programs.sh",
    ),
    step(
        "nixl-encrypted",
        Tier::Nightly,
        "all that agents do, with TCPX_ENCRYPTION=require",
        "tools/scripts/nixl-test.sh encrypted-all",
    ),
    step(
        "python-soak",
        Tier::Nightly,
        "all that agents of Python do, for ten minutes",
        "tools/scripts/python-test.sh soak 600",
    ),
    step(
        "faults-whole",
        Tier::Nightly,
        "which tier catches each inserted fault",
        "tools/scripts/inserted_faults.py",
    ),
];

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
