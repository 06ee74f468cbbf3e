//! Panic hook: sends panics inside calls of this library to `tracing` and `tcpx_last_error`, not to
//! standard error.

use std::cell::{Cell, RefCell};
use std::panic::PanicHookInfo;
use std::sync::Once;

thread_local! {
    static CALLS: Cell<usize> = const { Cell::new(0) };
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Guard that marks this thread as inside a call of this library while it lives.
pub(crate) struct CallGuard(());

impl CallGuard {
    pub(crate) fn enter() -> Self {
        static INSTALL: Once = Once::new();
        INSTALL.call_once(install);
        CALLS.with(|calls| calls.set(calls.get() + 1));
        Self(())
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        CALLS.with(|calls| calls.set(calls.get() - 1));
    }
}

/// Returns the message and the location of this thread's last panic.
pub(crate) fn take_panic() -> String {
    LAST_PANIC.with_borrow_mut(std::mem::take)
}

/// Installs the hook. Panics outside calls of this library stay with the hook from before.
fn install() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let is_inside = CALLS.try_with(|calls| calls.get() > 0).unwrap_or(false);
        if is_inside { record_panic(info) } else { before(info) }
    }));
}

fn record_panic(info: &PanicHookInfo<'_>) {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let message = text.unwrap_or("no message");
    let location = info.location().map(ToString::to_string).unwrap_or_default();
    let _ = LAST_PANIC.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            *last = format!("{message} ({location})");
        }
    });
    tracing::error!(message, location, "panic inside a call; it ends with an error");
}
