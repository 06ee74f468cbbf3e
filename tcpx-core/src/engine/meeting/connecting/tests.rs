//! Tests of the rules one by one, and of a model: two ends, one connect each, in every order of
//! events.

use std::collections::HashSet;

use super::*;

const SMALL: SessionId = [1; 16];
const LARGE: SessionId = [2; 16];

#[test]
fn every_case() {
    use DialProgress::{Greeted, Unheard};
    for (own, of_the_smaller, of_the_larger) in [
        (None, HelloDecision::Welcome, HelloDecision::Welcome),
        (Some(Unheard), HelloDecision::Adopt, HelloDecision::Adopt),
        (Some(Greeted), HelloDecision::Wait, HelloDecision::Adopt),
    ] {
        assert_eq!(decide(&SMALL, &LARGE, own, false), of_the_smaller, "{own:?}");
        assert_eq!(decide(&LARGE, &SMALL, own, false), of_the_larger, "{own:?}");
        assert_eq!(decide(&SMALL, &LARGE, own, true), HelloDecision::Drop, "{own:?}");
        assert_eq!(decide(&LARGE, &SMALL, own, true), HelloDecision::Drop, "{own:?}");
    }
}

/// State of one end's connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Connect {
    NotCalled,
    Unheard,
    Greeted,
    /// No address leads to the other end, which may still come.
    Unreached,
    /// The connect has the link that this end has dialled.
    OnOwn,
    /// The connect has the link that the other end has dialled.
    OnTheirs,
    Failed,
}

/// State of the other's dial at one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Inbound {
    Nothing,
    /// The hello is read, and waits.
    Waits,
    /// The dial has made a peer without a name.
    Unclaimed,
    /// A connect has the dial, or the dial is over.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct End {
    connect: Connect,
    inbound: Inbound,
    /// Whether the other end has said that it gives its dial up.
    knows_given_up: bool,
}

/// Link that one end dials, with the messages in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Dial {
    is_reachable: bool,
    hello: bool,
    /// Welcome, and whether the welcomer gives its own dial up.
    welcome: Option<bool>,
    closed_by_dialler: bool,
    closed_by_listener: bool,
}

/// Both ends: 0 has the smaller id. Dial `n` is that of end `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct World {
    ends: [End; 2],
    dials: [Dial; 2],
    /// Number of faults that may still happen: a connect that is given up, or a link that breaks.
    faults: u8,
    had_fault: bool,
}

/// Event at one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    CallConnect,
    DialArrives,
    NoAddressLeadsThere,
    ReadHello,
    DecideAgain,
    ReadAnswer,
    SeeEndOfOwnDial,
    SeeEndOfTheirDial,
    GiveUp,
    OwnDialBreaks,
}

const EVENTS: [Event; 10] = [
    Event::CallConnect,
    Event::DialArrives,
    Event::NoAddressLeadsThere,
    Event::ReadHello,
    Event::DecideAgain,
    Event::ReadAnswer,
    Event::SeeEndOfOwnDial,
    Event::SeeEndOfTheirDial,
    Event::GiveUp,
    Event::OwnDialBreaks,
];

impl World {
    fn new(reachable: [bool; 2], faults: u8) -> Self {
        let end =
            End { connect: Connect::NotCalled, inbound: Inbound::Nothing, knows_given_up: false };
        let dial = |is_reachable| Dial {
            is_reachable,
            hello: false,
            welcome: None,
            closed_by_dialler: false,
            closed_by_listener: false,
        };
        Self { ends: [end; 2], dials: reachable.map(dial), faults, had_fault: false }
    }

