//! Flags of `tcpx perf`, and the plan that they make.

use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::PossibleValue;

use super::kv::KvArgs;
use super::operations::{Direction, MAX_DEPTH, OneSided};
use super::output::{Format, Output};
use super::plan::{Batch, MAX_ITERATIONS, MAX_MESSAGES, Mode, Plan, Receives};
use super::rate_unit::RateUnit;
use super::sweep::{Sizes, Sweep};
use crate::failure::Failure;
use crate::input::{ByteSize, Seconds, variables};
use crate::rendezvous::{EndsArgs, Role};
use crate::session::require_same;

const SIZE: ByteSize = ByteSize(64 << 20);
const SMALL_SIZE: ByteSize = ByteSize(4 << 10);
const ITERATIONS: u32 = 20;
const LATENCY_ITERATIONS: u32 = 1000;
const MESSAGES_ITERATIONS: u32 = 5;
const STREAM_ITERATIONS: u32 = 10;
const WARMUP: u32 = 2;
const LATENCY_WARMUP: u32 = 50;
const MESSAGES_WARMUP: u32 = 1;
const STREAM_WARMUP: u32 = 1;
const DEPTH: u32 = 8;

/// Operation that moves the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Op {
    /// Sends of the client, and receives of the server
    #[default]
    Send,
    /// The client writes into memory of the server, whose program does nothing
    Write,
    /// The client reads it
    Read,
}

