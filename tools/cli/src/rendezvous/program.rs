//! Command with two ends, from its flags to its goodbye.

use std::io::Write;
use std::net::SocketAddr;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tcpx_core::{Session, SessionOptions};
use tcpx_diagnosis::variables::process_env;
use tcpx_doctor::environment::misspelt_variables;

use super::args::EndsArgs;
use super::connected_end::ConnectedEnd;
use super::link::{Link, RendezvousLink};
use super::local_server::LocalServer;
use super::message::Request;
use super::message_transport::MessageTransport;
use super::role::Role;
use super::server_address::ServerAddress;
use super::serving::{Client, ClientQueue, ServerPort};
use super::{client, server, socket};
use crate::backstop::Backstop;
use crate::budget::Budget;
use crate::failure::{Failure, error_line};
use crate::process;
use crate::session::SessionSetup;

/// Command with two ends, whose plan is a `P` and whose result a `T`.
pub(crate) struct Program<'a, P, T> {
    /// The subcommand of `tcpx`.
    pub(crate) command: &'static str,
    pub(crate) ends: &'a EndsArgs,
    /// Whether every byte goes over the plugin, however few there are.
    pub(crate) is_over_plugin: bool,
    /// Client: the plan of both ends.
    pub(crate) make_plan: &'a (dyn Fn() -> Result<P, Failure> + Sync),
    /// Server: returns whether it accepts the plan.
    pub(crate) check_plan: &'a (dyn Fn(&P) -> Result<(), Failure> + Sync),
    /// Both: runs the plan, once their sessions are connected.
    pub(crate) body: &'a (dyn Fn(&mut ConnectedEnd<'_>, &P) -> Result<T, Failure> + Sync),
    /// Server: the clients, if it serves several at once.
    pub(crate) several: Option<SeveralClients<'a, T>>,
}

/// Several clients of one server, each with an end and a session of its own.
pub(crate) struct SeveralClients<'a, T> {
    /// Number of clients.
    pub(crate) clients: usize,
    /// Ends the wait of the others after the end of one client has failed.
    pub(crate) abort: Box<dyn Fn() + Sync + 'a>,
    /// Combines the results of all clients.
    pub(crate) join: &'a (dyn Fn(Vec<T>) -> Result<T, Failure> + Sync),
}

