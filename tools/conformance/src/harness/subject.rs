//! Subject of the checks: the facts about the plugin that are needed before the first check.

use std::num::NonZeroUsize;
use std::path::Path;
use std::thread::available_parallelism;
use std::time::Instant;

use tcpx_cuda::CudaGpu;

use crate::harness::process::Process;
use crate::harness::symbols;
use crate::memory_kind::MemoryKind;
use crate::options::{Options, Target};

/// The name of the hardware plugin: version 3.1.9, the original.
pub(crate) const ORIGINAL_NAME: &str = "GPUDirectTCPX_v7";

/// Most checks that run at once unless more are asked for. Each check has two or three agents. They
/// hold memory at both ends of a comm, and a GPU's context where they use a GPU.
const MOST_JOBS: NonZeroUsize = NonZeroUsize::new(8).unwrap();

/// What is checked, and with what.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    pub options: &'a Options,
    /// The memory of the data checks.
    pub memory: MemoryKind,
    /// The GPU that the agents hold; `None` where none is needed or there is none.
    pub gpu: Option<u32>,
    /// Why there is no memory to check with.
    pub lacking: Option<String>,
    /// The hardware plugin does nothing without its GPU: `init` ends the process.
    pub is_hardware: bool,
}

impl<'a> Subject<'a> {
    /// Has an agent open the plugin by `deadline` and say its name. The error is the memory that
    /// `options` want, and that is none of the hardware plugin's.
    pub(crate) fn of(options: &'a Options, deadline: Instant) -> Result<Self, MemoryKind> {
        let is_hardware = is_hardware(options, deadline);
        let memory = MemoryKind::choose(options.memory, options.gpu.is_some(), is_hardware)?;
        let (gpu, lacking) = match memory.gpu(options.gpu) {
            Ok(gpu) => (gpu, None),
            Err(reason) => (None, Some(format!("there is no GPU memory to check with: {reason}"))),
        };
        Ok(Self { options, memory, gpu, lacking, is_hardware })
    }

    /// Checks that run at once.
    pub(crate) fn jobs(&self) -> NonZeroUsize {
        let shares_nics = self.is_hardware || !self.options.namespaces.is_empty();
        self.options.jobs.unwrap_or_else(|| match available_parallelism() {
            Ok(processors) if !shares_nics => processors.min(MOST_JOBS),
            _ => NonZeroUsize::MIN,
        })
    }

    /// A GPU other than the one that the agents hold, where there is one.
    pub(crate) fn other_gpu(&self) -> Option<u32> {
        let (held, count) = (self.gpu?, CudaGpu::count().ok()?);
        (count > 1).then_some((held + 1) % count)
    }

    /// The plugin's file, if it is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        file(&self.options.target)
    }
}

fn file(target: &Target) -> Option<&Path> {
    match target {
        Target::Path(path) => Some(path),
        Target::Table => None,
    }
}

/// Goes by the name in the table. Without a driver the original cannot be loaded, and its file has
/// to do.
fn is_hardware(options: &Options, deadline: Instant) -> bool {
    let agent = Process::start(options, None, &[], 0, deadline);
    match agent.and_then(|agent| agent.load()) {
        Ok(Ok(table)) => table.name == ORIGINAL_NAME,
        _ => file(&options.target).is_some_and(|path| symbols::mentions(path, ORIGINAL_NAME)),
    }
}
