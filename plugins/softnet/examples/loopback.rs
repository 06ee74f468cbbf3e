#![allow(unsafe_code)]
//! Cost of the plugin over that of plain sockets, both measured in one run between two processes
//! over loopback.
//!
//! `cargo run --release -p tcpx-softnet --example loopback [-- rounds]`
//!
//! Throughput: 64 MiB in 512 KiB requests, from memory to memory; device memory is emulated and
//! includes the copy out of the bounce pages. Small messages: 100,000 of 4 KiB, and 4 KiB there and
//! back. The plugin reads its settings from the environment (NCCL_NSOCKS_PERTHREAD and friends);
//! the raw program uses as many sockets. With TCPX_TEST_ENCRYPTED=1 comms are encrypted.

#[allow(dead_code, unused_macros, reason = "the tests' own part of it")]
#[path = "../tests/suite/support/mod.rs"]
mod support;

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use support::{Memory, Net, PluginPtr, Receiver, Sender};
use tcpx_softnet::Settings;
use tcpx_sys::{NetHandle, PTR_CUDA, PTR_HOST};

const TOTAL: usize = 64 << 20;
const REQUEST: usize = 512 << 10;
const SMALL: usize = 4 << 10;
const SMALL_COUNT: usize = 100_000;
const PINGS: usize = 20_000;
const SEND_WINDOW: usize = 12;
/// Number of tests without an answer after which the processor is offered to others, which may be
/// the peer.
const IDLE_TESTS: usize = 16;
const RECV_WINDOW: usize = 16;

fn net() -> (Net, usize) {
    let mut settings = Settings::from_env().unwrap_or_default();
    settings.interfaces = Some("=lo".to_owned());
    let sockets = usize::from(settings.sockets);
    (support::start(settings), sockets)
}

/// One end: raw sockets, and comms in both directions.
struct LoopbackEnd {
    net: Net,
    raw: Vec<TcpStream>,
    sender: Sender,
    receiver: Receiver,
    buffer: Memory,
    registered: [PluginPtr; 2],
    to_send: [PluginPtr; 2],
}

impl LoopbackEnd {
    fn new(net: Net, raw: Vec<TcpStream>, sender: Sender, receiver: Receiver) -> Self {
        let mut buffer = Memory::patterned(TOTAL, 1);
        let mut register = |comm| {
            [PTR_HOST, PTR_CUDA].map(|kind| {
                let (rc, mhandle) = net.register(comm, buffer.data(), TOTAL, kind);
                assert_eq!(rc, 0);
                mhandle
            })
        };
        let (registered, to_send) = (register(receiver.comm), register(sender.comm));
        raw.iter().for_each(|socket| socket.set_nodelay(true).expect("nodelay"));
        Self { net, raw, sender, receiver, buffer, registered, to_send }
    }

    /// Sends `count` requests of `bytes`, walking over the buffer.
    fn send(&mut self, kind: usize, bytes: usize, count: usize) {
        let mut window = VecDeque::with_capacity(SEND_WINDOW);
        for k in 0..count {
            if window.len() == SEND_WINDOW {
                self.finish(window.pop_front());
            }
            let data = self.buffer.data().wrapping_add(k * bytes % TOTAL);
            let (rc, request) =
                self.net.isend(self.sender.comm, data, bytes as i32, self.to_send[kind]);
            assert_eq!(rc, 0);
            window.push_back(request);
        }
        while let Some(request) = window.pop_front() {
            self.finish(Some(request));
        }
    }

    fn finish(&self, request: Option<PluginPtr>) {
        let request = request.expect("a request");
        let mut idle = 0;
        while self.net.test(request).1 == 0 {
            idle += 1;
            if idle % IDLE_TESTS == 0 {
                std::thread::yield_now();
            }
        }
    }

    fn receive(&mut self, kind: usize, bytes: usize, count: usize) {
        let mut window = VecDeque::with_capacity(RECV_WINDOW);
        let mut posted = 0;
        for k in 0..count {
            while posted < count && window.len() < RECV_WINDOW {
                let data = self.buffer.data().wrapping_add(posted * bytes % TOTAL);
                window.push_back(self.receiver.post(data, bytes, self.registered[kind]));
                posted += 1;
            }
            let (number, request) = window.pop_front().expect("a request");
            self.finish(Some(request));
            if kind == 1 {
                let data = self.buffer.data().wrapping_add(k * bytes % TOTAL);
                // SAFETY: the place has room for the request, and only this thread uses it.
                unsafe { self.receiver.unpack_to(number, data) };
            }
            assert_eq!(self.net.consumed(self.receiver.comm, request), 0);
        }
    }

