//! A command with two ends, from its flags to its goodbye.

use std::io::Write;
use std::net::Ipv4Addr;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tcpx_core::Session;

use super::agreed::Agreed;
use super::args::{EndsArgs, Role};
use super::client::Reached;
use super::link::Link;
use super::server::{Greeted, Heard};
use super::socket;
use super::started_server::StartedServer;
use crate::deadline::Deadline;
use crate::failure::Failure;
use crate::session::Setup;

/// A command with two ends, whose plan is a `P` and whose result a `T`.
pub(crate) struct Program<'a, P, T> {
    /// The subcommand of `tcpx`.
    pub(crate) command: &'static str,
    pub(crate) ends: &'a EndsArgs,
    /// Client: what both ends are to do.
    pub(crate) make_plan: &'a dyn Fn() -> Result<P, Failure>,
    /// Server: whether it likes that.
    pub(crate) check_plan: &'a dyn Fn(&P) -> Result<(), Failure>,
    /// Both: doing it, once their sessions are connected.
    pub(crate) body: &'a dyn Fn(&mut Agreed<'_>, &P) -> Result<T, Failure>,
}

impl<P: Serialize + DeserializeOwned, T> Program<'_, P, T> {
    /// Makes a session, meets the other end, connects, does the work and says goodbye. On failure
    /// each end knows why.
    ///
    /// `None`: this end worked for the process that started it, which tells the result.
    pub(crate) fn run(&self) -> Result<Option<T>, Failure> {
        self.ends.begin()?;
        let result = match self.ends.role() {
            Role::Client => self.as_client()?,
            Role::Server => self.as_server()?,
        };
        Ok((!self.ends.is_started_end()).then_some(result))
    }

    fn as_client(&self) -> Result<T, Failure> {
        let plan = (self.make_plan)()?;
        let (args, timeout) = (&self.ends.session, self.ends.timeout());
        let Setup { options, memory } = args.setup(timeout)?;
        // First of all: what is wrong here shows before anything is started or reached.
        args.try_plugin(&options, timeout)?;
        let session = Session::new(options.clone())?;
        let (mut link, server) = reach_server(self.command, self.ends)?;
        let request = args.request(&options, memory);
        let outcome = Reached::new(&mut link)
            .and_then(|reached| reached.ask(self.command, request, &plan)?.answer())
            .and_then(|accepted| self.work(accepted.connect(&session)?, &plan))
            .map_err(|failure| link.explain(failure));
        drop(session);
        drop(link);
        match server {
            Some(server) => server.conclude(outcome),
            None => outcome,
        }
    }

    fn as_server(&self) -> Result<T, Failure> {
        let (args, timeout) = (&self.ends.session, self.ends.timeout());
        // Not the session that is used; but what is wrong with plugin and settings shows now and
        // not when a client comes.
        let options = args.setup(timeout)?.options;
        args.try_plugin(&options, timeout)?;
        drop(Session::new(options)?);
        let mut link = meet_client(self.ends)?;
        // Outlives what is said of its failure: the other end should hear the reason first.
        let mut slot = None;
        let outcome = Greeted::new(&mut link).and_then(Greeted::hear).and_then(|heard| match self
            .prepare(&heard)
        {
            Err(failure) => Err(heard.refuse(&failure)),
            Ok((plan, session, conn_info)) => {
                let offered = heard.offer(slot.insert(session), conn_info)?;
                self.work(offered.connect()?, &plan)
            }
        });
        outcome.map_err(|failure| link.explain(failure))
    }

    /// As the server: a plan that it likes, and a session as the client wants it.
    fn prepare(&self, heard: &Heard<'_>) -> Result<(P, Session, Vec<u8>), Failure> {
        let plan = heard.plan(self.command)?;
        (self.check_plan)(&plan)?;
        let mut options = self.ends.session.adopt(heard.session(), self.ends.timeout())?.options;
        // The data link should run over the network that the client came by.
        options.advertise = vec![heard.local_ip()];
        let session = Session::new(options)?;
        let conn_info = session.listen()?;
        Ok((plan, session, conn_info))
    }

    fn work(&self, mut agreed: Agreed<'_>, plan: &P) -> Result<T, Failure> {
        let result = (self.body)(&mut agreed, plan)?;
        agreed.disconnect()?;
        Ok(result)
    }
}

/// Dials the server, or starts one.
fn reach_server(command: &str, args: &EndsArgs) -> Result<(Link, Option<StartedServer>), Failure> {
    if let Some(address) = &args.address {
        return Ok((socket::dial(address, args.port, args.timeout())?, None));
    }
    let (link, server) = StartedServer::start(command, &args.session, args.timeout())?;
    Ok((link, Some(server)))
}

/// Waits for the client. A started server dials it.
fn meet_client(args: &EndsArgs) -> Result<Link, Failure> {
    if let Some(address) = args.dial {
        return socket::dial(&address.to_string(), args.port, args.timeout());
    }
    let listener = socket::bind((Ipv4Addr::UNSPECIFIED, args.port).into())?;
    let address =
        listener.local_addr().map_err(Failure::io("asking for the listener's address"))?;
    writeln!(std::io::stderr(), "listening on {address}")
        .map_err(Failure::io("writing to stderr"))?;
    let stream = socket::accept(&listener, None, Deadline::after(args.timeout()))?;
    Link::new(stream, args.timeout())
}

/// Both ends in this process: runs the steps of both and does `body` at each. Returns the client's
/// result, then the server's.
#[cfg(test)]
pub(crate) fn connect_both<T: Send>(body: impl Fn(&mut Agreed<'_>) -> T + Sync) -> [T; 2] {
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use crate::session::test_session;

    const TIMEOUT: Duration = Duration::from_secs(60);
    let finish = |mut agreed: Agreed<'_>| {
        let result = body(&mut agreed);
        agreed.disconnect().unwrap();
        result
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let dialled = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let accepted = listener.accept().unwrap().0;
    std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut link = Link::new(dialled, TIMEOUT).unwrap();
            let (session, request) = test_session();
            let asked = Reached::new(&mut link).unwrap().ask("test", request, &()).unwrap();
            let agreed = asked.answer().unwrap().connect(&session).unwrap();
            finish(agreed)
        });
        let mut link = Link::new(accepted, TIMEOUT).unwrap();
        let (session, _) = test_session();
        let heard = Greeted::new(&mut link).unwrap().hear().unwrap();
        let offered = heard.offer(&session, session.listen().unwrap()).unwrap();
        let server = finish(offered.connect().unwrap());
        [client.join().unwrap(), server]
    })
}
