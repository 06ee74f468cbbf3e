//! Brings each `accept` of the program together with a peer that has come in. Pure.
//!
//! Either may come first, and then waits here: the accept until a peer comes that its name fits,
//! the peer until an accept gives it a name.

use std::collections::VecDeque;

/// Most peers that wait here. Others are not welcomed before one has gone, so their connects wait.
pub(crate) const MAX_UNCLAIMED: usize = 64;
/// Most peers that have ended of those that no connect names. Of more, the first are forgotten.
const MAX_ENDED: usize = 64;

/// Whom an accept takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Accept {
    /// Who calls itself by this name, or by none.
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

    fn fits(&self, given: &str) -> bool {
        given.is_empty() || self.name().is_none_or(|name| name == given)
    }
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
pub(crate) struct AcceptQueue<K> {
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
    /// Whether one more peer may come, which calls itself `given`: it may wait, or an accept takes
    /// it.
    pub(crate) fn has_room_for(&self, given: &str) -> bool {
        let fits = |it: &Accepting<K>| it.peer.is_none() && it.accept.fits(given);
        self.unclaimed.len() < MAX_UNCLAIMED || self.accepting.iter().any(fits)
    }

    /// Whether an accept under way has this name.
    pub(crate) fn is_accepting(&self, name: &str) -> bool {
        self.accepting.iter().any(|accepting| accepting.accept.name() == Some(name))
    }

    /// Whether an accept of this name waits for a peer to come.
    pub(crate) fn awaits(&self, name: &str) -> bool {
        let awaits = |accepting: &Accepting<K>| {
            accepting.peer.is_none() && accepting.accept.name() == Some(name)
        };
        self.accepting.iter().any(awaits)
    }

    /// An accept begins. Returns the peer that it takes, if one waits that may be it: a peer that
    /// gave this name, else the first that gave none; the first of all, for an accept of anyone.
    pub(crate) fn start_accept(&mut self, accept: Accept) -> Option<K> {
        let with = |given: &str| self.unclaimed.iter().position(|waiting| waiting.given == given);
        let index = match &accept {
            Accept::Named(name) => with(name).or_else(|| with("")),
            Accept::Anyone(_) => Some(0),
        };
        let peer = index.and_then(|index| self.unclaimed.remove(index)).map(|found| found.peer);
        self.fulfilled += usize::from(peer.is_some());
        self.accepting.push(Accepting { accept, peer });
        peer
    }

    /// The peer that came for an accept. It is the accept's to take, once.
    pub(crate) fn take_accepted(&mut self, accept: &Accept) -> Option<K> {
        if self.fulfilled == 0 {
            return None;
        }
        let came =
            |accepting: &Accepting<K>| accepting.accept == *accept && accepting.peer.is_some();
        let index = self.accepting.iter().position(came)?;
        self.remove(index)
    }

    /// An accept gives up. Returns the peer that came for it, if one has come all the same.
    pub(crate) fn stop_accept(&mut self, accept: &Accept) -> Option<K> {
        let index = self.accepting.iter().position(|accepting| accepting.accept == *accept)?;
        self.remove(index)
    }

    fn remove(&mut self, index: usize) -> Option<K> {
        let peer = self.accepting.remove(index).peer;
        self.fulfilled -= usize::from(peer.is_some());
        peer
    }

    /// A peer that calls itself `given` has come: the accept that takes it, or none, and it waits.
    /// An accept of its name goes before others.
    pub(crate) fn arrive(&mut self, peer: K, given: &str) -> Option<&Accept> {
        let find = |fits: &dyn Fn(&Accept) -> bool| {
            let is_free = |accepting: &Accepting<K>| accepting.peer.is_none();
            let fits = |accepting: &Accepting<K>| is_free(accepting) && fits(&accepting.accept);
            self.accepting.iter().position(fits)
        };
        let by_name = find(&|accept| accept.name() == Some(given));
        match by_name.or_else(|| find(&|accept| accept.fits(given))) {
            Some(index) => {
                let accepting = &mut self.accepting[index];
                accepting.peer = Some(peer);
                self.fulfilled += 1;
                Some(&accepting.accept)
            }
            None => {
                self.unclaimed.push_back(Unclaimed { peer, given: given.to_owned() });
                None
            }
        }
    }

    /// The peer that waits longest is accepted, though the program has asked for nobody.
    pub(crate) fn take_by_itself(&mut self) -> Option<K> {
        let Unclaimed { peer, .. } = self.unclaimed.pop_front()?;
        self.by_themselves.push(peer);
        Some(peer)
    }

