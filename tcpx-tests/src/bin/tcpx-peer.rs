//! A scripted peer for the end-to-end tests: runs one command a line from standard input until
//! that ends.

use std::io::{self, BufRead, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tcpx_core::{
    BounceCreditChoice, Error, ExportOptions, LinkBytes, MemoryId, MemoryRange, MemoryType,
    Operation, OperationKind, PluginChoice, Post, RemoteAccess, RemoteKey, RemoteRange, Session,
    SessionOptions, Transfer,
};
use tcpx_testkit::pattern;
use tcpx_tests::PLUGIN;
use tcpx_tests::script::{Command, Failure, Footprint, Memory, Options, PostSpec};

/// Deadline of whatever should succeed: no test is about how fast the machine is. A test waits
/// longer, and so learns of it.
const PATIENCE: Duration = Duration::from_secs(60);
/// Memory is filled and verified in pieces of this size.
const PIECE_BYTES: u64 = 1 << 20;

#[derive(Default)]
struct Peer {
    session: Option<Session>,
    transfers: Vec<Option<Transfer>>,
    operations: Vec<Operation>,
}

type Answer = Result<Value, Error>;

impl Peer {
    fn run_command(&mut self, command: Command) -> Answer {
        match command {
            Command::New(options) => {
                self.session = Some(Session::new(session_options(options))?);
                Ok(Value::Null)
            }
            Command::Close => {
                let start = Instant::now();
                self.session = None;
                self.transfers.clear();
                self.operations.clear();
                Ok(json!(start.elapsed().as_millis() as u64))
            }
            Command::Footprint => Ok(json!(footprint())),
            other => self.run_session_command(other),
        }
    }

    fn run_session_command(&mut self, command: Command) -> Answer {
        let Some(session) = &self.session else { return Err(Error::Closed) };
        match command {
            Command::Listen => return session.listen().map(|conn_info| json!(conn_info)),
            Command::Load { peer, conn_info } => {
                session.load_remote_conn_info(&peer, &conn_info)?
            }
            Command::Connect { peer } => session.connect(&peer)?,
            Command::Accept { peer } => session.accept(&peer)?,
            Command::Disconnect { peer } => session.disconnect(&peer)?,
            Command::Allocate { bytes, memory } => {
                let memory = match memory {
                    Memory::Host => MemoryType::Host,
                    Memory::Device => MemoryType::Device,
                };
                return session.allocate(bytes, memory).map(|id| json!(id.get()));
            }
            Command::Deregister { memory } => session.deregister_memory(id(memory))?,
            Command::Fill { memory, offset, bytes, seed } => {
                fill(session, memory, offset, bytes, seed)?
            }
            Command::Verify { memory, offset, bytes, seed } => {
                return verify(session, memory, offset, bytes, seed);
            }
            Command::Transfer { peer } => {
                let transfer = session.create_transfer(&peer)?;
                self.transfers.push(Some(transfer));
                return Ok(json!(self.transfers.len() - 1));
            }
            Command::Progress { time_ms } => {
                let end = Instant::now() + Duration::from_millis(time_ms);
                while Instant::now() < end {
                    if !session.progress() {
                        // Leaves the processor to the other ends.
                        std::thread::park_timeout(Duration::from_micros(200));
                    }
                }
            }
            Command::Stats => return Ok(json!(session.stats())),
            Command::Export { memory } => {
                let options = ExportOptions::new(RemoteAccess::ReadWrite);
                let key = session.export(id(memory), options)?;
                return Ok(json!(key.serialize().to_vec()));
            }
            Command::Unexport { key } => session.unexport(&RemoteKey::deserialize(&key)?)?,
            Command::Prepare { peer, is_write, memory, bytes, key } => {
                let operation = prepare(session, &peer, is_write, (id(memory), bytes), &key)?;
                self.operations.push(operation);
                return Ok(json!(self.operations.len() - 1));
            }
            other => return self.run_post_command(other),
        }
        Ok(Value::Null)
    }

    fn run_post_command(&mut self, command: Command) -> Answer {
        let find = |number: usize| self.operations.get(number).ok_or(Error::Released);
        match command {
            Command::PostOperation { operation } => find(operation)?.post(None)?,
            Command::WaitOperation { operation, timeout_ms } => {
                find(operation)?.wait(Some(Duration::from_millis(timeout_ms)))?
            }
            other => return self.run_transfer_command(other),
        }
        Ok(Value::Null)
    }

    fn run_transfer_command(&mut self, command: Command) -> Answer {
        let find = |number: usize| {
            self.transfers.get(number).and_then(Option::as_ref).ok_or(Error::Released)
        };
        match command {
            Command::Send { transfer, posts } => {
                find(transfer)?.post_send_batch(&posts_of(&posts))?
            }
            Command::Receive { transfer, posts } => {
                find(transfer)?.post_recv_batch(&posts_of(&posts))?
            }
            Command::Wait { transfer, timeout_ms } => {
                let start = Instant::now();
                find(transfer)?.wait(Some(Duration::from_millis(timeout_ms)))?;
                return Ok(json!(start.elapsed().as_micros() as u64));
            }
            Command::IsComplete { transfer } => {
                return find(transfer)?.is_complete().map(|done| json!(done));
            }
            Command::Cancel { transfer } => find(transfer)?.cancel(),
            Command::Counts { transfer } => {
                let counts = find(transfer)?.counts()?;
                return Ok(json!([
                    counts.operations_posted,
                    counts.operations_done,
                    counts.chunks_posted,
                    counts.chunks_done
                ]));
            }
            Command::Release { transfer } => {
                if let Some(slot) = self.transfers.get_mut(transfer) {
                    *slot = None;
                }
            }
            other => {
                return Err(Error::Io {
                    what: format!("{other:?}"),
                    kind: io::ErrorKind::Unsupported,
                    error: "no such command here".into(),
                });
            }
        }
        Ok(Value::Null)
    }
}

fn session_options(options: Options) -> SessionOptions {
    let mut session = SessionOptions::default().progress_thread(false);
    let plugin = options.plugin.or_else(|| std::env::var(PLUGIN).ok());
    session.preflight = plugin.is_none();
    session.gpu = options.gpu;
    session.nics = options.nics;
    session.unpack = options
        .unpack
        .map_or(session.unpack, |name| name.parse().expect("tests know the backends' names"));
    session.plugin = plugin.map_or(PluginChoice::Soft, |path| PluginChoice::Path(path.into()));
    session.name = options.name.unwrap_or_default();
    session.channels = options.channels.or(session.channels);
    session.chunk_bytes = options.chunk_bytes;
    session.recv_window = options.recv_window.unwrap_or(session.recv_window);
    session.send_window = options.send_window.unwrap_or(session.send_window);
    session.gather = options.gather.unwrap_or(session.gather);
    session.eager_bytes = options.eager_bytes.unwrap_or(session.eager_bytes);
    session.link_bytes = options.link_bytes.map_or(session.link_bytes, LinkBytes::Most);
    if options.bounce_credit {
        session.bounce_credit = BounceCreditChoice::On;
    }
    session.connect_timeout = options.connect_timeout_ms.map_or(PATIENCE, Duration::from_millis);
    session.close_timeout = options.close_timeout_ms.map_or(PATIENCE, Duration::from_millis);
    session.stall_after =
        options.stall_after_ms.map_or(session.stall_after, |ms| Some(Duration::from_millis(ms)));
    session.peer_timeout = match options.peer_timeout_ms {
        None => Some(PATIENCE),
        Some(0) => None,
        Some(time) => Some(Duration::from_millis(time)),
    };
    session.progress_thread = options.progress_thread;
    session.encryption = options
        .encryption
        .map_or(session.encryption, |name| name.parse().expect("tests know the settings' names"));
    session.connect_channels = options.connect_channels;
    if std::env::var_os("TCPX_PEER_LOOPBACK").is_some() {
        session.advertise = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
    }
    session
}

/// Scripts name registrations by the numbers that they got.
fn id(memory: u64) -> MemoryId {
    MemoryId::new(memory).expect("no registration has the number 0")
}

fn prepare(
    session: &Session,
    peer: &str,
    is_write: bool,
    (memory, bytes): (MemoryId, u64),
    key: &[u8],
) -> Result<Operation, Error> {
    let key = RemoteKey::deserialize(key)?;
    let kind = if is_write { OperationKind::Write } else { OperationKind::Read };
    let local = [MemoryRange { memory, offset: 0, bytes }];
    let remote = [RemoteRange { key: &key, offset: 0, bytes }];
    session.prepare(peer, kind, &local, &remote)
}

fn posts_of(posts: &[PostSpec]) -> Vec<Post> {
    posts
        .iter()
        .map(|post| Post {
            memory: id(post.memory),
            offset: post.offset,
            bytes: post.bytes,
            tag: post.tag,
        })
        .collect()
}

fn pieces(bytes: u64) -> impl Iterator<Item = (u64, usize)> {
    (0..bytes.div_ceil(PIECE_BYTES)).map(move |piece| {
        let start = piece * PIECE_BYTES;
        (start, (bytes - start).min(PIECE_BYTES) as usize)
    })
}

fn fill(session: &Session, memory: u64, offset: u64, bytes: u64, seed: u64) -> Result<(), Error> {
    let mut piece = vec![0; PIECE_BYTES as usize];
    for (start, length) in pieces(bytes) {
        pattern::fill(seed, start, &mut piece[..length]);
        session.write_memory(id(memory), offset + start, &piece[..length])?;
    }
    Ok(())
}

fn verify(session: &Session, memory: u64, offset: u64, bytes: u64, seed: u64) -> Answer {
    let mut piece = vec![0; PIECE_BYTES as usize];
    for (start, length) in pieces(bytes) {
        session.read_memory(id(memory), offset + start, &mut piece[..length])?;
        if let Some(at) = pattern::first_difference(seed, start, &piece[..length]) {
            return Ok(json!(start + at as u64));
        }
    }
    Ok(Value::Null)
}

fn footprint() -> Footprint {
    let count = |folder| std::fs::read_dir(folder).map_or(0, Iterator::count);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    Footprint {
        files: count("/proc/self/fd"),
        threads: count("/proc/self/task"),
        resident_kib: resident
            .and_then(|text| text.split_whitespace().next())
            .and_then(|number| number.parse().ok())
            .unwrap_or(0),
    }
}

/// The variant's name: what stands before the first brace, parenthesis or blank of its debug text.
fn failure(error: &Error, after: Duration) -> Failure {
    let debug = format!("{error:?}");
    let kind = debug.split([' ', '(', '{']).next().unwrap_or_default().to_owned();
    Failure { kind, text: error.to_string(), after_ms: after.as_millis() as u64 }
}

fn main() -> io::Result<()> {
    // A test that dies must not leave its peers behind.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(io::stderr)
        .init();
    let mut peer = Peer::default();
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let command = serde_json::from_str(&line?)?;
        let start = Instant::now();
        let reply: Result<Value, Failure> =
            peer.run_command(command).map_err(|error| failure(&error, start.elapsed()));
        serde_json::to_writer(&mut out, &reply)?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}
