//! Clients of a server: admission, and turns.

use std::collections::VecDeque;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::acceptor::{AcceptError, Acceptor};
use super::args::EndsArgs;
use super::link::RendezvousLink;
use super::message::Request;
use super::server;
use super::socket;
use super::token::Token;
use crate::budget::Budget;
use crate::deadline::Deadline;
use crate::failure::Failure;
use crate::process;

/// Time in which a connecting client must greet and send its request. The client has both before it
/// connects.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// Time that a client waits for the end of the client before it: the server may learn of that end
/// after the client's program has ended.
const TURN_LIMIT: Duration = Duration::from_secs(3);
/// Most clients that wait for their turn. Further ones are refused as busy at once: without a
/// token, one program can be any number of clients.
const MAX_WAITING: usize = 32;
/// Time for the message that the server is busy; a socket has room for this message.
const BUSY_REPLY_LIMIT: Duration = Duration::from_millis(500);
/// Longer than any server runs.
const FOREVER: Duration = Duration::from_secs(1 << 30);

/// Client, and its request.
pub(super) struct Client {
    pub(super) link: RendezvousLink,
    pub(super) request: Request,
}

/// Port of a server, and the check of its connections.
pub(crate) struct ServerPort<'a> {
    listener: TcpListener,
    args: &'a EndsArgs,
    token: Option<Token>,
    /// Whether the user waits for its clients.
    is_shown: bool,
}

impl<'a> ServerPort<'a> {
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
                "no --token: for trusted networks only, any host that reaches this port can connect"
            ),
        };
        let _ = writeln!(stderr, "listening on {address}");
        Ok(Self { listener, args, token, is_shown: true })
    }

    /// Listens on a free port of `ip`, which other ends learn from a server that both know.
    pub(crate) fn for_other_ends(args: &'a EndsArgs, ip: IpAddr) -> Result<Self, Failure> {
        let listener = socket::bind(SocketAddr::new(ip, 0))?;
        Ok(Self { listener, args, token: args.token()?, is_shown: false })
    }

    /// Returns its number.
    pub(crate) fn number(&self) -> Result<u16, Failure> {
        let address = self.listener.local_addr();
        Ok(address.map_err(Failure::io("asking for the listener's address"))?.port())
    }

    /// Waits for a client, and rejects other connections. `budget`: of the whole command.
    pub(super) fn client(&self, budget: Budget) -> Result<Client, Failure> {
        Ok(self.acceptor(budget)?.admit(budget.step(), None)?)
    }

    /// Waits for `count` clients, and shows the address of each.
    pub(super) fn clients(&self, count: usize, budget: Budget) -> Result<Vec<Client>, Failure> {
        // One acceptor for all: it holds clients that connect while another one is admitted.
        let mut acceptor = self.acceptor(budget)?;
        let admit = |number| {
            let client = acceptor.admit(budget.step(), None)?;
            if self.is_shown {
                // Stderr may have no reader.
                let address = client.link.peer();
                let _ = writeln!(std::io::stderr(), "client {number} of {count}: {address}");
            }
            Ok(client)
        };
        (1..=count).map(admit).collect()
    }

    fn acceptor(&self, budget: Budget) -> Result<Acceptor<'_, Client>, Failure> {
        let token = self.token.clone();
        Acceptor::new(&self.listener, move |stream| receive_request(stream, budget, token.as_ref()))
    }
}

/// Greets a connection, and reads its request. Sends the reason of a rejection.
fn receive_request(
    stream: TcpStream,
    budget: Budget,
    token: Option<&Token>,
) -> Result<Client, Failure> {
    let mut link = RendezvousLink::new(stream, budget)?;
    let step = budget.step();
    let hearing = Deadline::after(REQUEST_LIMIT);
    link.limit(Some(if step.left() < hearing.left() { step } else { hearing }));
    match server::receive_request(&mut link, token) {
        Ok(request) => {
            link.limit(Some(budget.step()));
            Ok(Client { link, request })
        }
        Err(failure) => Err(link.exchange_failures(failure)),
    }
}

