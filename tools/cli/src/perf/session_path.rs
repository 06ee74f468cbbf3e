//! Data path under test: transfers of the session, of one message or many.

use tcpx_core::{Post, Transfer};

use super::contents::Contents;
use super::data_path::{DataPath, Payload, Step};
use super::pattern::{Content, Mismatch};
use crate::failure::Failure;

/// A registration, used by one transfer at a time.
pub(super) struct SessionPath<'a> {
    pub(super) contents: Contents<'a>,
    pub(super) peer: &'static str,
    pub(super) name: &'static str,
    /// The messages of one transfer; together they cover what is prepared and checked.
    pub(super) posts: Vec<Post>,
    /// From its preparation to the next check.
    pub(super) transfer: Option<Transfer>,
}

impl DataPath for SessionPath<'_> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&mut self, step: Step, payload: Payload) -> Result<Option<Mismatch>, Failure> {
        match (step, &self.transfer) {
            (Step::Prepare(content), _) => self.prepare(content, payload)?,
            (Step::Check, _) => return self.check(payload),
            (Step::Send, Some(transfer)) => {
                transfer.post_send_batch(&self.posts)?;
                self.contents.budget.wait(transfer)?;
            }
            (Step::Post, Some(transfer)) => {
                transfer.post_recv_batch(&self.posts)?;
                // The sender learns of the receive before it hears "go".
                self.contents.session.progress();
            }
            (Step::Wait, Some(transfer)) => self.contents.budget.wait(transfer)?,
            // Nothing was prepared, so there is nothing to move.
            (Step::Send | Step::Post | Step::Wait, None) => {}
        }
        Ok(None)
    }
}

impl SessionPath<'_> {
    fn prepare(&mut self, content: Content, payload: Payload) -> Result<(), Failure> {
        // The use of the memory before this must be over.
        self.transfer = None;
        self.contents.write(content, payload)?;
        self.transfer = Some(self.contents.session.create_transfer(self.peer)?);
        Ok(())
    }

    fn check(&mut self, payload: Payload) -> Result<Option<Mismatch>, Failure> {
        self.transfer = None;
        self.contents.check(payload)
    }
}
