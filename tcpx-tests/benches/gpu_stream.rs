//! A stream of messages between two places in memory of GPU 0, one way: two sessions of this
//! process, beside plain sockets with the copies that a program would make itself.
//!
//! `cargo bench -p tcpx-tests --bench gpu_stream [-- [--json] [--two] [BYTES | WAY]…]`
//!
//! Both ends are in one process, because two processes that share a GPU take turns on it. With
//! `--two` the messages go from GPU 0 to GPU 1, as NCCL's do, which wants a GPU for each rank. Each
//! size
//! is measured twice: one message at a time, as `tcpx perf` does, and several under way, which are
//! posted at once. Receives are posted before "go", a flag at which the sender looks. The time runs
//! from there until the last byte is in the receiver's memory. The wake of the thread that waits
//! for the bytes therefore counts.
//!
//! `gpu/plain_stream.rs` describes the plain way. All ways take turns. By default all are measured;
//! WAY is default, kernel, d2d, host or plain.

#![allow(clippy::print_stdout, reason = "the figures are what the bench is for")]

mod gpu;
#[path = "gpu/pair.rs"]
mod pair;
#[path = "gpu/plain_stream.rs"]
mod plain_stream;

use std::thread;

use serde_json::json;
use tcpx_core::{MemoryType, Post};
use tcpx_cuda::CudaGpu;

use gpu::{Result, begin, has_word, is_wanted, median};
use pair::{PATIENCE, Pair, WAYS, Way};
use plain_stream::{SocketStream, StartGate, micros};

/// Bytes of a message, and how many samples a round has of one message and of several.
const SIZES: [(usize, usize, usize); 6] = [
    (64 << 10, 100, 40),
    (256 << 10, 60, 30),
    (1 << 20, 40, 20),
    (4 << 20, 20, 10),
    (16 << 20, 10, 4),
    (64 << 20, 4, 2),
];
/// Messages under way where there are several.
const SEVERAL: usize = 8;
/// The way of plain sockets; the others are sessions with different settings.
const PLAIN: &str = "plain";
/// The word for a GPU at each end.
const TWO: &str = "--two";
const ROUNDS: usize = 5;
const WARMUP: usize = 3;

fn main() -> Result<()> {
    let words = [names(), vec![TWO]].concat();
    let Some((gpu, is_json)) = begin(&words)? else { return Ok(()) };
    let second = if has_word(TWO) { CudaGpu::open(1)? } else { gpu.clone() };
    let gpus = [gpu, second];
    for (bytes, one, several) in SIZES.into_iter().filter(|(bytes, ..)| is_wanted(*bytes)) {
        let mut ways = ways(&gpus, bytes)?;
        for (messages, samples) in [(1, one), (SEVERAL, several)] {
            let total = messages * bytes;
            for _ in 0..ROUNDS {
                for way in &mut ways {
                    way.rounds.add(total, samples, || (way.samples)(messages, samples))?;
                }
            }
            show(is_json, bytes, messages, &mut ways);
        }
    }
    Ok(())
}

/// One way to move messages of one size, and its rounds.
struct Measured {
    name: &'static str,
    samples: Box<dyn FnMut(usize, usize) -> Result<Vec<f64>>>,
    rounds: Rounds,
}

/// Returns the names of all ways.
fn names() -> Vec<&'static str> {
    WAYS.map(|way| way.name).into_iter().chain([PLAIN]).collect()
}

/// Returns the ways that the command line names, or all.
fn ways(gpus: &[CudaGpu; 2], bytes: usize) -> Result<Vec<Measured>> {
    let has_names = names().into_iter().any(has_word);
    let is_wanted = |name: &str| !has_names || has_word(name);
    let mut all = Vec::new();
    let mut add = |name, samples| all.push(Measured { name, samples, rounds: Rounds::default() });
    for way in WAYS.into_iter().filter(|way| is_wanted(way.name)) {
        let ours = SessionStream::new(way, gpus, bytes)?;
        add(way.name, Box::new(move |messages, samples| ours.samples(messages, samples)));
    }
    if is_wanted(PLAIN) {
        let mut plain = SocketStream::new(gpus, bytes)?;
        add(PLAIN, Box::new(move |messages, samples| plain.samples(messages, samples)));
    }
    Ok(all)
}

