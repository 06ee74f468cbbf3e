#![allow(unsafe_code)]
//! Bridge from `tracing` events of the library to the callback of a C program.

use std::cell::Cell;
use std::ffi::{CString, c_char, c_void};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use tcpx_core::printable;

use crate::failure::Failure;
use crate::status::tcpx_status::TCPX_ERR_UNAVAILABLE;

/// Log level: no lines.
pub const TCPX_LOG_OFF: i32 = 0;
/// Log level: failures that are not tried again.
pub const TCPX_LOG_ERROR: i32 = 1;
/// Log level: events that an operator should look at.
pub const TCPX_LOG_WARN: i32 = 2;
/// Log level: events that happen once for each session or peer.
pub const TCPX_LOG_INFO: i32 = 3;
/// Log level: the steps of setting up and closing.
pub const TCPX_LOG_DEBUG: i32 = 4;
/// Log level: everything, down to single chunks.
pub const TCPX_LOG_TRACE: i32 = 5;

/// Function of the program that takes one log line.
///
/// It gets the context that was set with it, a level (`TCPX_LOG_ERROR` to `TCPX_LOG_TRACE`), the
/// part of the library that logs, and the line without a newline. Both texts are UTF-8, never NULL,
/// and valid during the call only.
///
/// Any thread may call the function: also a thread of the library, several threads at once, and
/// while the library holds locks. So the function must return soon, must not throw or jump out, and
/// must not wait for another call of this library. Calls of this library from inside the function
/// return `TCPX_ERR_IN_CALLBACK`.
pub type tcpx_log_callback = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        level: i32,
        target: *const c_char,
        message: *const c_char,
    ),
>;

#[derive(Clone, Copy)]
struct Sink {
    callback: unsafe extern "C" fn(*mut c_void, i32, *const c_char, *const c_char),
    context: *mut c_void,
}

// SAFETY: the context is handed back and never followed; `tcpx_set_log_callback` demands that the
// callback may get it in any thread.
unsafe impl Send for Sink {}
// SAFETY: as above.
unsafe impl Sync for Sink {}

/// The lock is held for reading while a line is delivered, so that a replaced callback is never
/// called again.
static SINK: RwLock<Option<Sink>> = RwLock::new(None);
static MAX_LEVEL: AtomicI32 = AtomicI32::new(TCPX_LOG_OFF);

thread_local! {
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether this thread is delivering a log line.
pub(crate) fn is_in_callback() -> bool {
    IN_CALLBACK.try_with(Cell::get).unwrap_or(false)
}

/// Delivers lines up to `max_level` to `callback` from now on, in place of an earlier one.
///
/// # Safety
/// `callback` is NULL or may be called from any thread, with `context`, until it is replaced.
pub(crate) unsafe fn replace(
    callback: tcpx_log_callback,
    context: *mut c_void,
    max_level: i32,
) -> Result<(), Failure> {
    install()?;
    let mut sink = SINK.write().unwrap_or_else(PoisonError::into_inner);
    *sink = callback.map(|callback| Sink { callback, context });
    let level = if callback.is_some() { max_level } else { TCPX_LOG_OFF };
    MAX_LEVEL.store(level, Ordering::Relaxed);
    drop(sink);
    tracing::callsite::rebuild_interest_cache();
    Ok(())
}

/// Makes this library's subscriber the one of the process, once.
fn install() -> Result<(), Failure> {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    if *INSTALLED
        .get_or_init(|| tracing::subscriber::set_global_default(CallbackSubscriber).is_ok())
    {
        return Ok(());
    }
    let text = "this program has a tracing subscriber of its own, which gets the log lines";
    Err(Failure::new(TCPX_ERR_UNAVAILABLE, text))
}

fn level_code(level: &Level) -> i32 {
    match *level {
        Level::ERROR => TCPX_LOG_ERROR,
        Level::WARN => TCPX_LOG_WARN,
        Level::INFO => TCPX_LOG_INFO,
        Level::DEBUG => TCPX_LOG_DEBUG,
        Level::TRACE => TCPX_LOG_TRACE,
    }
}

pub(crate) fn filter(level: i32) -> LevelFilter {
    match level {
        TCPX_LOG_OFF => LevelFilter::OFF,
        TCPX_LOG_ERROR => LevelFilter::ERROR,
        TCPX_LOG_WARN => LevelFilter::WARN,
        TCPX_LOG_INFO => LevelFilter::INFO,
        TCPX_LOG_DEBUG => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}

/// Turns events into lines. The library makes no spans.
struct CallbackSubscriber;

impl Subscriber for CallbackSubscriber {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Not `is_event`: a query whether a line would be taken, which is made for the plugin's
        // lines, is no event.
        !metadata.is_span() && level_code(metadata.level()) <= MAX_LEVEL.load(Ordering::Relaxed)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(filter(MAX_LEVEL.load(Ordering::Relaxed)))
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = EventText::default();
        event.record(&mut line);
        call_callback(
            level_code(event.metadata().level()),
            event.metadata().target(),
            line.finish(),
        );
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Text of an event: message first, then `name=value` for each field, in one line without control
/// characters.
#[derive(Default)]
struct EventText {
    message: String,
    fields: String,
}

impl Visit for EventText {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

impl EventText {
    fn finish(mut self) -> String {
        self.message.push_str(&self.fields);
        printable(&self.message).into_owned()
    }
}

fn call_callback(level: i32, target: &str, line: String) {
    // While a line is delivered in this thread, another can only come from the callback itself.
    if IN_CALLBACK.try_with(Cell::get).unwrap_or(true) {
        return;
    }
    let (Ok(target), Ok(line)) = (CString::new(target), CString::new(line)) else { return };
    let sink = SINK.read().unwrap_or_else(PoisonError::into_inner);
    let Some(sink) = *sink else { return };
    IN_CALLBACK.set(true);
    // SAFETY: the program that set the callback vouched that it may be called with this context
    // from any thread until it is replaced, which the lock held here delays. The texts live until
    // it returns.
    unsafe { (sink.callback)(sink.context, level, target.as_ptr(), line.as_ptr()) };
    IN_CALLBACK.set(false);
}
