//! A group: the sessions of a process that are one to its peers, one for the host and one for each
//! GPU that is used.
//!
//! - `members`: the sessions of GPUs, made when they are first needed.
//! - `operating`: operations between devices of this group and of others, and memory of all
//!   devices. `splitting`: the parts of one, each between two devices. Pure.
//! - `notifying`: notifications.
//! - `peers`: how other groups are reached and left.

mod members;
mod notifying;
mod operating;
mod peers;
mod splitting;

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use tcpx_protocol::types::memory::Device;

use self::members::Members;
use crate::completions::{SessionEvent, TransferCompletion};
use crate::error::{Error, Result, SettingProblem};
use crate::plugin::Nic;
use crate::session::Session;
use crate::settings::SessionOptions;
use crate::stats::metrics::metrics_text;
use crate::stats::report::SessionReport;

/// Several GPUs and the memory of the host as one, for operations on memory of peers: one listener,
/// one connection info, one name, and one set of peers.
///
/// It is a [`Session`] for the host, and one for each GPU that is used, made when memory of that
/// GPU is first registered here or reached from elsewhere. A [registration](Self::register_memory)
/// names its device; from then on ids and keys say it by themselves. A pair of devices, one here
/// and one at a peer, is connected with the first operation between them.
///
/// Its sessions have progress threads of their own, and accept whoever comes and has proven itself
/// ([`SessionOptions::accept_all`]), whatever the options say. A peer of a group may also be a
/// session that is in none. Sends and receives by tag are for sessions outside groups.
///
/// ```
/// use tcpx_core::{
///     Access, Device, ExportOptions, Group, MemoryRange, OperationKind, RemoteAccess,
///     RemoteRange, SessionOptions,
/// };
/// # fn main() -> tcpx_core::Result<()> {
/// // Ordinary memory stands in for GPUs here.
/// let options = || SessionOptions::default().emulated_gpus(2);
/// let (prefill, decode) = (Group::new(options().name("prefill"))?, Group::new(options())?);
///
/// // Prefill has something in memory of its second GPU that others may read.
/// let cache = prefill.allocate(Device::Gpu(1), 4096)?;
/// prefill.write_memory(cache, 0, &[7; 4096])?;
/// let key = prefill.export(cache, ExportOptions::new(RemoteAccess::Read))?;
///
/// // Decode knows the way and the key, and reads it into memory of its host.
/// decode.load_remote_conn_info("prefill", &prefill.listen()?)?;
/// let here = decode.register_buffer(vec![0; 4096], Access::ReadWrite)?;
/// let local = [MemoryRange { memory: here, offset: 0, bytes: 4096 }];
/// let remote = [RemoteRange { key: &key, offset: 0, bytes: 4096 }];
/// let read = decode.prepare("prefill", OperationKind::Read, &local, &remote)?;
/// read.post(Some(b"done with it"))?;
/// read.wait(None)?;
/// assert_eq!(*decode.take_buffer(here)?, [7; 4096]);
/// # Ok(())
/// # }
/// ```
///
/// Dropping it does what [`close`](Self::close) does; only the error goes to the log.
#[derive(Debug)]
pub struct Group {
    front: Session,
    members: Arc<Members>,
    /// Counts polls for notifications: sessions come first by turns.
    notification_turns: AtomicUsize,
}

impl Group {
    /// Opens the plugin (once per process), and makes the session of the host. With a hardware
    /// plugin that works with a GPU: [`SessionOptions::gpu`], or else the first.
    ///
    /// # Errors
    /// Those of [`Session::new`].
    pub fn new(options: SessionOptions) -> Result<Self> {
        let options = options.progress_thread(true).accept_all(true);
        let members = Arc::new(Members::new(options.clone())?);
        let front = |options| Session::with_membership(options, Some(members.front()));
        let front = match front(options.clone()) {
            Err(Error::Setting { problem: SettingProblem::GpuNeeded, .. }) => {
                front(options.gpu(Some(0)))?
            }
            made => made?,
        };
        Ok(Self { front, members, notification_turns: AtomicUsize::new(0) })
    }

