//! Data path under test: transfers of the session, of one message or many.

use tcpx_core::{Post, Transfer};

use super::data_path::{DataPath, PathStep, Payload};
use super::pattern::{Content, Mismatch};
use super::test_buffer::TestBuffer;
use crate::failure::Failure;

/// A registration, used by one transfer at a time.
pub(super) struct SessionPath<'a> {
    pub(super) buffer: TestBuffer<'a>,
    pub(super) peer: &'static str,
    pub(super) name: &'static str,
    /// Messages of one transfer, which together cover the buffer.
    pub(super) posts: Vec<Post>,
    /// Transfer of the current iteration, from its preparation to the check.
    pub(super) transfer: Option<Transfer>,
}

impl DataPath for SessionPath<'_> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&mut self, step: PathStep, payload: Payload) -> Result<Option<Mismatch>, Failure> {
        match (step, &self.transfer) {
            (PathStep::Prepare(content), _) => self.prepare(content, payload)?,
            (PathStep::Check, _) => return self.check(payload),
            (PathStep::Send, Some(transfer)) => {
                transfer.post_send_batch(&self.posts)?;
                self.buffer.budget.wait(transfer)?;
            }
            (PathStep::Post, Some(transfer)) => {
                transfer.post_recv_batch(&self.posts)?;
                // The posted receive is sent to the sender before "go".
                self.buffer.session.progress();
            }
            (PathStep::Wait, Some(transfer)) => self.buffer.budget.wait(transfer)?,
            // Nothing was prepared, so there is nothing to move.
            (PathStep::Send | PathStep::Post | PathStep::Wait, None) => {}
        }
        Ok(None)
    }
}

impl SessionPath<'_> {
    fn prepare(&mut self, content: Content, payload: Payload) -> Result<(), Failure> {
        // The use of the memory before this must be over.
        self.transfer = None;
        self.buffer.write(content, payload)?;
        self.transfer = Some(self.buffer.session.create_transfer(self.peer)?);
        Ok(())
    }

    fn check(&mut self, payload: Payload) -> Result<Option<Mismatch>, Failure> {
        self.transfer = None;
        self.buffer.check(payload)
    }
}