/// Clients of a server that runs for ever, one after the other. Others wait a moment for their
/// turn, and are then refused as busy. One acceptor exists all the time, so no client is cut off
/// while it is checked. Waiting clients are in a queue of their own, where no unauthenticated
/// connection takes their place.
pub(super) struct ClientQueue<'a> {
    acceptor: Acceptor<'a, Client>,
    /// Clients that came in while the server was busy, and the end of each wait. The oldest first.
    waiting: VecDeque<(Client, Deadline)>,
}

impl<'a> ClientQueue<'a> {
    pub(super) fn new(port: &'a ServerPort<'a>) -> Result<Self, Failure> {
        let (token, args) = (port.token.clone(), port.args.clone());
        let check = move |stream| receive_request(stream, args.budget(), token.as_ref());
        Ok(Self::over(Acceptor::new(&port.listener, check)?))
    }

    fn over(acceptor: Acceptor<'a, Client>) -> Self {
        Self { acceptor, waiting: VecDeque::new() }
    }

    /// Waits for the next client.
    pub(super) fn next(&mut self) -> Result<Client, Failure> {
        self.drop_closed();
        match self.waiting.pop_front() {
            Some((client, _)) => Ok(client),
            None => Ok(self.acceptor.admit(Deadline::after(FOREVER), None)?),
        }
    }

    /// Calls `serve`, which has a client at the address `with`. Others wait meanwhile, or are
    /// refused as busy.
    pub(super) fn while_busy<T>(
        &mut self,
        with: SocketAddr,
        serve: impl FnOnce() -> T,
    ) -> Result<T, Failure> {
        let (stop, running) = std::io::pipe().map_err(Failure::io("making a pipe"))?;
        std::thread::scope(|scope| {
            let others = || self.queue_clients(with, stop.as_fd());
            let others = process::spawn_in(scope, "acceptor", others)?;
            let served = serve();
            drop(running);
            // A panic was reported already.
            if let Ok(Err(failure)) = others.join() {
                tracing::warn!("other clients had no answer while the server was busy: {failure}");
            }
            Ok(served)
        })
    }

    /// Queues incoming clients until `stop` is readable.
    fn queue_clients(&mut self, with: SocketAddr, stop: BorrowedFd<'_>) -> Result<(), Failure> {
        loop {
            match self.queue_one(with, stop) {
                Ok(()) => {}
                Err(AcceptError::Stopped) => return Ok(()),
                Err(AcceptError::TimedOut(failure) | AcceptError::Failed(failure)) => {
                    return Err(failure);
                }
            }
        }
    }