    /// A connect takes the peer that came first of those that it would reach: one that waits, or
    /// that was accepted by itself. The latter has a name already, and gets another.
    pub(crate) fn take_for_connect(&mut self, is_reached: impl Fn(K) -> bool) -> Option<K> {
        let Some(index) = self.unclaimed.iter().position(|waiting| is_reached(waiting.peer)) else {
            let index = self.by_themselves.iter().position(|peer| is_reached(*peer))?;
            return Some(self.by_themselves.remove(index));
        };
        self.note_taken_by_connect();
        self.unclaimed.remove(index).map(|found| found.peer)
    }

    /// A peer that a connect has named lost its name, and stays.
    pub(crate) fn note_forgotten(&mut self, peer: K) {
        self.note_named(peer);
        self.by_themselves.push(peer);
    }

    /// A connect has named this peer.
    pub(crate) fn note_named(&mut self, peer: K) {
        self.by_themselves.retain(|other| *other != peer);
    }

    /// A connect has taken a peer that has not waited here.
    pub(crate) fn note_taken_by_connect(&mut self) {
        self.taken_by_connects += 1;
    }

    /// Takes out unclaimed peers that are gone.
    pub(crate) fn take_gone(&mut self, is_gone: impl Fn(K) -> bool) -> Vec<K> {
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
    pub(crate) fn take_ended(&mut self) -> Option<K> {
        if self.ended.len() > MAX_ENDED { self.ended.pop_front() } else { None }
    }

    /// Why an accept has found nobody.
    pub(crate) fn why_nobody(&self) -> String {
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(name: &str) -> Accept {
        Accept::Named(name.to_owned())
    }

    #[test]
    fn who_comes_first_waits_for_the_other() {
        let mut queue = AcceptQueue::default();
        assert_eq!(queue.arrive(1, ""), None);
        assert_eq!(queue.arrive(2, "b"), None);
        assert_eq!(queue.arrive(3, "c"), None);
        assert_eq!(queue.start_accept(named("c")), Some(3), "its own name goes before no name");
        assert_eq!(queue.take_accepted(&named("c")), Some(3));
        assert_eq!(queue.take_accepted(&named("c")), None, "once");
        assert_eq!(queue.start_accept(named("x")), Some(1), "one without a name is anybody's");
        assert_eq!(queue.start_accept(named("y")), None, "one with another name is not");
        assert!(queue.is_accepting("y"));
        assert_eq!(queue.arrive(4, "z"), None);
        assert_eq!(queue.arrive(5, "y"), Some(&named("y")));
        assert_eq!(queue.arrive(6, "y"), None, "the accept has its peer");
        assert_eq!(queue.take_accepted(&named("y")), Some(5));
    }

    #[test]
    fn a_crowd_that_nobody_accepts_keeps_out_nobody_who_is_accepted() {
        let mut queue = AcceptQueue::default();
        assert_eq!(queue.start_accept(named("last")), None);
        (0..MAX_UNCLAIMED).for_each(|peer| assert_eq!(queue.arrive(peer, "other"), None));
        assert!(!queue.has_room_for("other") && queue.has_room_for("last"));
        assert!(queue.has_room_for(""), "one without a name is anybody's");
        assert_eq!(queue.arrive(MAX_UNCLAIMED, "last"), Some(&named("last")));
        assert!(!queue.has_room_for("last"), "its accept has a peer");
        queue.take_gone(|peer| peer == 0);
        assert!(queue.has_room_for("other"));
    }

    #[test]
    fn an_accept_that_gave_up_takes_nobody() {
        let mut queue = AcceptQueue::default();
        assert_eq!(queue.start_accept(named("a")), None);
        assert_eq!(queue.stop_accept(&named("a")), None);
        assert!(!queue.is_accepting("a"));
        assert_eq!(queue.arrive(1, "a"), None);
        assert!(queue.why_nobody().contains("call themselves a"));
    }

    #[test]
    fn an_accept_of_anyone_takes_who_comes_unless_an_accept_of_its_name_waits() {
        let mut queue = AcceptQueue::default();
        queue.arrive(1, "a");
        queue.arrive(2, "");
        assert_eq!(queue.start_accept(Accept::Anyone(0)), Some(1), "the first that came");
        assert_eq!(queue.start_accept(Accept::Anyone(1)), Some(2));
        assert_eq!(queue.start_accept(Accept::Anyone(2)), None);
        assert_eq!(queue.start_accept(named("b")), None);
        assert!(queue.awaits("b") && !queue.awaits("a"));
        assert_eq!(queue.arrive(3, "b"), Some(&named("b")));
        assert!(!queue.awaits("b") && queue.is_accepting("b"));
        assert_eq!(queue.arrive(4, "b"), Some(&Accept::Anyone(2)));
        assert_eq!(queue.arrive(5, ""), None, "nobody waits any more");
        assert_eq!(queue.take_accepted(&Accept::Anyone(2)), Some(4));
        assert_eq!(queue.stop_accept(&Accept::Anyone(0)), Some(1), "who has come is not lost");
        assert_eq!(queue.take_accepted(&Accept::Anyone(0)), None);
    }

    #[test]
    fn a_connect_takes_the_first_that_it_would_reach_and_an_accept_is_told() {
        let mut queue = AcceptQueue::default();
        for (peer, given) in [(1, "a"), (2, "b"), (3, "b")] {
            queue.arrive(peer, given);
        }
        assert_eq!(queue.take_for_connect(|_| false), None);
        assert_eq!(queue.take_for_connect(|peer| peer > 1), Some(2));
        assert!(queue.why_nobody().contains("1 came from where a connect"));
        assert_eq!(queue.start_accept(named("b")), Some(3));
        assert_eq!(queue.start_accept(named("c")), None);
    }

    #[test]
    fn a_connect_names_once_who_was_accepted_by_itself() {
        let mut queue = AcceptQueue::default();
        assert_eq!(queue.take_by_itself(), None);
        (1..=5).for_each(|peer| assert_eq!(queue.arrive(peer, "a"), None));
        assert_eq!([(); 4].map(|()| queue.take_by_itself()), [1, 2, 3, 4].map(Some));
        assert_eq!(queue.take_for_connect(|_| true), Some(5), "one without a name goes first");
        queue.note_named(1);
        assert!(queue.take_gone(|peer| peer == 2).is_empty(), "it was accepted");
        assert_eq!(queue.take_for_connect(|peer| peer == 4), Some(4));
        assert_eq!(queue.take_for_connect(|_| true), Some(3));
        assert_eq!(queue.take_for_connect(|_| true), None);
    }

    #[test]
    fn of_many_that_were_accepted_by_themselves_and_ended_the_first_are_forgotten() {
        let mut queue = AcceptQueue::default();
        for peer in 0..MAX_ENDED + 3 {
            queue.arrive(peer, "a");
            queue.take_by_itself();
        }
        queue.note_named(0);
        queue.note_named(MAX_ENDED);
        queue.note_forgotten(MAX_ENDED);
        assert!(queue.take_gone(|peer| peer != 1).is_empty());
        assert_eq!([(); 2].map(|()| queue.take_ended()), [Some(2), None]);
        assert!(queue.take_gone(|_| true).is_empty());
        assert_eq!([(); 2].map(|()| queue.take_ended()), [Some(3), None]);
    }

    #[test]
    fn peers_that_left_are_counted_and_forgotten() {
        let mut queue = AcceptQueue::default();
        queue.arrive(1, "a");
        queue.arrive(2, "a");
        assert_eq!(queue.take_gone(|peer| peer == 1), [1]);
        assert!(queue.why_nobody().contains("1 came and left"));
        assert_eq!(queue.start_accept(named("a")), Some(2));
    }

    proptest! {
        /// However accepts and peers interleave: nobody is taken twice, nobody is lost, and a name
        /// never takes another's.
        #[test]
        fn every_peer_is_taken_once_or_waits(steps in proptest::collection::vec((any::<bool>(), 0usize..4), 0..100)) {
            const NAMES: [&str; 4] = ["", "a", "b", "c"];
            let mut queue = AcceptQueue::default();
            let (mut came, mut taken) = (Vec::new(), Vec::new());
            for (is_accept, which) in steps {
                match NAMES[which] {
                    "" if is_accept => {}
                    name if is_accept => {
                        if !queue.is_accepting(name) {
                            queue.start_accept(named(name));
                        }
                    }
                    given => {
                        queue.arrive(came.len(), given);
                        came.push(given);
                    }
                }
                for name in &NAMES[1..] {
                    if let Some(peer) = queue.take_accepted(&named(name)) {
                        prop_assert!(came[peer].is_empty() || came[peer] == *name);
                        prop_assert!(!taken.contains(&peer));
                        taken.push(peer);
                    }
                }
            }
            prop_assert_eq!(taken.len() + queue.unclaimed.len(), came.len());
            prop_assert_eq!(queue.fulfilled, 0, "whoever came for an accept was taken");
        }
    }
}
