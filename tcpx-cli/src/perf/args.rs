//! Flags of `tcpx perf`, and the plan they make.

use super::plan::{Batch, MAX_ITERATIONS, MAX_MESSAGES, Mode, Plan};
use crate::failure::Failure;
use crate::input::{ByteSize, variables};
use crate::rendezvous::EndsArgs;
use crate::session::insist;

const SIZE: ByteSize = ByteSize(64 << 20);
const SMALL_SIZE: ByteSize = ByteSize(4 << 10);
const ITERATIONS: u32 = 20;
const LATENCY_ITERATIONS: u32 = 1000;
const MESSAGES_ITERATIONS: u32 = 5;
const WARMUP: u32 = 2;
const LATENCY_WARMUP: u32 = 50;
const MESSAGES_WARMUP: u32 = 1;
const SWEEP_FROM: u64 = 4 << 10;
const SWEEP_TO: u64 = 64 << 20;

/// Measure throughput or latency between two processes or two hosts; every byte is verified.
///
/// Alone it runs both ends here, as two processes over loopback. For two hosts start `tcpx perf
/// server` on one and `tcpx perf client ADDR` with the flags of the measurement on the other. Exit
/// status: 0 when everything was verified, 2 when flags or variables are wrong, else 1. GB is 10^9
/// bytes.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct PerfArgs {
    /// Bytes of one message, for example 67108864, 64M or 64MiB, up to 16GiB [env: TCPX_PERF_SIZE,
    /// UCCL_TCPX_PERF_SIZE] [default: 64MiB, with --latency or --messages 4KiB]
    #[arg(long, value_name = "BYTES")]
    size: Option<ByteSize>,

    /// Measured iterations [env: TCPX_PERF_ITERS, UCCL_TCPX_PERF_ITERS] [default: 20, with
    /// --latency 1000, with --messages 5]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_ITERATIONS)))]
    iters: Option<u32>,

    /// Iterations before them, verified but not measured [default: 2, with --latency 50, with
    /// --messages 1]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=i64::from(MAX_ITERATIONS)))]
    warmup: Option<u32>,

    /// Seed of the payload, which differs in each iteration [default: random]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Measure sizes from 4 KiB to 64 MiB, each 4 (or 2) times the one before
    #[arg(long, value_name = "FACTOR", value_parser = ["2", "4"])]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "4")]
    #[arg(conflicts_with_all = ["size", "latency"])]
    sweep: Option<String>,

    /// Measure round trips of --size bytes instead: p50 and p99 in microseconds
    #[arg(long)]
    latency: bool,

    /// Measure N messages of --size bytes, posted as one batch at each end, in turns with the same
    /// bytes in messages of 512 KiB: how many times as long do the small ones take? The clock runs
    /// from before the posts until the last byte is in place
    #[arg(long, value_name = "N", conflicts_with_all = ["latency", "sweep"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_MESSAGES)))]
    messages: Option<u32>,

    /// With --messages: let neighbours in the batch lie apart in memory, at both ends
    #[arg(long, requires = "messages")]
    scattered: bool,

    /// Measure plain sockets too, in turns with the session and as many as it uses: channels x
    /// NCCL_NSOCKS_PERTHREAD x NCCL_SOCKET_NTHREADS. With --latency it is one, and its ends spin,
    /// yield and sleep as the session's do
    #[arg(long)]
    baseline: bool,

    /// Print one JSON object instead of a table; with --sweep its figures are those of the largest
    /// size, and a list has every size
    #[arg(long)]
    pub(super) json: bool,

    // The last, because what follows would be listed below its heading.
    #[command(flatten)]
    pub(crate) ends: EndsArgs,
}

impl PerfArgs {
    /// Flags over environment over defaults.
    pub(super) fn plan(&self) -> Result<Plan, Failure> {
        let mode = self.mode();
        let (size, iterations, warmup) = match mode {
            Mode::Throughput => (SIZE, ITERATIONS, WARMUP),
            Mode::Latency => (SMALL_SIZE, LATENCY_ITERATIONS, LATENCY_WARMUP),
            Mode::Messages(_) => (SMALL_SIZE, MESSAGES_ITERATIONS, MESSAGES_WARMUP),
        };
        let size_from_env = variables::read(&["TCPX_PERF_SIZE", "UCCL_TCPX_PERF_SIZE"])?;
        let iters_from_env = variables::read(&["TCPX_PERF_ITERS", "UCCL_TCPX_PERF_ITERS"])?;
        let size = self.size.or(size_from_env).unwrap_or(size);
        let plan = Plan {
            mode,
            sizes: match &self.sweep {
                Some(factor) => sweep(if factor == "2" { 2 } else { 4 }),
                None => vec![size.0],
            },
            iterations: self.iters.or(iters_from_env).unwrap_or(iterations),
            warmup: self.warmup.unwrap_or(warmup),
            seed: self.seed.map_or_else(random_seed, Ok)?,
            baseline: self.baseline,
        };
        plan.check().map_err(Failure::Usage)?;
        Ok(plan)
    }

    fn mode(&self) -> Mode {
        match self.messages {
            Some(messages) => Mode::Messages(Batch { messages, is_scattered: self.scattered }),
            None if self.latency => Mode::Latency,
            None => Mode::Throughput,
        }
    }

    /// As the server: whether the client's plan is what this end was told to expect.
    pub(super) fn insist(&self, plan: &Plan) -> Result<(), Failure> {
        plan.check()
            .map_err(|reason| Failure::Refusing(format!("the client asks for {reason}")))?;
        insist("--size", self.size, ByteSize(plan.sizes[0]))?;
        insist("--iters", self.iters, plan.iterations)?;
        insist("--warmup", self.warmup, plan.warmup)?;
        insist("--seed", self.seed, plan.seed)?;
        insist("--latency", self.latency.then_some(true), plan.mode == Mode::Latency)?;
        let batch = match plan.mode {
            Mode::Messages(batch) => batch,
            Mode::Throughput | Mode::Latency => Batch { messages: 0, is_scattered: false },
        };
        insist("--messages", self.messages, batch.messages)?;
        insist("--scattered", self.scattered.then_some(true), batch.is_scattered)?;
        insist("--baseline", self.baseline.then_some(true), plan.baseline)?;
        insist("--sweep", self.sweep.as_ref().map(|_| true), plan.sizes.len() > 1)
    }
}

fn sweep(factor: u64) -> Vec<u64> {
    std::iter::successors(Some(SWEEP_FROM), |size| size.checked_mul(factor))
        .take_while(|size| *size <= SWEEP_TO)
        .collect()
}

fn random_seed() -> Result<u64, Failure> {
    getrandom::u64().map_err(|error| Failure::io("choosing a seed")(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_goes_from_4_kib_to_64_mib() {
        for (factor, sizes) in [(2, 15), (4, 8)] {
            let sweep = sweep(factor);
            assert_eq!(sweep.len(), sizes);
            assert_eq!((sweep[0], sweep[sizes - 1]), (4 << 10, 64 << 20));
        }
    }
}
