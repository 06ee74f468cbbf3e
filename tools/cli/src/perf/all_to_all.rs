//! All to all: a server and its clients each send to each other end.
//!
//! The clients meet through the server, which tells each the addresses of all. Of two clients the
//! one that came first is the server of their pair. So each pair is an ordinary measurement both
//! ways, and the clients' ends begin when the server does: one end of each client speaks for the
//! others of its process.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::barrier::Barrier;
use super::figures::CaseFigures;
use super::pair_times::PairTimes;
use super::plan::Plan;
use crate::failure::Failure;
use crate::rendezvous::{ConnectedEnd, Message};

/// Most clients of a server.
const MOST_CLIENTS: usize = 256;

/// Client: where it listens for the clients that came after it.
#[derive(Debug, Serialize, Deserialize)]
struct Listening {
    port: u16,
}

impl Message for Listening {
    const KIND: u16 = 14;
}

/// Server: the addresses of all clients, in the order in which they came.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Roster {
    /// Place of this client.
    place: u16,
    addresses: Vec<SocketAddr>,
}

impl Message for Roster {
    const KIND: u16 = 15;
}

impl Roster {
    /// Returns the addresses of the clients before this one, and how many come after it.
    pub(super) fn around(&self) -> (&[SocketAddr], usize) {
        let (before, rest) = self.addresses.split_at(usize::from(self.place));
        (before, rest.len().saturating_sub(1))
    }
}

/// Clients that a server introduces to each other.
#[derive(Debug, Default)]
pub(super) struct Introductions {
    addresses: Mutex<Vec<SocketAddr>>,
}

impl Introductions {
    /// Tells a client the addresses of all, once all have come. Returns how many come after it.
    pub(super) fn introduce(
        &self,
        connected: &mut ConnectedEnd<'_>,
        all: &Barrier,
    ) -> Result<usize, Failure> {
        let Listening { port } = connected.link.receive()?;
        let place = {
            let mut addresses = lock(&self.addresses);
            addresses.push(SocketAddr::new(connected.link.peer().ip(), port));
            addresses.len() - 1
        };
        all.wait(0, connected.link.budget().step())?;
        let addresses = lock(&self.addresses).clone();
        let later = addresses.len() - 1 - place;
        connected.link.send(&Roster { place: place as u16, addresses })?;
        Ok(later)
    }

    /// Receives the pairs of a client with `later` ones, after a size of `iterations`.
    pub(super) fn pairs_of(
        connected: &mut ConnectedEnd<'_>,
        later: usize,
        iterations: u64,
    ) -> Result<PairTimes, Failure> {
        let pairs: PairTimes = connected.link.receive()?;
        pairs.check(later, iterations)?;
        Ok(pairs)
    }
}

/// Asks the server for the other clients. `port`: where this one listens.
pub(super) fn ask_for_others(
    connected: &mut ConnectedEnd<'_>,
    port: u16,
) -> Result<Roster, Failure> {
    connected.link.send(&Listening { port })?;
    let roster: Roster = connected.link.receive()?;
    let count = roster.addresses.len();
    match count <= MOST_CLIENTS && usize::from(roster.place) < count {
        true => Ok(roster),
        false => Err(Failure::OtherEnd(format!("it names {count} clients"))),
    }
}

/// Ends of one client. One of them speaks to the server for all.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) barrier: Barrier,
    /// Of each size, the pairs with later clients.
    pairs: Mutex<Vec<PairTimes>>,
}

impl Group {
    /// Returns the group of a client with this many later ones.
    pub(super) fn new(later: usize) -> Self {
        Self { barrier: Barrier::new(1 + later), pairs: Mutex::default() }
    }

    /// Follower: adds the size of this number, and waits until all have.
    pub(super) fn add(
        &self,
        connected: &ConnectedEnd<'_>,
        index: usize,
        case: &CaseFigures,
    ) -> Result<(), Failure> {
        {
            let mut pairs = lock(&self.pairs);
            if pairs.len() <= index {
                pairs.resize_with(index + 1, PairTimes::default);
            }
            let times = case.rate().map_or(&[][..], |rate| &rate.times_ns);
            pairs[index].add(times, one_way(case), case.mismatch.as_deref());
        }
        self.barrier.wait(0, connected.link.budget().step()).map(drop)
    }

    /// Speaker: waits until all have added the size of this number, and sends it to the server.
    pub(super) fn tell(
        &self,
        connected: &mut ConnectedEnd<'_>,
        index: usize,
    ) -> Result<(), Failure> {
        self.barrier.wait(0, connected.link.budget().step())?;
        let pairs = lock(&self.pairs).get(index).cloned().unwrap_or_default();
        connected.link.send(&pairs)
    }
}

/// Returns the medians of a pair, one for each way.
pub(super) fn one_way(case: &CaseFigures) -> impl Iterator<Item = f64> {
    let ways = [&case.receiver, &case.client_receiver];
    ways.into_iter().flatten().map(|rate| rate.gb_per_s_median)
}

/// Returns the plan of this client, at this place, with those before it.
pub(super) fn plan_of_pairs(plan: &Plan, place: usize) -> Plan {
    let seed = plan.seed.wrapping_add(1 + place as u64);
    Plan { seed, is_all_to_all: false, ..plan.clone() }
}

/// Checks, at the server of a pair, that the client has the same plan but for the seed.
pub(super) fn require_same(own: &Plan, theirs: &Plan) -> Result<(), Failure> {
    match *theirs == (Plan { seed: theirs.seed, is_all_to_all: false, ..own.clone() }) {
        true => Ok(()),
        false => Err(Failure::RefusedHere("another client was started with other flags".into())),
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
