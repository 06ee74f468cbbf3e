//! What a session costs that has nothing to do: processor time and wakeups of its progress thread,
//! with 1, 32 and 1,000 peers, all sessions of one other process.
//!
//! `cargo bench -p tcpx-tests --bench idle_cost [-- [--json] [PEERS...]]`. With strace installed
//! the system calls of the progress thread are counted too, in a time of their own. The bar: 0.1 %
//! of a core and a wakeup a second.

#![allow(clippy::print_stdout, reason = "the table is what the bench is for")]

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use serde_json::json;
use tcpx_core::{PluginChoice, Session, SessionOptions};

const PEERS: [usize; 3] = [1, 32, 1000];
/// How long is looked.
const WINDOW: Duration = Duration::from_secs(10);
const STRACED: Duration = Duration::from_secs(5);
/// A thread that uses no more of a second is quiet.
const QUIET: Duration = Duration::from_millis(1);
/// A peer that was silent for two seconds is looked at for a last time.
const REST: Duration = Duration::from_secs(3);
/// So many seconds are given to become quiet after that.
const MOST_SECONDS: u32 = 5;
/// For all connections.
const PATIENCE: Duration = Duration::from_secs(300);
/// The word that makes this program the process of the peers.
const AS_PEERS: &str = "as-peers";

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn options() -> SessionOptions {
    SessionOptions::default()
        .plugin(PluginChoice::Soft)
        .channels(1)
        .connect_timeout(PATIENCE)
        .close_timeout(Duration::from_millis(1))
}

/// Takes as many files as the system allows.
fn raise_file_limit() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?)
}

/// The other process: `count` sessions that connect and then do nothing until standard input ends.
fn be_peers(count: usize) -> Result<()> {
    let mut conn_info = Vec::new();
    for byte in io::stdin().lock().by_line()?.split_whitespace() {
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
    io::stdin().lock().by_line()?;
    Ok(())
}

/// A line at a time.
trait ByLine {
    fn by_line(&mut self) -> io::Result<String>;
}

impl<T: BufRead> ByLine for T {
    fn by_line(&mut self) -> io::Result<String> {
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
fn settle(thread: &str) -> Result<()> {
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

fn measure(count: usize, is_json: bool) -> Result<()> {
    let mut peers = Peers::start(count)?;
    let session = Session::new(options().progress_thread(true))?;
    let info: Vec<String> = session.listen()?.iter().map(ToString::to_string).collect();
    let (input, output) = (peers.0.stdin.as_mut(), peers.0.stdout.take());
    let (Some(input), Some(output)) = (input, output) else { return Err("no pipes".into()) };
    writeln!(input, "{}", info.join(" "))?;
    let mut output = BufReader::new(output);
    for peer in 0..count {
        session.accept(&format!("peer {peer}"))?;
        if output.by_line()?.is_empty() {
            return Err("the process of the peers has ended".into());
        }
    }
    let thread = progress_thread()?;
    settle(&thread)?;
    let (start, before) = (Instant::now(), Usage::of(&thread)?);
    thread::sleep(WINDOW);
    let (seconds, after) = (start.elapsed().as_secs_f64(), Usage::of(&thread)?);
    let percent = 100.0 * (after.cpu.saturating_sub(before.cpu)).as_secs_f64() / seconds;
    let switches = (after.switches - before.switches) as f64 / seconds;
    let calls = calls_per_second(&thread);
    if is_json {
        let line = json!({
            "peers": count, "cpu_percent": percent, "switches_per_s": switches,
            "calls_per_s": calls,
        });
        println!("{line}");
    } else {
        let calls = calls.map_or_else(|| "no strace".to_owned(), |calls| format!("{calls:.1}"));
        println!("{count:>6} {percent:>14.3} {switches:>18.1} {calls:>16}");
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
        let heading = ["peers", "% of a core", "wakeups a second", "calls a second"];
        println!("{:>6} {:>14} {:>18} {:>16}", heading[0], heading[1], heading[2], heading[3]);
    }
    let asked: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    for count in if asked.is_empty() { PEERS.to_vec() } else { asked } {
        measure(count, is_json)?;
    }
    Ok(())
}