    /// Refuses the first client as busy if its time is over. Otherwise waits until then, or until
    /// another client connects.
    fn queue_one(&mut self, with: SocketAddr, stop: BorrowedFd<'_>) -> Result<(), AcceptError> {
        let forever = || Deadline::after(FOREVER);
        let until = self.waiting.front().map_or_else(forever, |(_, until)| *until);
        if until.left().is_zero() {
            if let Some((client, _)) = self.waiting.pop_front() {
                self.refuse_as_busy(client, with);
            }
            return Ok(());
        }
        match self.acceptor.admit(until, Some(stop)) {
            Ok(client) => self.enqueue(client, with),
            Err(AcceptError::TimedOut(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn enqueue(&mut self, client: Client, with: SocketAddr) {
        self.drop_closed();
        if self.waiting.len() < MAX_WAITING {
            self.waiting.push_back((client, Deadline::after(TURN_LIMIT)));
        } else {
            self.refuse_as_busy(client, with);
        }
    }

    /// Drops clients that closed their connection: they take neither a place nor a turn.
    fn drop_closed(&mut self) {
        self.waiting.retain(|(client, _)| !client.link.is_closed());
    }

    fn refuse_as_busy(&mut self, Client { mut link, .. }: Client, with: SocketAddr) {
        // The client's own deadline may have passed, and the others must not wait for this message.
        link.limit(Some(Deadline::after(BUSY_REPLY_LIMIT)));
        let failure = server::refuse_as_busy(&mut link, with);
        self.acceptor.reject(link.peer(), &failure);
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

    /// More than an acceptor checks at once.
    const UNAUTHENTICATED: usize = 260;

    /// A server that stays busy.
    struct BusyServer<'a> {
        queue: ClientQueue<'a>,
        address: SocketAddr,
        stop: PipeReader,
        _running: PipeWriter,
    }

    impl<'a> BusyServer<'a> {
        fn new(listener: &'a TcpListener) -> Self {
            let check = |stream| receive_request(stream, Budget::new(None), None);
            let queue = ClientQueue::over(Acceptor::new(listener, check).unwrap());
            let (stop, running) = std::io::pipe().unwrap();
            Self { queue, address: listener.local_addr().unwrap(), stop, _running: running }
        }

        /// Returns a client whose request the server has read. Its wait does not end, however slow
        /// this machine is.
        fn client(&mut self) -> RendezvousLink {
            let address = self.address;
            let client = std::thread::scope(|scope| {
                let client = scope.spawn(move || {
                    let stream = TcpStream::connect(address).unwrap();
                    let mut link = RendezvousLink::new(stream, Budget::new(None)).unwrap();
                    link.greet(Role::Client, None).unwrap();
                    let (_, session) = test_session();
                    let plan = encode(&()).unwrap();
                    link.send(&Request { command: "test".into(), session, plan }).unwrap();
                    link
                });
                self.queue_one();
                client.join().unwrap()
            });
            self.queue.waiting.iter_mut().for_each(|it| it.1 = Deadline::after(FOREVER));
            client
        }

        fn queue_one(&mut self) {
            let queued = self.queue.queue_one(self.address, self.stop.as_fd());
            queued.unwrap_or_else(|error| panic!("{}", Failure::from(error)));
        }

        /// Returns whether the next client that is served is this one.
        fn is_next(&mut self, client: &RendezvousLink) -> bool {
            let next = self.queue.next().unwrap();
            next.link.peer().port() == client.socket().local_addr().unwrap().port()
        }
    }

    fn is_refused_as_busy(client: &mut RendezvousLink) -> bool {
        matches!(client.receive(), Ok(Answer::Busy { .. }))
    }

    fn listener() -> TcpListener {
        TcpListener::bind("127.0.0.1:0").unwrap()
    }

    #[test]
    fn unauthenticated_connections_take_no_waiting_clients_place() {
        let listener = listener();
        let mut server = BusyServer::new(&listener);
        let waiting = server.client();
        let address = server.address;
        let others = server.queue.while_busy(address, || {
            let mut others: Vec<TcpStream> =
                (0..UNAUTHENTICATED).map(|_| TcpStream::connect(address).unwrap()).collect();
            // The last ones are under check when the first one is closed.
            let _ = others[0].read_to_end(&mut Vec::new());
            others
        });
        assert!(!waiting.is_closed());
        assert!(server.is_next(&waiting));
        drop(others);
    }

    #[test]
    fn a_client_is_refused_as_busy_when_its_time_is_over() {
        let listener = listener();
        let mut server = BusyServer::new(&listener);
        let mut clients = [server.client(), server.client()];
        let (first, until) = server.queue.waiting.front_mut().unwrap();
        // Nor has the server any time left for it.
        first.link.limit(Some(Deadline::after(Duration::ZERO)));
        *until = Deadline::after(Duration::ZERO);
        server.queue_one();
        assert!(is_refused_as_busy(&mut clients[0]));
        assert!(server.is_next(&clients[1]));
    }

    #[test]
    fn clients_wait_in_order_and_further_ones_are_refused_as_busy_at_once() {
        let listener = listener();
        let mut server = BusyServer::new(&listener);
        let mut clients: Vec<RendezvousLink> = (0..MAX_WAITING).map(|_| server.client()).collect();
        assert!(is_refused_as_busy(&mut server.client()));
        // A client that gives up leaves its place, and has no turn.
        drop(clients.remove(0));
        clients.push(server.client());
        assert!(clients.iter().all(|client| server.is_next(client)));
    }
}
