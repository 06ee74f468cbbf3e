//! Options of a run: its checks, and their surroundings.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::memory_kind::MemoryKind;

/// The plugin under check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Target {
    /// A shared library that exports `ncclNetPlugin_v7`.
    Path(PathBuf),
    /// The table that the program hands to [`child_main`](crate::child_main). It is named there and
    /// not here because addresses of this process mean nothing in the agents.
    Table,
}

/// Settings of one run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The plugin.
    pub target: Target,
    /// Kind of memory that the data checks register. `None`: GPU memory for the hardware plugin,
    /// which takes no other, and where a GPU is named, else emulated device memory.
    pub memory: Option<MemoryKind>,
    /// CUDA ordinal, for [`MemoryKind::Cuda`]; 0 by default. Its context is current on the agents'
    /// thread that calls the plugin.
    pub gpu: Option<u32>,
    /// Checks to run, by name or group: `fifo.test_null`, `fifo`. Empty runs all.
    pub only: Vec<String>,
    /// Also run the checks that crash version 3.1.9.
    pub destructive: bool,
    /// Time for one check, at least 1 s. Version 3.1.9 sleeps 5 s in every accept unless
    /// `NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS` is lower, and some checks accept four
    /// times.
    pub deadline: Duration,
    /// Time for the whole run; with `None` it takes as long as its checks do. Checks that it does
    /// not reach, or that have not answered by then, are [`Outcome::NotRun`].
    ///
    /// [`Outcome::NotRun`]: crate::Outcome::NotRun
    pub time: Option<Duration>,
    /// Checks that run at the same time. `None`: as many as there are processors, and at most 8;
    /// one for the hardware plugin, and in namespaces, since there they would share what a NIC has
    /// little of. The report, and the calls that deliver it, stay in the order of the checks.
    pub jobs: Option<NonZeroUsize>,
    /// Bytes that `progress.recycling` moves where its time allows: 1 GiB by default, which is more
    /// than any plugin has pages for. At least 128 MiB are moved.
    pub recycled_bytes: u64,
    /// Additional environment of the agents. `NCCL_DYNAMIC_CHUNK_SIZE` is set to 524288 unless it
    /// is set here or in the environment; for [`Target::Table`] `NCCL_GPUDIRECTTCPX_SOCKET_IFNAME`
    /// is set to `lo` in the same way.
    pub environment: Vec<(OsString, OsString)>,
    /// Network namespaces in which the agents of a check run by turns, as files such as
    /// `/run/netns/NAME`. So both ends can be on one host, and yet use NICs. Empty: that of the
    /// program. Entering another takes CAP_SYS_ADMIN.
    pub namespaces: Vec<PathBuf>,
    /// Program to start as agent; the running one by default. It calls
    /// [`child_main`](crate::child_main).
    pub program: Option<PathBuf>,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

impl Options {
    /// Every harmless check, over the memory that suits the plugin, with 30 s for each check.
    #[must_use]
    pub const fn new(target: Target) -> Self {
        Self {
            target,
            memory: None,
            gpu: None,
            only: Vec::new(),
            destructive: false,
            deadline: Duration::from_secs(30),
            time: None,
            jobs: None,
            recycled_bytes: 1 << 30,
            environment: Vec::new(),
            program: None,
            namespaces: Vec::new(),
            arguments: Vec::new(),
        }
    }

    /// Returns whether the check of this name is to run.
    pub(crate) fn selects(&self, name: &str) -> bool {
        let matches = |wanted: &String| {
            name.strip_prefix(wanted.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.only.is_empty() || self.only.iter().any(matches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_or_a_whole_name_selects() {
        let mut options = Options::new(Target::Table);
        assert!(options.selects("fifo.retest"));
        options.only = vec!["fifo".to_owned(), "abi.name".to_owned()];
        assert!(options.selects("fifo.retest") && options.selects("abi.name"));
        assert!(
            !options.selects("abi.names")
                && !options.selects("abi.members")
                && !options.selects("fifos.x")
        );
    }
}
