//! Checks of a conversation that is over.

use std::collections::BTreeMap;

use super::{ENDS, Pair};
use crate::peer::action::{Outcome, Withdrawal};
use crate::peer::tests::driver::{Check, End, Posted, ensure};
use crate::types::{Direction, TransferKey};

impl Pair {
    /// Checks what must be true of every conversation that is over.
    pub(in super::super) fn check_end(&self, was_disturbed: bool) -> Check {
        for end in ENDS {
            let driver = &self.ends[end];
            ensure!(driver.over.is_some(), "end {end} is still {:?}", driver.protocol());
            for posted in driver.posted.values() {
                let Some(how) = posted.end else {
                    return Err(format!("{posted:?} never ends"));
                };
                let is_told_rightly = match how {
                    End::Completed(Outcome::Withdrawn(why)) => match why {
                        Withdrawal::Cancelled => posted.was_cancelled,
                        Withdrawal::Left => driver.is_leaving,
                        Withdrawal::PeerLeft => self.ends[1 - end].is_leaving,
                    },
                    End::Completed(_) | End::WithThePeer => true,
                };
                ensure!(is_told_rightly, "that is not why it ended: {posted:?}");
                ensure!(was_disturbed || how != End::WithThePeer, "{posted:?} is lost");
            }
        }
        for request in ENDS.iter().flat_map(|end| self.ends[*end].requests.all.values()) {
            ensure!(!request.is_active(), "{request:?} never ends");
            let end = request.post.as_ref().and_then(|post| post.end);
            ensure!(was_disturbed || end != Some(End::WithThePeer), "{request:?} is lost");
        }
        if was_disturbed {
            return Ok(());
        }
        ENDS.into_iter().try_for_each(|sender| self.check_messages(sender))
    }

    /// Checks a conversation that nothing disturbed. A send is done if and only if its receive is.
    /// Equal tags met in the order in which they were posted. A size that did not fit has failed at
    /// both ends.
    fn check_messages(&self, sender: usize) -> Check {
        let (sends, receives) = (&self.ends[sender].posted, &self.ends[1 - sender].posted);
        let done = Some(End::Completed(Outcome::Done));
        let mut latest: BTreeMap<i64, (usize, usize)> = BTreeMap::new();
        let order: BTreeMap<TransferKey, usize> =
            receives.keys().enumerate().map(|(at, key)| (key, at)).collect();
        for (at, (key, send)) in sends.iter().enumerate() {
            let Some(recv) = self.matches[sender].get(&key) else { continue };
            let (send_bytes, recv_bytes) = (send.bytes, receives[*recv].bytes);
            let mismatch = Outcome::SizeMismatch { send_bytes, recv_bytes };
            let received = if send_bytes == recv_bytes { Outcome::Done } else { mismatch };
            if send_bytes == recv_bytes {
                let mut pieces = self.arrived[sender].get(recv).into_iter().flatten();
                let end = pieces
                    .try_fold(0, |end, (offset, bytes)| (end == *offset).then_some(end + bytes));
                ensure!(end == Some(send.bytes), "{send:?} has arrived with holes");
            }
            let is_received = receives[*recv].end == Some(End::Completed(received));
            ensure!(send.end == done && is_received, "{send:?} is half done");
            let before = latest.insert(send.tag, (at, order[recv]));
            let is_in_order = before.is_none_or(|(_, before)| before < order[recv]);
            ensure!(is_in_order, "tag {} met out of order", send.tag);
        }
        for (from, to) in [(sends, receives), (receives, sends)] {
            let failed = |posted: &Posted| {
                matches!(posted.end, Some(End::Completed(Outcome::SizeMismatch { .. })))
            };
            let wrong =
                |direction| move |posted: &&Posted| failed(posted) && posted.direction == direction;
            let sent = from.values().filter(wrong(Direction::Send)).count();
            let received = to.values().filter(wrong(Direction::Receive)).count();
            // A send that went ahead was done before it was seen not to fit.
            let met = if std::ptr::eq(from, sends) { sender } else { 1 - sender };
            let is_misfit =
                |(send, recv): (&TransferKey, &TransferKey)| from[*send].bytes != to[*recv].bytes;
            let ahead = self.matches[met].iter().filter(|pair| is_misfit(*pair)).count();
            let is_even = sent + ahead == received;
            ensure!(is_even, "{sent} and {ahead} sends, {received} receives of another size");
        }
        let thrown_away = &self.ends[1 - sender].messages.thrown_away;
        for (key, send) in sends {
            let is_sent = send.direction == Direction::Send && send.end == done;
            // Nothing is seen of a message of no bytes that is matched.
            if !is_sent || send.bytes == 0 && !send.went_eager {
                continue;
            }
            let has_met = self.matches[sender].contains_key(&key);
            let is_gone = send.went_eager && thrown_away.contains(&key);
            ensure!(has_met != is_gone, "{send:?} is done, and its bytes are nowhere");
        }
        Ok(())
    }
}
