//! Tiers of tests, and their steps.
//!
//! A step is one shell command, run at the root of the repository. Its script checks what the
//! machine offers (installed tools, downloads): where one is missing it prints `skipped: ` and the
//! reason, and succeeds.

/// Tier of a step. `Deep` has the steps of `Fast`, too; `Nightly` repeats the subjects of `Deep` at
/// length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tier {
    Fast,
    Deep,
    Nightly,
}

impl Tier {
    pub(super) const ALL: [Self; 3] = [Self::Fast, Self::Deep, Self::Nightly];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Deep => "deep",
            Self::Nightly => "nightly",
        }
    }

    pub(super) fn holds(self, step: &TestStep) -> bool {
        step.tier == self || (self == Self::Deep && step.tier == Tier::Fast)
    }
}

/// One command of a tier.
#[derive(Debug)]
pub(super) struct TestStep {
    pub(super) name: &'static str,
    pub(super) tier: Tier,
    pub(super) about: &'static str,
    pub(super) command: &'static str,
    /// Whether it runs at the same time as the other steps: it builds in a folder of its own, or
    /// little in the common one.
    pub(super) is_parallel: bool,
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

pub(super) const STEPS: &[TestStep] = &[
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
    in_parallel(step(
        "conformance",
        Tier::Deep,
        "every rule of the plugin contract over the software plugin, built in and as a file",
        "tools/scripts/conformance-test.sh",
    )),
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
        "tools/scripts/fuzz.sh 3",
    )),
    // Its build wants the common folder: it runs beside steps that build little there. The steps
    // behind it are short, so that no thread ends late.
    in_parallel(step(
        "python",
        Tier::Deep,
        "the Python package, from its wheel in fresh environments: the oldest and the newest Python",
        "tools/scripts/python-test.sh ends",
    )),
    in_parallel(step(
        "publish",
        Tier::Deep,
        "each published crate from its package, with the oldest Rust",
        "tools/scripts/publish-test.sh",
    )),
    in_parallel(step(
        "aarch64",
        Tier::Deep,
        "the workspace for aarch64, without its tests",
        "tools/scripts/aarch64.sh check",
    )),
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
        "the Python package with each Python, and with more than a GiB at once",
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