    /// The session of a device, which is made if nobody has needed it before.
    ///
    /// # Errors
    /// Those of [`Session::new`], for a GPU that does not exist or cannot be used;
    /// [`Error::Closed`].
    pub(crate) fn with<T>(
        &self,
        device: Device,
        call: impl FnOnce(&Session) -> Result<T>,
    ) -> Result<T> {
        match device {
            Device::Host => call(&self.front),
            device => {
                let member = self.members.get_or_make(device)?;
                call(&member)
            }
        }
    }

    /// The same, for something that exists only if the session does.
    fn with_known<T>(
        &self,
        device: Device,
        call: impl FnOnce(&Session) -> Result<T>,
        unknown: impl FnOnce() -> Error,
    ) -> Result<T> {
        match device {
            Device::Host => call(&self.front),
            device => self.members.get(device)?.map_or_else(|| Err(unknown()), |it| call(&it)),
        }
    }

    /// As [`Session::poll_completions`], of operations between all devices.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn poll_completions(
        &self,
        completions: &mut Vec<TransferCompletion>,
        most: usize,
    ) -> Result<usize> {
        self.front.poll_completions(completions, most)
    }

    /// As [`Session::report_peers`], by the names of groups: a peer is up from its first connection
    /// on, whichever two devices have it, until the last one has ended, and is told of as that has.
    /// While others are up, the operations between two devices say what has become of their
    /// connection.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn report_peers(&self) -> Result<()> {
        self.front.report_peers()
    }

    /// As [`Session::poll_events`], of all devices.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn poll_events(&self, events: &mut Vec<SessionEvent>, most: usize) -> Result<usize> {
        self.front.poll_events(events, most)
    }

    /// As [`Session::event_fd`]: one descriptor for all that the program may want to know of.
    ///
    /// # Errors
    /// [`Error::Io`] when the process has no descriptors left; [`Error::Forked`].
    pub fn event_fd(&self) -> Result<BorrowedFd<'_>> {
        self.front.event_fd()
    }

    /// One round of progress over all sessions, without waiting; their threads make them too.
    /// Returns whether anything moved.
    pub fn progress(&self) -> bool {
        self.members.all().iter().fold(self.front.progress(), |moved, it| it.progress() | moved)
    }

    /// Ends the group: as [`Session::close`], all sessions at once.
    ///
    /// # Errors
    /// As there; the first of those that there are. Closing again looks again.
    pub fn close(&self) -> Result<()> {
        let members = self.members.close();
        self.front.start_close()?;
        for member in &members {
            member.start_close()?;
        }
        let closed = members.iter().map(|it| it.close()).fold(self.front.close(), Result::and);
        // What ended last may have asked something of a session that was closed before.
        self.progress();
        closed
    }

    /// As [`Session::is_settled`], of all sessions.
    pub fn is_settled(&self) -> bool {
        self.front.is_settled() && self.members.all().iter().all(|member| member.is_settled())
    }

    /// The NICs that the plugin offers; none in a forked child.
    pub fn nics(&self) -> Vec<Nic> {
        self.front.nics()
    }

    /// The sessions that there are now, by their devices; in a forked child empty reports.
    pub fn stats(&self) -> Vec<(Device, SessionReport)> {
        let members = self.members.by_device().into_iter();
        let members = members.map(|(device, member)| {
            // One that ordinary memory stands in for has no GPU among its options.
            (device, SessionReport { device: device.to_string(), ..member.stats() })
        });
        std::iter::once((Device::Host, self.front.stats())).chain(members).collect()
    }

    /// The same as text that Prometheus reads; see [`metrics_text`](crate::metrics_text).
    pub fn metrics_text(&self) -> String {
        metrics_text(self.stats().iter().map(|(_, report)| report))
    }

    /// The settings of its sessions, but for the GPU.
    pub fn options(&self) -> &SessionOptions {
        self.members.options()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if tcpx_sys::is_forked() {
            // Another thread of the parent may have held the locks inside.
            std::mem::forget(Arc::clone(&self.members));
            return;
        }
        if let Err(error) = self.close() {
            tracing::warn!(%error, "the group did not end cleanly");
        }
    }
}
