//! Session: peers, memory, operations, notifications and events.

use std::os::fd::AsRawFd;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tcpx_core::{
    Error, MemoryRange, Notification, OperationKind, PeerState, Post, PostOptions, RemoteRange,
    SessionEvent, is_forked,
};

use crate::address::{self, PeerAddress};
use crate::errors::{bad_address, read_only, to_python};
use crate::memory::{Key, Memory, Registration, owner_of};
use crate::operation::{Operation, Work};
use crate::shared::Shared;
use crate::source::Source;
use crate::{options, waiting};

type Ranges<'py> = Vec<(Bound<'py, Memory>, u64, u64)>;
type RemoteRanges<'py> = Vec<(Bound<'py, Key>, u64, u64)>;
/// Context and error of an operation that has ended.
type Ended = (u64, Option<PyErr>);

/// Session of the host and all its GPUs, or of one GPU. A thread of its own makes progress, and
/// takes no lock of the interpreter.
#[pyclass(frozen, module = "tcpx._native")]
pub(crate) struct Session {
    shared: Arc<Shared>,
    address: Vec<u8>,
}

fn raise<T>(result: tcpx_core::Result<T>) -> PyResult<T> {
    result.map_err(|error| to_python(&error))
}

#[pymethods]
impl Session {
    #[new]
    fn new(py: Python<'_>, name: &str, keywords: &Bound<'_, PyDict>) -> PyResult<Self> {
        let options = options::read(name, keywords)?;
        let session = raise(py.detach(|| {
            let session = tcpx_core::Session::new(options)?;
            session.report_peers()?;
            session.listen().map(|conn_info| (session, conn_info))
        }))?;
        let (session, conn_info) = session;
        let address = address::seal(name, &conn_info);
        Ok(Self { shared: Arc::new(Shared::new(session)), address })
    }

