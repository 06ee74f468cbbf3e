//! Brings each `accept` of the program together with a peer that has come in. Pure.
//!
//! Either may come first, and then waits here: the accept until a peer comes that its name fits,
//! the peer until an accept gives it a name. A name under which connection info was loaded is that
//! session's: only who proves to be it has the name, and who merely says it waits.

use std::collections::VecDeque;

/// Most peers that wait here. Others are not welcomed before one has gone, so their connects wait.
const MAX_UNCLAIMED: usize = 64;
/// Most peers that have ended of those that no connect names. Of more, the first are forgotten.
const MAX_ENDED: usize = 64;

/// Whom an accept takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Accept {
    /// Who proves to have this name; where nobody can, who calls itself by it, or by none.
    Named(String),
    /// Whoever comes. The number tells such accepts apart.
    Anyone(u64),
}

impl Accept {
    /// The name that it gives to its peer, if that is known before one comes.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Named(name) => Some(name),
            Self::Anyone(_) => None,
        }
    }

    /// How well it fits somebody: the best of several takes.
    fn fit(&self, newcomer: &Newcomer<'_>) -> Fit {
        let Some(name) = self.name() else { return Fit::Loose };
        match (newcomer.proves)(name) {
            Some(true) => Fit::Proven,
            Some(false) => Fit::None,
            None if newcomer.given == name => Fit::Said,
            None if newcomer.given.is_empty() => Fit::Loose,
            None => Fit::None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    None,
    /// One of them has no name.
    Loose,
    Said,
    Proven,
}

/// A peer that comes.
#[derive(Clone, Copy)]
pub(super) struct Newcomer<'a> {
    /// What it calls itself; empty: nothing.
    pub(super) given: &'a str,
    /// Whether it proves to have a name; `None`: nobody can, since no connection info was loaded
    /// under it.
    pub(super) proves: &'a dyn Fn(&str) -> Option<bool>,
}

/// An accept under way.
#[derive(Debug)]
struct Accepting<K> {
    accept: Accept,
    /// The peer that came for it.
    peer: Option<K>,
}

/// A peer that came before its accept.
#[derive(Debug)]
struct Unclaimed<K> {
    peer: K,
    /// What it calls itself; empty: any accept takes it.
    given: String,
}

/// Accepts and peers that wait for each other.
#[derive(Debug)]
pub(in crate::engine) struct AcceptQueue<K> {
    accepting: Vec<Accepting<K>>,
    /// Those of them for which a peer has come: every round asks, whether or not any has.
    fulfilled: usize,
    unclaimed: VecDeque<Unclaimed<K>>,
    /// Peers that were accepted though the program asked for nobody, and that no connect has named.
    by_themselves: Vec<K>,
    /// Those of them that have ended since, the first of them first. The program may ask why.
    ended: VecDeque<K>,
    /// Peers that were gone before an accept asked for them.
    missed: u64,
    /// Peers that connects of this session have taken.
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
            taken_by_connects: 0,
        }
    }
}

impl<K: Copy + PartialEq> AcceptQueue<K> {
    /// Whether one more peer may come: it may wait, or an accept takes it.
    pub(super) fn has_room_for(&self, newcomer: &Newcomer<'_>) -> bool {
        self.unclaimed.len() < MAX_UNCLAIMED || self.best_for(newcomer).is_some()
    }

    /// The accept that takes a newcomer: of those that fit it best, the first.
    fn best_for(&self, newcomer: &Newcomer<'_>) -> Option<usize> {
        let free = self.accepting.iter().enumerate().filter(|(_, it)| it.peer.is_none());
        let fits = free.map(|(index, it)| (it.accept.fit(newcomer), index));
        let fits = fits.filter(|(fit, _)| *fit > Fit::None);
        fits.max_by_key(|(fit, index)| (*fit, std::cmp::Reverse(*index))).map(|(_, index)| index)
    }

    /// Whether somebody waits who calls itself so.
    pub(super) fn is_waiting(&self, given: &str) -> bool {
        self.unclaimed.iter().any(|waiting| waiting.given == given)
    }

