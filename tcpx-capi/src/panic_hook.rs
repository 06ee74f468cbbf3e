//! Panic hook: sends panics inside calls of this library to `tracing` and `tcpx_last_error`, not to
//! standard error.

use std::cell::{Cell, RefCell};
use std::panic::PanicHookInfo;
use std::sync::Once;

thread_local! {
    static CALLS: Cell<usize> = const { Cell::new(0) };
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Marks this thread as inside a call of this library for as long as it lives.
pub(crate) struct Inside(());

impl Inside {
    pub(crate) fn enter() -> Self {
        static INSTALL: Once = Once::new();
        INSTALL.call_once(install);
        CALLS.with(|calls| calls.set(calls.get() + 1));
        Self(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        CALLS.with(|calls| calls.set(calls.get() - 1));
    }
}

/// Returns the place and the message of this thread's last panic.
pub(crate) fn take_place() -> String {
    PLACE.with_borrow_mut(std::mem::take)
}

/// Installs the hook. Panics outside calls of this library stay with the hook from before.
fn install() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let is_inside = CALLS.try_with(|calls| calls.get() > 0).unwrap_or(false);
        if is_inside { note(info) } else { before(info) }
    }));
}

fn note(info: &PanicHookInfo<'_>) {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let message = text.unwrap_or("no message");
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let _ = PLACE.try_with(|kept| {
        if let Ok(mut kept) = kept.try_borrow_mut() {
            *kept = format!("{message} ({place})");
        }
    });
    tracing::error!(message, place, "panic inside a call; it ends with an error");
}
