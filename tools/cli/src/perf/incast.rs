//! Several clients of one server that send at once: each iteration begins when all are ready.

use std::sync::{Mutex, PoisonError};

use super::all_to_all::{self, Introductions};
use super::barrier::Barrier;
use super::figures::{CaseFigures, IncastFigures};
use super::output::Output;
use super::pair_times::EachWay;
use super::plan::Plan;
use super::rates::Throughput;
use super::report::Report;
use super::tcp::TcpFigures;
use crate::failure::Failure;
use crate::output::Progress;

/// State that the ends of a server share; each end has one client.
#[derive(Debug)]
pub(super) struct Incast {
    pub(super) barrier: Barrier,
    clients: usize,
    /// Clients that send to each other, too.
    pub(super) introductions: Introductions,
    /// Plan of the first client. The others must have the same plan, except for the seed.
    first_plan: Mutex<Option<Plan>>,
    /// Times of each size that the ends have measured so far.
    measured: Mutex<Vec<Vec<CaseFigures>>>,
}

impl Incast {
    pub(super) fn new(clients: usize) -> Self {
        let (first_plan, measured) = (Mutex::default(), Mutex::default());
        let introductions = Introductions::default();
        Self { barrier: Barrier::new(clients), clients, introductions, first_plan, measured }
    }

    pub(super) fn require_same(&self, plan: &Plan) -> Result<(), Failure> {
        if !plan.mode.can_be_incast() || plan.baseline || plan.reverse {
            let text = "--clients goes with sends to the server, or --bidir, without --baseline: \
                        the server begins each iteration, and ends it with the last client's bytes";
            return Err(Failure::RefusedHere(text.into()));
        }
        let mut first = self.first_plan.lock().unwrap_or_else(PoisonError::into_inner);
        let first = first.get_or_insert_with(|| plan.clone());
        if *first != (Plan { seed: first.seed, ..plan.clone() }) {
            let text = "another client of this server was started with other flags";
            return Err(Failure::RefusedHere(text.into()));
        }
        Ok(())
    }

    /// Records that one end has measured the next size of its `report`. The last end prints the row
    /// of all. The others wait for it before the size after that, so rows stay in order.
    pub(super) fn row(
        &self,
        output: &Output,
        report: &Report,
        case: &CaseFigures,
        progress: &Progress,
    ) -> Result<(), Failure> {
        let index = report.cases().len();
        let Some(of_all) = self.add(index, case) else { return Ok(()) };
        match Report::of_clients(vec![report.clone()], Vec::new()) {
            Some(all) => output.row(&all, &of_all, index == 0, progress),
            None => Ok(()),
        }
    }

    /// Returns the figures of all for the size of this number, once every end has added its own.
    fn add(&self, index: usize, case: &CaseFigures) -> Option<CaseFigures> {
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        if measured.len() <= index {
            measured.resize_with(index + 1, Vec::new);
        }
        let of_clients = &mut measured[index];
        of_clients.push(case.clone());
        if of_clients.len() < self.clients {
            return None;
        }
        case_of_all(&of_clients.iter().collect::<Vec<_>>())
    }
}

/// Returns the figures of all clients, from the times of each of the server's ends: at least one.
pub(super) fn join(reports: Vec<Report>) -> Result<Report, Failure> {
    let count = reports.iter().map(|report| report.cases().len()).min().unwrap_or(0);
    let cases = (0..count).filter_map(|index| {
        let of_clients: Vec<&CaseFigures> =
            reports.iter().filter_map(|report| report.cases().get(index)).collect();
        case_of_all(&of_clients)
    });
    let cases = cases.collect();
    Report::of_clients(reports, cases).ok_or_else(|| Failure::OtherClient("no client came".into()))
}

