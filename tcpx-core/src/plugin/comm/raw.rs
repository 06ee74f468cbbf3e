#![allow(unsafe_code)]
//! Common part of all comms: the address in the plugin, and the calls that drive a comm.
//!
//! Also the readiness of a comm, which says when it may make progress.
//!
//! A comm that waits for an event is not called before the event has happened, if the plugin
//! reports events (`tcpx_sys::CommPollV1`).

use std::ffi::{c_int, c_void};
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tcpx_sys::{CommDescriptor, MAX_COMM_DESCRIPTORS, NcclResult};

use super::memory::{CommAddress, CommMemory};
use crate::error::{Error, Phase, Result};
use crate::plugin::Plugin;
use crate::plugin::comm_label::CommLabel;
use crate::reactor::poller::{Poller, Target};
use crate::reactor::watch::{Events, Watch};
use crate::stats::tcp::TcpStats;

/// Number of consecutive answers of 2 from `test` that make a comm dead. The first ones may only
/// mean that the peer has closed while its last bytes are still buffered here.
const SYSTEM_ERRORS_IN_A_ROW: u32 = 3;

/// Request of the plugin. It is valid for the comm that gave it out, until that comm is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request(pub(super) NonNull<c_void>);

// SAFETY: a request is a number to this library. The plugin takes it back from any thread.
unsafe impl Send for Request {}

/// Address of a comm in the plugin, with the two calls that every comm answers.
#[derive(Debug)]
pub(crate) struct RawComm {
    pub(super) plugin: Arc<Plugin>,
    pub(super) label: CommLabel,
    pub(super) raw: NonNull<c_void>,
    /// Number of consecutive answers of 2 from `test`.
    system_errors: u32,
    /// Whether `test` may make progress on the comm.
    pub(super) readiness: Readiness,
    /// Memory that is deregistered right after the comm has closed. Requests in flight may use it
    /// until then.
    pub(super) leftover: CommMemory,
}

// SAFETY: the plugin allows a comm to be used from any thread as long as uses do not overlap.
// `RawComm` is only used through `&mut`, except for `regMr` and `deregMr` (`CommAddress`), which
// may overlap with other calls, and run one at a time.
unsafe impl Send for RawComm {}

/// Returns the tag that the plugin receives. Chunks pair in the order of their posts, so the plugin
/// needs no tag.
pub(super) fn plugin_tag(tag: i64) -> c_int {
    (tag & i64::from(c_int::MAX)) as c_int
}

impl RawComm {
    pub(super) fn new(plugin: &Arc<Plugin>, label: CommLabel, raw: NonNull<c_void>) -> Self {
        let plugin = Arc::clone(plugin);
        let (readiness, leftover) = (Readiness::default(), CommMemory::default());
        Self { plugin, label, raw, system_errors: 0, readiness, leftover }
    }

    /// Drives the comm. Returns true once, when the request is done. Does not call the plugin if no
    /// event has come since the last call made no progress.
    pub(super) fn test(&mut self, request: Request, phase: Phase) -> Result<bool> {
        if self.readiness.next() == NextCall::OnEvent {
            return Ok(false);
        }
        let mut done: c_int = 0;
        let mut sizes: c_int = 0;
        // SAFETY: the request came from this comm, which is open. Both outputs are valid ints
        // during the call.
        let code = unsafe {
            (self.plugin.entries().test)(request.0.as_ptr(), &raw mut done, &raw mut sizes)
        };
        if code == NcclResult::SYSTEM_ERROR {
            self.system_errors += 1;
            if self.system_errors < SYSTEM_ERRORS_IN_A_ROW {
                return Ok(false);
            }
        } else {
            self.system_errors = 0;
        }
        self.label.check("test", code, phase)?;
        if done == 0 {
            self.readiness.no_progress(self.next_call());
        }
        Ok(done != 0)
    }

    /// Registers the comm's descriptors with the poller, if the plugin has reported them. Events
    /// are reported for `target`.
    pub(super) fn watch(&mut self, poller: &Arc<Poller>, target: Target) {
        match self.watches(poller, target) {
            Ok(watches) => self.readiness.watch(watches),
            // All or none: events of a comm that is watched in part would be missed.
            Err(error) => tracing::debug!(%error, "a comm is polled"),
        }
    }

    fn watches(&self, poller: &Arc<Poller>, target: Target) -> io::Result<Vec<Watch>> {
        let watch = |descriptor: &CommDescriptor| {
            let events = Events::of_epoll(descriptor.events);
            // SAFETY: the plugin keeps the descriptors of a comm open as long as the comm is open.
            // The code that closes the comm ends the watches before.
            unsafe { Watch::new(poller, descriptor.fd, events, target) }
        };
        self.descriptors().iter().map(watch).collect()
    }

