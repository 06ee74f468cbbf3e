//! The client of a server: the first who proves to be one. Others hear that the server is busy.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::args::EndsArgs;
use super::door::{Door, Nobody};
use super::link::Link;
use super::message::Request;
use super::server::{Greeted, Heard};
use super::socket;
use super::token::Token;
use crate::budget::Budget;
use crate::deadline::Deadline;
use crate::failure::Failure;

/// How long one who connects may take to greet and to say what it wants. The client knows that
/// before it connects.
const HEARING: Duration = Duration::from_secs(10);
/// Longer than any server runs.
const FOREVER: Duration = Duration::from_secs(1 << 30);

/// A client, and what it wants.
pub(super) struct Client {
    pub(super) link: Link,
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
    let mut link = Link::new(stream, budget)?;
    let step = budget.step();
    let hearing = Deadline::after(HEARING);
    link.limit(if step.left() < hearing.left() { step } else { hearing });
    match Greeted::new(&mut link, token).and_then(Greeted::hear_request) {
        Ok(request) => {
            link.limit(budget.step());
            Ok(Client { link, request })
        }
        Err(failure) => Err(link.explain(failure)),
    }
}

/// The clients of a server that is there for ever, one after the other. Others hear meanwhile that
/// it is busy. One door is there all the time, so nobody is cut off at its threshold.
pub(super) struct Queue<'a> {
    door: Door<'a, Client>,
    /// Whom the server is busy with.
    busy_with: Arc<Mutex<Option<SocketAddr>>>,
    /// Who came in just when the last client had gone.
    next: Option<Client>,
}

impl<'a> Queue<'a> {
    pub(super) fn new(port: &'a Port<'a>) -> Result<Self, Failure> {
        let busy_with = Arc::new(Mutex::new(None));
        let (token, args, busy) = (port.token.clone(), port.args.clone(), Arc::clone(&busy_with));
        let door = Door::new(&port.listener, move |stream| {
            let Client { mut link, request } = hear(stream, args.budget(), token.as_ref())?;
            let with = *lock(&busy);
            match with {
                None => Ok(Client { link, request }),
                Some(with) => Err(Heard::of(&mut link, request).say_busy(with)),
            }
        })?;
        Ok(Self { door, busy_with, next: None })
    }

    /// Waits for the next client.
    pub(super) fn next(&mut self) -> Result<Client, Failure> {
        match self.next.take() {
            Some(client) => Ok(client),
            None => Ok(self.door.admit(Deadline::after(FOREVER), None)?),
        }
    }

    /// Does `serve`, which has `client`. Others hear meanwhile that the server is busy.
    pub(super) fn while_busy<T>(
        &mut self,
        client: SocketAddr,
        serve: impl FnOnce() -> T,
    ) -> Result<T, Failure> {
        let Self { door, busy_with, next } = self;
        let (stop, running) = std::io::pipe().map_err(Failure::io("making a pipe"))?;
        *lock(busy_with) = Some(client);
        let served = std::thread::scope(|scope| {
            let others = scope.spawn(|| door.admit(Deadline::after(FOREVER), Some(stop.as_fd())));
            let served = serve();
            *lock(busy_with) = None;
            drop(running);
            match others.join() {
                Ok(Ok(client)) => *next = Some(client),
                Ok(Err(Nobody::Failed(failure) | Nobody::InTime(failure))) => {
                    tracing::warn!("others heard nothing while the server was busy: {failure}");
                }
                // A panic was told.
                Ok(Err(Nobody::Stopped)) | Err(_) => {}
            }
            served
        });
        Ok(served)
    }
}

fn lock(busy_with: &Mutex<Option<SocketAddr>>) -> MutexGuard<'_, Option<SocketAddr>> {
    busy_with.lock().unwrap_or_else(PoisonError::into_inner)
}