/// Measure throughput or latency between two processes or two hosts; every byte is verified.
///
/// Alone it runs both ends here, as two processes over loopback. For two hosts start `tcpx perf
/// server` on one and `tcpx perf client ADDR` with the flags of the measurement on the other. Exit
/// status: 0 when everything was verified, 2 when flags or variables are wrong, 130 after an
/// interrupt, else 1. GB is 10^9 bytes.
///
/// A size is shown as soon as it is measured. Ctrl-C ends the measurement at both ends, and shows
/// what there is by then; a second one ends the command at once.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct PerfArgs {
    /// Bytes of one message, for example 67108864, 64M or 64MiB, up to 16GiB, or several sizes, one
    /// after the other [env: TCPX_PERF_SIZE, UCCL_TCPX_PERF_SIZE] [default: 64MiB, with --latency,
    /// --messages or --descriptors 4KiB]
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',')]
    size: Vec<ByteSize>,

    /// Measured iterations [env: TCPX_PERF_ITERS, UCCL_TCPX_PERF_ITERS] [default: 20, with
    /// --latency 1000, with --messages 5, with --op write or read 10]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_ITERATIONS)))]
    iters: Option<u32>,

    /// Iterations before them, verified but not measured [default: 2, with --latency 50, with
    /// --messages, --op write or read 1]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=i64::from(MAX_ITERATIONS)))]
    warmup: Option<u32>,

    /// Seed of the payload, which differs in each iteration [default: random]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Measure sizes from one to another, each FACTOR times the one before [default: 4K..64M, with
    /// --latency 64..4M, and a factor of 4]
    #[arg(long, value_name = "FROM..TO[:FACTOR]", num_args = 0..=1, default_missing_value = "4")]
    #[arg(conflicts_with = "size")]
    sweep: Option<Sweep>,

    /// Measure each size for this many seconds
    #[arg(long, value_name = "SECONDS", conflicts_with = "iters")]
    duration: Option<Seconds>,

    /// With --duration: print a line with the rate after each interval, too; with --json the list
    /// "intervals" has them. Not with --latency
    #[arg(long, value_name = "SECONDS")]
    #[arg(conflicts_with_all = ["clients", "csv", "encrypt", "pairs"])]
    interval: Option<Seconds>,

    /// Send one message each way at once
    #[arg(long, conflicts_with_all = ["latency", "messages", "op", "receives"])]
    bidir: bool,

    /// Let the server send and the client receive. Not with --bidir, --latency, --op or --clients
    #[arg(long)]
    reverse: bool,

    /// Wait for N clients started with the same flags, and let all of them send at once [server
    /// only]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    clients: Option<u16>,

    /// Let all ends of a server's --clients send to each other at once [server, client]
    #[arg(long)]
    #[arg(conflicts_with_all = ["baseline", "bidir", "encrypt", "interval", "latency", "messages", "op", "pairs", "receives"])]
    all_to_all: bool,

    /// Measure round trips of --size bytes instead: half of each, in microseconds
    #[arg(long)]
    latency: bool,

    /// When a receive is posted [default: ahead, with --messages go]
    #[arg(long, value_enum, value_name = "WHEN")]
    receives: Option<Receives>,

    /// With --latency: let both ends do nothing for N milliseconds before each message. The time
    /// is taken off again
    #[arg(long, value_name = "N", requires = "latency")]
    idle_ms: Option<u32>,

    /// Keep N threads busy meanwhile, on each machine
    #[arg(long, value_name = "N")]
    busy: Option<u32>,

    /// Measure N messages of --size bytes, posted as one batch at each end, in turns with the same
    /// bytes in messages of 512 KiB: how many times as long do the small ones take? The clock runs
    /// from before the posts until the last byte is in place
    #[arg(long, value_name = "N", conflicts_with_all = ["latency", "sweep"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_MESSAGES)))]
    messages: Option<u32>,

    /// What moves the bytes. The client's clock runs from posting a write or read until its last
    /// byte is in place. Without --latency an iteration posts each of --depth operations at least
    /// twice, and as often as fits into 256 MiB and 2,048 operations. What posting one again costs
    /// its processor is measured too
    #[arg(long, value_enum, conflicts_with = "messages")]
    op: Option<Op>,

    /// With --op write or read: operations under way at a time, each with memory of its own
    /// [default: 8, with --latency 1]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_DEPTH)))]
    depth: Option<u32>,

    /// With --op write or read: let an operation have N ranges of --size bytes, in turns with one
    /// of the same bytes in one range: how many times as long does it take? [default: 1]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_MESSAGES)))]
    descriptors: Option<u32>,

    /// With --messages or --descriptors: let neighbours in the batch or operation lie apart in
    /// memory, at both ends. Ranges that do not are put together when they are prepared
    #[arg(long)]
    scattered: bool,

    /// With --latency: let notifications of --size bytes go there and back, up to 64 KiB
    #[arg(long, requires = "latency", conflicts_with = "op")]
    notify: bool,

    #[command(flatten)]
    kv: KvArgs,

    /// Measure plain sockets too, in turns with the session: blocking, written and read in pieces
    /// as large as the message allows. One for round trips; for streams as many as the session
    /// has, each with a thread: channels x NCCL_NSOCKS_PERTHREAD x NCCL_SOCKET_NTHREADS
    #[arg(long)]
    baseline: bool,

    /// Measure every GPU with every NIC, one pair after the other: those of --gpu and --nic, or
    /// all. The server takes the same ones, unless it has flags of its own; it is there --forever
    #[arg(long, conflicts_with = "clients")]
    pub(super) pairs: bool,

    /// Measure in clear, then encrypted (encryption = require at both ends), each with sessions of
    /// its own. The ratio is of the rates, or of the times of round trips. A server is there
    /// --forever
    #[arg(long, conflicts_with_all = ["clients", "pairs"])]
    pub(super) encrypt: bool,

    /// Print one JSON object instead of a table; of several sizes its figures are those of the
    /// largest, and the list "sweep" has every size
    #[arg(long)]
    json: bool,

    /// Print a line of comma-separated values for each size instead of a table
    #[arg(long, conflicts_with = "json")]
    csv: bool,

    /// Show rates in Gbit/s, 10^9 bits a second, in the table and the page. JSON and CSV keep GB/s
    #[arg(long)]
    bits: bool,

    /// Also write a page with plots to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    // The last, because what follows would be listed below its heading.
    #[command(flatten)]
    pub(crate) ends: EndsArgs,
}

