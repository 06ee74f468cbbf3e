//! Options of a run: its plugin, its checks, and their environment.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::memory_kind::MemoryKind;

/// Source of the plugin under test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum PluginSource {
    /// A shared library that exports `ncclNetPlugin_v7`.
    Path(PathBuf),
    /// The table that the program passes to [`child_main`](crate::child_main), since addresses of
    /// this process are not valid in the agents.
    Table,
}

/// Settings of one run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Plugin under test.
    pub target: PluginSource,
    /// Kind of memory that the data checks register. `None`: GPU memory for the hardware plugin,
    /// which takes no other, and where a GPU is named, else emulated device memory.
    pub memory: Option<MemoryKind>,
    /// CUDA ordinal, for [`MemoryKind::Cuda`]; 0 by default. Its context is current on the agents'
    /// thread that calls the plugin.
    pub gpu: Option<u32>,
    /// Checks to run, by name or group: `fifo.test_null`, `fifo`. Empty runs all.
    pub only: Vec<String>,
    /// Whether to run the checks that crash version 3.1.9, too.
    pub destructive: bool,
    /// Time for one check, at least 1 s. Version 3.1.9 sleeps 5 s in every accept unless
    /// `NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS` is lower, and some checks accept four
    /// times.
    pub deadline: Duration,
    /// Time for the whole run; `None` for no limit. Checks that have not started or not ended by
    /// then are [`Outcome::NotRun`].
    ///
    /// [`Outcome::NotRun`]: crate::Outcome::NotRun
    pub time: Option<Duration>,
    /// Checks that run at the same time. `None`: one for each processor, and at most 8; one at a
    /// time for the hardware plugin and in namespaces, where they share the few queues of a NIC.
    /// The report and the calls of `on_result` stay in the order of the checks.
    pub jobs: Option<NonZeroUsize>,
    /// Bytes that `progress.recycling` moves where its time allows: 1 GiB by default, more than the
    /// pages of any plugin hold. At least 128 MiB are moved.
    pub recycled_bytes: u64,
    /// Additional environment of the agents. `NCCL_DYNAMIC_CHUNK_SIZE` is set to 524288 unless it
    /// is set here or in the environment. For [`PluginSource::Table`],
    /// `NCCL_GPUDIRECTTCPX_SOCKET_IFNAME` is set to `lo` in the same way.
    pub environment: Vec<(OsString, OsString)>,
    /// Network namespaces in which the agents of a check run by turns, as files such as
    /// `/run/netns/NAME`: both ends can be on one host and use NICs all the same. Empty: the
    /// program's own. Entering another takes CAP_SYS_ADMIN.
    pub namespaces: Vec<PathBuf>,
    /// Program of the agents, which calls [`child_main`](crate::child_main); the running one by
    /// default.
    pub program: Option<PathBuf>,
    /// Arguments of that program.
    pub arguments: Vec<OsString>,
}

impl Options {
    /// Returns the options of a run of every harmless check, over the memory that suits the plugin,
    /// with 30 s for each check.
    #[must_use]
    pub const fn new(target: PluginSource) -> Self {
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

    /// Returns whether the options select the check of this name.
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
        let mut options = Options::new(PluginSource::Table);
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
