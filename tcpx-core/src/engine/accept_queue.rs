//! Brings each `accept` of the program together with a peer that has come in. Pure.
//!
//! Either may come first, and then waits here: the accept until a peer comes that its name fits,
//! the peer until an accept gives it a name. A name under which connection info was loaded is that
//! session's: only who proves to be it has the name, and who merely says it waits.

use std::collections::VecDeque;

/// Most peers that wait here. Others are not welcomed before one has gone, so their connects wait.
pub(crate) const MAX_UNCLAIMED: usize = 64;
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
pub(crate) struct Newcomer<'a> {
    /// What it calls itself; empty: nothing.
    pub(crate) given: &'a str,
    /// Whether it proves to have a name; `None`: nobody can, since no connection info was loaded
    /// under it.
    pub(crate) proves: &'a dyn Fn(&str) -> Option<bool>,
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
    /// Whether one more peer may come: it may wait, or an accept takes it.
    pub(crate) fn has_room_for(&self, newcomer: &Newcomer<'_>) -> bool {
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
    pub(crate) fn is_waiting(&self, given: &str) -> bool {
        self.unclaimed.iter().any(|waiting| waiting.given == given)
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
    /// Where its name can be proven, `proves` says who does, and one of them it must be.
    pub(crate) fn start_accept(
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

    /// A peer has come: the accept that takes it, or none, and it waits. An accept of the name that
    /// it proves to have goes before one of the name that it gives, and that before others.
    pub(crate) fn arrive(&mut self, peer: K, newcomer: &Newcomer<'_>) -> Option<&Accept> {
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

    /// Somebody whose name no connection info was loaded under.
    fn says(given: &str) -> Newcomer<'_> {
        Newcomer { given, proves: &|_| None }
    }

    /// Somebody who comes where connection info was loaded under "a", from there or not.
    fn beside_a(given: &str, is_a: bool) -> Newcomer<'_> {
        let proves: &dyn Fn(&str) -> Option<bool> = match is_a {
            true => &|name| (name == "a").then_some(true),
            false => &|name| (name == "a").then_some(false),
        };
        Newcomer { given, proves }
    }

    #[test]
    fn a_name_that_can_be_proven_is_not_had_by_saying_it() {
        let mut queue = AcceptQueue::default();
        assert_eq!(queue.start_accept(named("a"), Some(&|_| false)), None);
        for (peer, given) in [(1, "a"), (2, ""), (3, "b")] {
            assert_eq!(queue.arrive(peer, &beside_a(given, false)), None, "{given}");
        }
        assert!(queue.is_waiting("a"));
        assert_eq!(queue.arrive(4, &beside_a("x", true)), Some(&named("a")), "whatever it says");
        assert_eq!(queue.take_accepted(&named("a")), Some(4));
        // Who came before the accept has the name likewise.
        assert_eq!(queue.arrive(5, &beside_a("", true)), None);
        assert_eq!(queue.start_accept(named("a"), Some(&|peer| peer == 5)), Some(5));
        assert_eq!(queue.start_accept(named("b"), None), Some(3), "other names are as ever");
        assert_eq!(queue.start_accept(named("c"), None), Some(2));
        assert_eq!(queue.start_accept(Accept::Anyone(0), None), Some(1));
    }

    #[test]
    fn a_proven_name_goes_before_one_that_is_said() {
        let mut queue = AcceptQueue::default();
        for accept in [Accept::Anyone(0), named("b"), named("a")] {
            assert_eq!(queue.start_accept(accept, Some(&|_| false)), None);
        }
        assert_eq!(queue.arrive(1, &beside_a("b", true)), Some(&named("a")));
        assert_eq!(queue.arrive(2, &beside_a("b", true)), Some(&named("b")), "a second connection");
        assert_eq!(queue.arrive(3, &beside_a("a", false)), Some(&Accept::Anyone(0)));
        assert!(queue.has_room_for(&beside_a("a", false)), "it may wait");
    }

    #[test]
    fn who_comes_first_waits_for_the_other() {
        let mut queue = AcceptQueue::default();
        assert_eq!(queue.arrive(1, &says("")), None);
        assert_eq!(queue.arrive(2, &says("b")), None);
        assert_eq!(queue.arrive(3, &says("c")), None);
        assert_eq!(
            queue.start_accept(named("c"), None),
            Some(3),
            "its own name goes before no name"
        );
        assert_eq!(queue.take_accepted(&named("c")), Some(3));
        assert_eq!(queue.take_accepted(&named("c")), None, "once");
        assert_eq!(
            queue.start_accept(named("x"), None),
            Some(1),
            "one without a name is anybody's"
        );
        assert_eq!(queue.start_accept(named("y"), None), None, "one with another name is not");
        assert!(queue.is_accepting("y"));
        assert_eq!(queue.arrive(4, &says("z")), None);
        assert_eq!(queue.arrive(5, &says("y")), Some(&named("y")));
        assert_eq!(queue.arrive(6, &says("y")), None, "the accept has its peer");
        assert_eq!(queue.take_accepted(&named("y")), Some(5));
    }

    #[test]
    fn a_crowd_that_nobody_accepts_keeps_out_nobody_who_is_accepted() {
        let mut queue = AcceptQueue::default();
        assert_eq!(queue.start_accept(named("last"), None), None);
        (0..MAX_UNCLAIMED).for_each(|peer| assert_eq!(queue.arrive(peer, &says("other")), None));
        assert!(!queue.has_room_for(&says("other")) && queue.has_room_for(&says("last")));
        assert!(queue.has_room_for(&says("")), "one without a name is anybody's");
        assert_eq!(queue.arrive(MAX_UNCLAIMED, &says("last")), Some(&named("last")));
        assert!(!queue.has_room_for(&says("last")), "its accept has a peer");
        queue.take_gone(|peer| peer == 0);
        assert!(queue.has_room_for(&says("other")));
    }

    #[test]
    fn an_accept_that_gave_up_takes_nobody() {
        let mut queue = AcceptQueue::default();
        assert_eq!(queue.start_accept(named("a"), None), None);
        assert_eq!(queue.stop_accept(&named("a")), None);
        assert!(!queue.is_accepting("a"));
        assert_eq!(queue.arrive(1, &says("a")), None);
        assert!(queue.why_nobody().contains("call themselves a"));
    }

    #[test]
    fn an_accept_of_anyone_takes_who_comes_unless_an_accept_of_its_name_waits() {
        let mut queue = AcceptQueue::default();
        queue.arrive(1, &says("a"));
        queue.arrive(2, &says(""));
        assert_eq!(queue.start_accept(Accept::Anyone(0), None), Some(1), "the first that came");
        assert_eq!(queue.start_accept(Accept::Anyone(1), None), Some(2));
        assert_eq!(queue.start_accept(Accept::Anyone(2), None), None);
        assert_eq!(queue.start_accept(named("b"), None), None);
        assert!(queue.awaits("b") && !queue.awaits("a"));
        assert_eq!(queue.arrive(3, &says("b")), Some(&named("b")));
        assert!(!queue.awaits("b") && queue.is_accepting("b"));
        assert_eq!(queue.arrive(4, &says("b")), Some(&Accept::Anyone(2)));
        assert_eq!(queue.arrive(5, &says("")), None, "nobody waits any more");
        assert_eq!(queue.take_accepted(&Accept::Anyone(2)), Some(4));
        assert_eq!(queue.stop_accept(&Accept::Anyone(0)), Some(1), "who has come is not lost");
        assert_eq!(queue.take_accepted(&Accept::Anyone(0)), None);
    }

    #[test]
    fn a_connect_takes_the_first_that_it_would_reach_and_an_accept_is_told() {
        let mut queue = AcceptQueue::default();
        for (peer, given) in [(1, "a"), (2, "b"), (3, "b")] {
            queue.arrive(peer, &says(given));
        }
        assert_eq!(queue.take_for_connect(|_| false), None);
        assert_eq!(queue.take_for_connect(|peer| peer > 1), Some(2));
        assert!(queue.why_nobody().contains("1 came from where a connect"));
        assert_eq!(queue.start_accept(named("b"), None), Some(3));
        assert_eq!(queue.start_accept(named("c"), None), None);
    }

    #[test]
    fn a_connect_names_once_who_was_accepted_by_itself() {
        let mut queue = AcceptQueue::default();
        assert_eq!(queue.take_by_itself(), None);
        (1..=5).for_each(|peer| assert_eq!(queue.arrive(peer, &says("a")), None));
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
            queue.arrive(peer, &says("a"));
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
        queue.arrive(1, &says("a"));
        queue.arrive(2, &says("a"));
        assert_eq!(queue.take_gone(|peer| peer == 1), [1]);
        assert!(queue.why_nobody().contains("1 came and left"));
        assert_eq!(queue.start_accept(named("a"), None), Some(2));
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
                            queue.start_accept(named(name), None);
                        }
                    }
                    given => {
                        queue.arrive(came.len(), &says(given));
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
