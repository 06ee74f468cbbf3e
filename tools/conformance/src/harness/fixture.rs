//! Fixture of a check: agents on demand and the time it has.

use std::cell::Cell;
use std::time::{Duration, Instant};

use tcpx_sys::{HANDLE_BYTES, NcclResult};

use crate::harness::process::Process;
use crate::harness::subject::Subject;
use crate::harness::verdict::{Verdict, fail, not_run, require_rc, skip};
use crate::link::values::{LoadFailure, Loaded, Made};
use crate::memory_kind::MemoryKind;

/// Loops of a check end this long before calls are given up, so that a loop can say what it was
/// waiting for.
const CALL_GRACE: Duration = Duration::from_secs(2);

/// The surroundings of one check.
#[derive(Debug)]
pub(crate) struct Fixture<'a> {
    pub subject: &'a Subject<'a>,
    /// What the check has.
    time: Duration,
    deadline: Instant,
    /// When calls stop being waited for.
    end: Instant,
    /// Agents so far.
    agents: Cell<usize>,
}

impl<'a> Fixture<'a> {
    /// `left`: of the time of the whole run. A quarter of it is kept for calls that hang.
    pub(crate) fn new(subject: &'a Subject<'a>, left: Option<Duration>) -> Self {
        let (now, own) = (Instant::now(), subject.options.deadline);
        let time = left.map_or(own, |left| own.min(left * 3 / 4));
        let deadline = now + time;
        let end = deadline + CALL_GRACE;
        Self {
            subject,
            time,
            deadline,
            end: left.map_or(end, |left| end.min(now + left)),
            agents: Cell::new(0),
        }
    }

    /// Returns whether the run's time left the check less than its own, and that is over.
    pub(crate) fn was_cut_short(&self) -> bool {
        self.time < self.subject.options.deadline && Instant::now() >= self.deadline
    }

    /// Kind of memory that the data checks use.
    pub(crate) const fn memory(&self) -> MemoryKind {
        self.subject.memory
    }

    /// Returns whether the check has used up the share `part / whole` of its time.
    pub(crate) fn used(&self, part: u32, whole: u32) -> bool {
        self.deadline.saturating_duration_since(Instant::now())
            <= self.time * (whole - part) / whole
    }

    /// A share of the time of a check.
    pub(crate) fn share(&self, part: u32, whole: u32) -> Duration {
        self.time * part / whole
    }

    /// An agent that has not loaded the plugin.
    pub(crate) fn bare(&self, environment: &[(&str, &str)]) -> Verdict<Process> {
        let turn = self.agents.replace(self.agents.get() + 1);
        Process::start(self.subject.options, self.subject.gpu, environment, turn, self.end)
    }

    /// The table, as an agent finds it.
    pub(crate) fn table(&self) -> Verdict<Result<Loaded, LoadFailure>> {
        match self.bare(&[])?.load()? {
            // Where the GPU is missing, so may be the libraries that the hardware plugin needs.
            Err(LoadFailure { member: false, text }) if self.lacks_gpu() => {
                Err(not_run(format!("the hardware plugin cannot be loaded without a GPU: {text}")))
            }
            loaded => Ok(loaded),
        }
    }

    /// Returns whether the plugin cannot even be initialised for want of a GPU.
    fn lacks_gpu(&self) -> bool {
        self.subject.is_hardware && self.subject.lacking.is_some()
    }

    /// An agent with the plugin loaded, not initialised, and with more environment.
    pub(crate) fn loaded(&self, environment: &[(&str, &str)]) -> Verdict<Process> {
        if self.lacks_gpu() {
            self.require_available()?;
        }
        let process = self.bare(environment)?;
        process.load()?.map_err(|failure| fail("the plugin loads", failure.text))?;
        Ok(process)
    }

    /// An agent with the plugin initialised.
    pub(crate) fn ready(&self) -> Verdict<Process> {
        self.ready_with(&[])
    }

    /// The same, with more environment.
    pub(crate) fn ready_with(&self, environment: &[(&str, &str)]) -> Verdict<Process> {
        let process = self.loaded(environment)?;
        match process.init(true)? {
            0 => Ok(process),
            rc => {
                let words = process.last_words().unwrap_or_else(|| "it logged nothing".to_owned());
                Err(fail("init returns 0", format!("{}: {words}", NcclResult(rc))))
            }
        }
    }

    /// A listen comm and the address of its handle in `process`.
    pub(crate) fn listening(&self, process: &Process) -> Verdict<(u64, u64)> {
        let handle = process.allocate(HANDLE_BYTES as u64)?;
        let Made { rc, pointer } = process.listen(0, handle)?;
        require_rc("listen on device 0", rc, 0)?;
        Ok((pointer, handle))
    }

    /// Ends the check where an agent cannot allocate the run's kind of memory.
    pub(crate) fn require_available(&self) -> Verdict {
        self.subject.lacking.as_ref().map_or(Ok(()), |reason| Err(not_run(reason)))
    }

    /// Skips the check where receives do not come as entries of the unpack queue.
    pub(crate) fn require_entries(&self) -> Verdict {
        match self.memory() {
            MemoryKind::Emulated | MemoryKind::Cuda => Ok(()),
            MemoryKind::Host => Err(skip("receives into host memory have no entries")),
        }
    }
}
