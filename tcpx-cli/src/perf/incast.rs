//! Several clients of one server, which send at once: each iteration begins when all are ready.

use std::sync::{Mutex, PoisonError};

use super::figures::{CaseFigures, IncastFigures, Throughput};
use super::plan::Plan;
use super::report::Report;
use crate::failure::Failure;

/// What the first client asked for. The others have to ask for the same, but for the seed.
#[derive(Debug, Default)]
pub(super) struct FirstPlan(Mutex<Option<Plan>>);

impl FirstPlan {
    pub(super) fn insist(&self, plan: &Plan) -> Result<(), Failure> {
        if !plan.mode.can_be_incast() || plan.baseline {
            let text = "--clients goes with sends one way, or --bidir, without --baseline";
            return Err(Failure::Refusing(text.into()));
        }
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = first.get_or_insert_with(|| plan.clone());
        if *first != (Plan { seed: first.seed, ..plan.clone() }) {
            let text = "another client of this server was started with other flags";
            return Err(Failure::Refusing(text.into()));
        }
        Ok(())
    }
}

/// The figures of all clients, from what each of the server's ends has measured: at least one.
pub(super) fn join(reports: Vec<Report>) -> Result<Report, Failure> {
    let count = reports.iter().map(|report| report.cases().len()).min().unwrap_or(0);
    let cases = (0..count).filter_map(|index| {
        let of_clients: Vec<&CaseFigures> =
            reports.iter().filter_map(|report| report.cases().get(index)).collect();
        case_of_all(&of_clients)
    });
    let cases = cases.collect();
    Report::of_clients(reports, cases).ok_or_else(|| Failure::Others("no client came".into()))
}

fn case_of_all(clients: &[&CaseFigures]) -> Option<CaseFigures> {
    let rates: Vec<&Throughput> = clients.iter().filter_map(|case| case.rate()).collect();
    let medians = || rates.iter().map(|rate| rate.gb_per_s_median);
    // The clients share each "go", so the last one to end ends the iteration.
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
    // Those of one client say nothing of all.
    (all.sender, all.stages, all.client_receiver, all.receiver) = (None, None, None, None);
    (all.both_ways, all.nics) = (None, Vec::new());
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
}