impl<P: Serialize + DeserializeOwned, T: Send> Program<'_, P, T> {
    /// Opens a session, meets the other end, connects, runs the plan and says goodbye. A server
    /// that runs for ever does so with one client after the other. On failure both ends have the
    /// reason.
    ///
    /// `print` gets the result, unless another process started this end and prints it.
    pub(crate) fn run(&self, print: impl Fn(T) -> Result<(), Failure>) -> Result<(), Failure> {
        let (budget, server) = self.ends.begin(self.command)?;
        if !self.ends.is_started_end() {
            for finding in misspelt_variables(&process_env()) {
                tracing::warn!("{} (see: tcpx explain {})", finding.seen, finding.id);
            }
        }
        if self.ends.forever {
            return self.serve_forever(print);
        }
        let backstop = Backstop::start(budget)?;
        let result = match self.ends.role() {
            Role::Client => self.as_client(server.as_ref(), budget, &backstop)?,
            Role::Server => self.as_server(budget, &backstop)?,
        };
        // Printing has no deadline.
        drop(backstop);
        if self.ends.is_started_end() { Ok(()) } else { print(result) }
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
        let SessionSetup { options, memory } = args.setup(budget)?;
        // Before anything is started or reached: wrong settings of this end show at once.
        self.check_plugin(options.clone(), budget, backstop)?;
        backstop.set_step("reaching the server");
        let token = self.ends.token()?;
        let dial = address.map(|address| || socket::dial(address, self.ends.port, budget));
        let (mut link, server) = match &dial {
            Some(dial) => (dial()?, None),
            None => {
                let (link, server) = LocalServer::start(self.command, args, budget)?;
                (link, Some(server))
            }
        };
        let request = args.request(&options, memory);
        let mut slot = None;
        let outcome = client::greet(&mut link, token.as_ref(), dial)
            .and_then(|()| client::ask(&mut link, self.command, request, &plan))
            .and_then(|accepted| {
                backstop.set_step("connecting to the server");
                // With the time that is left by now.
                let mut options = args.setup(budget)?.options;
                // Both ends have names, which certificates may be for.
                options.name = Role::Client.name().to_owned();
                if self.is_over_plugin {
                    // An eager limit of 0 at one end holds for both.
                    options.eager_bytes = 0;
                }
                accepted.connect(&link, slot.insert(Session::new(options)?))
            })
            .map_err(|failure| self.report_failure(&mut link, failure, backstop));
        drop(link);
        let outcome = outcome.and_then(|connected| self.work(connected, &plan, backstop));
        drop(slot);
        match server {
            Some(server) => server.conclude(outcome),
            None => outcome,
        }
    }

    fn as_server(&self, budget: Budget, backstop: &Backstop) -> Result<T, Failure> {
        // A wrong plugin or setting shows now, and not when a client connects.
        self.check_plugin(self.ends.session.setup(budget)?.options, budget, backstop)?;
        backstop.set_step("waiting for the client");
        if let Some(several) = &self.several {
            return self.serve_several(several, budget, backstop);
        }
        let Some(address) = self.ends.dial else {
            return self.serve(ServerPort::open(self.ends)?.client(budget)?, backstop);
        };
        // The process that started this one waits there.
        let mut link = socket::dial(&address.into(), self.ends.port, budget)?;
        match server::receive_request(&mut link, None) {
            Ok(request) => self.serve(Client { link, request }, backstop),
            Err(failure) => Err(self.report_failure(&mut link, failure, backstop)),
        }
    }

    /// Waits for all clients, and serves them at once. Returns the first failure.
    fn serve_several(
        &self,
        several: &SeveralClients<'_, T>,
        budget: Budget,
        backstop: &Backstop,
    ) -> Result<T, Failure> {
        let clients = ServerPort::open(self.ends)?.clients(several.clients, budget)?;
        (several.join)(all_of(self.serve_all(clients, &several.abort, backstop))?)
    }

    /// Serves clients at once. `abort` ends the waits of the others after a failure.
    fn serve_all(
        &self,
        clients: Vec<Client>,
        abort: &(dyn Fn() + Sync),
        backstop: &Backstop,
    ) -> Vec<Result<T, Failure>> {
        std::thread::scope(|scope| {
            let serve = |client| {
                let result = self.serve(client, backstop);
                if result.is_err() {
                    abort();
                }
                result
            };
            let start = |client| process::spawn_in(scope, "client", move || serve(client));
            let ends: Vec<_> = clients.into_iter().map(start).collect();
            if ends.iter().any(Result::is_err) {
                abort();
            }
            let panicked = |_| Err(Failure::OtherClient("the end of a client panicked".into()));
            ends.into_iter().map(|end| end?.join().unwrap_or_else(panicked)).collect()
        })
    }

    /// Calls `own`, and runs this program beside it: as the client of each of `servers`, and as the
    /// server of the next `clients` that connect to `port`. Returns the result of `own`, or the
    /// first failure. `abort` ends the waits of the others after one.
    pub(crate) fn run_beside<R>(
        &self,
        port: &ServerPort<'_>,
        servers: &[SocketAddr],
        clients: usize,
        budget: Budget,
        abort: &(dyn Fn() + Sync),
        own: impl FnOnce() -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let backstop = &Backstop::start(budget)?;
        let ended = |results: Vec<Result<T, Failure>>| {
            if results.iter().any(Result::is_err) {
                abort();
            }
            results
        };
        std::thread::scope(|scope| {
            let dial = |server: &SocketAddr| {
                let server = ServerAddress::from(*server);
                let end = move || ended(vec![self.as_client(Some(&server), budget, backstop)]);
                process::spawn_in(scope, "pair", end)
            };
            let mut ends: Vec<_> = servers.iter().map(dial).collect();
            ends.push(process::spawn_in(scope, "pairs", move || {
                match port.clients(clients, budget) {
                    Ok(clients) => self.serve_all(clients, abort, backstop),
                    Err(failure) => ended(vec![Err(failure)]),
                }
            }));
            if ends.iter().any(Result::is_err) {
                abort();
            }
            let own = own();
            if own.is_err() {
                abort();
            }
            let panicked = |_| vec![Err(Failure::OtherClient("the end of a pair panicked".into()))];
            let joined = ends.into_iter().flat_map(|end| match end {
                Ok(end) => end.join().unwrap_or_else(panicked),
                Err(failure) => vec![Err(failure)],
            });
            let others = all_of(joined.collect());
            match (own, others) {
                (Err(Failure::OtherClient(_)), Err(failure)) | (Ok(_), Err(failure)) => {
                    Err(failure)
                }
                (own, _) => own,
            }
        })
    }

    /// Serves one client after the other. A failure with one client is logged, and ends nothing.
    fn serve_forever(&self, print: impl Fn(T) -> Result<(), Failure>) -> Result<(), Failure> {
        let budget = self.ends.budget();
        self.check_plugin(
            self.ends.session.setup(budget)?.options,
            budget,
            &Backstop::start(budget)?,
        )?;
        let port = ServerPort::open(self.ends)?;
        let mut queue = ClientQueue::new(&port)?;
        loop {
            let client = queue.next()?;
            let address = client.link.peer();
            let backstop = Backstop::start(client.link.budget())?;
            let outcome = queue.while_busy(address, || self.serve(client, &backstop))?;
            drop(backstop);
            let printed = outcome.and_then(&print);
            if let Err(Failure::Interrupted) = printed {
                return printed;
            }
            if let Err(failure) = printed {
                let line = error_line(&failure, self.ends.session.plugin.as_ref());
                // Stderr may have no reader; the next client is served all the same.
                let _ = writeln!(std::io::stderr(), "error: client {address}: {line}");
            }
            let _ = writeln!(std::io::stderr(), "ready for the next client");
        }
    }

    /// Runs the plan of a client.
    fn serve(&self, client: Client, backstop: &Backstop) -> Result<T, Failure> {
        let Client { mut link, request } = client;
        let budget = link.budget();
        backstop.set_step("connecting to the client");
        // The session outlives the report of its failure: the other end gets the reason first.
        let mut slot = None;
        let outcome = match self.prepare(&link, &request, budget) {
            Err(failure) => Err(server::refuse(&mut link, &failure)),
            Ok((plan, session, conn_info)) => {
                let (memory, session) = (request.session.memory, slot.insert(session));
                server::accept(&mut link, memory, session, conn_info)
                    .map(|connected| (connected, plan))
            }
        };
        let outcome = outcome.map_err(|failure| self.report_failure(&mut link, failure, backstop));
        drop(link);
        let outcome = outcome.and_then(|(connected, plan)| self.work(connected, &plan, backstop));
        drop(slot);
        outcome
    }

    /// Opens a session with the command's options, and closes it.
    fn check_plugin(
        &self,
        options: SessionOptions,
        budget: Budget,
        backstop: &Backstop,
    ) -> Result<(), Failure> {
        backstop.set_step("opening the plugin");
        self.ends.session.try_plugin(&options, budget)?;
        drop(Session::new(options)?);
        Ok(())
    }

    /// Exchanges a failure with the other end, after which only cleaning up is left.
    fn report_failure<W: MessageTransport>(
        &self,
        link: &mut Link<W>,
        failure: Failure,
        backstop: &Backstop,
    ) -> Failure {
        let failure = link.exchange_failures(failure);
        let line = error_line(&failure, self.ends.session.plugin.as_ref());
        backstop.failed(line, failure.exit_status());
        failure
    }

    /// Returns, at the server, the client's plan, a session with the client's options, and the
    /// address of the session.
    fn prepare(
        &self,
        link: &RendezvousLink,
        request: &Request,
        budget: Budget,
    ) -> Result<(P, Session, Vec<u8>), Failure> {
        let plan = request.plan(self.command)?;
        (self.check_plan)(&plan)?;
        let mut options = self.ends.session.adopt(&request.session, budget)?.options;
        // The session should use the network over which the client connected.
        options.advertise = vec![link.local_ip()];
        if options.listen.ip().is_unspecified() {
            // The client needs no other address.
            options.listen.set_ip(link.local_ip());
        }
        let session = Session::new(options)?;
        let conn_info = session.listen()?;
        Ok((plan, session, conn_info))
    }

    fn work(
        &self,
        mut connected: ConnectedEnd<'_>,
        plan: &P,
        backstop: &Backstop,
    ) -> Result<T, Failure> {
        backstop.set_step("moving data");
        let outcome = (self.body)(&mut connected, plan).and_then(|result| {
            backstop.set_step("saying goodbye");
            connected.disconnect().map(|()| result)
        });
        outcome.map_err(|failure| self.report_failure(&mut connected.link, failure, backstop))
    }
}

