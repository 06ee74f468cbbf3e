//! Several clients of one server that send at once: each iteration begins when all are ready.

use std::sync::{Mutex, PoisonError};

use super::barrier::Barrier;
use super::figures::{CaseFigures, IncastFigures};
use super::output::Output;
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
    /// Plan of the first client. The others must have the same plan, except for the seed.
    first_plan: Mutex<Option<Plan>>,
    /// Times of each size that the ends have measured so far.
    measured: Mutex<Vec<Vec<CaseFigures>>>,
}

impl Incast {
    pub(super) fn new(clients: usize) -> Self {
        let (first_plan, measured) = (Mutex::default(), Mutex::default());
        Self { barrier: Barrier::new(clients), clients, first_plan, measured }
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
    let medians = || rates.iter().map(|rate| rate.gb_per_s_median);
    // The clients share each "go", so the slowest one ends the iteration.
    let iterations = rates.iter().map(|rate| rate.times_ns.len()).min()?;
    let slowest = (0..iterations).filter_map(|at| rates.iter().map(|rate| rate.times_ns[at]).max());
    let bytes = rates.iter().map(|rate| rate.bytes).sum();
    let mut all = (*clients.first()?).clone();
    all.mismatch = clients.iter().find_map(|case| case.mismatch.clone());
    all.verified = all.mismatch.is_none();
    all.incast = Some(IncastFigures {
        all_clients: Throughput::new(bytes, &slowest.collect::<Vec<u64>>())?,
        slowest_client_gb_per_s: medians().fold(f64::MAX, f64::min),
        fastest_client_gb_per_s: medians().fold(0.0, f64::max),
    });
    all.tcp = TcpFigures::of_clients(clients.iter().map(|case| case.tcp));
    // The figures of one client do not hold for all.
    (all.sender, all.stages, all.client_receiver, all.receiver) = (None, None, None, None);
    (all.both_ways, all.nics, all.processor) = (None, Vec::new(), None);
    all.intervals.clear();
    all.count_operations(1);
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

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