impl PerfArgs {
    /// Returns the plan by flags, then environment, then defaults.
    pub(super) fn plan(&self) -> Result<Plan, Failure> {
        let mode = self.mode()?;
        let (size, iterations, warmup) = defaults(mode);
        let size_from_env = variables::read(&["TCPX_PERF_SIZE", "UCCL_TCPX_PERF_SIZE"])?;
        let iters_from_env = variables::read(&["TCPX_PERF_ITERS", "UCCL_TCPX_PERF_ITERS"])?;
        let plan = Plan {
            mode,
            sizes: match (self.sizes(), &self.sweep) {
                (Some(Sizes(sizes)), _) => sizes.iter().map(|size| size.0).collect(),
                (None, Some(sweep)) => sweep.sizes(self.latency),
                (None, None) => vec![size_from_env.unwrap_or(size).0],
            },
            iterations: self.iters.or(iters_from_env).unwrap_or(iterations),
            duration_ms: self.duration.map(milliseconds),
            interval_ms: self.interval.map(milliseconds),
            warmup: self.warmup.unwrap_or(warmup),
            seed: self.seed.map_or_else(random_seed, Ok)?,
            baseline: self.baseline,
            receives: self.receives.unwrap_or(match mode {
                Mode::Messages(_) => Receives::Go,
                _ => Receives::Ahead,
            }),
            idle_ms: self.idle_ms.unwrap_or(0),
            busy: self.busy.unwrap_or(0),
            reverse: self.reverse,
            is_all_to_all: self.all_to_all,
        };
        plan.check().map_err(Failure::Usage)?;
        Ok(plan)
    }

    /// Returns the sizes that the flags give one by one, if they do.
    fn sizes(&self) -> Option<Sizes> {
        let of_kv = self.kv.request().map(|request| vec![ByteSize(request.range_bytes)]);
        of_kv.or((!self.size.is_empty()).then(|| self.size.clone())).map(Sizes)
    }

    fn mode(&self) -> Result<Mode, Failure> {
        let kv = self.kv.request();
        let op = self.op.unwrap_or(if kv.is_some() { Op::Read } else { Op::Send });
        let direction = match op {
            Op::Send if kv.is_some() => {
                return Err(Failure::Usage("--kv: only with --op write or read".into()));
            }
            Op::Send => return self.mode_of_sends(),
            Op::Write => Direction::Write,
            Op::Read => Direction::Read,
        };
        if self.receives.is_some() {
            return Err(Failure::Usage("--receives: --op write and read post none".into()));
        }
        Ok(Mode::OneSided(OneSided {
            direction,
            depth: self.depth.unwrap_or(if self.latency { 1 } else { DEPTH }),
            descriptors: kv.as_ref().map_or(self.descriptors.unwrap_or(1), |kv| kv.ranges),
            is_scattered: self.scattered || kv.is_some(),
            is_latency: self.latency,
            is_notified: kv.is_some() && direction == Direction::Write,
        }))
    }

    fn mode_of_sends(&self) -> Result<Mode, Failure> {
        let operations = [("--depth", self.depth), ("--descriptors", self.descriptors)];
        if let Some((flag, _)) = operations.iter().find(|(_, count)| count.is_some()) {
            return Err(Failure::Usage(format!("{flag}: only with --op write or read")));
        }
        if self.scattered && self.messages.is_none() {
            return Err(Failure::Usage(
                "--scattered: only with --messages or --descriptors".into(),
            ));
        }
        if self.notify && self.receives.is_some() {
            return Err(Failure::Usage("--receives: notifications need none".into()));
        }
        Ok(match self.messages {
            Some(messages) => Mode::Messages(Batch { messages, is_scattered: self.scattered }),
            None if self.bidir || self.all_to_all => Mode::Bidirectional,
            None if self.notify => Mode::Notifications,
            None if self.latency => Mode::Latency,
            None => Mode::Throughput,
        })
    }

    /// Returns the number of clients that this end serves at once.
    pub(super) fn clients(&self) -> Result<usize, Failure> {
        let clients = self.clients.unwrap_or(1);
        if self.clients.is_some() && (self.ends.role() != Role::Server || self.ends.forever) {
            return Err(Failure::Usage(
                "--clients cannot be combined with --forever, and needs `server`: start `tcpx perf \
                 server --clients N`, and N times `tcpx perf client ADDR`"
                    .into(),
            ));
        }
        if self.all_to_all && clients < 2 && !self.ends.is_remote_client() {
            return Err(Failure::Usage(
                "--all-to-all: start `tcpx perf server --clients N --all-to-all`, and N times `tcpx \
                 perf client ADDR --all-to-all`"
                    .into(),
            ));
        }
        if (self.pairs || self.encrypt) && self.ends.role() == Role::Server {
            return Err(Failure::Usage("--pairs and --encrypt are for the client".into()));
        }
        Ok(clients.into())
    }