/// Returns all results, or the failure that says most.
fn all_of<T>(results: Vec<Result<T, Failure>>) -> Result<Vec<T>, Failure> {
    let (good, mut bad): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    // Ends that only waited for another end do not know the reason.
    bad.sort_by_key(|result| matches!(result, Err(Failure::OtherClient(_))));
    match bad.into_iter().next() {
        Some(Err(failure)) => Err(failure),
        _ => Ok(good.into_iter().flatten().collect()),
    }
}

/// Runs `body` at both ends as `meet_both` does, and says goodbye.
#[cfg(test)]
pub(crate) fn connect_both<T: Send>(body: impl Fn(&mut ConnectedEnd<'_>) -> T + Sync) -> [T; 2] {
    meet_both(|connected| {
        let result = body(connected);
        connected.disconnect().unwrap();
        result
    })
}

/// Runs both ends in this process, and `body` at each. Returns the client's result, then the
/// server's.
#[cfg(test)]
pub(super) fn meet_both<T: Send>(body: impl Fn(&mut ConnectedEnd<'_>) -> T + Sync) -> [T; 2] {
    use std::net::{TcpListener, TcpStream};

    use crate::session::test_session;

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let dialled = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let accepted = listener.accept().unwrap().0;
    std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut link = RendezvousLink::new(dialled, Budget::new(None)).unwrap();
            let (session, request) = test_session();
            link.greet(Role::Client, None).unwrap();
            let accepted = client::ask(&mut link, "test", request, &()).unwrap();
            body(&mut accepted.connect(&link, &session).unwrap())
        });
        let mut link = RendezvousLink::new(accepted, Budget::new(None)).unwrap();
        let (session, _) = test_session();
        let memory = server::receive_request(&mut link, None).unwrap().session.memory;
        let conn_info = session.listen().unwrap();
        let mut connected = server::accept(&mut link, memory, &session, conn_info).unwrap();
        let server = body(&mut connected);
        [client.join().unwrap(), server]
    })
}
