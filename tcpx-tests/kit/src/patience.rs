//! Time in tests. A wait for something that must come is long, since no test is about how fast the
//! machine is; a deadline under test is short, and longer on a slow machine.

use std::env;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long a test waits for something that must come before it fails.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The same in milliseconds, for interfaces that take them.
pub const PATIENCE_MS: i32 = 120_000;

/// `short`, times what `TCPX_TEST_SLOW` says (1 where it says nothing): a deadline that a test sets
/// in order to see it pass, or by which something must have come that takes far less.
///
/// # Panics
/// When the variable is no number from 1 on.
#[must_use]
pub fn scaled(short: Duration) -> Duration {
    static FACTOR: OnceLock<u32> = OnceLock::new();
    let factor = FACTOR.get_or_init(|| match env::var("TCPX_TEST_SLOW") {
        Ok(text) => {
            text.parse().ok().filter(|factor| *factor > 0).expect("TCPX_TEST_SLOW is 1 or more")
        }
        Err(_) => 1,
    });
    short * *factor
}

/// Repeats `attempt` until it has an answer, and lets other threads run in between.
///
/// # Panics
/// When there is none in [`PATIENCE`].
pub fn eventually<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = attempt() {
            return answer;
        }
        assert!(Instant::now() < deadline, "nothing came in {PATIENCE:?}");
        std::thread::yield_now();
    }
}

/// Waits until `condition` is true.
///
/// # Panics
/// When it is not in [`PATIENCE`]; the message names `what`.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "not in {PATIENCE:?}: {what}");
        std::thread::yield_now();
    }
}