    /// Raw sockets take turns by request, as the plugin's do.
    fn raw_send(&mut self, bytes: usize, total: usize) {
        std::thread::scope(|scope| {
            let lanes = self.raw.len();
            for (lane, mut socket) in self.raw.iter().enumerate() {
                let memory = self.buffer.bytes();
                scope.spawn(move || {
                    for offset in (0..total).step_by(bytes).skip(lane).step_by(lanes) {
                        socket.write_all(&memory[offset % TOTAL..][..bytes]).expect("raw write");
                    }
                });
            }
        });
    }

    fn raw_receive(&mut self, bytes: usize, total: usize) {
        let lanes = self.raw.len();
        let base = self.buffer.data().expose_provenance();
        std::thread::scope(|scope| {
            for (lane, mut socket) in self.raw.iter().enumerate() {
                scope.spawn(move || {
                    for offset in (0..total).step_by(bytes).skip(lane).step_by(lanes) {
                        let place =
                            std::ptr::with_exposed_provenance_mut::<u8>(base + offset % TOTAL);
                        // SAFETY: lanes write disjoint requests of the buffer, which outlives the
                        // scope.
                        let place = unsafe { std::slice::from_raw_parts_mut(place, bytes) };
                        socket.read_exact(place).expect("raw read");
                    }
                });
            }
        });
    }

    /// The child's half of each measurement.
    fn serve(&mut self, command: &str) {
        match command {
            "raw" => self.raw_send(REQUEST, TOTAL),
            "host" => self.send(0, REQUEST, TOTAL / REQUEST),
            "device" => self.send(1, REQUEST, TOTAL / REQUEST),
            "raw-small" => self.raw_send(SMALL, SMALL * SMALL_COUNT),
            "small" => self.send(1, SMALL, SMALL_COUNT),
            "raw-ping" => {
                let mut data = [0; SMALL];
                for _ in 0..PINGS {
                    self.raw[0].read_exact(&mut data).expect("raw read");
                    self.raw[0].write_all(&data).expect("raw write");
                }
            }
            "ping" | "ping-host" => {
                let kind = usize::from(command == "ping");
                for _ in 0..PINGS {
                    self.receive(kind, SMALL, 1);
                    self.send(kind, SMALL, 1);
                }
            }
            other => panic!("unknown command {other}"),
        }
    }

    /// The parent's half.
    fn measure(&mut self, command: &str) {
        match command {
            "raw" => self.raw_receive(REQUEST, TOTAL),
            "host" => self.receive(0, REQUEST, TOTAL / REQUEST),
            "device" => self.receive(1, REQUEST, TOTAL / REQUEST),
            "raw-small" => self.raw_receive(SMALL, SMALL * SMALL_COUNT),
            "small" => self.receive(1, SMALL, SMALL_COUNT),
            "raw-ping" => {
                let mut data = [0; SMALL];
                for _ in 0..PINGS {
                    self.raw[0].write_all(&data).expect("raw write");
                    self.raw[0].read_exact(&mut data).expect("raw read");
                }
            }
            "ping" | "ping-host" => {
                let kind = usize::from(command == "ping");
                for _ in 0..PINGS {
                    self.send(kind, SMALL, 1);
                    self.receive(kind, SMALL, 1);
                }
            }
            other => panic!("unknown command {other}"),
        }
    }
}

fn hex(handle: &NetHandle) -> String {
    handle.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> NetHandle {
    let mut handle = NetHandle::zeroed();
    for (place, byte) in handle.0.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).expect("hex");
    }
    handle
}

fn write_line(mut out: impl Write, line: &str) {
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("a listener");
}

fn read_line(input: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    input.read_line(&mut line).expect("a line");
    (!line.is_empty()).then(|| line.trim().to_owned())
}

/// Both ends listen; the child reads the parent's addresses and prints its own.
fn child() {
    let (net, sockets) = net();
    let mut input = io::stdin().lock();
    let port: u16 = read_line(&mut input).expect("port").parse().expect("a number");
    let mut theirs = unhex(&read_line(&mut input).expect("handle"));
    let (ours, listen) = net.listen_with(support::secret_of_environment());
    write_line(io::stdout(), &hex(&ours));
    let raw: Vec<_> = (0..sockets)
        .map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("raw connect"))
        .collect();
    let (sender, receiver) = connect_both(net, &mut theirs, listen);
    let mut end = LoopbackEnd::new(net, raw, sender, receiver);
    write_line(io::stdout(), "ready");
    while let Some(command) = read_line(&mut input) {
        end.serve(&command);
        write_line(io::stdout(), "served");
    }
}

