#![allow(unsafe_code)]
//! Serves several peers in one tokio runtime of one thread. No call waits: each peer is a task, and
//! one more task waits for the session's descriptor.
//!
//! ```text
//! async_tokio server PEERS [PORT]     receives messages from each peer, prints its port
//! async_tokio client HOST PORT NAME   sends them
//! ```
#![allow(clippy::print_stdout, reason = "a program's output")]

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tcpx_core::{MemoryType, PeerState, Post, Session, SessionOptions, Transfer};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const ROUNDS: u64 = 8;
const MESSAGE_BYTES: u64 = 100_000;
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Session whose peers and transfers can be awaited.
struct AsyncSession {
    session: Session,
    event: Notify,
}

impl AsyncSession {
    fn new(options: SessionOptions) -> tcpx_core::Result<Arc<Self>> {
        // A thread of the session makes progress, so tasks only wait for what has ended.
        let session = Session::new(options.progress_thread(true))?;
        Ok(Arc::new(Self { session, event: Notify::new() }))
    }

    // The page docs/async.md shows these two functions.
    /// Wakes the waiting tasks whenever something has ended or come. Runs as a task of its own.
    async fn drive(self: Arc<Self>) -> Outcome<Infallible> {
        let descriptor = self.session.event_fd()?;
        // SAFETY: the borrow keeps the session, which closes the descriptor no earlier than at its
        // own end, and which always has the same one.
        let descriptor = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }
            .map_err(io::Error::from)?;
        loop {
            let mut ready = descriptor.readable().await?;
            // Makes the descriptor unreadable; a later event makes it readable again.
            let mut completions = Vec::new();
            while self.session.poll_completions(&mut completions, 64)? == 64 {}
            ready.clear_ready();
            self.event.notify_waiters();
        }
    }

    /// Waits until `poll` is ready. It is called again after each event.
    async fn until<T>(&self, mut poll: impl FnMut(&Session) -> Outcome<Poll<T>>) -> Outcome<T> {
        loop {
            // Before the call, so that no event between the call and the wait is missed.
            let event = self.event.notified();
            if let Poll::Ready(value) = poll(&self.session)? {
                return Ok(value);
            }
            event.await;
        }
    }
    // Here they end.

    async fn connect(&self, peer: &str) -> Outcome<()> {
        self.session.start_connect(peer)?;
        self.until(|session| match session.peer_state(peer)? {
            PeerState::Up => Ok(Poll::Ready(())),
            PeerState::Failed(error) => Err(error.into()),
            _ => Ok(Poll::Pending),
        })
        .await
    }

    /// Accepts any peer, and returns its name.
    async fn accept_any(&self) -> Outcome<String> {
        self.session.start_accept_any()?;
        self.until(|session| Ok(session.poll_accept_any()?)).await
    }

    async fn complete(&self, transfer: &Transfer) -> Outcome<()> {
        self.until(|_| Ok(if transfer.is_complete()? { Poll::Ready(()) } else { Poll::Pending }))
            .await
    }
}

/// Byte of a message: another peer's, round's or offset's byte differs.
fn byte_of(name: &str, round: u64, index: u64) -> u8 {
    let seed = name.bytes().fold(0, |sum: u64, byte| sum * 33 + u64::from(byte));
    let sum = seed.wrapping_add(round * 7).wrapping_add(index * 31);
    (sum ^ (sum >> 8)) as u8
}

fn message(name: &str, round: u64) -> Vec<u8> {
    (0..MESSAGE_BYTES).map(|index| byte_of(name, round, index)).collect()
}

/// Receives the messages of one peer.
async fn serve(session: Arc<AsyncSession>, peer: String) -> Outcome<()> {
    let memory = session.session.allocate(MESSAGE_BYTES, MemoryType::Device)?;
    let transfer = session.session.create_transfer(&peer)?;
    let mut received = vec![0; MESSAGE_BYTES as usize];
    for round in 0..ROUNDS {
        transfer.post_recv(Post { memory, offset: 0, bytes: MESSAGE_BYTES, tag: round as i64 })?;
        session.complete(&transfer).await?;
        session.session.read_memory(memory, 0, &mut received)?;
        if received != message(&peer, round) {
            return Err(format!("message {round} of {peer} is wrong").into());
        }
    }
    Ok(())
}

async fn server(peers: usize, port: u16) -> Outcome<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await?;
    println!("port {}", listener.local_addr()?.port());
    let session = AsyncSession::new(SessionOptions::default())?;
    let conn_info = session.session.listen()?;

    let mut tasks = JoinSet::new();
    let driver = tokio::spawn(Arc::clone(&session).drive());
    for _ in 0..peers {
        // A peer with the connection info may connect: a real program hands it over in private.
        let (mut stream, _) = listener.accept().await?;
        stream.write_u32(conn_info.len() as u32).await?;
        stream.write_all(&conn_info).await?;
        let session = Arc::clone(&session);
        tasks.spawn(async move {
            let peer = session.accept_any().await?;
            serve(session, peer).await
        });
    }
    while let Some(outcome) = tasks.join_next().await {
        outcome??;
    }
    driver.abort();
    println!("{ROUNDS} messages from each of {peers} peers\nPASSED");
    Ok(())
}

async fn client(host: &str, port: u16, name: &str) -> Outcome<()> {
    let mut stream = TcpStream::connect((host, port)).await?;
    let mut conn_info = vec![0; stream.read_u32().await?.min(4096) as usize];
    stream.read_exact(&mut conn_info).await?;

    let mut options = SessionOptions::default();
    options.name = name.to_owned();
    let session = AsyncSession::new(options)?;
    session.session.load_remote_conn_info("server", &conn_info)?;
    let driver = tokio::spawn(Arc::clone(&session).drive());
    session.connect("server").await?;

    let memory = session.session.allocate(MESSAGE_BYTES, MemoryType::Device)?;
    let transfer = session.session.create_transfer("server")?;
    for round in 0..ROUNDS {
        session.session.write_memory(memory, 0, &message(name, round))?;
        transfer.post_send(Post { memory, offset: 0, bytes: MESSAGE_BYTES, tag: round as i64 })?;
        session.complete(&transfer).await?;
    }
    driver.abort();
    println!("sent\nPASSED");
    Ok(())
}

/// Runs a future, within the time limit.
async fn in_time(work: impl Future<Output = Outcome<()>>) -> Outcome<()> {
    let outcome = tokio::time::timeout(TIME_LIMIT, work).await;
    outcome.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["server", peers] => in_time(server(peers.parse()?, 0)).await,
        ["server", peers, port] => in_time(server(peers.parse()?, port.parse()?)).await,
        ["client", host, port, name] => in_time(client(host, port.parse()?, name)).await,
        _ => Err("usage: async_tokio server PEERS [PORT] | client HOST PORT NAME".into()),
    }
}