    /// Name and connection info, as bytes for `add` of other sessions.
    fn address<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.address)
    }

    /// Takes a peer's address in. Returns the peer's name, and the owner that its keys name.
    fn add<'py>(
        &self,
        py: Python<'py>,
        address: &[u8],
        name: Option<&str>,
    ) -> PyResult<(String, Bound<'py, PyBytes>)> {
        let peer = PeerAddress::open(address).map_err(|text| bad_address(&text))?;
        let name = name.unwrap_or(peer.name);
        raise(self.shared.session.load_remote_conn_info(name, peer.conn_info))?;
        Ok((name.to_owned(), PyBytes::new(py, owner_of(&peer.session))))
    }

    /// Begins to connect to a peer whose address is known.
    fn start_connect(&self, peer: &str) -> PyResult<()> {
        raise(self.shared.session.start_connect(peer))
    }

    /// Says goodbye to a peer.
    fn disconnect(&self, py: Python<'_>, peer: &str) -> PyResult<()> {
        raise(py.detach(|| self.shared.session.disconnect(peer)))
    }

    /// Returns "connecting", "up", "leaving", "parted", "failed" with the error, or "unknown".
    fn peer_state(&self, peer: &str) -> PyResult<(&'static str, Option<PyErr>)> {
        match self.shared.session.peer_state(peer) {
            Ok(state) => Ok(state_in_words(&state)),
            Err(Error::UnknownPeer { .. }) => Ok(("unknown", None)),
            Err(error) => Err(to_python(&error)),
        }
    }

    /// Registers the memory of an object.
    fn register(
        &self,
        py: Python<'_>,
        object: &Bound<'_, PyAny>,
        gpu: Option<u32>,
    ) -> PyResult<Memory> {
        let source = Source::of(object, gpu)?;
        Registration::new(py, &self.shared, source).map(Memory::new)
    }

    /// Posts a read or write of a peer's memory.
    #[expect(clippy::too_many_arguments, reason = "one call for an operation is faster than two")]
    fn post_access(
        &self,
        is_read: bool,
        peer: &str,
        local: Ranges<'_>,
        remote: RemoteRanges<'_>,
        notification: Option<&[u8]>,
        timeout: Option<f64>,
        context: u64,
    ) -> PyResult<Operation> {
        let kind = if is_read { OperationKind::Read } else { OperationKind::Write };
        let mut memory = Vec::with_capacity(local.len());
        let mut here = Vec::with_capacity(local.len());
        for (range, offset, bytes) in &local {
            let registration = range.get().registration()?;
            if is_read && registration.place.is_read_only {
                return Err(read_only());
            }
            here.push(MemoryRange { memory: registration.id, offset: *offset, bytes: *bytes });
            memory.push(registration);
        }
        let there: Vec<_> = remote
            .iter()
            .map(|(key, offset, bytes)| RemoteRange {
                key: &key.get().0,
                offset: *offset,
                bytes: *bytes,
            })
            .collect();
        let timeout = waiting::duration(timeout)?;
        let operation = raise(self.shared.session.prepare(peer, kind, &here, &there))?;
        raise(operation.report_completions(context))?;
        let mut options = PostOptions::default();
        options.notification = notification;
        options.timeout = timeout;
        raise(operation.post_with(options))?;
        Ok(Operation::new(Work::OneSided(operation), memory))
    }

    /// Posts a send or receive by tag, with a peer that is up.
    #[expect(clippy::too_many_arguments, reason = "one call for an operation is faster than two")]
    fn post_tagged(
        &self,
        is_send: bool,
        peer: &str,
        memory: &Bound<'_, Memory>,
        offset: u64,
        bytes: u64,
        tag: i64,
        timeout: Option<f64>,
        context: u64,
    ) -> PyResult<Operation> {
        let registration = memory.get().registration()?;
        if !is_send && registration.place.is_read_only {
            return Err(read_only());
        }
        let timeout = waiting::duration(timeout)?;
        let post = Post { memory: registration.id, offset, bytes, tag };
        let transfer = raise(self.shared.session.create_transfer(peer).and_then(|transfer| {
            transfer.report_completions(context)?;
            if timeout.is_some() {
                transfer.set_timeout(timeout)?;
            }
            if is_send { transfer.post_send(post) } else { transfer.post_recv(post) }?;
            Ok(transfer)
        }))?;
        Ok(Operation::new(Work::Tagged(transfer), vec![registration]))
    }

    /// Sends a notification.
    fn notify(&self, peer: &str, bytes: &[u8]) -> PyResult<()> {
        raise(self.shared.session.notify(peer, bytes))
    }

    /// Takes at most `most` notifications: names of peers, and bytes.
    fn poll_notifications<'py>(
        &self,
        py: Python<'py>,
        most: usize,
    ) -> PyResult<Vec<(String, Bound<'py, PyBytes>)>> {
        let mut notes = Vec::new();
        raise(self.shared.session.poll_notifications(&mut notes, most))?;
        Ok(notes.into_iter().map(|note| to_pair(py, note)).collect())
    }

    /// Waits for a notification.
    fn wait_notification<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> PyResult<(String, Bound<'py, PyBytes>)> {
        let note = waiting::wait(py, timeout, |time| {
            let mut notes = Vec::new();
            self.shared.session.wait_notifications(&mut notes, 1, Some(time))?;
            notes.pop().ok_or(Error::Closed)
        })?;
        Ok(to_pair(py, note))
    }

    /// Takes events out: contexts of operations that have ended, each with its error, and whether
    /// more wait.
    fn poll_events(&self, most: usize) -> PyResult<(Vec<Ended>, bool)> {
        let mut events = Vec::new();
        let taken = raise(self.shared.session.poll_events(&mut events, most))?;
        let ended = events.into_iter().filter_map(|event| match event {
            SessionEvent::Completed(completion) => {
                Some((completion.context, completion.result.err().map(|it| to_python(&it))))
            }
            _ => None,
        });
        Ok((ended.collect(), taken == most))
    }

    /// Descriptor that is readable when there are events or notifications.
    fn event_fd(&self) -> PyResult<i32> {
        raise(self.shared.session.event_fd()).map(|descriptor| descriptor.as_raw_fd())
    }

    /// Prepares for a wait on the descriptor.
    fn arm(&self) {
        self.shared.session.arm();
    }

    /// Waits until the descriptor is readable. Another thread may take the events first, so the
    /// wait is short.
    fn wait_event(&self, py: Python<'_>) -> PyResult<()> {
        let descriptor = raise(self.shared.session.event_fd())?;
        let time = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        py.detach(|| {
            let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
            // An interrupt ends the wait as well.
            let _ = poll(&mut polled, Some(&time));
        });
        py.check_signals()
    }

    /// Closes the session. The error says what was left over; everything is closed all the same.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.close(py)
    }

    /// Reports on the devices in use, as a JSON array of those that the C library writes.
    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        if is_forked() {
            return Err(to_python(&Error::Forked));
        }
        py.detach(|| {
            let devices = self.shared.session.stats_by_device().into_iter();
            let reports: Vec<_> = devices.map(|(_, report)| report).collect();
            serde_json::to_string(&reports)
        })
        .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Page of metrics in the format of Prometheus.
    fn metrics(&self, py: Python<'_>) -> String {
        py.detach(|| self.shared.session.metrics_text())
    }
}

fn to_pair(py: Python<'_>, note: Notification) -> (String, Bound<'_, PyBytes>) {
    (note.peer, PyBytes::new(py, &note.bytes))
}

fn state_in_words(state: &PeerState) -> (&'static str, Option<PyErr>) {
    match state {
        PeerState::Accepting | PeerState::Connecting => ("connecting", None),
        PeerState::Up => ("up", None),
        PeerState::Leaving => ("leaving", None),
        PeerState::Parted => ("parted", None),
        PeerState::Failed(error) => ("failed", Some(to_python(error))),
        _ => ("unknown", None),
    }
}