    /// Tells a plugin that reports health for how long the peer's host may acknowledge nothing.
    /// `None`: without limit.
    pub(super) fn set_peer_timeout(&self, timeout: Option<Duration>) {
        let Some(health) = self.plugin.health() else { return };
        let limit = timeout.map_or(0, |time| time.as_millis().clamp(1, u32::MAX.into()) as u32);
        // SAFETY: the comm is open.
        let code = unsafe { (health.set_peer_timeout)(self.raw.as_ptr(), limit) };
        if let Err(error) = self.label.check("setPeerTimeout", code, Phase::Connect) {
            tracing::warn!(%error, "the plugin's own limit holds");
        }
    }

    /// Checks whether the comm's connections are alive, if the plugin can tell.
    pub(super) fn check_alive(&self, phase: Phase) -> Result<()> {
        let Some(health) = self.plugin.health() else { return Ok(()) };
        // SAFETY: the comm is open.
        let code = unsafe { (health.check_comm)(self.raw.as_ptr()) };
        self.label.check("checkComm", code, phase)
    }

    /// Returns the descriptors to watch for edges while the comm is open. Empty if the plugin does
    /// not or cannot report them: then the comm is polled all the time.
    pub(super) fn descriptors(&self) -> SmallVec<[CommDescriptor; MAX_COMM_DESCRIPTORS]> {
        let Some(readiness) = self.plugin.readiness() else { return SmallVec::new() };
        let mut all = [CommDescriptor::default(); MAX_COMM_DESCRIPTORS];
        let mut count: c_int = 0;
        let capacity = MAX_COMM_DESCRIPTORS as c_int;
        // SAFETY: the comm is open. The array has as many elements as the call receives, and the
        // count is a valid int.
        let code = unsafe {
            (readiness.descriptors)(self.raw.as_ptr(), all.as_mut_ptr(), capacity, &raw mut count)
        };
        match usize::try_from(count) {
            Ok(count) if code.is_success() && count <= all.len() => all[..count].into(),
            _ => {
                let call = self.label.failure("descriptors", code, Phase::Connect);
                tracing::warn!(error = %call, count, "the comm is called all the time");
                SmallVec::new()
            }
        }
    }

    /// Returns when a further `test` may make progress. A plugin that cannot tell is called soon.
    fn next_call(&self) -> NextCall {
        let Some(readiness) = self.plugin.readiness() else { return NextCall::Soon };
        let mut answer: c_int = 1;
        // SAFETY: the comm is open, and the output is a valid int.
        let code = unsafe { (readiness.needs_call)(self.raw.as_ptr(), &raw mut answer) };
        match answer {
            0 if code.is_success() => NextCall::OnEvent,
            2 if code.is_success() => NextCall::Now,
            _ => NextCall::Soon,
        }
    }

    /// Returns the address of the comm, for calls that other threads make.
    pub(super) fn address(&self) -> CommAddress {
        let Self { plugin, label, raw, .. } = self;
        CommAddress { plugin: Arc::clone(plugin), label: label.clone(), raw: *raw }
    }

    /// Deregisters the memory that was kept until the comm closed.
    pub(super) fn deregister_leftover(&mut self) {
        let CommMemory { handles, pending } = std::mem::take(&mut self.leftover);
        let address = self.address();
        let registered = pending.iter().filter_map(|task| task.take()?.ok());
        handles.into_iter().chain(registered).for_each(|handle| address.deregister(handle));
    }

    /// Returns the error of a call that succeeded without its output.
    pub(super) fn null_output(&self, call: &'static str, phase: Phase) -> Error {
        self.label.failure(call, NcclResult::INTERNAL_ERROR, phase)
    }
}

/// Time at which a call of `test` may make progress on a comm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NextCall {
    /// At once.
    #[default]
    Now,
    /// Soon: no event reports when.
    Soon,
    /// After an event on a descriptor, or after a post.
    OnEvent,
}

/// Readiness of a comm for a call of `test`.
#[derive(Debug, Default)]
pub(super) struct Readiness {
    /// Watches of its descriptors, if the plugin has reported them.
    watches: Vec<Watch>,
    next: NextCall,
}

impl Readiness {
    pub(super) fn next(&self) -> NextCall {
        self.next
    }

    /// Notes that an event was reported.
    pub(super) fn wake(&mut self) {
        self.next = NextCall::Now;
    }

    /// Notes that `test` made no progress, and when it may. Without descriptors no event reports
    /// when.
    pub(super) fn no_progress(&mut self, next: NextCall) {
        self.next = if self.is_watched() { next } else { NextCall::Soon };
    }

    /// Watches the comm's descriptors from now on.
    pub(super) fn watch(&mut self, watches: Vec<Watch>) {
        *self = Self { watches, next: NextCall::Now };
    }

    /// Returns the figures of the watched connections.
    pub(super) fn tcp_stats(&self) -> TcpStats {
        self.watches.iter().filter_map(Watch::tcp_stats).collect()
    }

    pub(super) fn is_watched(&self) -> bool {
        !self.watches.is_empty()
    }

    /// Ends all watches: the comm is about to close.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }
}
