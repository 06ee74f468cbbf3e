//! Clients of a server: admission, and turns.

use std::collections::VecDeque;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
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

/// Time that a connecting client may take to greet and to send its request. The client knows these
/// before it connects.
const HEARING: Duration = Duration::from_secs(10);
/// Time that a client waits for the end of the client before, which has gone when its program has
/// ended but not always at the server.
const TURN: Duration = Duration::from_secs(3);
/// Clients that may wait for their turn. Others hear at once that the server is busy: without a
/// token, one program can be any number of clients.
const MOST_WAITING: usize = 32;
/// Time that it may take to say that the server is busy; a socket has room for this message.
const SAYING_BUSY: Duration = Duration::from_millis(500);
/// Longer than any server runs.
const FOREVER: Duration = Duration::from_secs(1 << 30);

/// Client, and its request.
pub(super) struct Client {
    pub(super) link: DoorLink,
    pub(super) request: Request,
}

/// Port of a server, and the check at its door.
pub(super) struct Port<'a> {
    listener: TcpListener,
    args: &'a EndsArgs,
    token: Option<Token>,
}

impl<'a> Port<'a> {
    /// Listens, and prints the address.
    pub(super) fn open(args: &'a EndsArgs) -> Result<Self, Failure> {
        let token = args.token()?;
        let ip = args.bind.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let listener = socket::bind(SocketAddr::new(ip, args.port))?;
        let address =
            listener.local_addr().map_err(Failure::io("asking for the listener's address"))?;
        let mut stderr = std::io::stderr();
        // Stderr may have no reader; the client may know all of it.
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

    /// Waits for a client. Other connections are turned away. `budget`: of the whole command.
    pub(super) fn client(&self, budget: Budget) -> Result<Client, Failure> {
        Ok(self.door(budget)?.admit(budget.step(), None)?)
    }

    /// Waits for `count` clients, and prints that each is here.
    pub(super) fn clients(&self, count: usize, budget: Budget) -> Result<Vec<Client>, Failure> {
        // One door for all: clients that wait at it while another one comes in are kept.
        let mut door = self.door(budget)?;
        let admit = |number| {
            let client = door.admit(budget.step(), None)?;
            // Stderr may have no reader.
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

/// Greets a connection, and reads its request. A connection that gives no valid answer receives the
/// reason.
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

/// Clients of a server that runs for ever, one after the other. Others wait a moment for their
/// turn, and hear then that it is busy. One door exists all the time, so no client is cut off while
/// it comes in. Waiting clients stand behind it, where no other connection takes their place.
pub(super) struct Queue<'a> {
    door: Door<'a, Client>,
    /// Clients that came in while the server was busy, and the end of each wait. The oldest first.
    waiting: VecDeque<(Client, Deadline)>,
}

impl<'a> Queue<'a> {
    pub(super) fn new(port: &'a Port<'a>) -> Result<Self, Failure> {
        let (token, args) = (port.token.clone(), port.args.clone());
        let check = move |stream| hear(stream, args.budget(), token.as_ref());
        Ok(Self::behind(Door::new(&port.listener, check)?))
    }

    fn behind(door: Door<'a, Client>) -> Self {
        Self { door, waiting: VecDeque::new() }
    }

    /// Waits for the next client.
    pub(super) fn next(&mut self) -> Result<Client, Failure> {
        self.forget_those_that_left();
        match self.waiting.pop_front() {
            Some((client, _)) => Ok(client),
            None => Ok(self.door.admit(Deadline::after(FOREVER), None)?),
        }
    }

    /// Does `serve`, which has a client that came from `with`. Others wait meanwhile, or hear that
    /// the server is busy.
    pub(super) fn while_busy<T>(
        &mut self,
        with: SocketAddr,
        serve: impl FnOnce() -> T,
    ) -> Result<T, Failure> {
        let (stop, running) = std::io::pipe().map_err(Failure::io("making a pipe"))?;
        std::thread::scope(|scope| {
            let others = || self.keep_waiting(with, stop.as_fd());
            let others = process::spawn_in(scope, "door", others)?;
            let served = serve();
            drop(running);
            // A panic was reported already.
            if let Ok(Err(failure)) = others.join() {
                tracing::warn!("others heard nothing while the server was busy: {failure}");
            }
            Ok(served)
        })
    }

    /// Makes incoming clients wait. Ends once `stop` is readable.
    fn keep_waiting(&mut self, with: SocketAddr, stop: BorrowedFd<'_>) -> Result<(), Failure> {
        loop {
            match self.keep_waiting_once(with, stop) {
                Ok(()) => {}
                Err(Nobody::Stopped) => return Ok(()),
                Err(Nobody::InTime(failure) | Nobody::Failed(failure)) => return Err(failure),
            }
        }
    }

    /// Tells the first client that the server is busy if its time is over. Else waits until then,
    /// or until another client comes.
    fn keep_waiting_once(&mut self, with: SocketAddr, stop: BorrowedFd<'_>) -> Result<(), Nobody> {
        let forever = || Deadline::after(FOREVER);
        let until = self.waiting.front().map_or_else(forever, |(_, until)| *until);
        if until.left().is_zero() {
            if let Some((client, _)) = self.waiting.pop_front() {
                self.say_busy(client, with);
            }
            return Ok(());
        }
        match self.door.admit(until, Some(stop)) {
            Ok(client) => self.have_wait(client, with),
            Err(Nobody::InTime(_)) => {}
            Err(nobody) => return Err(nobody),
        }
        Ok(())
    }

    fn have_wait(&mut self, client: Client, with: SocketAddr) {
        self.forget_those_that_left();
        if self.waiting.len() < MOST_WAITING {
            self.waiting.push_back((client, Deadline::after(TURN)));
        } else {
            self.say_busy(client, with);
        }
    }

    /// Clients that gave up take neither a place nor a turn: a session would be made for each.
    fn forget_those_that_left(&mut self) {
        self.waiting.retain(|(client, _)| !client.link.has_hung_up());
    }

    fn say_busy(&mut self, Client { mut link, .. }: Client, with: SocketAddr) {
        // Its time for being served may be over by now, and the others must not wait for it.
        link.limit(Some(Deadline::after(SAYING_BUSY)));
        let failure = server::say_busy(&mut link, with);
        self.door.turn_away(link.peer(), &failure);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, PipeWriter, Read};

    use super::super::link::encode;
    use super::super::message::Answer;
    use super::super::role::Role;
    use super::*;
    use crate::session::test_session;

    /// More than a door hears at once.
    const STRANGERS: usize = 260;

    /// A server that is busy, and never ready.
    struct BusyServer<'a> {
        queue: Queue<'a>,
        address: SocketAddr,
        stop: PipeReader,
        _running: PipeWriter,
    }

    impl<'a> BusyServer<'a> {
        fn new(listener: &'a TcpListener) -> Self {
            let check = |stream| hear(stream, Budget::new(None), None);
            let queue = Queue::behind(Door::new(listener, check).unwrap());
            let (stop, running) = std::io::pipe().unwrap();
            Self { queue, address: listener.local_addr().unwrap(), stop, _running: running }
        }

        /// Returns a client that has sent its request, and was heard. A client that waits does so
        /// for ever, however slow this machine is.
        fn client(&mut self) -> DoorLink {
            let address = self.address;
            let client = std::thread::scope(|scope| {
                let client = scope.spawn(move || {
                    let stream = TcpStream::connect(address).unwrap();
                    let mut link = DoorLink::new(stream, Budget::new(None)).unwrap();
                    link.greet(Role::Client, None).unwrap();
                    let (_, session) = test_session();
                    let plan = encode(&()).unwrap();
                    link.send(&Request { command: "test".into(), session, plan }).unwrap();
                    link
                });
                self.go_on();
                client.join().unwrap()
            });
            self.queue.waiting.iter_mut().for_each(|it| it.1 = Deadline::after(FOREVER));
            client
        }

        fn go_on(&mut self) {
            let went_on = self.queue.keep_waiting_once(self.address, self.stop.as_fd());
            went_on.unwrap_or_else(|nobody| panic!("{}", Failure::from(nobody)));
        }

        /// Returns whether the next client that is served is this one.
        fn is_next(&mut self, client: &DoorLink) -> bool {
            let next = self.queue.next().unwrap();
            next.link.peer().port() == client.socket().local_addr().unwrap().port()
        }
    }

    fn hears_busy(client: &mut DoorLink) -> bool {
        matches!(client.receive(), Ok(Answer::Busy { .. }))
    }

    fn listener() -> TcpListener {
        TcpListener::bind("127.0.0.1:0").unwrap()
    }

    #[test]
    fn no_stranger_takes_the_place_of_a_client_that_waits_for_its_turn() {
        let listener = listener();
        let mut server = BusyServer::new(&listener);
        let waits = server.client();
        let address = server.address;
        let strangers = server.queue.while_busy(address, || {
            let mut strangers: Vec<TcpStream> =
                (0..STRANGERS).map(|_| TcpStream::connect(address).unwrap()).collect();
            // The last ones are in when the first one is out.
            let _ = strangers[0].read_to_end(&mut Vec::new());
            strangers
        });
        assert!(!waits.has_hung_up());
        assert!(server.is_next(&waits));
        drop(strangers);
    }

    #[test]
    fn a_client_hears_that_the_server_is_busy_when_its_time_is_over() {
        let listener = listener();
        let mut server = BusyServer::new(&listener);
        let mut clients = [server.client(), server.client()];
        let (first, until) = server.queue.waiting.front_mut().unwrap();
        // Nor has the server any time left for it.
        first.link.limit(Some(Deadline::after(Duration::ZERO)));
        *until = Deadline::after(Duration::ZERO);
        server.go_on();
        assert!(hears_busy(&mut clients[0]));
        assert!(server.is_next(&clients[1]));
    }

    #[test]
    fn some_wait_in_the_order_in_which_they_came_and_more_hear_at_once_that_the_server_is_busy() {
        let listener = listener();
        let mut server = BusyServer::new(&listener);
        let mut clients: Vec<DoorLink> = (0..MOST_WAITING).map(|_| server.client()).collect();
        assert!(hears_busy(&mut server.client()));
        // A client that gives up leaves its place, and has no turn.
        drop(clients.remove(0));
        clients.push(server.client());
        assert!(clients.iter().all(|client| server.is_next(client)));
    }
}