    /// Whether an accept under way has this name.
    pub(in crate::engine) fn is_accepting(&self, name: &str) -> bool {
        self.accepting.iter().any(|accepting| accepting.accept.name() == Some(name))
    }

    /// Whether an accept of this name waits for a peer to come.
    pub(super) fn awaits(&self, name: &str) -> bool {
        let awaits = |accepting: &Accepting<K>| {
            accepting.peer.is_none() && accepting.accept.name() == Some(name)
        };
        self.accepting.iter().any(awaits)
    }

    /// An accept begins. Returns the peer that it takes, if one waits that may be it: a peer that
    /// gave this name, else the first that gave none; the first of all, for an accept of anyone.
    /// Where its name can be proven, `proves` says who does, and one of them it must be.
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
        self.accepting.push(Accepting { accept, peer });
        peer
    }

    /// The peer that came for an accept. It is the accept's to take, once.
    pub(super) fn take_accepted(&mut self, accept: &Accept) -> Option<K> {
        if self.fulfilled == 0 {
            return None;
        }
        let came =
            |accepting: &Accepting<K>| accepting.accept == *accept && accepting.peer.is_some();
        let index = self.accepting.iter().position(came)?;
        self.remove(index)
    }

    /// An accept gives up. Returns the peer that came for it, if one has come all the same.
    pub(super) fn stop_accept(&mut self, accept: &Accept) -> Option<K> {
        let index = self.accepting.iter().position(|accepting| accepting.accept == *accept)?;
        self.remove(index)
    }

    fn remove(&mut self, index: usize) -> Option<K> {
        let peer = self.accepting.remove(index).peer;
        self.fulfilled -= usize::from(peer.is_some());
        peer
    }

    /// A peer has come: the accept that takes it, or none, and it waits. An accept of the name that
    /// it proves to have goes before one of the name that it gives, and that before others.
    pub(super) fn arrive(&mut self, peer: K, newcomer: &Newcomer<'_>) -> Option<&Accept> {
        match self.best_for(newcomer) {
            Some(index) => {
                let accepting = &mut self.accepting[index];
                accepting.peer = Some(peer);
                self.fulfilled += 1;
                Some(&accepting.accept)
            }
            None => {
                self.unclaimed.push_back(Unclaimed { peer, given: newcomer.given.to_owned() });
                None
            }
        }
    }

    /// The peer that waits longest is accepted, though the program has asked for nobody.
    pub(super) fn take_by_itself(&mut self) -> Option<K> {
        let Unclaimed { peer, .. } = self.unclaimed.pop_front()?;
        self.by_themselves.push(peer);
        Some(peer)
    }

    /// A connect takes the peer that came first of those that it would reach: one that waits, or
    /// that was accepted by itself. The latter has a name already, and gets another.
    pub(super) fn take_for_connect(&mut self, is_reached: impl Fn(K) -> bool) -> Option<K> {
        let Some(index) = self.unclaimed.iter().position(|waiting| is_reached(waiting.peer)) else {
            let index = self.by_themselves.iter().position(|peer| is_reached(*peer))?;
            return Some(self.by_themselves.remove(index));
        };
        self.note_taken_by_connect();
        self.unclaimed.remove(index).map(|found| found.peer)
    }

    /// A peer that a connect has named lost its name, and stays.
    pub(super) fn note_forgotten(&mut self, peer: K) {
        self.note_named(peer);
        self.by_themselves.push(peer);
    }

    /// A connect has named this peer.
    pub(super) fn note_named(&mut self, peer: K) {
        self.by_themselves.retain(|other| *other != peer);
    }

    /// A connect has taken a peer that has not waited here.
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

    /// Takes out who has ended longer ago than so many others, if anybody has.
    pub(super) fn take_ended(&mut self) -> Option<K> {
        if self.ended.len() > MAX_ENDED { self.ended.pop_front() } else { None }
    }

    /// Why an accept has found nobody.
    pub(super) fn why_nobody(&self) -> String {
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
        }
        why
    }
}

#[cfg(test)]
mod tests;
