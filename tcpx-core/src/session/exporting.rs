//! Keys by which peers reach memory of the session.

use std::task::Poll;
use std::time::Duration;

use tcpx_protocol::exports::exported_range::ExportKey;
use tcpx_protocol::exports::remote_key::RemoteKey;
use tcpx_protocol::types::memory::MemoryId;

use super::Session;
use super::shared::SharedEngine;
use super::wait::WaitLimit;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::settings::choices::ExportOptions;

impl Session {
    /// Exports a range of registered memory to peers, and returns its remote key. Without such a
    /// key a peer cannot reach any memory. With the key a peer reaches only this range, and only
    /// for the access that the key allows.
    ///
    /// Until the key is revoked, peers that have it may read the range, or write it, at any time.
    /// The program and its peers must agree when each of them uses the range. The same range may be
    /// exported any number of times, under keys of its own.
    ///
    /// # Errors
    /// [`Error::UnknownRegistration`]; [`Error::Registration`] when the range is empty or leaves
    /// the registration, or is to be written and was registered for reading only;
    /// [`Error::Closed`]; [`Error::Io`] when the system has no random bytes.
    ///
    /// # Example
    /// ```
    /// use tcpx_core::{Access, ExportOptions, RemoteAccess, RemoteKey, Session, SessionOptions};
    /// # fn main() -> tcpx_core::Result<()> {
    /// let session = Session::new(SessionOptions::default())?;
    /// let memory = session.register_buffer(vec![0; 4096], Access::ReadWrite)?;
    /// let key = session.export(memory, ExportOptions::new(RemoteAccess::ReadWrite))?;
    ///
    /// // Another process gets its bytes.
    /// let bytes: [u8; RemoteKey::SERIALIZED_BYTES] = key.serialize();
    /// let there = RemoteKey::deserialize(&bytes)?;
    /// assert_eq!((there.bytes(), there.access()), (4096, RemoteAccess::ReadWrite));
    ///
    /// session.unexport(&key)
    /// # }
    /// ```
    pub fn export(&self, memory: MemoryId, options: ExportOptions) -> Result<RemoteKey> {
        let key = self.holder_of(memory)?.engine()?.export(memory, options)?;
        tracing::debug!(
            id = %memory, number = key.export.to_wire(), offset = options.offset, bytes = key.bytes,
            access = ?key.access, "exported memory"
        );
        Ok(key)
    }

    /// Revokes a key. When the call returns `Ok`, no peer touches the memory through the key any
    /// more; outstanding operations on it have failed at the peers.
    ///
    /// # Errors
    /// [`Error::Remote`] for a key of another session, one that this session never gave out, or a
    /// revoked key. Peers that still use the key after
    /// [`close_timeout`](crate::SessionOptions::close_timeout) are ended. [`Error::InUse`] when a
    /// plugin or a GPU does not let go of the memory within 10 s after that: no peer can begin to
    /// use the memory, but it must stay valid. [`deregister_memory`](Self::deregister_memory) waits
    /// again.
    pub fn unexport(&self, key: &RemoteKey) -> Result<()> {
        let shared = self.exporter_of(key)?;
        let mut engine = shared.engine()?;
        let export = engine.revoke(key)?;
        tracing::debug!(number = key.export.to_wire(), "took an export back");
        drop(engine);
        self.wait_for_users(
            &shared,
            |engine| {
                let is_idle = engine.resources.ledger.exports.is_idle(export);
                Ok(if is_idle { Poll::Ready(()) } else { Poll::Pending })
            },
            |engine, waited| engine.end_users(|connection| connection.serves(&[export]), waited),
            |engine| still_used(engine, export),
        )
    }

    /// Waits until nothing uses memory that is taken back. Peers that use the memory for longer
    /// than the time for a goodbye are ended: the memory is the program's.
    pub(super) fn wait_for_users<T>(
        &self,
        shared: &SharedEngine,
        mut check: impl FnMut(&mut Engine) -> Result<Poll<T>>,
        end_users: impl FnOnce(&mut Engine, Duration),
        error: impl Fn(&Engine) -> Error,
    ) -> Result<T> {
        let mut is_overdue = false;
        let in_time = shared.wait(
            WaitLimit::for_time(self.options.close_timeout),
            &mut check,
            |engine, waited, _| {
                is_overdue = true;
                end_users(engine, waited);
                error(engine)
            },
        );
        match is_overdue {
            false => in_time,
            // Comms are closed, and copies end.
            true => {
                shared.wait(WaitLimit::for_time(self.release_timeout), check, |engine, _, _| {
                    let error = error(engine);
                    tracing::error!(%error, "memory that is taken back is still in use");
                    error
                })
            }
        }
    }
}

/// Returns the error of an export that peers still use.
fn still_used(engine: &Engine, key: ExportKey) -> Error {
    // An export is forgotten no later than it becomes idle.
    let export = engine.resources.ledger.exports.get(key);
    export.map_or(Error::Closed, |export| engine.still_used(export.range().memory_id))
}
