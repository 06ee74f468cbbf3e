//! Runs checks against the broken plugin.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::time::Duration;
use std::{iter, thread};

use tcpx_conformance::{Options, PluginSource, Report, child_main, run};
use tcpx_testkit::process::library;
use tcpx_testkit::{PATIENCE, scaled};

/// What the agents run: this program with this one test.
#[test]
fn agent() {
    child_main(None);
}

/// Checks that run at the same time: most of their time passes with waiting.
const AT_ONCE: usize = 6;

/// Asks `check` about each of `rows`, several at a time, and returns what it has to say.
pub(crate) fn at_once<T: Sync>(
    rows: &[T],
    check: impl Fn(&T) -> Option<String> + Sync,
) -> Vec<String> {
    let rows = Mutex::new(rows.iter());
    let next = || rows.lock().expect("a thread that looks").next();
    let work = || iter::from_fn(next).filter_map(&check).collect::<Vec<_>>();
    thread::scope(|scope| {
        let threads = [(); AT_ONCE].map(|()| scope.spawn(work));
        threads.into_iter().flat_map(|thread| thread.join().expect("it has looked")).collect()
    })
}

/// Time for one check: a plugin that hangs uses it up, and one that leaks a quarter of it.
fn deadline(mode: &str) -> Duration {
    match mode {
        "hang" => scaled(Duration::from_secs(4)),
        "close-leak" => scaled(Duration::from_secs(8)),
        _ => PATIENCE,
    }
}

/// Runs the checks `only` with the rule of `mode` broken.
pub(crate) fn run_broken(mode: &str, only: &[&str]) -> Report {
    let mut options = Options::new(PluginSource::Path(library("libnccl_net_tcpx_broken.so")));
    options.arguments = ["broken::agent", "--exact", "--nocapture"].map(Into::into).to_vec();
    options.only = only.iter().map(ToString::to_string).collect();
    options.deadline = deadline(mode);
    options.jobs = NonZeroUsize::new(AT_ONCE);
    options.recycled_bytes = 128 << 20;
    options.environment = [
        ("TCPX_BROKEN", mode),
        ("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "lo"),
        // Recycled pages are overwritten, and there are few of them.
        ("TCPX_SOFT_POISON", "1"),
        ("TCPX_SOFT_POOL_BYTES", "33554432"),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .to_vec();
    run(&options, &mut |_| {}).expect("sensible options")
}
