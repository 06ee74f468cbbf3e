//! Command with two ends, from its flags to its goodbye.

use std::io::Write;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tcpx_core::{Session, SessionOptions};

use super::agreed::Agreed;
use super::args::EndsArgs;
use super::link::{DoorLink, Link};
use super::message::Request;
use super::role::Role;
use super::server_address::ServerAddress;
use super::serving::{Client, Port, Queue};
use super::started_server::StartedServer;
use super::way::Way;
use super::{client, server, socket};
use crate::backstop::Backstop;
use crate::budget::Budget;
use crate::failure::{Failure, error_line};
use crate::process;
use crate::session::Setup;

/// Command with two ends, whose plan is a `P` and whose result a `T`.
pub(crate) struct Program<'a, P, T> {
    /// The subcommand of `tcpx`.
    pub(crate) command: &'static str,
    pub(crate) ends: &'a EndsArgs,
    /// Every byte goes over the plugin, however few there are.
    pub(crate) is_over_plugin: bool,
    /// Client: the plan of both ends.
    pub(crate) make_plan: &'a (dyn Fn() -> Result<P, Failure> + Sync),
    /// Server: returns whether it accepts the plan.
    pub(crate) check_plan: &'a (dyn Fn(&P) -> Result<(), Failure> + Sync),
    /// Both: runs the plan, once their sessions are connected.
    pub(crate) body: &'a (dyn Fn(&mut Agreed<'_>, &P) -> Result<T, Failure> + Sync),
    /// Server: the clients, if it serves several at once.
    pub(crate) several: Option<Several<'a, T>>,
}

/// Several clients of one server, each with an end and a session of its own.
pub(crate) struct Several<'a, T> {
    /// Number of clients.
    pub(crate) clients: usize,
    /// The end of one client has failed, and the others need not wait for it.
    pub(crate) give_up: Box<dyn Fn() + Sync + 'a>,
    /// Returns the result of all.
    pub(crate) join: &'a (dyn Fn(Vec<T>) -> Result<T, Failure> + Sync),
}

