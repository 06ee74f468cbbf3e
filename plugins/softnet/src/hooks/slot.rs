//! Storage of hooks: one set for the process, and a place in each comm and socket. Without the
//! feature `hooks` all of them are empty, and known to be when the plugin is compiled.

use std::fmt;
#[cfg(not(feature = "hooks"))]
use std::marker::PhantomData;
#[cfg(feature = "hooks")]
use std::sync::OnceLock;

use tcpx_comm::wire::{Side, SocketRole};

use super::at_comm::CommHooks;
use super::at_process::Hooks;
use super::at_socket::SocketHooks;

#[cfg(feature = "hooks")]
static INSTALLED: OnceLock<Box<dyn Hooks>> = OnceLock::new();

/// Changes what the plugin does in this process, from now on. The first call counts; false from
/// later ones.
#[cfg(feature = "hooks")]
pub fn install(hooks: Box<dyn Hooks>) -> bool {
    INSTALLED.set(hooks).is_ok()
}

/// Those of this process.
#[inline]
pub(crate) fn hooks() -> HookSet {
    HookSet {
        #[cfg(feature = "hooks")]
        hooks: INSTALLED.get().map(Box::as_ref),
    }
}

/// The hooks of a process, if it has any.
#[derive(Clone, Copy, Default)]
pub(crate) struct HookSet {
    #[cfg(feature = "hooks")]
    hooks: Option<&'static dyn Hooks>,
}

impl HookSet {
    /// Those that a unit test has made.
    #[cfg(all(test, feature = "hooks"))]
    pub(crate) fn by(hooks: &'static dyn Hooks) -> Self {
        Self { hooks: Some(hooks) }
    }

    #[inline]
    pub(crate) fn get(self) -> Option<&'static dyn Hooks> {
        #[cfg(feature = "hooks")]
        return self.hooks;
        #[cfg(not(feature = "hooks"))]
        None
    }

    #[inline]
    pub(crate) fn comm(self, number: u64, side: Side) -> Hook<dyn CommHooks> {
        Hook::new(self.get().and_then(|hooks| hooks.comm(number, side)))
    }

    #[inline]
    pub(crate) fn socket(self, number: u64, side: Side, role: SocketRole) -> Hook<dyn SocketHooks> {
        Hook::new(self.get().and_then(|hooks| hooks.socket(number, side, role)))
    }
}

impl fmt::Debug for HookSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HookSet").field(&self.get().is_some()).finish()
    }
}

/// A hook of one object, if it has one.
pub(crate) struct Hook<T: ?Sized> {
    #[cfg(feature = "hooks")]
    hook: Option<Box<T>>,
    #[cfg(not(feature = "hooks"))]
    none: PhantomData<Box<T>>,
}

impl<T: ?Sized> Hook<T> {
    #[inline]
    pub(crate) fn new(hook: Option<Box<T>>) -> Self {
        #[cfg(feature = "hooks")]
        return Self { hook };
        #[cfg(not(feature = "hooks"))]
        {
            let _ = hook;
            Self { none: PhantomData }
        }
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        #[cfg(feature = "hooks")]
        return self.hook.as_deref();
        #[cfg(not(feature = "hooks"))]
        None
    }

    #[inline]
    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        #[cfg(feature = "hooks")]
        return self.hook.as_deref_mut();
        #[cfg(not(feature = "hooks"))]
        None
    }

    /// The hook, which is not asked any more.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Box<T>> {
        #[cfg(feature = "hooks")]
        return self.hook.take();
        #[cfg(not(feature = "hooks"))]
        None
    }

    /// Returns the hook's answer to a question, or false without a hook.
    #[inline]
    pub(crate) fn says(&self, question: impl FnOnce(&T) -> bool) -> bool {
        self.get().is_some_and(question)
    }
}

impl<T: ?Sized> fmt::Debug for Hook<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hook").field(&self.get().is_some()).finish()
    }
}
