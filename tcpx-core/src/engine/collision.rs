//! Two sessions that connect to each other at the same time: which of the two links stays. Pure.
//!
//! Each end decides when it reads the other's hello, and neither knows how far the other is. Three
//! rules bring both to the same link:
//!
//! - The other end cannot know of a dial that has said no hello there. Such a dial gives way.
//! - Of two that have both said hello, the dial of the session with the smaller id stays. That end
//!   leaves the other's hello unanswered, and the other end gives way.
//! - A hello that waits is decided on again when the own dial has ended. So nobody relies on a dial
//!   that fails, and where only one direction leads anywhere, that one is taken.
//!
//! An end that has given way says so in its welcome, for its own hello may arrive after that.

use tcpx_protocol::frames::conn_info::SessionId;

/// How far this end's own dial to the session is, while it is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OwnDial {
    /// It has said no hello, or none that can still be answered.
    Unheard,
    /// It has said hello, and the answer is to come.
    Greeted,
}

/// What becomes of a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is a peer like any other that comes in.
    Welcome,
    /// Its link is the one that this end's connect waits for. The own dial gives way.
    Adopt,
    /// It is not answered now: this end's own dial is about to be.
    Wait,
    /// The other end has given it up already, for this end's.
    Drop,
}

/// Decides on a proven hello of session `theirs`. `own`: the dial of this end that is to be the
/// same connection. `is_given_up`: a welcome of the other end has said so.
pub(super) fn decide(
    ours: &SessionId,
    theirs: &SessionId,
    own: Option<OwnDial>,
    is_given_up: bool,
) -> Verdict {
    match own {
        _ if is_given_up => Verdict::Drop,
        None => Verdict::Welcome,
        Some(OwnDial::Greeted) if ours < theirs => Verdict::Wait,
        Some(OwnDial::Unheard | OwnDial::Greeted) => Verdict::Adopt,
    }
}

#[cfg(test)]
mod tests;
