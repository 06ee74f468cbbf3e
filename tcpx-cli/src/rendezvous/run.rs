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

/// Makes a session, meets the other end, connects, and does `body`. Both ends do it with the plan
/// of the client, which makes it; the server first sees whether it likes it. On failure each end
/// knows why.
///
/// `None`: this end worked for the process that started it, which tells the result.
pub(crate) fn run<P: Serialize + DeserializeOwned, T>(
    command: &str,
    args: &EndsArgs,
    make_plan: impl FnOnce() -> Result<P, Failure>,
    check_plan: impl FnOnce(&P) -> Result<(), Failure>,
    body: impl FnOnce(&mut Agreed<'_>, &P) -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    args.begin()?;
    let result = match args.role() {
        Role::Client => run_client(command, args, &make_plan()?, body)?,
        Role::Server => run_server(command, args, check_plan, body)?,
    };
    Ok((!args.is_started_end()).then_some(result))
}

fn run_client<P: Serialize, T>(
    command: &str,
    args: &EndsArgs,
    plan: &P,
    body: impl FnOnce(&mut Agreed<'_>, &P) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let Setup { options, memory } = args.session.setup(args.timeout())?;
    // First of all: what is wrong here shows before anything is started or reached.
    args.session.try_plugin(&options, args.timeout())?;
    let session = Session::new(options.clone())?;
    let (mut link, server) = reach_server(command, args)?;
    let request = args.session.request(&options, memory);
    let outcome = Reached::new(&mut link)
        .and_then(|reached| reached.ask(command, request, plan)?.answer()?.connect(&session))
        .and_then(|agreed| work(agreed, plan, body))
        .map_err(|failure| link.explain(failure));
    drop(session);
    drop(link);
    match server {
        Some(server) => server.conclude(outcome),
        None => outcome,
    }
}

fn run_server<P: DeserializeOwned, T>(
    command: &str,
    args: &EndsArgs,
    check_plan: impl FnOnce(&P) -> Result<(), Failure>,
    body: impl FnOnce(&mut Agreed<'_>, &P) -> Result<T, Failure>,
) -> Result<T, Failure> {
    // Not the session that is used; but what is wrong with plugin and settings shows now and not
    // when a client comes.
    let options = args.session.setup(args.timeout())?.options;
    args.session.try_plugin(&options, args.timeout())?;
    drop(Session::new(options)?);
    let mut link = meet_client(args)?;
    // Outlives what is said of its failure: the other end should hear the reason first.
    let mut slot = None;
    let outcome = Greeted::new(&mut link).and_then(Greeted::hear).and_then(|heard| {
        match prepare(&heard, command, args, check_plan) {
            Err(failure) => Err(heard.refuse(&failure)),
            Ok((plan, session, conn_info)) => {
                let offered = heard.offer(slot.insert(session), conn_info)?;
                work(offered.connect()?, &plan, body)
            }
        }
    });
    outcome.map_err(|failure| link.explain(failure))
}

/// A plan that this end likes, and a session as the client wants it.
fn prepare<P: DeserializeOwned>(
    heard: &Heard<'_>,
    command: &str,
    args: &EndsArgs,
    check_plan: impl FnOnce(&P) -> Result<(), Failure>,
) -> Result<(P, Session, Vec<u8>), Failure> {
    let plan = heard.plan(command)?;
    check_plan(&plan)?;
    let mut options = args.session.adopt(heard.session(), args.timeout())?.options;
    // The data link should run over the network that the client came by.
    options.advertise = vec![heard.local_ip()];
    let session = Session::new(options)?;
    let conn_info = session.listen()?;
    Ok((plan, session, conn_info))
}

fn work<P, T>(
    mut agreed: Agreed<'_>,
    plan: &P,
    body: impl FnOnce(&mut Agreed<'_>, &P) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let result = body(&mut agreed, plan)?;
    agreed.disconnect()?;
    Ok(result)
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
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let dialled = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let accepted = listener.accept().unwrap().0;
    std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut link = Link::new(dialled, TIMEOUT).unwrap();
            let (session, request) = test_session();
            let asked = Reached::new(&mut link).unwrap().ask("test", request, &()).unwrap();
            let agreed = asked.answer().unwrap().connect(&session).unwrap();
            work(agreed, &(), |agreed, ()| Ok(body(agreed))).unwrap()
        });
        let mut link = Link::new(accepted, TIMEOUT).unwrap();
        let (session, _) = test_session();
        let heard = Greeted::new(&mut link).unwrap().hear().unwrap();
        let offered = heard.offer(&session, session.listen().unwrap()).unwrap();
        let agreed = offered.connect().unwrap();
        let server = work(agreed, &(), |agreed, ()| Ok(body(agreed))).unwrap();
        [client.join().unwrap(), server]
    })
}
