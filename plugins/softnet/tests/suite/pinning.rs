//! Helper threads run on the processors that they are given, and no other thread is moved.

use std::fs;

use tcpx_softnet::{HelperCpus, Helpers};
use tcpx_testkit::{in_own_process, until};

use crate::support::exchange::{SIZES, exchange};
use crate::support::{self, KINDS};

const THREADS: usize = 2;

/// What the system says of a thread of this process: its name, and where it may run.
fn threads() -> Vec<(String, String)> {
    let tasks = fs::read_dir("/proc/self/task").expect("Linux has it");
    let read = |task: std::io::Result<fs::DirEntry>| {
        // A thread that ends meanwhile is gone.
        let status = fs::read_to_string(task.ok()?.path().join("status")).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map(|value| value.trim().to_owned())
        };
        Some((field("Name:")?, field("Cpus_allowed_list:")?))
    };
    tasks.filter_map(read).collect()
}

#[test]
fn helper_threads_run_on_the_cpus_of_the_setting() {
    in_own_process!();
    let own = threads().into_iter().map(|(_, cpus)| cpus).next().expect("this thread");
    let first = own.split([',', '-']).next().expect("a processor").to_owned();
    let net = support::net(|settings| {
        settings.sockets = 4;
        settings.threads = THREADS as u16;
        settings.helpers = Helpers::On;
        settings.cpus = first.parse::<HelperCpus>().expect("a processor");
    });
    let pair = net.pair();
    let helpers = || threads().into_iter().filter(|(name, _)| name.starts_with("tcpx-soft-"));
    until("all helper threads are there", || {
        helpers().filter(|(_, cpus)| *cpus == first).count() == 2 * THREADS
    });
    assert_eq!(helpers().count(), 2 * THREADS);
    assert!(threads().iter().any(|(_, cpus)| *cpus == own), "the others stay where they were");
    exchange(pair, (KINDS[0], KINDS[1]), &SIZES[..8], 4);
}
