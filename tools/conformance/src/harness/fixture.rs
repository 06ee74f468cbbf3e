//! Fixture of a check: agents on demand, and the time of the check.

use std::cell::Cell;
use std::time::{Duration, Instant};

use tcpx_sys::{HANDLE_BYTES, NcclResult};

use crate::harness::agent_process::AgentProcess;
use crate::harness::check_result::{CheckResult, fail, not_run, require_rc, skip};
use crate::harness::plugin_under_test::PluginUnderTest;
use crate::link::values::{LoadFailure, LoadedTable, PointerReply};
use crate::memory_kind::MemoryKind;

/// Time from the end of a check's loops to the end of its calls, so that a loop can name what it
/// waited for.
const CALL_GRACE: Duration = Duration::from_secs(2);

/// Agents and time of one check.
#[derive(Debug)]
pub(crate) struct Fixture<'a> {
    pub plugin: &'a PluginUnderTest<'a>,
    /// Time of the check.
    time: Duration,
    deadline: Instant,
    /// Deadline of calls.
    end: Instant,
    /// Agents started so far.
    agents: Cell<usize>,
}

impl<'a> Fixture<'a> {
    /// Starts the time of a check. `left` is what remains of the run's time; the last quarter of it
    /// is for calls that hang.
    pub(crate) fn new(plugin: &'a PluginUnderTest<'a>, left: Option<Duration>) -> Self {
        let (now, own) = (Instant::now(), plugin.options.deadline);
        let time = left.map_or(own, |left| own.min(left * 3 / 4));
        let deadline = now + time;
        let end = deadline + CALL_GRACE;
        Self {
            plugin,
            time,
            deadline,
            end: left.map_or(end, |left| end.min(now + left)),
            agents: Cell::new(0),
        }
    }

    /// Returns whether the check had less than its own time, since the run's time is short, and has
    /// used it up.
    pub(crate) fn was_cut_short(&self) -> bool {
        self.time < self.plugin.options.deadline && Instant::now() >= self.deadline
    }

    /// Returns the kind of memory that the data checks use.
    pub(crate) const fn memory(&self) -> MemoryKind {
        self.plugin.memory
    }

    /// Returns whether the check has used up the share `numerator / denominator` of its time.
    pub(crate) fn has_used(&self, numerator: u32, denominator: u32) -> bool {
        self.deadline.saturating_duration_since(Instant::now())
            <= self.time * (denominator - numerator) / denominator
    }

    /// Returns the share `numerator / denominator` of the check's time.
    pub(crate) fn share(&self, numerator: u32, denominator: u32) -> Duration {
        self.time * numerator / denominator
    }

    /// Starts an agent that has not loaded the plugin.
    pub(crate) fn start_agent(&self, environment: &[(&str, &str)]) -> CheckResult<AgentProcess> {
        let index = self.agents.replace(self.agents.get() + 1);
        AgentProcess::start(self.plugin.options, self.plugin.gpu, environment, index, self.end)
    }

    /// Has an agent load the plugin, and returns its table.
    pub(crate) fn load_table(&self) -> CheckResult<Result<LoadedTable, LoadFailure>> {
        match self.start_agent(&[])?.load()? {
            // Without a GPU, the libraries that the hardware plugin needs may be absent, too.
            Err(LoadFailure { has_null_member: false, text }) if self.lacks_gpu() => {
                Err(not_run(format!("the hardware plugin cannot be loaded without a GPU: {text}")))
            }
            loaded => Ok(loaded),
        }
    }

    /// Returns whether the plugin needs a GPU to be initialised, and there is none.
    fn lacks_gpu(&self) -> bool {
        self.plugin.is_hardware && self.plugin.no_memory.is_some()
    }

    /// Starts an agent with more environment, and has it load the plugin.
    pub(crate) fn loaded_agent(&self, environment: &[(&str, &str)]) -> CheckResult<AgentProcess> {
        if self.lacks_gpu() {
            self.require_available()?;
        }
        let process = self.start_agent(environment)?;
        process.load()?.map_err(|failure| fail("the plugin loads", failure.text))?;
        Ok(process)
    }

    /// Starts an agent that has initialised the plugin.
    pub(crate) fn ready_agent(&self) -> CheckResult<AgentProcess> {
        self.ready_agent_with(&[])
    }

    /// Starts an agent with more environment that has initialised the plugin.
    pub(crate) fn ready_agent_with(
        &self,
        environment: &[(&str, &str)],
    ) -> CheckResult<AgentProcess> {
        let process = self.loaded_agent(environment)?;
        match process.init(true)? {
            0 => Ok(process),
            rc => {
                let line =
                    process.last_log_line().unwrap_or_else(|| "it logged nothing".to_owned());
                Err(fail("init returns 0", format!("{}: {line}", NcclResult(rc))))
            }
        }
    }

    /// Has `process` listen on device 0, and returns the listen comm and the address of its handle.
    pub(crate) fn listen(&self, process: &AgentProcess) -> CheckResult<(u64, u64)> {
        let handle = process.allocate(HANDLE_BYTES as u64)?;
        let PointerReply { rc, pointer } = process.listen(0, handle)?;
        require_rc("listen on device 0", rc, 0)?;
        Ok((pointer, handle))
    }

    /// Ends the check as not run where agents cannot allocate the run's kind of memory.
    pub(crate) fn require_available(&self) -> CheckResult {
        self.plugin.no_memory.as_ref().map_or(Ok(()), |reason| Err(not_run(reason)))
    }

    /// Skips the check where receives do not arrive as entries of the unpack queue.
    pub(crate) fn require_entries(&self) -> CheckResult {
        match self.memory() {
            MemoryKind::Emulated | MemoryKind::Cuda => Ok(()),
            MemoryKind::Host => Err(skip("receives into host memory have no entries")),
        }
    }
}
