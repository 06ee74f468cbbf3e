//! Costs of peers to a session, with 1, 32 and 1,000 of them, all sessions of one other process:
//! processor time and wakeups of its progress thread when none has anything to do, its processor
//! time for each message of 4 KiB, while all of them together send 1,000 a second by turns, and for
//! each connect, of the first ones and of the last.
//!
//! `cargo bench -p tcpx-tests --bench peer_cost [-- [--json] [PEERS...]]`. With strace installed
//! the system calls of the progress thread are counted too, in a time of their own. The bars: 0.1 %
//! of a core and a wakeup a second; a message of one of 1,000 peers, and the 1,000th connect, cost
//! 1.5 times as much as those of one peer. Processor time, so that other work on the machine counts
//! for little.

#![allow(clippy::print_stdout, reason = "the table is what the bench is for")]

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use tcpx_core::{MemoryId, MemoryType, PluginChoice, Post, Session, SessionOptions, Transfer};

const PEERS: [usize; 3] = [1, 32, 1000];
/// How long is looked.
const WINDOW: Duration = Duration::from_secs(10);
const STRACED: Duration = Duration::from_secs(5);
/// A thread that uses no more of a second is quiet.
const QUIET: Duration = Duration::from_millis(1);
/// A peer that was silent for two seconds is looked at for a last time.
const REST: Duration = Duration::from_secs(3);
/// What receives have to say to all peers takes no longer.
const POSTED: Duration = Duration::from_millis(300);
/// Most seconds that are given to become quiet after that.
const MOST_SECONDS: u32 = 5;
/// For all connections.
const PATIENCE: Duration = Duration::from_secs(300);
/// A message, how many there are of all peers together, and how many of them a second.
const MESSAGE: u64 = 4096;
const MESSAGES: usize = 5_000;
const PACE: Duration = Duration::from_millis(1);
/// Connects at either end of the row that are compared.
const COMPARED: usize = 20;
/// The word that makes this program the process of the peers.
const AS_PEERS: &str = "as-peers";

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn options() -> SessionOptions {
    SessionOptions::default()
        .plugin(PluginChoice::Soft)
        .progress_thread(false)
        .channels(1)
        .connect_timeout(PATIENCE)
        .close_timeout(Duration::from_millis(1))
}

/// Takes as many files as the system allows.
fn raise_file_limit() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?)
}

/// The other process: `count` sessions that connect, do nothing until they receive the word to
/// send, and then nothing until standard input ends.
fn be_peers(count: usize) -> Result<()> {
    let mut conn_info = Vec::new();
    for byte in io::stdin().lock().next_line()?.split_whitespace() {
        conn_info.push(byte.parse()?);
    }
    let mut sessions = Vec::new();
    for _ in 0..count {
        let session = Session::new(options())?;
        session.load_remote_conn_info("hub", &conn_info)?;
        session.connect("hub")?;
        sessions.push(session);
        println!("connected");
    }
    while !io::stdin().lock().next_line()?.is_empty() {
        send(&sessions)?;
        println!("sent");
    }
    Ok(())
}

/// What one peer sends: its session, its transfer and the memory that it sends from.
type Sender<'a> = (&'a Session, Transfer, MemoryId);

/// Sends all messages at their pace, a message of each session by turns.
fn send(sessions: &[Session]) -> Result<()> {
    let sender = |session| -> Result<Sender<'_>> {
        let memory = Session::allocate(session, MESSAGE, MemoryType::Host)?;
        Ok((session, session.create_transfer("hub")?, memory))
    };
    let senders = sessions.iter().map(sender).collect::<Result<Vec<_>>>()?;
    let start = Instant::now();
    for (number, (session, transfer, memory)) in (0..MESSAGES as u32).zip(senders.iter().cycle()) {
        transfer.post_send(Post { memory: *memory, offset: 0, bytes: MESSAGE, tag: 0 })?;
        session.progress();
        thread::sleep((start + number * PACE).saturating_duration_since(Instant::now()));
    }
    for (_, transfer, _) in &senders {
        transfer.wait(Some(PATIENCE))?;
    }
    Ok(())
}

/// A line at a time.
trait LineReader {
    fn next_line(&mut self) -> io::Result<String>;
}