/// Rounds of one way: microseconds of a sample, and seconds of processor for a GB.
#[derive(Default)]
struct Rounds {
    times: Vec<f64>,
    processor: Vec<f64>,
}

impl Rounds {
    /// Adds a round of samples that move `total` bytes each.
    fn add(
        &mut self,
        total: usize,
        samples: usize,
        round: impl FnOnce() -> Result<Vec<f64>>,
    ) -> Result<()> {
        let before = processor_seconds();
        self.times.push(median(round()?));
        let moved = (total * (WARMUP + samples)) as f64;
        self.processor.push((processor_seconds() - before) / moved * 1e9);
        Ok(())
    }

    /// Returns GB/s, and seconds of processor for a GB. Begins anew.
    fn take(&mut self, total: usize) -> [f64; 2] {
        let Self { times, processor } = std::mem::take(self);
        [total as f64 / median(times) / 1e3, median(processor)]
    }
}

/// Returns the seconds of processor that this process has used, in all its threads.
fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Prints the medians of each way.
fn show(is_json: bool, bytes: usize, messages: usize, ways: &mut [Measured]) {
    for Measured { name, rounds, .. } in ways {
        let [rate, processor] = rounds.take(messages * bytes);
        if is_json {
            let row = json!({
                "bytes": bytes, "under_way": messages, "way": name, "gb_per_s": rate,
                "core_s_per_gb": processor,
            });
            println!("{row}");
        } else {
            println!(
                "{messages} x {bytes:>8} B, {name:<8} {rate:5.2} GB/s, {processor:.2} core s/GB"
            );
        }
    }
}

/// Two sessions, and several messages at each.
struct SessionStream {
    pair: Pair,
    posts: [Vec<Post>; 2],
}

impl SessionStream {
    fn new(way: Way, gpus: &[CudaGpu; 2], bytes: usize) -> Result<Self> {
        let pair = Pair::new(way, [gpus[0].ordinal(), gpus[1].ordinal()])?;
        let posts = |end: usize| -> Result<Vec<Post>> {
            let all = (SEVERAL * bytes) as u64;
            let memory = pair.sessions[end].allocate(all, MemoryType::Device)?;
            let bytes = bytes as u64;
            let post = |tag: i64| Post { memory, offset: tag.unsigned_abs() * bytes, bytes, tag };
            Ok((0..SEVERAL as i64).map(post).collect())
        };
        let posts = [posts(0)?, posts(1)?];
        Ok(Self { pair, posts })
    }

    /// Times of samples of this many messages.
    fn samples(&self, messages: usize, samples: usize) -> Result<Vec<f64>> {
        let gate = StartGate::default();
        thread::scope(|scope| {
            let sender = scope.spawn(|| -> Result<()> {
                for sample in 1..=WARMUP + samples {
                    let transfer = self.pair.transfer(0)?;
                    if !gate.wait(sample) {
                        break;
                    }
                    transfer.post_send_batch(&self.posts[0][..messages])?;
                    transfer.wait(PATIENCE)?;
                }
                Ok(())
            });
            let times = self.receive(messages, samples, &gate);
            gate.end();
            sender.join().map_err(|_| "the sender panicked")??;
            times
        })
    }

    fn receive(&self, messages: usize, samples: usize, gate: &StartGate) -> Result<Vec<f64>> {
        let mut times = Vec::with_capacity(samples);
        for sample in 1..=WARMUP + samples {
            let transfer = self.pair.transfer(1)?;
            transfer.post_recv_batch(&self.posts[1][..messages])?;
            self.pair.sessions[1].progress();
            let since = gate.open(sample);
            transfer.wait(PATIENCE)?;
            if sample > WARMUP {
                times.push(micros(since));
            }
        }
        Ok(times)
    }
}