    /// Returns the world after an event, if the event can happen now.
    fn after(mut self, me: usize, event: Event) -> Option<Self> {
        let (own, theirs) = (me, 1 - me);
        let end = self.ends[me];
        match event {
            Event::CallConnect if end.connect == Connect::NotCalled => {
                if end.inbound == Inbound::Unclaimed {
                    self.ends[me].connect = Connect::OnTheirs;
                    self.ends[me].inbound = Inbound::Done;
                } else {
                    self.ends[me].connect = Connect::Unheard;
                }
            }
            Event::DialArrives
                if end.connect == Connect::Unheard && self.dials[own].is_reachable =>
            {
                self.ends[me].connect = Connect::Greeted;
                self.dials[own].hello = true;
            }
            Event::NoAddressLeadsThere
                if end.connect == Connect::Unheard && !self.dials[own].is_reachable =>
            {
                self.dial_fails(me, Connect::Unreached);
            }
            Event::ReadHello if self.dials[theirs].hello => {
                self.dials[theirs].hello = false;
                self.ends[me].inbound = Inbound::Waits;
                self.decide(me);
            }
            Event::DecideAgain if end.inbound == Inbound::Waits => {
                self.decide(me);
                if self.ends[me].inbound == Inbound::Waits {
                    return None;
                }
            }
            Event::ReadAnswer if end.connect == Connect::Greeted => {
                self.ends[me].knows_given_up |= self.dials[own].welcome.take()?;
                self.ends[me].connect = Connect::OnOwn;
            }
            Event::SeeEndOfOwnDial
                if self.dials[own].closed_by_listener && self.dials[own].welcome.is_none() =>
            {
                match end.connect {
                    Connect::Greeted => self.dial_fails(me, Connect::Failed),
                    Connect::OnOwn => self.ends[me].connect = Connect::Failed,
                    _ => return None,
                }
                self.dials[own].closed_by_dialler = true;
            }
            Event::SeeEndOfTheirDial
                if self.dials[theirs].closed_by_dialler && !self.dials[theirs].hello =>
            {
                match (end.inbound, end.connect) {
                    (Inbound::Waits | Inbound::Unclaimed, _) => {
                        self.ends[me].inbound = Inbound::Done;
                    }
                    (_, Connect::OnTheirs) => self.ends[me].connect = Connect::Failed,
                    _ => return None,
                }
                self.dials[theirs].closed_by_listener = true;
            }
            Event::GiveUp if self.faults > 0 => {
                match end.connect {
                    Connect::NotCalled | Connect::Failed => return None,
                    Connect::OnTheirs => self.dials[theirs].closed_by_listener = true,
                    _ => self.dials[own].closed_by_dialler = true,
                }
                self.ends[me].connect = Connect::Failed;
                self.fault();
            }
            Event::OwnDialBreaks if self.faults > 0 && end.connect == Connect::Greeted => {
                self.dials[own].closed_by_dialler = true;
                self.dials[own].closed_by_listener = true;
                self.dials[own].welcome = None;
                self.fault();
            }
            _ => return None,
        }
        Some(self)
    }

    fn fault(&mut self) {
        self.faults -= 1;
        self.had_fault = true;
    }

    /// Does what `connecting` does with the verdict.
    fn decide(&mut self, me: usize) {
        let (ours, theirs) = if me == 0 { (&SMALL, &LARGE) } else { (&LARGE, &SMALL) };
        let own = match self.ends[me].connect {
            Connect::Unheard | Connect::Unreached => Some(DialProgress::Unheard),
            Connect::Greeted => Some(DialProgress::Greeted),
            _ => None,
        };
        match decide(ours, theirs, own, self.ends[me].knows_given_up) {
            HelloDecision::Wait => {}
            HelloDecision::Adopt => self.adopt(me),
            HelloDecision::Welcome => {
                self.ends[me].inbound = Inbound::Unclaimed;
                self.dials[1 - me].welcome = Some(false);
            }
            HelloDecision::Drop => {
                self.ends[me].inbound = Inbound::Done;
                self.dials[1 - me].closed_by_listener = true;
            }
        }
    }

    fn adopt(&mut self, me: usize) {
        let gives_up = self.ends[me].connect == Connect::Greeted;
        self.dials[me].closed_by_dialler = true;
        self.dials[1 - me].welcome = Some(gives_up);
        self.ends[me].inbound = Inbound::Done;
        self.ends[me].connect = Connect::OnTheirs;
    }

    /// Ends a failed dial: the end takes the other's dial, if that waits.
    fn dial_fails(&mut self, me: usize, otherwise: Connect) {
        match self.ends[me].inbound {
            Inbound::Waits => {
                // The rest of the dial carries no information.
                self.ends[me].connect = Connect::Unheard;
                self.adopt(me);
            }
            _ => self.ends[me].connect = otherwise,
        }
    }

    /// Returns whether an end holds the link that end `dialler` dials.
    fn holds(&self, me: usize, dialler: usize) -> bool {
        match me == dialler {
            true => self.ends[me].connect == Connect::OnOwn,
            false => {
                self.ends[me].connect == Connect::OnTheirs
                    || self.ends[me].inbound == Inbound::Unclaimed
            }
        }
    }