fn connect_both(net: Net, theirs: &mut NetHandle, listen: PluginPtr) -> (Sender, Receiver) {
    let mut device = support::blank_device();
    let (mut send, mut recv): (PluginPtr, PluginPtr) = (std::ptr::null_mut(), std::ptr::null_mut());
    tcpx_testkit::eventually(|| {
        if send.is_null() {
            send = net.connect_with(theirs, support::secret_of_environment()).1;
        }
        if recv.is_null() {
            recv = net.accept(listen, &mut device).1;
        }
        (!send.is_null() && !recv.is_null()).then_some(())
    });
    net.close_listen(listen);
    (Sender { net, comm: send }, Receiver::new(net, recv, device.handle.cast()))
}

struct ChildBench {
    end: LoopbackEnd,
    child: Child,
    commands: ChildStdin,
    answers: BufReader<std::process::ChildStdout>,
    rounds: usize,
}

impl ChildBench {
    fn start(rounds: usize) -> Self {
        let (net, sockets) = net();
        let mut child = Command::new(std::env::current_exe().expect("own path"))
            .arg("child")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("child");
        let mut commands = child.stdin.take().expect("stdin");
        let mut answers = BufReader::new(child.stdout.take().expect("stdout"));
        let raw_listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bind");
        let (ours, listen) = net.listen_with(support::secret_of_environment());
        write_line(&mut commands, &raw_listener.local_addr().expect("address").port().to_string());
        write_line(&mut commands, &hex(&ours));
        let mut theirs = unhex(&read_line(&mut answers).expect("handle"));
        let raw = (0..sockets).map(|_| raw_listener.accept().expect("raw accept").0).collect();
        let (sender, receiver) = connect_both(net, &mut theirs, listen);
        let end = LoopbackEnd::new(net, raw, sender, receiver);
        assert_eq!(read_line(&mut answers).as_deref(), Some("ready"));
        Self { end, child, commands, answers, rounds }
    }

    fn once(&mut self, command: &str) -> Duration {
        write_line(&mut self.commands, command);
        let start = Instant::now();
        self.end.measure(command);
        let time = start.elapsed();
        assert_eq!(read_line(&mut self.answers).as_deref(), Some("served"));
        time
    }

    /// Runs the commands in turn, round by round, and gives the median time of each.
    fn medians<const N: usize>(&mut self, commands: [&str; N]) -> [Duration; N] {
        let mut times = [const { Vec::new() }; N];
        for _ in 0..self.rounds {
            for (command, times) in commands.iter().zip(&mut times) {
                times.push(self.once(command));
            }
        }
        times.map(|mut times| {
            times.sort();
            times[times.len() / 2]
        })
    }
}

fn main() {
    let argument = std::env::args().nth(1);
    if argument.as_deref() == Some("child") {
        return child();
    }
    let rounds = argument.map_or(21, |rounds| rounds.parse().expect("number of rounds"));
    let mut bench = ChildBench::start(rounds);
    let out = io::stdout();
    let rate = |time: Duration| TOTAL as f64 / time.as_secs_f64() / 1e9;
    let [raw, host, device] = bench.medians(["raw", "host", "device"]);
    for (name, time) in [("raw sockets", raw), ("host memory", host), ("device memory", device)] {
        let (gbps, ratio) = (rate(time), raw.as_secs_f64() / time.as_secs_f64());
        write_line(
            &out,
            &format!("64 MiB in 512 KiB, {name:13}: {gbps:6.2} GB/s, {ratio:4.2} x raw"),
        );
    }
    bench.rounds = rounds.div_ceil(4);
    let [raw, small] = bench.medians(["raw-small", "small"]);
    for (name, time) in [("raw sockets", raw), ("device memory", small)] {
        let micros = time.as_secs_f64() * 1e6 / SMALL_COUNT as f64;
        write_line(&out, &format!("100,000 x 4 KiB,   {name:13}: {micros:6.2} us each"));
    }
    let [raw, ping, host] = bench.medians(["raw-ping", "ping", "ping-host"]);
    for (name, time) in [("raw sockets", raw), ("device memory", ping), ("host memory", host)] {
        let micros = time.as_secs_f64() * 1e6 / PINGS as f64;
        let ratio = time.as_secs_f64() / raw.as_secs_f64();
        write_line(
            &out,
            &format!("4 KiB ping-pong,   {name:13}: {micros:6.2} us, {ratio:4.2} x raw"),
        );
    }
    drop(bench.commands);
    assert!(bench.child.wait().expect("child").success());
}