impl<P: Serialize + DeserializeOwned, T: Send> Program<'_, P, T> {
    /// Makes a session, meets the other end, connects, does the work and says goodbye. A server
    /// that runs for ever does so with one client after the other. On failure each end knows the
    /// reason.
    ///
    /// `tell` has the results, unless this end worked for the process that started it.
    pub(crate) fn run(&self, tell: impl Fn(T) -> Result<(), Failure>) -> Result<(), Failure> {
        let (budget, server) = self.ends.begin(self.command)?;
        if self.ends.forever {
            return self.serve_forever(tell);
        }
        let backstop = Backstop::start(budget)?;
        let result = match self.ends.role() {
            Role::Client => self.as_client(server.as_ref(), budget, &backstop)?,
            Role::Server => self.as_server(budget, &backstop)?,
        };
        // Telling has no deadline.
        drop(backstop);
        if self.ends.is_started_end() { Ok(()) } else { tell(result) }
    }

    /// `address`: of the server; `None`: it is started here.
    fn as_client(
        &self,
        address: Option<&ServerAddress>,
        budget: Budget,
        backstop: &Backstop,
    ) -> Result<T, Failure> {
        let plan = (self.make_plan)()?;
        let args = &self.ends.session;
        let Setup { options, memory } = args.setup(budget)?;
        // First of all: mistakes here show before anything is started or reached.
        self.try_out(options.clone(), budget, backstop)?;
        backstop.enter("reaching the server");
        let token = self.ends.token()?;
        let dial = address.map(|address| || socket::dial(address, self.ends.port, budget));
        let (mut link, server) = match &dial {
            Some(dial) => (dial()?, None),
            None => {
                let (link, server) = StartedServer::start(self.command, args, budget)?;
                (link, Some(server))
            }
        };
        let request = args.request(&options, memory);
        let mut slot = None;
        let outcome = client::greet(&mut link, token.as_ref(), dial)
            .and_then(|()| client::ask(&mut link, self.command, request, &plan))
            .and_then(|accepted| {
                backstop.enter("connecting to the server");
                // With the time that is left by now.
                let mut options = args.setup(budget)?.options;
                if self.is_over_plugin {
                    // A setting that one end refuses, neither end uses.
                    options.eager_bytes = 0;
                }
                accepted.connect(&link, slot.insert(Session::new(options)?))
            })
            .map_err(|failure| self.give_up(&mut link, failure, backstop));
        drop(link);
        let outcome = outcome.and_then(|agreed| self.work(agreed, &plan, backstop));
        drop(slot);
        match server {
            Some(server) => server.conclude(outcome),
            None => outcome,
        }
    }

    fn as_server(&self, budget: Budget, backstop: &Backstop) -> Result<T, Failure> {
        // Mistakes in plugin and settings show now and not when a client comes.
        self.try_out(self.ends.session.setup(budget)?.options, budget, backstop)?;
        backstop.enter("waiting for the client");
        if let Some(several) = &self.several {
            return self.serve_several(several, budget, backstop);
        }
        let Some(address) = self.ends.dial else {
            return self.serve(Port::open(self.ends)?.client(budget)?, backstop);
        };
        // The process that started this one waits there.
        let mut link = socket::dial(&address.into(), self.ends.port, budget)?;
        match server::hear(&mut link, None) {
            Ok(request) => self.serve(Client { link, request }, backstop),
            Err(failure) => Err(self.give_up(&mut link, failure, backstop)),
        }
    }

    /// Waits for all clients, and serves them at once. The first failure is that of all.
    fn serve_several(
        &self,
        several: &Several<'_, T>,
        budget: Budget,
        backstop: &Backstop,
    ) -> Result<T, Failure> {
        let clients = Port::open(self.ends)?.clients(several.clients, budget)?;
        let results = std::thread::scope(|scope| {
            let serve = |client| {
                let result = self.serve(client, backstop);
                if result.is_err() {
                    (several.give_up)();
                }
                result
            };
            let start = |client| process::spawn_in(scope, "client", move || serve(client));
            let ends: Vec<_> = clients.into_iter().map(start).collect();
            if ends.iter().any(Result::is_err) {
                (several.give_up)();
            }
            let panicked = |_| Err(Failure::Others("the end of a client panicked".into()));
            ends.into_iter()
                .map(|end| end?.join().unwrap_or_else(panicked))
                .collect::<Vec<Result<T, Failure>>>()
        });
        let (good, mut bad): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        // Ends that only waited for another end do not know the reason.
        bad.sort_by_key(|result| matches!(result, Err(Failure::Others(_))));
        match bad.into_iter().next() {
            Some(failure) => failure,
            None => (several.join)(good.into_iter().flatten().collect()),
        }
    }

    /// Serves one client after the other. A failure with one client is logged, and ends nothing.
    fn serve_forever(&self, tell: impl Fn(T) -> Result<(), Failure>) -> Result<(), Failure> {
        let budget = self.ends.budget();
        self.try_out(self.ends.session.setup(budget)?.options, budget, &Backstop::start(budget)?)?;
        let port = Port::open(self.ends)?;
        let mut queue = Queue::new(&port)?;
        loop {
            let client = queue.next()?;
            let address = client.link.peer();
            let backstop = Backstop::start(client.link.budget())?;
            let outcome = queue.while_busy(address, || self.serve(client, &backstop))?;
            drop(backstop);
            let told = outcome.and_then(&tell);
            if let Err(Failure::Interrupted) = told {
                return told;
            }
            if let Err(failure) = told {
                let line = error_line(&failure, self.ends.session.plugin.as_ref());
                // Stdout may have no reader; the next client comes all the same.
                let _ = writeln!(std::io::stderr(), "error: client {address}: {line}");
            }
            let _ = writeln!(std::io::stderr(), "ready for the next client");
        }
    }

    /// Runs the plan of a client.
    fn serve(&self, client: Client, backstop: &Backstop) -> Result<T, Failure> {
        let Client { mut link, request } = client;
        let budget = link.budget();
        backstop.enter("connecting to the client");
        // Outlives the report of its failure: the other end should hear the reason first.
        let mut slot = None;
        let outcome = match self.prepare(&link, &request, budget) {
            Err(failure) => Err(server::refuse(&mut link, &failure)),
            Ok((plan, session, conn_info)) => {
                let (memory, session) = (request.session.memory, slot.insert(session));
                server::accept(&mut link, memory, session, conn_info).map(|agreed| (agreed, plan))
            }
        };
        let outcome = outcome.map_err(|failure| self.give_up(&mut link, failure, backstop));
        drop(link);
        let outcome = outcome.and_then(|(agreed, plan)| self.work(agreed, &plan, backstop));
        drop(slot);
        outcome
    }

    /// Opens a session as the command will, and closes it.
    fn try_out(
        &self,
        options: SessionOptions,
        budget: Budget,
        backstop: &Backstop,
    ) -> Result<(), Failure> {
        backstop.enter("opening the plugin");
        self.ends.session.try_plugin(&options, budget)?;
        drop(Session::new(options)?);
        Ok(())
    }

    /// After a failure: tells both ends of it. Then only cleaning up is left.
    fn give_up<W: Way>(
        &self,
        link: &mut Link<W>,
        failure: Failure,
        backstop: &Backstop,
    ) -> Failure {
        let failure = link.explain(failure);
        let line = error_line(&failure, self.ends.session.plugin.as_ref());
        backstop.failed(line, failure.exit_status());
        failure
    }

    /// As the server: returns a plan that it accepts, and a session as the client wants it.
    fn prepare(
        &self,
        link: &DoorLink,
        request: &Request,
        budget: Budget,
    ) -> Result<(P, Session, Vec<u8>), Failure> {
        let plan = request.plan(self.command)?;
        (self.check_plan)(&plan)?;
        let mut options = self.ends.session.adopt(&request.session, budget)?.options;
        // The data link should run over the network that the client came by.
        options.advertise = vec![link.local_ip()];
        if options.listen.ip().is_unspecified() {
            // No end needs to reach it at another address.
            options.listen.set_ip(link.local_ip());
        }
        let session = Session::new(options)?;
        let conn_info = session.listen()?;
        Ok((plan, session, conn_info))
    }

    fn work(&self, mut agreed: Agreed<'_>, plan: &P, backstop: &Backstop) -> Result<T, Failure> {
        backstop.enter("moving data");
        let outcome = (self.body)(&mut agreed, plan).and_then(|result| {
            backstop.enter("saying goodbye");
            agreed.disconnect().map(|()| result)
        });
        outcome.map_err(|failure| self.give_up(&mut agreed.link, failure, backstop))
    }
}

