//! Plugin under test: the facts that are needed before the first check.

use std::num::NonZeroUsize;
use std::path::Path;
use std::thread::available_parallelism;
use std::time::Instant;

use tcpx_cuda::CudaGpu;

use crate::harness::agent_process::AgentProcess;
use crate::harness::symbols;
use crate::memory_kind::MemoryKind;
use crate::options::{Options, PluginSource};

/// The name of the hardware plugin: version 3.1.9, the original.
pub(crate) const ORIGINAL_NAME: &str = "GPUDirectTCPX_v7";

/// Most checks that run at once, unless the options set more. Each check has two or three agents,
/// which hold memory at both ends of a comm, and a GPU's context where they use a GPU.
const MOST_JOBS: NonZeroUsize = NonZeroUsize::new(8).unwrap();

/// The plugin under test, and the memory that it is checked with.
#[derive(Debug)]
pub(crate) struct PluginUnderTest<'a> {
    pub options: &'a Options,
    /// Kind of memory of the data checks.
    pub memory: MemoryKind,
    /// The GPU that the agents hold; `None` where none is needed or there is none.
    pub gpu: Option<u32>,
    /// Reason why there is no memory to check with.
    pub no_memory: Option<String>,
    /// Whether it is the hardware plugin, whose `init` ends the process without a GPU.
    pub is_hardware: bool,
}

impl<'a> PluginUnderTest<'a> {
    /// Has an agent load the plugin by `deadline`, and reads its name. The error is a kind of
    /// memory in `options` that the hardware plugin does not take.
    pub(crate) fn examine(options: &'a Options, deadline: Instant) -> Result<Self, MemoryKind> {
        let is_hardware = is_hardware(options, deadline);
        let memory = MemoryKind::choose(options.memory, options.gpu.is_some(), is_hardware)?;
        let (gpu, no_memory) = match memory.gpu(options.gpu) {
            Ok(gpu) => (gpu, None),
            Err(reason) => (None, Some(format!("there is no GPU memory to check with: {reason}"))),
        };
        Ok(Self { options, memory, gpu, no_memory, is_hardware })
    }

    /// Returns how many checks run at once.
    pub(crate) fn jobs(&self) -> NonZeroUsize {
        let shares_nics = self.is_hardware || !self.options.namespaces.is_empty();
        self.options.jobs.unwrap_or_else(|| match available_parallelism() {
            Ok(processors) if !shares_nics => processors.min(MOST_JOBS),
            _ => NonZeroUsize::MIN,
        })
    }

    /// Returns a GPU other than the one that the agents hold, if there is one.
    pub(crate) fn other_gpu(&self) -> Option<u32> {
        let (held, count) = (self.gpu?, CudaGpu::count().ok()?);
        (count > 1).then_some((held + 1) % count)
    }

    /// Returns the plugin's file, unless it is a table of the program.
    pub(crate) fn file(&self) -> Option<&Path> {
        file(&self.options.target)
    }
}

fn file(target: &PluginSource) -> Option<&Path> {
    match target {
        PluginSource::Path(path) => Some(path),
        PluginSource::Table => None,
    }
}

/// Returns whether the plugin has the name of the original, by its table, or by its file where it
/// cannot be loaded, as without a driver.
fn is_hardware(options: &Options, deadline: Instant) -> bool {
    let agent = AgentProcess::start(options, None, &[], 0, deadline);
    match agent.and_then(|agent| agent.load()) {
        Ok(Ok(table)) => table.name == ORIGINAL_NAME,
        _ => file(&options.target).is_some_and(|path| symbols::mentions(path, ORIGINAL_NAME)),
    }
}
