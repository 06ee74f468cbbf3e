//! `tcpx perf`: how fast messages get from one end to the other, every byte verified.

mod args;
mod baseline;
mod json;
mod latency;
mod patient_socket;
mod pattern;
mod posts;
mod progress;
mod report;
mod samples;
mod session_lane;
mod share;
mod stages;
mod table;
mod throughput;

use std::io::Write;

use tcpx_core::Session;

pub(crate) use args::PerfArgs;
pub(crate) use stages::Stages;

use crate::bootstrap::{Batch, CaseTimes, Link, Message, Mode, Plan, Program};
use crate::end::Role;
use crate::failure::Failure;
use crate::meeting::{self, Agreement};
use crate::session::NicWatch;
use baseline::RawSockets;
use progress::Progress;
use report::{Case, Report};
use stages::Shares;

/// Most lanes that take turns; each of their messages has a pattern of its own.
const WAYS: u64 = 3;

/// Measures, and prints what both ends saw.
pub(crate) fn run(args: &PerfArgs) -> Result<(), Failure> {
    args.end.begin()?;
    let report = match args.end.role() {
        Role::Client => {
            let program = Program::Perf(args.plan()?);
            meeting::as_client(&args.end, &args.session, program, |link, session, agreement| {
                measure(link, session, agreement)
            })?
        }
        Role::Server => {
            let check = |program: &Program| args.insist(program);
            meeting::as_server(&args.end, &args.session, "perf", check, measure)?
        }
    };
    if args.end.is_started_end() {
        return Ok(());
    }
    let text = if args.json { json::render(&report)? } else { table::render(&report) };
    writeln!(std::io::stdout().lock(), "{text}").map_err(Failure::io("writing to stdout"))?;
    match report.first_mismatch() {
        None => Ok(()),
        Some(mismatch) => Err(Failure::NotVerified(mismatch)),
    }
}

fn measure(link: &mut Link, session: &Session, agreement: &Agreement) -> Result<Report, Failure> {
    let Program::Perf(plan) = &agreement.program else {
        return Err(Failure::Refusing("this is not a measurement".into()));
    };
    let mut raw = match plan.baseline {
        true => Some(RawSockets::open(link, agreement, plan)?),
        false => None,
    };
    let progress = Progress::new(plan);
    let nics = NicWatch::start(session);
    let mut message = 0;
    let mut cases = Vec::new();
    for &bytes in &plan.sizes {
        let run = CaseRun { plan, bytes, first_message: message };
        let before = Stages::of(session);
        let mut times = match plan.mode {
            Mode::Throughput | Mode::Messages(_) => {
                throughput::measure(link, session, agreement, run, raw.as_mut(), &progress)?
            }
            Mode::Latency => {
                latency::measure(link, session, agreement, run, raw.as_mut(), &progress)?
            }
        };
        times.stages = Stages::of(session).since(&before);
        message += WAYS * run.iterations();
        let (client, server) = exchange(link, agreement.role, plan, times)?;
        let mut case = Case::new(plan.mode, bytes, run.messages(), &client, &server);
        if plan.mode == Mode::Throughput {
            case.shares = Shares::new(&client.stages, &server.stages, agreement.channels);
        }
        cases.push(case);
    }
    Ok(Report::new(session, agreement, plan, cases, nics.end(session)))
}

/// One size of a plan.
#[derive(Clone, Copy, Debug)]
struct CaseRun<'a> {
    plan: &'a Plan,
    /// Of one message.
    bytes: u64,
    /// Number of the first message, which makes its payload.
    first_message: u64,
}

impl CaseRun<'_> {
    /// Uncounted and counted ones.
    fn iterations(&self) -> u64 {
        u64::from(self.plan.warmup) + u64::from(self.plan.iterations)
    }

    /// Messages of one iteration.
    fn messages(&self) -> u64 {
        match self.plan.mode {
            Mode::Messages(Batch { messages, .. }) => messages.into(),
            Mode::Throughput | Mode::Latency => 1,
        }
    }

    /// Bytes of one iteration.
    fn total_bytes(&self) -> u64 {
        self.bytes * self.messages()
    }

    fn is_counted(&self, iteration: u64) -> bool {
        iteration >= u64::from(self.plan.warmup)
    }
}