/// As `meet_both`, with a goodbye.
#[cfg(test)]
pub(crate) fn connect_both<T: Send>(body: impl Fn(&mut Agreed<'_>) -> T + Sync) -> [T; 2] {
    meet_both(|agreed| {
        let result = body(agreed);
        agreed.disconnect().unwrap();
        result
    })
}

/// Both ends in this process: runs the steps of both and does `body` at each. Returns the client's
/// result, then the server's.
#[cfg(test)]
pub(super) fn meet_both<T: Send>(body: impl Fn(&mut Agreed<'_>) -> T + Sync) -> [T; 2] {
    use std::net::{TcpListener, TcpStream};

    use crate::session::test_session;

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let dialled = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let accepted = listener.accept().unwrap().0;
    std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut link = DoorLink::new(dialled, Budget::new(None)).unwrap();
            let (session, request) = test_session();
            link.greet(Role::Client, None).unwrap();
            let accepted = client::ask(&mut link, "test", request, &()).unwrap();
            body(&mut accepted.connect(&link, &session).unwrap())
        });
        let mut link = DoorLink::new(accepted, Budget::new(None)).unwrap();
        let (session, _) = test_session();
        let memory = server::hear(&mut link, None).unwrap().session.memory;
        let conn_info = session.listen().unwrap();
        let mut agreed = server::accept(&mut link, memory, &session, conn_info).unwrap();
        let server = body(&mut agreed);
        [client.join().unwrap(), server]
    })
}
