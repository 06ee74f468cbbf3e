//! Two ends become two connected sessions.

use tcpx_core::{Session, SessionOptions, UnpackChoice};

use crate::bootstrap::{Accepted, Link, Message, Program, Request};
use crate::end::{EndArgs, Role};
use crate::failure::Failure;
use crate::session::Memory;
use crate::session::{SessionArgs, Setup};

/// What both ends know once their sessions are connected.
#[derive(Clone, Debug)]
pub(crate) struct Agreement {
    pub(crate) role: Role,
    pub(crate) program: Program,
    pub(crate) memory: Memory,
    pub(crate) channels: u16,
    /// The receiving end's unpack implementation.
    pub(crate) unpack: String,
}

impl Agreement {
    /// The other end's name in the session.
    pub(crate) fn peer(&self) -> &'static str {
        match self.role {
            Role::Client => Role::Server.name(),
            Role::Server => Role::Client.name(),
        }
    }
}

/// The client's side: makes a session, reaches the server, connects, and does `body`, which ends with a goodbye.
pub(crate) fn as_client<T>(
    end: &EndArgs,
    args: &SessionArgs,
    program: Program,
    body: impl FnOnce(&mut Link, &Session, &Agreement) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let Setup { options, memory } = args.setup(end.timeout())?;
    // First of all: what is wrong here shows before anything is started or reached.
    args.try_plugin(&options, end.timeout())?;
    let session = Session::new(options.clone())?;
    let other = end.reach_server(program.name(), args)?;
    other.together(session, |link, session| {
        let accepted = ask(link, &options, args.unpack, memory, &program)?;
        session.load_remote_conn_info(Role::Server.name(), &accepted.conn_info)?;
        tracing::debug!("Connecting to the server's session");
        session.connect(Role::Server.name())?;
        link.meet()?;
        let agreement = Agreement {
            role: Role::Client,
            program,
            memory,
            channels: options.channels,
            unpack: accepted.unpack,
        };
        let result = body(link, session, &agreement)?;
        session.disconnect(agreement.peer())?;
        Ok(result)
    })
}

fn ask(
    link: &mut Link,
    options: &SessionOptions,
    unpack: Option<UnpackChoice>,
    memory: Memory,
    program: &Program,
) -> Result<Accepted, Failure> {
    let unpack =
        unpack.or_else(|| (options.unpack != UnpackChoice::Auto).then_some(options.unpack));
    link.send(&Message::Request(Request {
        program: program.clone(),
        chunk_bytes: options.chunk_bytes,
        channels: options.channels,
        memory,
        unpack: unpack.map(|unpack| unpack.to_string()),
    }))?;
    link.receive("answer", |message| match message {
        Message::Accepted(accepted) => Ok(Ok(accepted)),
        Message::Refused { reason } => Ok(Err(Failure::Refused(reason))),
        other => Err(other),
    })?
}

/// The server's side: waits for a client that asks for `command` in a way that `check` likes, makes a session as it
/// wishes, and does `body`.
pub(crate) fn as_server<T>(
    end: &EndArgs,
    args: &SessionArgs,
    command: &'static str,
    check: impl FnOnce(&Program) -> Result<(), Failure>,
    body: impl FnOnce(&mut Link, &Session, &Agreement) -> Result<T, Failure>,
) -> Result<T, Failure> {
    // Not the one that is used; but what is wrong with plugin and settings shows now and not when a client comes.
    let options = args.setup(end.timeout())?.options;
    args.try_plugin(&options, end.timeout())?;
    drop(Session::new(options)?);
    let mut link = end.meet_client()?;
    tracing::debug!(client = %link.peer(), "Bootstrap connection established, sending handle");
    let request = link.receive("request", |message| match message {
        Message::Request(request) => Ok(request),
        other => Err(other),
    })?;
    let prepared = check(&request.program).and_then(|()| prepare(&link, args, command, &request));
    let (session, conn_info) = match prepared {
        Ok(prepared) => prepared,
        Err(failure) => {
            let reason = failure.one_line();
            link.send(&Message::Refused { reason: reason.clone() })?;
            return Err(Failure::Refusing(reason));
        }
    };
    crate::other_end::OtherEnd::new(link).together(session, |link, session| {
        let unpack = session.stats().unpack;
        link.send(&Message::Accepted(Accepted { conn_info, unpack: unpack.clone() }))?;
        session.accept(Role::Client.name())?;
        link.meet()?;
        let Request { program, memory, channels, .. } = request;
        let agreement = Agreement { role: Role::Server, program, memory, channels, unpack };
        let result = body(link, session, &agreement)?;
        session.disconnect(agreement.peer())?;
        Ok(result)
    })
}

fn prepare(
    link: &Link,
    args: &SessionArgs,
    command: &'static str,
    request: &Request,
) -> Result<(Session, Vec<u8>), Failure> {
    if request.program.name() != command {
        let asked = request.program.name();
        return Err(Failure::Refusing(format!(
            "the server runs `tcpx {command}`, the client `tcpx {asked}`; start the same on both"
        )));
    }
    let mut options = args.adopt(request, link.timeout())?.options;
    // The data link should run over the network that the client came by.
    options.advertise = vec![link.local_ip()];
    let session = Session::new(options)?;
    let conn_info = session.listen()?;
    Ok((session, conn_info))
}
