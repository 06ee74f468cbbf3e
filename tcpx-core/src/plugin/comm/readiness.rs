//! When a comm may get further.

use crate::reactor::watch::Watch;

/// When a call of `test` may get a comm further.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NextCall {
    /// At once.
    #[default]
    Now,
    /// Soon: nobody tells when.
    Soon,
    /// When something has happened on a descriptor, or is posted.
    WhenTold,
}

/// Whether a call of `test` may get a comm further.
#[derive(Debug, Default)]
pub(super) struct Readiness {
    /// Its descriptors, if the plugin has told them.
    watches: Vec<Watch>,
    next: NextCall,
}

impl Readiness {
    pub(super) fn next(&self) -> NextCall {
        self.next
    }

    /// Something has happened to it.
    pub(super) fn wake(&mut self) {
        self.next = NextCall::Now;
    }

    /// `test` got no further, and says when it may. Where the plugin tells no descriptors, nobody
    /// tells when.
    pub(super) fn rest(&mut self, next: NextCall) {
        self.next = if self.is_watched() { next } else { NextCall::Soon };
    }

    /// Its descriptors are watched from now on.
    pub(super) fn watch(&mut self, watches: Vec<Watch>) {
        *self = Self { watches, next: NextCall::Now };
    }

    pub(super) fn is_watched(&self) -> bool {
        !self.watches.is_empty()
    }

    /// Watches nothing any more: the comm is about to close.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }
}
