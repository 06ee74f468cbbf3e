//! When a comm may get further.

use crate::reactor::watch::Watch;

/// Whether a call of `test` may get a comm further.
#[derive(Debug, Default)]
pub(super) struct Readiness {
    /// Its descriptors, if the plugin has told them.
    watches: Vec<Watch>,
    /// Nothing has happened since `test` got no further. Only of a comm that is watched.
    is_at_rest: bool,
}

impl Readiness {
    /// Whether a call may get it further. Where the plugin tells no descriptors, any may.
    pub(super) fn may_move(&self) -> bool {
        !self.is_at_rest
    }

    /// Something has happened to it.
    pub(super) fn wake(&mut self) {
        self.is_at_rest = false;
    }

    /// `test` got no further. `needs_call`: a further call may all the same.
    pub(super) fn rest(&mut self, needs_call: bool) {
        self.is_at_rest = self.is_watched() && !needs_call;
    }

    /// Its descriptors are watched from now on.
    pub(super) fn watch(&mut self, watches: Vec<Watch>) {
        *self = Self { watches, is_at_rest: false };
    }

    pub(super) fn is_watched(&self) -> bool {
        !self.watches.is_empty()
    }

    /// Watches nothing any more: the comm is about to close.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }
}
