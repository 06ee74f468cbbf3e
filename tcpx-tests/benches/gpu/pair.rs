//! Two sessions of one process over memory of a GPU, because two processes that share a GPU take
//! turns on it; or over memory of a GPU each.

use std::error::Error;
use std::thread;
use std::time::Duration;

use tcpx_core::{PluginChoice, Session, SessionOptions, Transfer, UnpackChoice};

use super::gpu::Result;

pub(crate) const PATIENCE: Option<Duration> = Some(Duration::from_secs(30));
/// The settings that are compared, in the order of the columns.
pub(crate) const WAYS: [Way; 4] = [
    Way { name: "default", unpack: UnpackChoice::Auto, progress_thread: true },
    Way { name: "kernel", unpack: UnpackChoice::Kernel, progress_thread: false },
    Way { name: "d2d", unpack: UnpackChoice::D2d, progress_thread: false },
    Way { name: "host", unpack: UnpackChoice::Host, progress_thread: false },
];

/// Settings of both sessions. The first of [`WAYS`] are the defaults.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    pub(crate) name: &'static str,
    unpack: UnpackChoice,
    progress_thread: bool,
}

/// Two sessions that are connected.
pub(crate) struct Pair {
    pub(crate) sessions: [Session; 2],
}

impl Pair {
    /// Connects two sessions over these GPUs.
    pub(crate) fn new(way: Way, gpus: [u32; 2]) -> Result<Self> {
        let options = SessionOptions::from_env()?.plugin(PluginChoice::Soft);
        let options = options.unpack(way.unpack).progress_thread(way.progress_thread);
        let session = |gpu| Session::new(options.clone().gpu(Some(gpu)));
        let sessions = [session(gpus[0])?, session(gpus[1])?];
        let info = sessions[1].listen()?;
        sessions[0].load_remote_conn_info("right", &info)?;
        thread::scope(|scope| {
            let accepted = scope.spawn(|| sessions[1].accept("left"));
            sessions[0].connect("right")?;
            accepted.join().map_err(|_| "the accepting end panicked")??;
            Ok::<_, Box<dyn Error + Send + Sync>>(())
        })?;
        Ok(Self { sessions })
    }

    /// A transfer of one end with the other.
    pub(crate) fn transfer(&self, end: usize) -> Result<Transfer> {
        Ok(self.sessions[end].create_transfer(["right", "left"][end])?)
    }
}
