//! What a program hears of without asking transfers or peers.

use tcpx_sys::is_forked;

use super::Session;
use crate::completions::session_event::SessionEvent;
use crate::error::{Error, Result};

impl Session {
    /// Has [`poll_events`](Self::poll_events) tell from now on which peers come up, part or fail.
    /// Those that are up now are told first. A peer is told of under the name that the program
    /// knows it by: one that comes in, once an accept has taken it. What the program does itself is
    /// not told: that it leaves a peer, or closes the session.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn report_peers(&self) -> Result<()> {
        if is_forked() {
            return Err(Error::Forked);
        }
        self.peers.want();
        Ok(())
    }

    /// Takes out at most `most` events, and appends them to `events`: peers that have come up or
    /// ended, if they are [reported](Self::report_peers), and then what
    /// [`poll_completions`](Self::poll_completions) takes out, which need not be called then.
    /// Returns how many. Makes no progress, and waits for nobody.
    ///
    /// Of a peer of one name that ends and comes up again and again meanwhile, its last end is
    /// told, and that it is up if it is.
    ///
    /// The session's [descriptor](Self::event_fd) is not readable afterwards, unless more events
    /// wait.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn poll_events(&self, events: &mut Vec<SessionEvent>, most: usize) -> Result<usize> {
        if is_forked() {
            return Err(Error::Forked);
        }
        let before = events.len();
        // What comes after this signals it again.
        self.completions.event().drain();
        self.peers.take(events, most);
        let room = most - (events.len() - before);
        self.completions.take_each(room, |completion| {
            events.push(SessionEvent::Completed(completion));
        });
        Ok(events.len() - before)
    }
}
