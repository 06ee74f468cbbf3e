#![allow(unsafe_code)]
//! Half a round trip of 4 KiB over a link of 100 µs each way, each receive posted when its message
//! is on its way: `tcpx perf --latency --receives late` between two network namespaces, beside
//! blocking sockets, whose time is that of the link.
//!
//! `cargo bench -p tcpx-tests --bench late_receive [-- --json]`, after
//! `cargo build --profile bench -p tcpx-cli`.
//! The link is a pair of TUN interfaces and threads of this program, which keep each packet for the
//! time. Needs root, `ip` and /dev/net/tun. The bar: at most 1.2 times the link.

#![allow(clippy::print_stdout, reason = "the figures are what the bench is for")]

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use std::{env, thread};

use serde_json::{Value, json};

const DELAY: Duration = Duration::from_micros(100);
/// So large that a message of 4 KiB is one packet.
const MTU: usize = 9000;
const LEFT: &str = "10.232.0.1";
const RIGHT: &str = "10.232.0.2";

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// One end of the link: a namespace with a TUN interface. Taken down when dropped.
struct Host {
    name: String,
    packets: File,
}

impl Host {
    fn new(side: char, own: &str, other: &str) -> Result<Self> {
        let name = format!("tcpxd{}{side}", std::process::id());
        ip(&["netns", "add", &name])?;
        // From here on it is taken down, whatever fails.
        let host = Self { packets: open_tun(&name)?, name };
        let name = &host.name;
        ip(&["link", "set", name, "netns", name])?;
        ip(&["-n", name, "addr", "add", own, "peer", other, "dev", name])?;
        ip(&["-n", name, "link", "set", name, "mtu", &MTU.to_string(), "up"])?;
        ip(&["-n", name, "link", "set", "lo", "up"])?;
        Ok(host)
    }

    /// `tcpx perf` in this namespace.
    fn perf(&self, words: &[&str]) -> Result<Command> {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(tcpx()?).arg("perf").args(words);
        Ok(command)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Its interface goes with it.
        let _ = ip(&["netns", "del", &self.name]);
    }
}

fn ip(words: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(words).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("ip {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)).into())
}

/// Makes a TUN interface: what the system sends on it is read here, and the other way round.
fn open_tun(name: &str) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
    // SAFETY: all zeroes is a value of this plain struct.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero.
    for (to, from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the call reads and writes an `ifreq`, which `request` is, and keeps no pointer to it.
    match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) } {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Carries packets one way, each kept for the time of the link. Ends with the process.
fn carry(from: &File, to: &File) -> io::Result<()> {
    let (mut from, to) = (from.try_clone()?, to.try_clone()?);
    let (sender, kept): (Sender<(Instant, Vec<u8>)>, _) = channel();
    thread::spawn(move || forward(kept, to));
    thread::spawn(move || {
        let mut packet = vec![0; MTU];
        while let Ok(bytes) = from.read(&mut packet) {
            if sender.send((Instant::now() + DELAY, packet[..bytes].to_vec())).is_err() {
                break;
            }
        }
    });
    Ok(())
}

fn forward(kept: Receiver<(Instant, Vec<u8>)>, mut to: File) {
    // SAFETY: the call takes a number and touches no memory. Without it a sleep of 100 µs may take
    // half as long again.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    for (due, packet) in kept {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        // An interface that is gone is the end of the measurement.
        if to.write_all(&packet).is_err() {
            break;
        }
    }
}

/// The command beside this bench.
fn tcpx() -> Result<PathBuf> {
    let program = env::current_exe()?;
    let folder = program.parent().and_then(|deps| deps.parent());
    let tcpx = folder.ok_or("this program lies nowhere")?.join("tcpx");
    if tcpx.exists() {
        Ok(tcpx)
    } else {
        Err("cargo build --profile bench -p tcpx-cli first".into())
    }
}

/// Killed when dropped.
struct Server(Child);

impl Server {
    /// Returns once it listens.
    fn start(host: &Host) -> Result<Self> {
        let mut command = host.perf(&["server"])?;
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut server = Self(command.spawn()?);
        let words = server.0.stderr.take().ok_or("no pipe")?;
        for line in BufReader::new(words).lines() {
            if line?.starts_with("listening") {
                return Ok(server);
            }
        }
        Err("the server does not listen".into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn measure() -> Result<Value> {
    let (left, right) = (Host::new('l', LEFT, RIGHT)?, Host::new('r', RIGHT, LEFT)?);
    carry(&left.packets, &right.packets)?;
    carry(&right.packets, &left.packets)?;
    let _server = Server::start(&right)?;
    let flags = ["--latency", "--receives", "late", "--baseline", "--memory", "host", "--json"];
    let words = [&["client", RIGHT, "--iters", "300"], &flags[..]].concat();
    let output = left.perf(&words)?.stderr(Stdio::inherit()).output()?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn main() -> Result<()> {
    // Cargo passes this to `cargo bench` and not to `cargo test`.
    if !env::args().any(|word| word == "--bench") {
        return Ok(());
    }
    let report = match measure() {
        Ok(report) => report,
        Err(reason) => {
            println!("skipped: {reason}");
            return Ok(());
        }
    };
    let half = |name: &str| report[name]["p50"].as_f64().ok_or("no figures");
    let (own, link) = (half("half_round_trip_us")?, half("raw_half_round_trip_us")?);
    if env::args().any(|word| word == "--json") {
        println!("{}", json!({ "half_us": own, "raw_half_us": link }));
    } else {
        println!("receive posted late: {own:.1} us, the link: {link:.1} us, {:.2} x", own / link);
    }
    Ok(())
}