impl<T: BufRead> LineReader for T {
    fn next_line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.read_line(&mut line)?;
        Ok(line)
    }
}

/// The process of the peers; killed when dropped.
struct Peers(Child);

impl Peers {
    fn start(count: usize) -> io::Result<Self> {
        let mut command = Command::new(env::current_exe()?);
        command.args([AS_PEERS, &count.to_string()]);
        Ok(Self(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?))
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a thread of this process has used so far.
#[derive(Clone, Copy)]
struct Usage {
    cpu: Duration,
    switches: u64,
}

impl Usage {
    fn of(thread: &str) -> Result<Self> {
        let folder = format!("/proc/self/task/{thread}");
        let schedstat = fs::read_to_string(format!("{folder}/schedstat"))?;
        let nanos = schedstat.split_whitespace().next().unwrap_or_default().parse()?;
        let status = fs::read_to_string(format!("{folder}/status"))?;
        let of = |name| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0");
        let switches = ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"]
            .into_iter()
            .map(|name| of(name).trim().parse::<u64>())
            .sum::<std::result::Result<u64, _>>()?;
        Ok(Self { cpu: Duration::from_nanos(nanos), switches })
    }
}

/// The number of this process's progress thread.
fn progress_thread() -> Result<String> {
    for entry in fs::read_dir("/proc/self/task")? {
        let entry = entry?;
        if fs::read_to_string(entry.path().join("comm"))?.trim() == "tcpx-progress" {
            return Ok(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Err("the session has no progress thread".into())
}

/// Waits until a second costs nearly nothing: what connecting has left to do is done. A session
/// that never comes to rest is measured as it is.
fn wait_until_idle(thread: &str) -> Result<()> {
    thread::sleep(REST);
    for _ in 0..MOST_SECONDS {
        let before = Usage::of(thread)?.cpu;
        thread::sleep(Duration::from_secs(1));
        if Usage::of(thread)?.cpu.saturating_sub(before) <= QUIET {
            break;
        }
    }
    Ok(())
}

/// System calls a second, counted by strace; `None` where that is missing or may not look.
fn calls_per_second(thread: &str) -> Option<f64> {
    let mut strace = Command::new("strace")
        .args(["-c", "-q", "-p", thread])
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    thread::sleep(STRACED);
    let pid = rustix::process::Pid::from_child(&strace);
    kill_process(pid, Signal::INT).ok()?;
    let summary = io::read_to_string(strace.stderr.take()?).ok()?;
    strace.wait().ok()?;
    // The last line sums up: percent, seconds, time of a call, calls. There is none without calls.
    let Some(total) = summary.lines().find(|line| line.trim_end().ends_with(" total")) else {
        return summary.is_empty().then_some(0.0);
    };
    let calls: f64 = total.split_whitespace().nth(3)?.parse().ok()?;
    Some(calls / STRACED.as_secs_f64())
}

/// Processor time of the whole process so far.
fn process_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Microseconds of processor time for each of `count` items.
fn micros_each(cpu: Duration, count: usize) -> f64 {
    1e6 * cpu.as_secs_f64() / count.max(1) as f64
}

/// What the connects cost, in the order in which they came.
struct Connects(Vec<Duration>);

impl Connects {
    /// Takes in all peers. Each has said so by a line.
    fn accept(session: &Session, count: usize, lines: &mut impl LineReader) -> Result<Self> {
        let mut each = Vec::new();
        for peer in 0..count {
            let before = process_cpu();
            session.accept(&format!("peer {peer}"))?;
            if lines.next_line()?.is_empty() {
                return Err("the process of the peers has ended".into());
            }
            each.push(process_cpu().saturating_sub(before));
        }
        Ok(Self(each))
    }

    /// Microseconds of the first ones and of the last, each. The very first is left out where there
    /// are others: it makes what is made once.
    fn ends(&self) -> (f64, f64) {
        let each = &self.0[usize::from(self.0.len() > 1)..];
        let count = each.len().min(COMPARED);
        let first = each.iter().take(count).sum();
        let last = each.iter().rev().take(count).sum();
        (micros_each(first, count), micros_each(last, count))
    }
}

/// Processor time for each message, in microseconds. `start` has the peers send them all, and `end`
/// waits until they have. They do so twice, and the second time counts: peers that were silent
/// before were just asked for a sign of life.
///
/// This thread waits for the peers' word, and not for its transfers: it would be woken by each that
/// is complete: by one in the end where one peer sends, and by 1,000 of 1,000 peers.
fn message_cost(
    session: &Session,
    count: usize,
    mut start: impl FnMut() -> Result<()>,
    mut end: impl FnMut() -> Result<()>,
) -> Result<f64> {
    let memory = session.allocate(MESSAGES as u64 * MESSAGE, MemoryType::Host)?;
    let transfers = (0..count)
        .map(|peer| session.create_transfer(&format!("peer {peer}")))
        .collect::<std::result::Result<Vec<_>, _>>()?;
    let mut cost = 0.0;
    for _ in 0..2 {
        for (number, transfer) in (0..MESSAGES as u64).zip(transfers.iter().cycle()) {
            let offset = number * MESSAGE;
            transfer.post_recv(Post { memory, offset, bytes: MESSAGE, tag: 0 })?;
        }
        // What the receives have to say is said.
        thread::sleep(POSTED);
        let before = process_cpu();
        start()?;
        end()?;
        cost = micros_each(process_cpu().saturating_sub(before), MESSAGES);
        for transfer in transfers.iter().take(MESSAGES) {
            transfer.wait(Some(PATIENCE))?;
        }
    }
    Ok(cost)
}

fn measure(count: usize, is_json: bool) -> Result<()> {
    let mut peers = Peers::start(count)?;
    let session = Session::new(options().progress_thread(true))?;
    let info: Vec<String> = session.listen()?.iter().map(ToString::to_string).collect();
    let (input, output) = (peers.0.stdin.as_mut(), peers.0.stdout.take());
    let (Some(input), Some(output)) = (input, output) else { return Err("no pipes".into()) };
    writeln!(input, "{}", info.join(" "))?;
    let mut output = BufReader::new(output);
    let (first, last) = Connects::accept(&session, count, &mut output)?.ends();
    let thread = progress_thread()?;
    wait_until_idle(&thread)?;
    let (start, before) = (Instant::now(), Usage::of(&thread)?);
    thread::sleep(WINDOW);
    let (seconds, after) = (start.elapsed().as_secs_f64(), Usage::of(&thread)?);
    let percent = 100.0 * (after.cpu.saturating_sub(before.cpu)).as_secs_f64() / seconds;
    let switches = (after.switches - before.switches) as f64 / seconds;
    let calls = calls_per_second(&thread);
    let start = || Ok(writeln!(input, "send")?);
    let message = message_cost(&session, count, start, || Ok(output.next_line().map(drop)?))?;
    if is_json {
        let line = json!({
            "peers": count, "cpu_percent": percent, "switches_per_s": switches,
            "calls_per_s": calls, "message_us": message, "first_connects_us": first,
            "last_connects_us": last,
        });
        println!("{line}");
    } else {
        let calls = calls.map_or_else(|| "no strace".to_owned(), |calls| format!("{calls:.1}"));
        println!(
            "{count:>6} {percent:>14.3} {switches:>18.1} {calls:>16} {message:>14.1} {first:>18.0} {last:>17.0}"
        );
    }
    Ok(())
}

fn main() -> Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    raise_file_limit()?;
    if let [word, count] = &words[..]
        && word == AS_PEERS
    {
        return be_peers(count.parse()?);
    }
    // Cargo passes this to `cargo bench` and not to `cargo test`.
    if !words.iter().any(|word| word == "--bench") {
        return Ok(());
    }
    let is_json = words.iter().any(|word| word == "--json");
    if !is_json {
        println!(
            "{:>6} {:>14} {:>18} {:>16} {:>14} {:>18} {:>17}",
            "peers",
            "% of a core",
            "wakeups a second",
            "calls a second",
            "us a message",
            "us a first connect",
            "us a last connect"
        );
    }
    let asked: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    for count in if asked.is_empty() { PEERS.to_vec() } else { asked } {
        measure(count, is_json)?;
    }
    Ok(())
}
