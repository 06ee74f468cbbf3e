//! Command `tcpx perf`, from its flags to its last line.

use super::args::PerfArgs;
use super::both_ends::{measure_ends, outcome};
use super::variants;
use crate::failure::Failure;

/// Measures, and prints the report.
pub(crate) fn run(args: &PerfArgs) -> Result<(), Failure> {
    let output = args.output();
    output.check_page()?;
    if args.pairs || args.encrypt {
        return variants::measure(args, &output);
    }
    measure_ends(args, &output, |report| {
        output.end(&report)?;
        outcome(&report)
    })
}
