//! Queue that pairs each `accept` of the program with a peer that has come in. Pure.
//!
//! Either side may come first and waits in the queue: an accept until a peer comes that its name
//! fits, a peer until an accept gives it a name. A name under which connection info was loaded
//! belongs to that session. Only a peer that proves to be this session gets the name; a peer that
//! merely claims the name waits.

use std::collections::VecDeque;

/// Maximum number of peers that wait in the queue. Further peers are not welcomed before one has
/// left, so their connects wait.
const MAX_UNCLAIMED: usize = 64;
/// Maximum number of ended peers that no connect names. Beyond this number, the first are
/// forgotten.
const MAX_ENDED: usize = 64;

/// Peer that an accept takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Accept {
    /// The peer that proves to have this name. Where no peer can prove it, a peer that calls itself
    /// by this name, or by none.
    Named(String),
    /// Any peer. The number tells such accepts apart.
    Anyone(u64),
}

impl Accept {
    /// Returns the name that the accept gives to its peer, if that is known before a peer comes.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Named(name) => Some(name),
            Self::Anyone(_) => None,
        }
    }

    /// Returns how well the accept fits a newcomer: the best of several takes it.
    fn fit(&self, newcomer: &IncomingPeer<'_>) -> AcceptMatch {
        let Some(name) = self.name() else { return AcceptMatch::Loose };
        match (newcomer.proves)(name) {
            Some(true) => AcceptMatch::Proven,
            Some(false) => AcceptMatch::None,
            None if newcomer.given == name => AcceptMatch::Said,
            None if newcomer.given.is_empty() => AcceptMatch::Loose,
            None => AcceptMatch::None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AcceptMatch {
    None,
    /// The accept or the newcomer has no name.
    Loose,
    Said,
    Proven,
}

/// Peer that comes in.
#[derive(Clone, Copy)]
pub(super) struct IncomingPeer<'a> {
    /// Name that the peer gives itself; empty if none.
    pub(super) given: &'a str,
    /// Returns whether the peer proves to have a name; `None` if no peer can, since no connection
    /// info was loaded under the name.
    pub(super) proves: &'a dyn Fn(&str) -> Option<bool>,
}

/// Accept under way.
#[derive(Debug)]
struct PendingAccept<K> {
    accept: Accept,
    /// Peer that came for the accept.
    peer: Option<K>,
}

/// Peer that came before its accept.
#[derive(Debug)]
struct UnclaimedPeer<K> {
    peer: K,
    /// Name that the peer gives itself; empty: any accept takes the peer.
    given: String,
}

/// Accepts and peers that wait for each other.
#[derive(Debug)]
pub(in crate::engine) struct AcceptQueue<K> {
    accepting: Vec<PendingAccept<K>>,
    /// Number of accepts for which a peer has come: every round asks for it, whether or not any
    /// has.
    fulfilled: usize,
    unclaimed: VecDeque<UnclaimedPeer<K>>,
    /// Peers that were accepted without an accept of the program, and that no connect has named.
    by_themselves: Vec<K>,
    /// Peers of `by_themselves` that have ended since, in order of their ends. The program may ask
    /// why.
    ended: VecDeque<K>,
    /// Number of peers that were gone before an accept asked for them.
    missed: u64,
    /// Why the last of these was gone, in words.
    why_missed: Option<String>,
    /// Number of peers that connects of this session have taken.
    taken_by_connects: u64,
}

impl<K> Default for AcceptQueue<K> {
    fn default() -> Self {
        Self {
            accepting: Vec::new(),
            fulfilled: 0,
            unclaimed: VecDeque::new(),
            by_themselves: Vec::new(),
            ended: VecDeque::new(),
            missed: 0,
            why_missed: None,
            taken_by_connects: 0,
        }
    }
}

impl<K: Copy + PartialEq> AcceptQueue<K> {
    /// Returns whether one more peer may come: it may wait, or an accept takes it.
    pub(super) fn has_room_for(&self, newcomer: &IncomingPeer<'_>) -> bool {
        self.unclaimed.len() < MAX_UNCLAIMED || self.best_for(newcomer).is_some()
    }

    /// Returns the accept that takes a newcomer: of those that fit best, the first.
    fn best_for(&self, newcomer: &IncomingPeer<'_>) -> Option<usize> {
        let free = self.accepting.iter().enumerate().filter(|(_, it)| it.peer.is_none());
        let fits = free.map(|(index, it)| (it.accept.fit(newcomer), index));
        let fits = fits.filter(|(fit, _)| *fit > AcceptMatch::None);
        fits.max_by_key(|(fit, index)| (*fit, std::cmp::Reverse(*index))).map(|(_, index)| index)
    }

    /// Returns whether a waiting peer calls itself by this name.
    pub(super) fn is_waiting(&self, given: &str) -> bool {
        self.unclaimed.iter().any(|waiting| waiting.given == given)
    }

    /// Returns whether an accept under way has this name.
    pub(in crate::engine) fn is_accepting(&self, name: &str) -> bool {
        self.accepting.iter().any(|accepting| accepting.accept.name() == Some(name))
    }

    /// Returns whether an accept of this name waits for a peer to come.
    pub(super) fn awaits(&self, name: &str) -> bool {
        let awaits = |accepting: &PendingAccept<K>| {
            accepting.peer.is_none() && accepting.accept.name() == Some(name)
        };
        self.accepting.iter().any(awaits)
    }

    /// Begins an accept. Returns the peer that it takes, if a waiting one fits: a peer that gave
    /// this name, else the first that gave none; for an accept of anyone, the first of all. Where
    /// the name can be proven, `proves` says which peers prove it, and the accept takes only one of
    /// these.
    pub(super) fn start_accept(
        &mut self,
        accept: Accept,
        proves: Option<&dyn Fn(K) -> bool>,
    ) -> Option<K> {
        let with = |given: &str| self.unclaimed.iter().position(|waiting| waiting.given == given);
        let index = match (&accept, proves) {
            (Accept::Named(_), Some(proves)) => {
                self.unclaimed.iter().position(|waiting| proves(waiting.peer))
            }
            (Accept::Named(name), None) => with(name).or_else(|| with("")),
            (Accept::Anyone(_), _) => Some(0),
        };
        let peer = index.and_then(|index| self.unclaimed.remove(index)).map(|found| found.peer);
        self.fulfilled += usize::from(peer.is_some());
        self.accepting.push(PendingAccept { accept, peer });
        peer
    }

    /// Takes the peer that came for an accept. It can be taken once.
    pub(super) fn take_accepted(&mut self, accept: &Accept) -> Option<K> {
        if self.fulfilled == 0 {
            return None;
        }
        let came =
            |accepting: &PendingAccept<K>| accepting.accept == *accept && accepting.peer.is_some();
        let index = self.accepting.iter().position(came)?;
        self.remove(index)
    }

    /// Ends an accept without a peer. Returns the peer that came for it, if one has come all the
    /// same.
    pub(super) fn stop_accept(&mut self, accept: &Accept) -> Option<K> {
        let index = self.accepting.iter().position(|accepting| accepting.accept == *accept)?;
        self.remove(index)
    }

    fn remove(&mut self, index: usize) -> Option<K> {
        let peer = self.accepting.remove(index).peer;
        self.fulfilled -= usize::from(peer.is_some());
        peer
    }

    /// Takes in a peer. Returns the accept that takes the peer; with `None` the peer waits. An
    /// accept of the name that the peer proves goes before one of the name that it gives, and that
    /// before others.
    pub(super) fn arrive(&mut self, peer: K, newcomer: &IncomingPeer<'_>) -> Option<&Accept> {
        match self.best_for(newcomer) {
            Some(index) => {
                let accepting = &mut self.accepting[index];
                accepting.peer = Some(peer);
                self.fulfilled += 1;
                Some(&accepting.accept)
            }
            None => {
                self.unclaimed.push_back(UnclaimedPeer { peer, given: newcomer.given.to_owned() });
                None
            }
        }
    }

    /// Accepts the peer that waits longest, without an accept of the program.
    pub(super) fn take_by_itself(&mut self) -> Option<K> {
        let UnclaimedPeer { peer, .. } = self.unclaimed.pop_front()?;
        self.by_themselves.push(peer);
        Some(peer)
    }

    /// Takes, for a connect, the peer that came first of those that the connect would reach: one
    /// that waits, or that was accepted by itself. The latter has a name already, and gets another.
    pub(super) fn take_for_connect(&mut self, is_reached: impl Fn(K) -> bool) -> Option<K> {
        let Some(index) = self.unclaimed.iter().position(|waiting| is_reached(waiting.peer)) else {
            let index = self.by_themselves.iter().position(|peer| is_reached(*peer))?;
            return Some(self.by_themselves.remove(index));
        };
        self.note_taken_by_connect();
        self.unclaimed.remove(index).map(|found| found.peer)
    }

    /// Records that a peer named by a connect lost its name, and stays.
    pub(super) fn note_forgotten(&mut self, peer: K) {
        self.note_named(peer);
        self.by_themselves.push(peer);
    }

    /// Records that a connect has named this peer.
    pub(super) fn note_named(&mut self, peer: K) {
        self.by_themselves.retain(|other| *other != peer);
    }

    /// Counts a peer that a connect has taken and that has not waited here.
    pub(super) fn note_taken_by_connect(&mut self) {
        self.taken_by_connects += 1;
    }

    /// Takes out unclaimed peers that are gone.
    pub(super) fn take_gone(&mut self, is_gone: impl Fn(K) -> bool) -> Vec<K> {
        let mut gone = Vec::new();
        self.unclaimed.retain(|waiting| {
            let stays = !is_gone(waiting.peer);
            if !stays {
                gone.push(waiting.peer);
            }
            stays
        });
        self.missed += gone.len() as u64;
        let ended = self.by_themselves.extract_if(.., |peer| is_gone(*peer));
        self.ended.extend(ended);
        gone
    }

    /// Records why a peer that was taken out as gone had left.
    pub(super) fn note_why_missed(&mut self, why: String) {
        self.why_missed = Some(why);
    }

    /// Takes out the oldest ended peer, if more than [`MAX_ENDED`] have ended.
    pub(super) fn take_ended(&mut self) -> Option<K> {
        if self.ended.len() > MAX_ENDED { self.ended.pop_front() } else { None }
    }

    /// Returns why an accept has found no peer.
    pub(super) fn why_none(&self) -> String {
        let names: Vec<&str> =
            self.unclaimed.iter().map(|waiting| waiting.given.as_str()).collect();
        let mut why = match names.as_slice() {
            [] => "no session has connected; is the peer running, and did it get this connection info?".to_owned(),
            names => format!("sessions that call themselves {} are waiting", names.join(", ")),
        };
        if self.taken_by_connects > 0 {
            why += &format!(
                "; {} came from where a connect of this session led, and are that connect's",
                self.taken_by_connects
            );
        }
        if self.missed > 0 {
            why += &format!("; {} came and left before they were accepted", self.missed);
            if let Some(reason) = &self.why_missed {
                why += &format!(", the last after: {reason}");
            }
        }
        why
    }
}

#[cfg(test)]
mod tests;