fn case_of_all(clients: &[&CaseFigures]) -> Option<CaseFigures> {
    let rates: Vec<&Throughput> = clients.iter().filter_map(|case| case.rate()).collect();
    let pairs = || clients.iter().filter_map(|case| case.later_pairs.as_ref());
    let medians = || rates.iter().map(|rate| rate.gb_per_s_median);
    let mut all = (*clients.first()?).clone();
    // All share each "go", so the slowest one ends the iteration.
    let times = || rates.iter().map(|rate| &rate.times_ns).chain(pairs().map(|it| &it.slowest_ns));
    let iterations = rates.iter().map(|rate| rate.times_ns.len()).min()?;
    let slowest = |at: usize| times().filter_map(|times| times.get(at)).max().copied();
    let slowest: Vec<u64> = (0..iterations).filter_map(slowest).collect();
    let of_pairs: u64 = pairs().map(|it| 2 * it.pairs() * all.size_bytes).sum();
    let bytes = rates.iter().map(|rate| rate.bytes).sum::<u64>() + of_pairs;
    let ways = clients.iter().flat_map(|case| all_to_all::one_way(case));
    let ways = ways.chain(pairs().flat_map(|it| it.gb_per_s.iter().copied()));
    let mismatches = clients.iter().filter_map(|case| case.mismatch.as_ref());
    all.mismatch = mismatches.chain(pairs().filter_map(|it| it.mismatch.as_ref())).next().cloned();
    all.verified = all.mismatch.is_none();
    all.incast = Some(IncastFigures {
        all_clients: Throughput::new(bytes, &slowest)?,
        slowest_client_gb_per_s: medians().fold(f64::MAX, f64::min),
        fastest_client_gb_per_s: medians().fold(0.0, f64::max),
        each_way: pairs().next().and_then(|_| EachWay::new(ways)),
    });
    all.tcp = TcpFigures::of_clients(clients.iter().map(|case| case.tcp));
    // The figures of one client do not hold for all.
    (all.sender, all.stages, all.client_receiver, all.receiver) = (None, None, None, None);
    (all.both_ways, all.nics, all.processor, all.later_pairs) = (None, Vec::new(), None, None);
    all.intervals.clear();
    all.count_operations(1);
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::pair_times::PairTimes;

    #[test]
    fn an_iteration_ends_with_the_last_client() {
        let client = |times: &[u64], verified: bool| CaseFigures {
            receiver: Throughput::new(100, times),
            mismatch: (!verified).then(|| "wrong".into()),
            ..CaseFigures::default()
        };
        let (one, other) = (client(&[10, 50, 20], true), client(&[20, 20, 20], true));
        let all = case_of_all(&[&one, &other]).unwrap();
        let incast = all.incast.unwrap();
        assert_eq!(incast.all_clients.times_ns, [20, 50, 20]);
        assert_eq!(incast.all_clients.gb_per_s_median, 10.0, "200 bytes in 20 ns");
        assert_eq!(incast.slowest_client_gb_per_s, 5.0);
        assert!(all.verified && all.receiver.is_none());
        let bad = client(&[1], false);
        assert!(!case_of_all(&[&one, &bad]).unwrap().verified);
        assert!(case_of_all(&[]).is_none());
    }

    #[test]
    fn pairs_of_clients_count_in_all_to_all() {
        let client = |pairs: &[u64]| CaseFigures {
            size_bytes: 100,
            receiver: Throughput::new(100, &[10]),
            client_receiver: Throughput::new(100, &[20]),
            both_ways: Throughput::new(200, &[20]),
            later_pairs: Some({
                let mut later = PairTimes::default();
                pairs.iter().for_each(|time| later.add(&[*time], [2.0, 4.0].into_iter(), None));
                later
            }),
            ..CaseFigures::default()
        };
        let (first, last) = (client(&[50]), client(&[]));
        let incast = case_of_all(&[&first, &last]).unwrap().incast.unwrap();
        assert_eq!(incast.all_clients.gb_per_s_median, 12.0, "600 bytes in 50 ns");
        let ways = incast.each_way.unwrap();
        assert_eq!((ways.gb_per_s_min, ways.gb_per_s_max), (2.0, 10.0));
    }

    #[test]
    fn a_size_has_its_row_once_the_last_end_has_measured_it() {
        let incast = Incast::new(2);
        let case = |times: &[u64]| CaseFigures {
            receiver: Throughput::new(100, times),
            ..CaseFigures::default()
        };
        assert!(incast.add(0, &case(&[10])).is_none());
        // One end may be at the next size before the other has added this one.
        assert!(incast.add(1, &case(&[40])).is_none());
        let of_all = |case: CaseFigures| case.incast.unwrap().all_clients.times_ns;
        assert_eq!(incast.add(0, &case(&[20])).map(of_all), Some(vec![20]));
        assert_eq!(incast.add(1, &case(&[30])).map(of_all), Some(vec![40]));
    }
}
