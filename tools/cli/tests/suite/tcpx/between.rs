//! A relay on the connection over which two ends meet. It reads whole messages, so it can do
//! something to an end at a known point of their conversation.

use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use tcpx_wire::frame;

/// Who sends a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    Client,
    Server,
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RelayAction {
    /// It is passed on.
    Pass,
    /// It is passed on, and the client's connection ends after it.
    PassAndHangUp,
}

/// Kinds of messages, as they are numbered in frames.
pub(crate) const REQUEST: u16 = 2;
pub(crate) const ANSWER: u16 = 3;

const BODY_LIMIT: usize = 64 << 10;

/// Relays one connection to `server_port` until both ends have hung up; `on_message` says
/// what becomes of each message. Returns the port for the client.
pub(crate) fn relay(
    server_port: u16,
    on_message: impl Fn(Sender, u16) -> RelayAction + Send + Sync + 'static,
) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let client = listener.accept().unwrap().0;
        let server = TcpStream::connect(("127.0.0.1", server_port)).unwrap();
        let of_client = |kind| on_message(Sender::Client, kind);
        let of_server = |kind| on_message(Sender::Server, kind);
        thread::scope(|scope| {
            scope.spawn(|| pump(&client, &server, &client, of_client));
            pump(&server, &client, &client, of_server);
        });
    });
    port
}

fn pump(
    mut from: &TcpStream,
    mut to: &TcpStream,
    client: &TcpStream,
    on_message: impl Fn(u16) -> RelayAction,
) {
    // An end that was killed is an end of the stream, too.
    while let Ok(Some((kind, body))) = frame::read(&mut from, BODY_LIMIT) {
        let then = on_message(kind);
        let mut bytes = Vec::new();
        frame::append(&mut bytes, kind, |out| out.extend_from_slice(&body));
        if to.write_all(&bytes).is_err() {
            break;
        }
        if then == RelayAction::PassAndHangUp {
            let _ = client.shutdown(Shutdown::Write);
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