    /// Returns the links that both ends hold.
    fn links(&self) -> Vec<usize> {
        (0..2).filter(|dial| self.holds(0, *dial) && self.holds(1, *dial)).collect()
    }

    /// Checks what holds in any state.
    fn check(&self) {
        assert!(self.links().len() <= 1, "{self:#?}");
        if !self.had_fault {
            let connects = self.ends.map(|end| end.connect);
            assert!(!connects.contains(&Connect::Failed), "{self:#?}");
            // The two connects never have different links.
            assert_ne!(connects, [Connect::OnOwn; 2], "{self:#?}");
            assert_ne!(connects, [Connect::OnTheirs; 2], "{self:#?}");
        }
    }

    /// Checks a state in which nothing more happens by itself.
    fn check_quiet(&self) {
        for (me, end) in self.ends.iter().enumerate() {
            assert!(!matches!(end.connect, Connect::Unheard | Connect::Greeted), "{self:#?}");
            assert_ne!(end.inbound, Inbound::Waits, "{self:#?}");
            for dialler in 0..2 {
                if self.holds(me, dialler) {
                    assert!(self.holds(1 - me, dialler), "half a connection: {self:#?}");
                }
            }
        }
        if self.had_fault {
            return;
        }
        // The caller is connected, if any dial of the two can arrive.
        let can_arrive =
            |me: usize| self.ends[me].connect != Connect::NotCalled && self.dials[me].is_reachable;
        let is_connected = can_arrive(0) || can_arrive(1);
        assert_eq!(self.links().len(), usize::from(is_connected), "{self:#?}");
        for end in &self.ends {
            let expected = match end.connect {
                Connect::NotCalled => continue,
                Connect::Unreached => false,
                connect => matches!(connect, Connect::OnOwn | Connect::OnTheirs),
            };
            assert_eq!(expected, is_connected, "{self:#?}");
            assert_ne!(end.inbound, Inbound::Unclaimed, "a second peer: {self:#?}");
        }
    }
}

/// Visits every state that any order of events leads to. Returns their number.
fn explore(start: World, calls: [bool; 2]) -> usize {
    let (mut seen, mut todo) = (HashSet::from([start]), vec![start]);
    while let Some(world) = todo.pop() {
        world.check();
        let mut is_quiet = true;
        for (me, event) in (0..2).flat_map(|me| EVENTS.map(|event| (me, event))) {
            if event == Event::CallConnect && !calls[me] {
                continue;
            }
            let Some(next) = world.after(me, event) else { continue };
            is_quiet &= matches!(event, Event::GiveUp | Event::OwnDialBreaks);
            if seen.insert(next) {
                todo.push(next);
            }
        }
        if is_quiet {
            world.check_quiet();
        }
    }
    seen.len()
}

/// At most one connection remains in every order of events, no end has half of one, and both
/// connects end.
#[test]
fn in_every_order_of_events_one_connection_remains() {
    let mut states = 0;
    for reachable in [[true, true], [true, false], [false, true], [false, false]] {
        for calls in [[true, true], [true, false], [false, true]] {
            for faults in 0..=2 {
                states += explore(World::new(reachable, faults), calls);
            }
        }
    }
    assert!(states > 1_000, "only {states} states: the model does not move");
}

/// The model detects this case: without the message that a dial was given up, a late hello becomes
/// a peer without a program.
#[test]
fn a_late_hello_is_a_peer_unless_it_was_given_up() {
    let mut world = World::new([true, true], 0);
    for (me, event) in [
        (0, Event::CallConnect),
        (1, Event::CallConnect),
        (0, Event::DialArrives),
        (1, Event::DialArrives),
        (1, Event::ReadHello),
        (0, Event::ReadAnswer),
    ] {
        world = world.after(me, event).expect("it can happen");
    }
    let dropped = world.after(0, Event::ReadHello).expect("it can happen");
    assert_eq!(dropped.ends[0].inbound, Inbound::Done);
    world.ends[0].knows_given_up = false;
    let taken_in = world.after(0, Event::ReadHello).expect("it can happen");
    assert_eq!(taken_in.ends[0].inbound, Inbound::Unclaimed);
}