    /// Returns the destination of the report.
    pub(super) fn output(&self) -> Output {
        let format = match (self.json, self.csv) {
            _ if self.ends.is_started_end() => Format::Nothing,
            (true, _) => Format::Json,
            (_, true) => Format::Csv,
            _ => Format::Table,
        };
        let unit = if self.bits { RateUnit::Gigabits } else { RateUnit::Gigabytes };
        Output { format, page: self.html.clone(), unit, kv: self.kv.request() }
    }

    /// Refuses, at the server, a plan of the client that differs from this end's flags.
    pub(super) fn require_same(&self, plan: &Plan) -> Result<(), Failure> {
        plan.check()
            .map_err(|reason| Failure::RefusedHere(format!("the client asks for {reason}")))?;
        let sizes = Sizes(plan.sizes.iter().copied().map(ByteSize).collect());
        require_same("--size", self.sizes(), sizes)?;
        require_same("--iters", self.iters, plan.iterations)?;
        let duration = self.duration.map(milliseconds);
        require_same("--duration (ms)", duration, plan.duration_ms.unwrap_or(0))?;
        let interval = self.interval.map(milliseconds);
        require_same("--interval (ms)", interval, plan.interval_ms.unwrap_or(0))?;
        require_same("--warmup", self.warmup, plan.warmup)?;
        require_same("--seed", self.seed, plan.seed)?;
        self.require_same_mode(plan.mode)?;
        require_same("--baseline", self.baseline.then_some(true), plan.baseline)?;
        require_same("--receives", self.receives, plan.receives)?;
        require_same("--idle-ms", self.idle_ms, plan.idle_ms)?;
        require_same("--busy", self.busy, plan.busy)?;
        require_same("--reverse", self.reverse.then_some(true), plan.reverse)?;
        require_same("--all-to-all", Some(self.all_to_all), plan.is_all_to_all)?;
        require_same("--sweep", self.sweep.as_ref().map(|_| true), plan.sizes.len() > 1)
    }
}

/// Returns the default size, iterations, and uncounted iterations before them.
fn defaults(mode: Mode) -> (ByteSize, u32, u32) {
    match mode {
        Mode::Throughput | Mode::Bidirectional => (SIZE, ITERATIONS, WARMUP),
        Mode::Latency | Mode::Notifications | Mode::OneSided(OneSided { is_latency: true, .. }) => {
            (SMALL_SIZE, LATENCY_ITERATIONS, LATENCY_WARMUP)
        }
        Mode::Messages(_) => (SMALL_SIZE, MESSAGES_ITERATIONS, MESSAGES_WARMUP),
        Mode::OneSided(OneSided { descriptors: 1, .. }) => (SIZE, STREAM_ITERATIONS, STREAM_WARMUP),
        Mode::OneSided(_) => (SMALL_SIZE, STREAM_ITERATIONS, STREAM_WARMUP),
    }
}

/// Count in a mode without one.
const NONE: u32 = 0;

impl PerfArgs {
    fn require_same_mode(&self, mode: Mode) -> Result<(), Failure> {
        let (messages, is_scattered, depth, descriptors) = match mode {
            Mode::Messages(batch) => (batch.messages, batch.is_scattered, NONE, NONE),
            Mode::OneSided(one_sided) => {
                (NONE, one_sided.is_scattered, one_sided.depth, one_sided.descriptors)
            }
            Mode::Throughput | Mode::Bidirectional | Mode::Latency | Mode::Notifications => {
                (NONE, false, NONE, NONE)
            }
        };
        let op = self.op.and_then(|op| op.to_possible_value());
        require_same("--op", op.as_ref().map(PossibleValue::get_name), mode.op())?;
        require_same("--latency", self.latency.then_some(true), mode.is_latency())?;
        require_same("--bidir", self.bidir.then_some(true), mode == Mode::Bidirectional)?;
        require_same("--notify", self.notify.then_some(true), mode == Mode::Notifications)?;
        require_same("--messages", self.messages, messages)?;
        require_same("--depth", self.depth, depth)?;
        let of_kv = self.kv.request().map(|request| request.ranges);
        require_same("--descriptors", of_kv.or(self.descriptors), descriptors)?;
        require_same("--scattered", self.scattered.then_some(true), is_scattered)
    }
}

fn milliseconds(Seconds(time): Seconds) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

fn random_seed() -> Result<u64, Failure> {
    getrandom::u64().map_err(|error| Failure::io("choosing a seed")(error.into()))
}
