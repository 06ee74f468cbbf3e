//! The client of a server: the first who proves to be one. Others hear that the server is busy.

use std::io::{PipeReader, PipeWriter, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread::{Builder, JoinHandle};
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

    /// Waits for a client. Strangers are turned away. `budget`: of the whole command, unless each
    /// client has a time of its own.
    pub(super) fn client(&self, budget: Budget) -> Result<Client, Failure> {
        let waited = if self.args.forever { Deadline::after(FOREVER) } else { budget.step() };
        Ok(self.door(budget)?.admit(waited, None)?)
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
        let (token, args) = (self.token.clone(), self.args.clone());
        Door::new(&self.listener, move |stream| {
            let budget = if args.forever { args.budget() } else { budget };
            hear(stream, budget, token.as_ref())
        })
    }

    /// Until the result is dropped, tells everybody that the server is busy with `client`.
    pub(super) fn turn_others_away(&self, client: SocketAddr) -> Result<Busy, Failure> {
        let listener = self.listener.try_clone().map_err(Failure::io("keeping the port"))?;
        let (stop, running) = std::io::pipe().map_err(Failure::io("making a pipe"))?;
        let token = self.token.clone();
        let answer = move || answer_busy(&listener, token, client, &stop);
        let thread = Builder::new().name("busy".into()).spawn(answer);
        let thread = thread.map_err(Failure::io("starting a thread"))?;
        Ok(Busy { running: Some(running), thread: Some(thread) })
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

/// A server that has a client already.
pub(super) struct Busy {
    running: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Busy {
    fn drop(&mut self) {
        drop(self.running.take());
        // It ends at once; a panic in it was told.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn answer_busy(
    listener: &TcpListener,
    token: Option<Token>,
    client: SocketAddr,
    stop: &PipeReader,
) {
    let refuse = move |stream| -> Result<(), Failure> {
        let Client { mut link, request } =
            hear(stream, Budget::new(Some(HEARING)), token.as_ref())?;
        let busy = format!("the server is busy with {client}; try again later");
        Err(Heard::of(&mut link, request).refuse(&Failure::Refusing(busy)))
    };
    let door = Door::new(listener, refuse);
    let outcome = door.map(|mut door| door.admit(Deadline::after(FOREVER), Some(stop.as_fd())));
    if let Err(failure) | Ok(Err(Nobody::Failed(failure) | Nobody::InTime(failure))) = outcome {
        tracing::warn!("others hear nothing while the server is busy: {failure}");
    }
}
