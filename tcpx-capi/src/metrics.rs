#![allow(unsafe_code)]
//! Metrics of sessions as text for Prometheus.

use std::ffi::c_char;

use tcpx_core::SessionReport;

use crate::boundary;
use crate::failure::Failure;
use crate::output::ByteOutput;
use crate::session::tcpx_session;
use crate::status::tcpx_status;

/// Bound on the handles that are read from the caller's memory: more sessions than a process has.
const MAX_SESSIONS: usize = 65_536;

/// Writes the counters of sessions as text that Prometheus reads, with a terminating NUL.
///
/// The text is one page, with which a program answers a request for `/metrics`. A page has each
/// metric once, so pages cannot be joined. `sessions` is an array of `count` sessions. Every sample
/// has the labels `session`, which is the option `name`, and `device`, which is "host" or "gpu0"
/// and so on. Sessions that have both in common get a number behind the name. docs/metrics.md lists
/// all metrics.
///
/// `out_size` gets the bytes of the text, including the NUL; a NULL `buffer` asks for the number
/// alone. Numbers grow between two calls: leave some room, or ask again after
/// `TCPX_ERR_BUFFER_TOO_SMALL`.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`; `TCPX_ERR_ARGUMENT` for more than 65,536 sessions;
/// `TCPX_ERR_BUFFER_TOO_SMALL`, with the needed size in `out_size`. Any thread; does not block.
///
/// # Safety
/// `sessions` is NULL or points to `count` handles; `buffer` is NULL or may be written for
/// `capacity` bytes; `out_size` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_metrics_text(
    sessions: *const tcpx_session,
    count: usize,
    buffer: *mut c_char,
    capacity: usize,
    out_size: *mut usize,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let out = unsafe { ByteOutput::new(buffer.cast(), capacity, out_size) }?;
        // SAFETY: passed on from the caller.
        let reports = unsafe { reports(sessions, count) }?;
        out.write_text(&tcpx_core::metrics_text(&reports))
    })
}

/// Returns the counters of sessions, by their devices.
///
/// # Safety
/// `sessions` is NULL or points to `count` handles.
unsafe fn reports(
    sessions: *const tcpx_session,
    count: usize,
) -> Result<Vec<SessionReport>, Failure> {
    if sessions.is_null() && count > 0 {
        return Err(Failure::null("sessions"));
    }
    if !sessions.is_aligned() {
        return Err(Failure::argument("sessions is not aligned"));
    }
    if count > MAX_SESSIONS {
        let text = format!("{count} sessions were given, at most {MAX_SESSIONS} are taken");
        return Err(Failure::argument(text));
    }
    let mut reports = Vec::new();
    for index in 0..count {
        // SAFETY: the caller vouches for `count` handles from here on, and `index` is below it.
        let place = unsafe { sessions.add(index) };
        // SAFETY: as above; it is not NULL, and aligned. Every bit pattern is a handle.
        let session = unsafe { place.read() }.get()?;
        reports.extend(session.stats_by_device().into_iter().map(|(_, report)| report));
    }
    Ok(reports)
}
