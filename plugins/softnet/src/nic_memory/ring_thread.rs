//! Thread that reads the ring of a region. The kernel lets only the thread that has made the ring
//! use it. Lanes send it commands, and it puts what comes into their inboxes.

use std::collections::HashMap;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tcpx_comm::poll::Waker;
use tcpx_devmem::{DevmemError, HostMemory, Nic, ReceiveEnd, Refill, RingEvent, RingQueue};

use super::inbox::{Inbox, RingPiece};
use super::kernel_deadline::KERNEL_DEADLINE;
use crate::log;
use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard};

/// Longest sleep of the thread: pages that found no room in the ring go back then.
const SLEEP: Duration = Duration::from_millis(500);
/// Time that a NIC may take to restart a queue.
const START: Duration = Duration::from_secs(30);

/// Request of a lane.
#[derive(Debug)]
enum Command {
    /// Adds a data socket.
    Attach { id: u64, socket: TcpStream, inbox: Arc<Inbox> },
    /// Asks for the next bytes of a data socket.
    Ask { id: u64, bytes: u32 },
    /// Gives up a data socket: no more of its bytes are wanted.
    Detach { id: u64 },
}

#[derive(Debug)]
struct Shared {
    commands: Mutex<Vec<Command>>,
    waker: Waker,
    stop: AtomicBool,
    /// Reason why the thread has ended, if it did not end on request.
    failure: Mutex<Option<io::Error>>,
    next: AtomicU64,
}

impl Shared {
    fn commands(&self) -> MutexGuard<'_, Vec<Command>> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Thread with a ring.
#[derive(Debug)]
pub(super) struct RingThread {
    shared: Arc<Shared>,
    refill: Arc<Refill>,
    queue: u32,
}

/// Objects that the thread has made before it begins.
type RingSetup = Result<(HostMemory, u32, Arc<Refill>), DevmemError>;

impl RingThread {
    /// Takes a free queue of the NIC, and gives it the first `bytes` of `memory`, which is
    /// returned.
    ///
    /// # Errors
    /// Each with its diagnosis.
    pub(super) fn start(
        nic: &Nic,
        memory: HostMemory,
        bytes: usize,
    ) -> Result<(Self, HostMemory), DevmemError> {
        let failed = |source| DevmemError::System { what: "a ring's thread cannot start", source };
        let shared = Arc::new(Shared {
            commands: Mutex::default(),
            waker: Waker::new().map_err(failed)?,
            stop: AtomicBool::new(false),
            failure: Mutex::default(),
            next: AtomicU64::new(0),
        });
        let (setup_sender, setup) = sync_channel(1);
        let (theirs, nic) = (Arc::clone(&shared), nic.clone());
        let run = move || begin(&nic, memory, bytes, &theirs, &setup_sender);
        std::thread::Builder::new().name("tcpx-soft-ring".to_owned()).spawn(run).map_err(failed)?;
        let (memory, queue, refill) = match setup.recv_timeout(START) {
            Ok(made) => made?,
            Err(RecvTimeoutError::Timeout) => return Err(failed(io::ErrorKind::TimedOut.into())),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(failed(io::Error::other("it has panicked")));
            }
        };
        Ok((Self { shared, refill, queue }, memory))
    }

    pub(super) fn queue(&self) -> u32 {
        self.queue
    }

    pub(super) fn refill(&self) -> &Refill {
        &self.refill
    }

    /// Returns an error if the thread has failed.
    pub(super) fn check(&self) -> Result<(), DevmemError> {
        let mut failure = self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match failure.take() {
            None => Ok(()),
            Some(source) => Err(DevmemError::RingFailed { source }),
        }
    }

    /// Makes the thread end soon, and with it the ring. Lanes that wait for bytes are notified.
    pub(super) fn stop(&self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.waker.notify();
    }

    /// Adds a socket whose bytes may be asked for from now on.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub(super) fn attach(&self, socket: &TcpStream, inbox: &Arc<Inbox>) -> io::Result<u64> {
        let socket = socket.try_clone()?;
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        self.command(Command::Attach { id, socket, inbox: Arc::clone(inbox) });
        Ok(id)
    }

    /// Asks for the next bytes of a socket that has no request outstanding.
    pub(super) fn ask(&self, id: u64, bytes: u32) {
        self.command(Command::Ask { id, bytes });
    }

    /// Removes a socket whose bytes are not wanted any more. Those that are on their way are given
    /// back.
    pub(super) fn detach(&self, id: u64) {
        self.command(Command::Detach { id });
    }

    fn command(&self, command: Command) {
        self.shared.commands().push(command);
        self.shared.waker.notify();
    }
}

impl Drop for RingThread {
    fn drop(&mut self) {
        self.stop();
    }
}

/// One data socket of the ring.
struct RingSocket {
    socket: TcpStream,
    inbox: Arc<Inbox>,
    is_requested: bool,
    /// Whether the bytes that come are not wanted.
    is_detaching: bool,
}

/// State of the thread.
struct RingReader<'a> {
    ring: RingQueue,
    refill: Arc<Refill>,
    shared: &'a Shared,
    sockets: HashMap<u64, RingSocket>,
}

