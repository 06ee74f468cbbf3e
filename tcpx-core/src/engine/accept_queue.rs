//! Brings each `accept` of the program together with a peer that has come in. Pure.
//!
//! Either may come first, and then waits here: the accept until a peer comes that its name fits,
//! the peer until an accept gives it a name.

use std::collections::VecDeque;

/// Most peers that wait here. Others are not welcomed before one has gone, so their connects wait.
pub(crate) const MAX_UNCLAIMED: usize = 64;

/// An accept under way.
#[derive(Debug)]
struct Accepting<K> {
    name: String,
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
    unclaimed: VecDeque<Unclaimed<K>>,
    /// Peers that were gone before an accept asked for them.
    missed: u64,
    /// Peers that connects of this session have taken.
    taken_by_connects: u64,
}

impl<K> Default for AcceptQueue<K> {
    fn default() -> Self {
        Self { accepting: Vec::new(), unclaimed: VecDeque::new(), missed: 0, taken_by_connects: 0 }
    }
}

impl<K: Copy + PartialEq> AcceptQueue<K> {
    /// Whether one more peer may come.
    pub(crate) fn has_room(&self) -> bool {
        self.unclaimed.len() < MAX_UNCLAIMED
    }

    /// Whether an accept under way has this name.
    pub(crate) fn is_accepting(&self, name: &str) -> bool {
        self.accepting.iter().any(|accepting| accepting.name == name)
    }

    /// An accept begins. Returns the peer that it takes, if one waits that may be it: a peer that
    /// gave this name, else the first that gave none.
    pub(crate) fn start_accept(&mut self, name: &str) -> Option<K> {
        let with = |given: &str| self.unclaimed.iter().position(|waiting| waiting.given == given);
        let index = with(name).or_else(|| with(""));
        let peer = index.and_then(|index| self.unclaimed.remove(index)).map(|found| found.peer);
        self.accepting.push(Accepting { name: name.to_owned(), peer });
        peer
    }

    /// The peer that came for an accept. It is the accept's to take, once.
    pub(crate) fn take_accepted(&mut self, name: &str) -> Option<K> {
        let came = |accepting: &Accepting<K>| accepting.name == name && accepting.peer.is_some();
        let index = self.accepting.iter().position(came)?;
        self.accepting.remove(index).peer
    }

    /// An accept gives up.
    pub(crate) fn stop_accept(&mut self, name: &str) {
        self.accepting.retain(|accepting| accepting.name != name);
    }

    /// A peer that calls itself `given` has come: the name of the accept that takes it, or none,
    /// and it waits.
    pub(crate) fn arrive(&mut self, peer: K, given: &str) -> Option<&str> {
        let fits = |accepting: &&mut Accepting<K>| {
            accepting.peer.is_none() && (given.is_empty() || accepting.name == given)
        };
        match self.accepting.iter_mut().find(fits) {
            Some(accepting) => {
                accepting.peer = Some(peer);
                Some(&accepting.name)
            }
            None => {
                self.unclaimed.push_back(Unclaimed { peer, given: given.to_owned() });
                None
            }
        }
    }

    /// A connect takes the peer that came first of those that it would reach.
    pub(crate) fn take_for_connect(&mut self, is_reached: impl Fn(K) -> bool) -> Option<K> {
        let index = self.unclaimed.iter().position(|waiting| is_reached(waiting.peer))?;
        self.note_taken_by_connect();
        self.unclaimed.remove(index).map(|found| found.peer)
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
        gone
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

    #[test]
    fn who_comes_first_waits_for_the_other() {
        let mut queue = AcceptQueue::default();
        assert_eq!(queue.arrive(1, ""), None);
        assert_eq!(queue.arrive(2, "b"), None);
        assert_eq!(queue.arrive(3, "c"), None);
        assert_eq!(queue.start_accept("c"), Some(3), "its own name goes before no name");
        assert_eq!(queue.take_accepted("c"), Some(3));
        assert_eq!(queue.take_accepted("c"), None, "once");
        assert_eq!(queue.start_accept("x"), Some(1), "one without a name is anybody's");
        assert_eq!(queue.start_accept("y"), None, "one with another name is not");
        assert!(queue.is_accepting("y"));
        assert_eq!(queue.arrive(4, "z"), None);
        assert_eq!(queue.arrive(5, "y"), Some("y"));
        assert_eq!(queue.arrive(6, "y"), None, "the accept has its peer");
        assert_eq!(queue.take_accepted("y"), Some(5));
    }

    #[test]
    fn an_accept_that_gave_up_takes_nobody() {
        let mut queue = AcceptQueue::default();
        assert_eq!(queue.start_accept("a"), None);
        queue.stop_accept("a");
        assert!(!queue.is_accepting("a"));
        assert_eq!(queue.arrive(1, "a"), None);
        assert!(queue.why_nobody().contains("call themselves a"));
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
        assert_eq!(queue.start_accept("b"), Some(3));
        assert_eq!(queue.start_accept("c"), None);
    }

    #[test]
    fn peers_that_left_are_counted_and_forgotten() {
        let mut queue = AcceptQueue::default();
        queue.arrive(1, "a");
        queue.arrive(2, "a");
        assert_eq!(queue.take_gone(|peer| peer == 1), [1]);
        assert!(queue.why_nobody().contains("1 came and left"));
        assert_eq!(queue.start_accept("a"), Some(2));
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
                            queue.start_accept(name);
                        }
                    }
                    given => {
                        queue.arrive(came.len(), given);
                        came.push(given);
                    }
                }
                for name in &NAMES[1..] {
                    if let Some(peer) = queue.take_accepted(name) {
                        prop_assert!(came[peer].is_empty() || came[peer] == *name);
                        prop_assert!(!taken.contains(&peer));
                        taken.push(peer);
                    }
                }
            }
            prop_assert_eq!(taken.len() + queue.unclaimed.len(), came.len());
        }
    }
}
