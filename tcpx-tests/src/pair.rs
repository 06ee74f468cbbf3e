//! Two connected peers, and the usual ways to move data between them.

use std::time::Duration;

use tcpx_testkit::PATIENCE;

use crate::agent::{Agent, Reply};
use crate::script::{Command, Memory, Options, PostSpec};

/// Two scripted peers that call each other "left" and "right".
#[derive(Debug)]
pub struct Pair {
    /// The one that connected.
    pub left: Agent,
    /// The one that listened and accepted.
    pub right: Agent,
}

/// One end of a [`Pair`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The connecting end.
    Left,
    /// The listening end.
    Right,
}

impl Pair {
    /// Connects two peers that were started.
    ///
    /// # Panics
    /// When a step fails.
    #[must_use]
    pub fn connect(
        left: Agent,
        right: Agent,
        left_options: Options,
        right_options: Options,
    ) -> Self {
        let mut pair = Self { left, right };
        pair.left.send_command(Command::New(left_options));
        pair.right.run(Command::New(right_options));
        pair.left.receive_reply(PATIENCE).expect("left opens its session");
        pair.join("left", "right")
            .unwrap_or_else(|(left, right)| panic!("left: {left:?}, right: {right:?}"));
        pair
    }

    /// Lets left connect to `right` while right accepts `left`.
    ///
    /// # Errors
    /// Both ends' answers when one of them failed.
    pub fn join(&mut self, left: &str, right: &str) -> Result<(), (Reply, Reply)> {
        let conn_info = self.right.get(Command::Listen);
        self.left.run(Command::Load { peer: right.into(), conn_info });
        self.right.send_command(Command::Accept { peer: left.into() });
        self.left.send_command(Command::Connect { peer: right.into() });
        let replies = (self.left.receive_reply(PATIENCE), self.right.receive_reply(PATIENCE));
        if replies.0.is_ok() && replies.1.is_ok() { Ok(()) } else { Err(replies) }
    }

    /// One end and the name it has for the other.
    pub fn end(&mut self, side: Side) -> (&mut Agent, &'static str) {
        match side {
            Side::Left => (&mut self.left, "right"),
            Side::Right => (&mut self.right, "left"),
        }
    }

    /// Allocates `bytes` on both ends: the ids of left and right.
    pub fn allocate(&mut self, bytes: u64, memory: Memory) -> (u64, u64) {
        let allocate = Command::Allocate { bytes, memory };
        (self.left.get(allocate.clone()), self.right.get(allocate))
    }

    /// Posts on one end in a new transfer and returns its number.
    pub fn post(&mut self, side: Side, is_send: bool, posts: Vec<PostSpec>) -> usize {
        let (agent, peer) = self.end(side);
        let transfer = agent.get(Command::Transfer { peer: peer.into() });
        agent.run(if is_send {
            Command::Send { transfer, posts }
        } else {
            Command::Receive { transfer, posts }
        });
        transfer
    }

    /// Waits for a transfer on each end, both at once.
    ///
    /// # Panics
    /// When one of them fails.
    pub fn wait_both(&mut self, left: usize, right: usize) {
        let replies = self.wait_replies(left, right, PATIENCE);
        assert!(replies.0.is_ok() && replies.1.is_ok(), "{replies:?}");
    }

    /// Waits for a transfer on each end, both at once.
    pub fn wait_replies(&mut self, left: usize, right: usize, timeout: Duration) -> (Reply, Reply) {
        let timeout_ms = timeout.as_millis() as u64;
        self.left.send_command(Command::Wait { transfer: left, timeout_ms });
        self.right.send_command(Command::Wait { transfer: right, timeout_ms });
        (self.left.receive_reply(2 * PATIENCE), self.right.receive_reply(2 * PATIENCE))
    }

    /// Says goodbye from both ends at once.
    ///
    /// # Panics
    /// When one of them fails.
    pub fn disconnect(&mut self) {
        self.left.send_command(Command::Disconnect { peer: "right".into() });
        self.right.send_command(Command::Disconnect { peer: "left".into() });
        let replies = (self.left.receive_reply(PATIENCE), self.right.receive_reply(PATIENCE));
        assert!(replies.0.is_ok() && replies.1.is_ok(), "{replies:?}");
    }
}
