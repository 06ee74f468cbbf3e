//! What the handle of a session stands for: a session, or a group of them.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use tcpx_core::{
    ExportOptions, Group, MemoryId, MemoryInfo, MemoryRange, Nic, Notification, Operation,
    OperationKind, PeerState, RemoteKey, RemoteRange, Result, Session, SessionEvent,
    TransferCompletion,
};

use crate::failure::Failure;
use crate::registry;

/// What calls work on that both kinds have.
pub(crate) enum AnySession {
    Session(Arc<Session>),
    Group(Arc<Group>),
}

/// The same call of either.
macro_rules! either {
    ($($(#[$doc:meta])* fn $name:ident(&self $(, $argument:ident: $type:ty)*) -> $result:ty;)*) => {
        impl AnySession {
            $(
                $(#[$doc])*
                pub(crate) fn $name(&self $(, $argument: $type)*) -> $result {
                    match self {
                        Self::Session(session) => session.$name($($argument),*),
                        Self::Group(group) => group.$name($($argument),*),
                    }
                }
            )*
        }
    };
}

either! {
    fn listen(&self) -> Result<Vec<u8>>;
    fn load_remote_conn_info(&self, peer: &str, conn_info: &[u8]) -> Result<()>;
    fn forget_remote_conn_info(&self, peer: &str) -> Result<()>;
    fn connect(&self, peer: &str) -> Result<()>;
    fn start_connect(&self, peer: &str) -> Result<()>;
    fn disconnect(&self, peer: &str) -> Result<()>;
    fn start_disconnect(&self, peer: &str) -> Result<()>;
    fn peer_state(&self, peer: &str) -> Result<PeerState>;
    fn deregister_memory(&self, id: MemoryId) -> Result<()>;
    fn memory_info(&self, id: MemoryId) -> Result<MemoryInfo>;
    fn export(&self, memory: MemoryId, options: ExportOptions) -> Result<RemoteKey>;
    fn unexport(&self, key: &RemoteKey) -> Result<()>;
    fn prepare(
        &self,
        peer: &str,
        kind: OperationKind,
        local: &[MemoryRange],
        remote: &[RemoteRange<'_>]
    ) -> Result<Operation>;
    fn prepare_notification(&self, peer: &str) -> Result<Operation>;
    fn notify(&self, peer: &str, bytes: &[u8]) -> Result<()>;
    fn poll_notifications_within(
        &self,
        notifications: &mut Vec<Notification>,
        most: usize,
        most_bytes: usize
    ) -> Result<usize>;
    fn wait_notifications_within(
        &self,
        notifications: &mut Vec<Notification>,
        most: usize,
        most_bytes: usize,
        timeout: Option<Duration>
    ) -> Result<usize>;
    fn poll_completions(
        &self,
        completions: &mut Vec<TransferCompletion>,
        most: usize
    ) -> Result<usize>;
    fn report_peers(&self) -> Result<()>;
    fn poll_events(&self, events: &mut Vec<SessionEvent>, most: usize) -> Result<usize>;
    fn event_fd(&self) -> Result<BorrowedFd<'_>>;
    fn progress(&self) -> bool;
    fn nics(&self) -> Vec<Nic>;
    fn close(&self) -> Result<()>;
}

/// Ends what a handle stands for, unless something of it still uses registered memory.
pub(crate) fn destroy(handle: u64) -> std::result::Result<(), Failure> {
    if registry::is_a::<Group>(handle) {
        let held = registry::get_unused::<Group>(handle)?;
        let closed = held.close();
        if !held.is_settled() {
            closed?;
        }
        drop(registry::take(handle, held)?);
        return Ok(());
    }
    let held = registry::get_unused::<Session>(handle)?;
    let closed = held.close();
    if !held.is_settled() {
        closed?;
    }
    drop(registry::take(handle, held)?);
    Ok(())
}
