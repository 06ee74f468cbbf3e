#![allow(unsafe_code)]
//! The log callback as C calls it: printf arguments in, `tracing` events out.

use std::collections::BTreeSet;
use std::ffi::{c_int, c_ulong};
use std::fmt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use tcpx_sys::{LogLevel, Logger, log_callback, set_max_log_level};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::fixture;

/// One event as it arrived.
#[derive(Clone, Debug, Default)]
struct Line {
    level: Option<Level>,
    target: String,
    text: String,
    subsystem: String,
    function: String,
    line: i64,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.text = format!("{value:?}"),
            "function" => self.function = format!("{value:?}"),
            other => panic!("unknown field {other}"),
        }
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        assert_eq!(field.name(), "subsystem");
        value.clone_into(&mut self.subsystem);
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        assert_eq!(field.name(), "line");
        self.line = value;
    }
}

static LINES: Mutex<Vec<Line>> = Mutex::new(Vec::new());

struct Collect;

impl<S: Subscriber> Layer<S> for Collect {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let mut line = Line { level: Some(*metadata.level()), ..Line::default() };
        metadata.target().clone_into(&mut line.target);
        event.record(&mut line);
        LINES.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

/// The C side. Level filter and subscriber belong to the process, so one test at a time holds it.
struct Caller {
    library: &'static libloading::Library,
    _turn: MutexGuard<'static, ()>,
}

impl Caller {
    fn new() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        static LIBRARY: OnceLock<libloading::Library> = OnceLock::new();
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let library = LIBRARY.get_or_init(|| {
            tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Collect))
                .expect("the only subscriber");
            // What is open needs its file no longer.
            let folder = tempfile::tempdir().expect("folder");
            let (source, flags) =
                (include_str!("log_callback.c"), ["-shared", "-fPIC", "-pthread"]);
            let path = fixture::compile(folder.path(), "caller.so", source, &flags);
            // SAFETY: the library is a fixture of this test and has no constructors.
            unsafe { libloading::Library::new(path) }.expect("opens")
        });
        LINES.lock().unwrap_or_else(PoisonError::into_inner).clear();
        set_max_log_level(LogLevel::INFO);
        Self { library, _turn: turn }
    }

    /// Calls a `void f(logger)` and returns the lines that arrived.
    fn lines_of(&self, function: &str) -> Vec<Line> {
        // SAFETY: the functions called through here take one logger and return nothing.
        let function =
            unsafe { self.library.get::<unsafe extern "C" fn(Logger)>(function) }.expect("there");
        // SAFETY: the callback is of the declared type and lives for ever.
        unsafe { function(log_callback()) };
        Self::lines()
    }

    fn lines() -> Vec<Line> {
        std::mem::take(&mut *LINES.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[test]
fn arguments_are_formatted_and_a_null_string_does_no_harm() {
    let lines = Caller::new().lines_of("log_arguments");
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!(line.text, "NET/TCPX : eth1 has -7 of 18446744073709551615, 0.25 and (null)");
    assert_eq!((line.level, line.target.as_str()), (Some(Level::WARN), "tcpx::plugin"));
    assert_eq!(line.function, "int tcpxConnect(int, void *)");
    assert_eq!((line.subsystem.as_str(), line.line), ("all", 42));
}

#[test]
fn a_null_format_is_an_empty_line() {
    let lines = Caller::new().lines_of("log_no_format");
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!((line.text.as_str(), line.subsystem.as_str()), ("", "net"));
}

#[test]
fn a_null_function_is_empty_and_the_newline_is_cut() {
    let lines = Caller::new().lines_of("log_no_function");
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!((line.text.as_str(), line.function.as_str()), ("no function", ""));
}

#[test]
fn the_level_filters_and_maps() {
    let caller = Caller::new();
    let levels =
        |lines: Vec<Line>| lines.into_iter().map(|l| (l.level, l.text)).collect::<Vec<_>>();
    let warn = (Some(Level::WARN), "level warn".to_string());
    let info = (Some(Level::DEBUG), "level info".to_string());
    let trace = (Some(Level::TRACE), "level trace".to_string());
    assert_eq!(levels(caller.lines_of("log_levels")), [warn.clone(), info.clone()]);
    set_max_log_level(LogLevel::WARN);
    assert_eq!(levels(caller.lines_of("log_levels")), std::slice::from_ref(&warn));
    set_max_log_level(LogLevel::TRACE);
    assert_eq!(levels(caller.lines_of("log_levels")), [warn, info, trace]);
    set_max_log_level(LogLevel::NONE);
    assert_eq!(levels(caller.lines_of("log_levels")), []);
}

#[test]
fn a_long_line_is_cut_and_a_shorter_one_is_whole() {
    let caller = Caller::new();
    // SAFETY: the function takes a logger and an unsigned long.
    let log = unsafe { caller.library.get::<unsafe extern "C" fn(Logger, c_ulong)>("log_long") }
        .expect("there");
    for (bytes, kept) in [(2046, 2046), (2047, 2047), (2048, 2047), (60_000, 2047)] {
        // SAFETY: as above.
        unsafe { log(log_callback(), bytes) };
        let lines = Caller::lines();
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].text, "x".repeat(kept), "{bytes} bytes");
    }
}

#[test]
fn several_threads_log_at_once_and_no_line_is_lost_or_mixed() {
    let (threads, lines) = (8, 200);
    let caller = Caller::new();
    // SAFETY: the function takes a logger and two ints and returns an int.
    let log = unsafe {
        caller
            .library
            .get::<unsafe extern "C" fn(Logger, c_int, c_int) -> c_int>("log_from_threads")
    }
    .expect("there");
    // SAFETY: as above; the C side has room for 16 threads.
    assert_eq!(unsafe { log(log_callback(), threads, lines) }, 0);
    let arrived = Caller::lines();
    let texts: BTreeSet<String> = arrived.iter().map(|l| l.text.clone()).collect();
    let expected: BTreeSet<String> = (0..threads)
        .flat_map(|t| (0..lines).map(move |l| format!("thread {t} line {l} of 99")))
        .collect();
    assert_eq!(arrived.len(), expected.len());
    assert_eq!(texts, expected);
}