/// Both ends tell each other what they measured. Returns the client's times, then the server's.
fn exchange(
    link: &mut Link,
    role: Role,
    plan: &Plan,
    own: CaseTimes,
) -> Result<(CaseTimes, CaseTimes), Failure> {
    let receive = |link: &mut Link| {
        link.receive("times", |message| match message {
            Message::Times(times) => Ok(*times),
            other => Err(other),
        })
    };
    let (client, server) = match role {
        Role::Client => {
            link.send(&Message::Times(Box::new(own.clone())))?;
            (own, receive(link)?)
        }
        Role::Server => {
            let client = receive(link)?;
            link.send(&Message::Times(Box::new(own.clone())))?;
            (client, own)
        }
    };
    let ends: &[&CaseTimes] = match plan.mode {
        Mode::Throughput | Mode::Messages(_) => &[&client, &server],
        // Only the client sees round trips.
        Mode::Latency => &[&client],
    };
    let raw = if plan.baseline { plan.iterations as usize } else { 0 };
    let is_batch = matches!(plan.mode, Mode::Messages(_));
    let large = if is_batch { plan.iterations as usize } else { 0 };
    let is_complete = ends.iter().all(|times| {
        times.session_ns.len() == plan.iterations as usize
            && (times.large_ns.len(), times.raw_ns.len()) == (large, raw)
    });
    match is_complete {
        true => Ok((client, server)),
        false => Err(Failure::OtherEnd(format!(
            "it sent {} and {raw} times for {} iterations",
            client.session_ns.len().min(server.session_ns.len()),
            plan.iterations
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use tcpx_core::{PluginChoice, SessionOptions};

    use super::*;
    use crate::session::Memory;

    const TIMEOUT: Duration = Duration::from_secs(60);

    fn session() -> Session {
        let options = SessionOptions { plugin: PluginChoice::Soft, ..SessionOptions::default() };
        Session::new(options).unwrap()
    }

    fn agreement(role: Role, mode: Mode, seed: u64) -> Agreement {
        let sizes = vec![5000];
        let plan = Plan { mode, sizes, iterations: 2, warmup: 1, seed, baseline: true };
        let (memory, unpack) = (Memory::Emulated, "host".to_owned());
        Agreement { role, program: Program::Perf(plan), memory, channels: 2, unpack }
    }

    /// Both ends in this process, each with its own idea of the payload.
    fn measure_both(mode: Mode, client_seed: u64, server_seed: u64) -> [Report; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut client_link = Link::new(stream, TIMEOUT).unwrap();
        let mut server_link = Link::new(listener.accept().unwrap().0, TIMEOUT).unwrap();
        let server = session();
        let conn_info = server.listen().unwrap();
        std::thread::scope(|scope| {
            let client = scope.spawn(move || {
                let client = session();
                client.load_remote_conn_info("server", &conn_info).unwrap();
                client.connect("server").unwrap();
                let agreement = agreement(Role::Client, mode, client_seed);
                let report = measure(&mut client_link, &client, &agreement).unwrap();
                client.disconnect("server").unwrap();
                report
            });
            server.accept("client").unwrap();
            let agreement = agreement(Role::Server, mode, server_seed);
            let report = measure(&mut server_link, &server, &agreement).unwrap();
            server.disconnect("client").unwrap();
            [client.join().unwrap(), report]
        })
    }

    #[test]
    fn bytes_that_are_not_what_was_sent_show_at_both_ends() {
        let [sent, received] = measure_both(Mode::Throughput, 1, 2);
        let batch = Mode::Messages(Batch { messages: 20, is_scattered: true });
        for report in [sent, received].into_iter().chain(measure_both(batch, 1, 2)) {
            let mismatch = report.first_mismatch().unwrap();
            assert!(mismatch.contains("iteration 0: byte 0 is"), "{mismatch}");
            assert!(!mismatch.contains("never written"), "it was, with other bytes: {mismatch}");
            let json: serde_json::Value =
                serde_json::from_str(&json::render(&report).unwrap()).unwrap();
            assert_eq!(json["verified"], false);
            assert!(table::render(&report).lines().nth(1).unwrap().ends_with("NO"));
        }
    }

    #[test]
    fn equal_payloads_are_verified_at_both_ends() {
        let batch = |is_scattered| Mode::Messages(Batch { messages: 300, is_scattered });
        for mode in [Mode::Throughput, Mode::Latency, batch(false), batch(true)] {
            for report in measure_both(mode, 3, 3) {
                assert_eq!(report.first_mismatch(), None);
                let times = report.cases[0].sender.times().len();
                assert_eq!((times, report.cases.len()), (2, 1), "warmup is not counted");
            }
        }
    }
}
