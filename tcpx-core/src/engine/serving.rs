//! What an engine does for those who may not wait for its lock.

use std::sync::Arc;

use super::Engine;
use super::errands::{Errand, Errands, LatePost};
use crate::transfer::post_options::PostOptions;

impl Engine {
    /// Where others ask for something.
    pub(crate) fn errands(&self) -> &Arc<Errands> {
        &self.errands
    }

    /// Does what it was asked to.
    pub(super) fn run_errands(&mut self) {
        for errand in self.errands.take() {
            match errand {
                Errand::Cancel(transfer) => self.cancel(transfer),
                Errand::Post(post) => self.post_late(&post),
            }
        }
    }

    fn post_late(&mut self, post: &LatePost) {
        let LatePost { prepared, transfer, notification, timeout } = post;
        // Its owner may have let go of it.
        let Ok(state) = self.commons.ledger.transfers.get(*transfer) else { return };
        let (cell, round) = (Arc::clone(&state.cell), state.cell.round());
        let options = PostOptions { notification: Some(notification), timeout: *timeout };
        let Err(error) = self.post_operation(*prepared, *transfer, options) else { return };
        // One that was posted, to a peer that has ended by that, has told of its end.
        if cell.round() == round
            && let Some(listener) = cell.listener.get()
        {
            listener.round_ended(Err(error));
        }
    }
}