fn begin(
    nic: &Nic,
    memory: HostMemory,
    bytes: usize,
    shared: &Shared,
    setup: &SyncSender<RingSetup>,
) {
    let ring = match RingQueue::on_free_queue(nic, &memory, bytes, KERNEL_DEADLINE) {
        Ok(ring) => ring,
        Err(error) => {
            // The thread that has asked may have given up.
            let _ = setup.send(Err(error));
            return;
        }
    };
    let (queue, refill) = (ring.queue(), ring.refill());
    if setup.send(Ok((memory, queue, Arc::clone(&refill)))).is_err() {
        return;
    }
    let mut reader = RingReader { ring, refill, shared, sockets: HashMap::new() };
    if let Err(error) = reader.run() {
        log::warn!("{}: the ring of queue {queue} has failed: {error}", nic.name());
        *shared.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }
    reader.end();
}

impl RingReader<'_> {
    fn run(&mut self) -> io::Result<()> {
        self.ring.wake_by(&self.shared.waker)?;
        let mut events = Vec::new();
        while !self.shared.stop.load(Ordering::SeqCst) {
            self.run_commands()?;
            self.ring.wait(SLEEP, |event| events.push(event))?;
            let mut rung: Vec<Arc<Inbox>> = Vec::new();
            for event in events.drain(..) {
                if let Some(inbox) = self.handle_event(event)?
                    && !rung.iter().any(|other| Arc::ptr_eq(other, &inbox))
                {
                    rung.push(inbox);
                }
            }
            rung.iter().for_each(|inbox| inbox.ring());
        }
        Ok(())
    }

    fn run_commands(&mut self) -> io::Result<()> {
        let commands = std::mem::take(&mut *self.shared.commands());
        for command in commands {
            match command {
                Command::Attach { id, socket, inbox } => {
                    let socket =
                        RingSocket { socket, inbox, is_requested: false, is_detaching: false };
                    self.sockets.insert(id, socket);
                }
                Command::Ask { id, bytes } => self.ask(id, bytes)?,
                Command::Detach { id } => self.detach(id)?,
            }
        }
        Ok(())
    }

    fn ask(&mut self, id: u64, bytes: u32) -> io::Result<()> {
        let Some(socket) = self.sockets.get_mut(&id) else { return Ok(()) };
        socket.is_requested = true;
        self.ring.receive(id, socket.socket.as_fd(), bytes)
    }

    fn detach(&mut self, id: u64) -> io::Result<()> {
        match self.sockets.get_mut(&id) {
            // Its receive must end first: the kernel has the socket until then.
            Some(socket) if socket.is_requested => {
                socket.is_detaching = true;
                self.ring.cancel(id)
            }
            _ => {
                self.remove(id);
                Ok(())
            }
        }
    }

    /// Removes a socket that has no user any more.
    fn remove(&mut self, id: u64) {
        if let Some(socket) = self.sockets.remove(&id) {
            self.refill.return_pages(socket.inbox.empty());
        }
    }

    /// Does what an event asks for. Returns the inbox whose bell must be rung.
    fn handle_event(&mut self, event: RingEvent) -> io::Result<Option<Arc<Inbox>>> {
        match event {
            RingEvent::Woken => {
                self.shared.waker.clear();
                self.ring.wake_by(&self.shared.waker)?;
                Ok(None)
            }
            RingEvent::Bytes { id, offset, bytes } => {
                let piece = RingPiece { offset, bytes };
                match self.sockets.get(&id).filter(|socket| !socket.is_detaching) {
                    Some(socket) => {
                        socket.inbox.put(piece);
                        Ok(Some(Arc::clone(&socket.inbox)))
                    }
                    None => {
                        self.refill.return_pages([piece.page()]);
                        Ok(None)
                    }
                }
            }
            RingEvent::Over { id, left, end } => self.handle_end(id, left, end),
            _ => Ok(None),
        }
    }

    fn handle_end(
        &mut self,
        id: u64,
        left: u64,
        end: ReceiveEnd,
    ) -> io::Result<Option<Arc<Inbox>>> {
        let Some(socket) = self.sockets.get_mut(&id) else { return Ok(None) };
        socket.is_requested = false;
        if socket.is_detaching {
            self.remove(id);
            return Ok(None);
        }
        let inbox = Arc::clone(&socket.inbox);
        match (end, u32::try_from(left)) {
            (ReceiveEnd::Again, Ok(left @ 1..)) => {
                self.ask(id, left)?;
                Ok(None)
            }
            (end, _) => {
                inbox.end(end);
                Ok(Some(inbox))
            }
        }
    }

    /// Reports to every inbox that nothing comes any more.
    fn end(&mut self) {
        let _ = self.run_commands();
        for (_, socket) in self.sockets.drain() {
            socket.inbox.end(ReceiveEnd::Failed(io::ErrorKind::NotConnected.into()));
            socket.inbox.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nic_without_queues_is_an_error_of_start() {
        let nic = Nic::named("lo").expect("every namespace has one");
        let memory = HostMemory::new(1 << 20).expect("memory");
        let error = RingThread::start(&nic, memory, 1 << 20).map(drop).expect_err("it has none");
        let id = error.diagnosis().map(|diagnosis| diagnosis.code.number());
        assert!(matches!(id, Some(407 | 420 | 442 | 444)), "{error}");
    }
}
