//! The clients of a server: who proves to be one, and whose turn it is.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::args::EndsArgs;
use super::door::{Door, Nobody};
use super::link::DoorLink;
use super::message::Request;
use super::server;
use super::socket;
use super::token::Token;
use crate::budget::Budget;
use crate::deadline::Deadline;
use crate::failure::Failure;
use crate::process;

/// How long one who connects may take to greet and to say what it wants. The client knows that
/// before it connects.
const HEARING: Duration = Duration::from_secs(10);
/// How long a client waits for the end of the one before, which has gone when its program has ended
/// but not always at the server.
const TURN: Duration = Duration::from_secs(3);
/// Longer than any server runs.
const FOREVER: Duration = Duration::from_secs(1 << 30);

/// A client, and what it wants.
pub(super) struct Client {
    pub(super) link: DoorLink,
    pub(super) request: Request,
}

/// The port of a server, and who may come in.
pub(super) struct Port<'a> {
    listener: TcpListener,
    args: &'a EndsArgs,
    token: Option<Token>,
}

impl<'a> Port<'a> {
    /// Listens, and says where.
    pub(super) fn open(args: &'a EndsArgs) -> Result<Self, Failure> {
        let token = args.token()?;
        let ip = args.bind.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let listener = socket::bind(SocketAddr::new(ip, args.port))?;
        let address =
            listener.local_addr().map_err(Failure::io("asking for the listener's address"))?;
        let mut stderr = std::io::stderr();
        // Nobody may be reading; the client may know all of it.
        let _ = match &token {
            Some(token) => writeln!(stderr, "token: {}", token.shown()),
            None if ip.is_loopback() => Ok(()),
            None => writeln!(
                stderr,
                "no --token: for trusted networks only, whoever reaches this port takes part"
            ),
        };
        let _ = writeln!(stderr, "listening on {address}");
        Ok(Self { listener, args, token })
    }

    /// Waits for a client. Strangers are turned away. `budget`: of the whole command.
    pub(super) fn client(&self, budget: Budget) -> Result<Client, Failure> {
        Ok(self.door(budget)?.admit(budget.step(), None)?)
    }

    /// Waits for so many, and says of each that it is here.
    pub(super) fn clients(&self, count: usize, budget: Budget) -> Result<Vec<Client>, Failure> {
        // One door for all: those that wait at it while another one comes in are kept.
        let mut door = self.door(budget)?;
        let admit = |number| {
            let client = door.admit(budget.step(), None)?;
            // Nobody may be reading.
            let address = client.link.peer();
            let _ = writeln!(std::io::stderr(), "client {number} of {count}: {address}");
            Ok(client)
        };
        (1..=count).map(admit).collect()
    }

    fn door(&self, budget: Budget) -> Result<Door<'_, Client>, Failure> {
        let token = self.token.clone();
        Door::new(&self.listener, move |stream| hear(stream, budget, token.as_ref()))
    }
}

/// Greets whoever connected, and hears what it wants. Who gives no answer that fits is told why.
fn hear(stream: TcpStream, budget: Budget, token: Option<&Token>) -> Result<Client, Failure> {
    let mut link = DoorLink::new(stream, budget)?;
    let step = budget.step();
    let hearing = Deadline::after(HEARING);
    link.limit(Some(if step.left() < hearing.left() { step } else { hearing }));
    match server::hear(&mut link, token) {
        Ok(request) => {
            link.limit(Some(budget.step()));
            Ok(Client { link, request })
        }
        Err(failure) => Err(link.explain(failure)),
    }
}

/// The clients of a server that is there for ever, one after the other. Others wait a moment for
/// their turn, and hear then that it is busy. One door is there all the time, so no client is cut
/// off at its threshold.
pub(super) struct Queue<'a> {
    door: Door<'a, Client>,
    turn: Arc<Turn>,
    /// Who came in before the last client had gone.
    next: Option<Client>,
}

/// Whose turn it is at a server that serves one client at a time.
#[derive(Default)]
struct Turn {
    /// Whom the server is busy with.
    busy_with: Mutex<Option<SocketAddr>>,
    /// It is busy no more.
    over: Condvar,
}

impl Turn {
    fn lock(&self) -> MutexGuard<'_, Option<SocketAddr>> {
        self.busy_with.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the server is free, for at most this time, and is the next client then.
    ///
    /// # Errors
    /// Whom it is busy with.
    fn take(&self, client: SocketAddr, time: Duration) -> Result<(), SocketAddr> {
        let waited = self.over.wait_timeout_while(self.lock(), time, |busy| busy.is_some());
        let (mut busy_with, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match *busy_with {
            Some(with) => Err(with),
            None => {
                *busy_with = Some(client);
                Ok(())
            }
        }
    }

    fn end(&self) {
        *self.lock() = None;
        self.over.notify_one();
    }
}

impl<'a> Queue<'a> {
    pub(super) fn new(port: &'a Port<'a>) -> Result<Self, Failure> {
        let turn = Arc::<Turn>::default();
        let (token, args, turns) = (port.token.clone(), port.args.clone(), Arc::clone(&turn));
        let door = Door::new(&port.listener, move |stream| {
            let Client { mut link, request } = hear(stream, args.budget(), token.as_ref())?;
            match turns.take(link.peer(), TURN) {
                Ok(()) => Ok(Client { link, request }),
                Err(with) => Err(server::say_busy(&mut link, with)),
            }
        })?;
        Ok(Self { door, turn, next: None })
    }

    /// Waits for the next client.
    pub(super) fn next(&mut self) -> Result<Client, Failure> {
        match self.next.take() {
            Some(client) => Ok(client),
            None => Ok(self.door.admit(Deadline::after(FOREVER), None)?),
        }
    }

    /// Does `serve`, which has the client whose turn it is. Others wait meanwhile, or hear that the
    /// server is busy.
    pub(super) fn while_busy<T>(&mut self, serve: impl FnOnce() -> T) -> Result<T, Failure> {
        let Self { door, turn, next } = self;
        let (stop, running) = std::io::pipe().map_err(Failure::io("making a pipe"))?;
        std::thread::scope(|scope| {
            let admit = || door.admit(Deadline::after(FOREVER), Some(stop.as_fd()));
            let others = process::spawn_in(scope, "door", admit)?;
            let served = serve();
            turn.end();
            drop(running);
            match others.join() {
                Ok(Ok(client)) => *next = Some(client),
                Ok(Err(Nobody::Failed(failure) | Nobody::InTime(failure))) => {
                    tracing::warn!("others heard nothing while the server was busy: {failure}");
                }
                // A panic was told.
                Ok(Err(Nobody::Stopped)) | Err(_) => {}
            }
            Ok(served)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(port: u16) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, port).into()
    }

    #[test]
    fn one_at_a_time_has_its_turn() {
        let turn = Turn::default();
        turn.take(client(1), Duration::ZERO).expect("it is free");
        assert_eq!(turn.take(client(2), Duration::ZERO), Err(client(1)));
        std::thread::scope(|scope| {
            let waits = |port| {
                scope.spawn({
                    let turn = &turn;
                    move || turn.take(client(port), FOREVER)
                })
            };
            let others = [waits(2), waits(3), waits(4)];
            let has_turn = || *turn.lock();
            let mut served = vec![client(1)];
            while served.len() < 4 {
                turn.end();
                while has_turn().is_none() {
                    std::thread::yield_now();
                }
                served.extend(has_turn());
            }
            others.into_iter().for_each(|it| it.join().expect("no panic").expect("its turn"));
            served.sort_unstable();
            assert_eq!(served, [1, 2, 3, 4].map(client), "each once");
        });
    }
}
