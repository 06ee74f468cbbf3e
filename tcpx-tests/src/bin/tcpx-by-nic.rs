//! Sessions of one process, each over a NIC of its own, for the guest in which NICs come and go
//! (tcpx-tests/doubles/devmem-vm.sh).
//!
//! ```text
//! tcpx-by-nic receive NIC,ADDRESS,MESSAGES,FILE... [then NIC,ADDRESS,MESSAGES,FILE...]
//! tcpx-by-nic send MESSAGES FILE [GATE]
//! tcpx-by-nic plugins PLUGIN[,GPU]...
//! ```
//!
//! The receiver puts the connection info of each session into its file, verifies this many
//! messages, or as many as come before the session fails where that is 0, and prints a line for
//! each session. Those before `then` are at once. The sender waits in the middle until the file
//! GATE is there. It ends with the first failure. `plugins` makes a session for each, one after the
//! other, with memory that stands in for a GPU's or that of a GPU, and prints what came of it.
#![allow(clippy::print_stdout, reason = "a program's output")]

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use tcpx_core::{MemoryType, Post, Session, SessionOptions};
use tcpx_testkit::pattern;

const BYTES: u64 = 300_007;
/// Longer than anything takes here, but for a session that never fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// What one session is to do.
struct Plan<'a> {
    nic: &'a str,
    address: IpAddr,
    messages: u64,
    file: &'a Path,
}

impl<'a> Plan<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let mut words = text.split(',');
        let (nic, address) = (words.next()?, words.next()?.parse().ok()?);
        let (messages, file) = (words.next()?.parse().ok()?, Path::new(words.next()?));
        Some(Self { nic, address, messages, file })
    }

    /// Prints how it went; false: not as planned.
    fn run(&self) -> bool {
        let mut verified = 0;
        let end = self.receive(&mut verified);
        let what = end.as_ref().map_or_else(ToString::to_string, |()| "done".to_owned());
        println!("{}: {verified} messages: {what}", self.nic);
        end.is_err() == (self.messages == 0) && verified >= self.messages
    }

    fn receive(&self, verified: &mut u64) -> Result<(), Box<dyn Error + Send + Sync>> {
        let options = SessionOptions::default().progress_thread(false).with_env()?;
        let listen = SocketAddr::new(self.address, 0);
        let session = Session::new(options.nics(vec![self.nic.to_owned()]).listen(listen))?;
        // A process that sees the file sees all of it.
        let unfinished = self.file.with_extension("new");
        std::fs::write(&unfinished, session.listen()?)?;
        std::fs::rename(unfinished, self.file)?;
        session.accept("sender")?;
        let memory = session.allocate(BYTES, MemoryType::Device)?;
        let transfer = session.create_transfer("sender")?;
        let mut found = vec![0; BYTES as usize];
        while self.messages == 0 || *verified < self.messages {
            transfer.post_recv(Post { memory, offset: 0, bytes: BYTES, tag: 1 })?;
            transfer.wait(Some(PATIENCE))?;
            session.read_memory(memory, 0, &mut found)?;
            if let Some(at) = pattern::first_difference(*verified, 0, &found) {
                return Err(format!("byte {at} of message {verified} is wrong").into());
            }
            *verified += 1;
        }
        drop(transfer);
        session.disconnect("sender")?;
        Ok(())
    }
}

fn send(
    messages: u64,
    file: &Path,
    gate: Option<&Path>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let session = Session::new(SessionOptions::default().progress_thread(false).with_env()?)?;
    session.load_remote_conn_info("receiver", &std::fs::read(file)?)?;
    session.connect("receiver")?;
    let memory = session.allocate(BYTES, MemoryType::Device)?;
    let transfer = session.create_transfer("receiver")?;
    let mut bytes = vec![0; BYTES as usize];
    for message in 0..messages {
        if let Some(gate) = gate.filter(|_| message == messages / 2) {
            let end = Instant::now() + PATIENCE;
            while !gate.exists() && Instant::now() < end {
                session.progress();
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        pattern::fill(message, 0, &mut bytes);
        session.write_memory(memory, 0, &bytes)?;
        transfer.post_send(Post { memory, offset: 0, bytes: BYTES, tag: 1 })?;
        transfer.wait(Some(PATIENCE))?;
    }
    drop(transfer);
    session.disconnect("receiver")?;
    Ok(())
}

fn receive(arguments: &[&str]) -> Result<(), Box<dyn Error + Send + Sync>> {
    for phase in arguments.split(|&word| word == "then") {
        let plans: Option<Vec<_>> = phase.iter().map(|text| Plan::read(text)).collect();
        let plans = plans.ok_or("NIC,ADDRESS,MESSAGES,FILE")?;
        let as_planned = std::thread::scope(|scope| {
            let runs: Vec<_> = plans.iter().map(|plan| scope.spawn(|| plan.run())).collect();
            runs.into_iter().map(|run| run.join().unwrap_or(false)).collect::<Vec<_>>()
        });
        if as_planned.contains(&false) {
            return Err("not as planned".into());
        }
    }
    Ok(())
}

fn plugins(choices: &[&str]) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut sessions = Vec::new();
    for choice in choices {
        let (plugin, gpu) = choice.split_once(',').unwrap_or((choice, ""));
        let gpu = if gpu.is_empty() { None } else { Some(gpu.parse()?) };
        let options = SessionOptions::default()
            .progress_thread(false)
            .with_env()?
            .plugin(plugin.parse()?)
            .gpu(gpu);
        match Session::new(options) {
            Ok(session) => {
                println!("{choice}: a session");
                sessions.push(session);
            }
            Err(error) => println!("{choice}: {error}"),
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["receive", ref plans @ ..] if !plans.is_empty() => receive(plans),
        ["send", messages, file] => send(messages.parse()?, Path::new(file), None),
        ["send", messages, file, gate] => {
            send(messages.parse()?, Path::new(file), Some(Path::new(gate)))
        }
        ["plugins", ref choices @ ..] => plugins(choices),
        _ => Err("see the source for what it takes".into()),
    }
}
