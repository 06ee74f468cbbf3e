//! One message from one process to another, through device memory (ordinary memory that stands in
//! for it without a GPU).
//!
//! ```text
//! hello server [PORT]          prints its port
//! hello client HOST PORT
//! ```
#![allow(clippy::print_stdout, reason = "a program's output")]

mod bootstrap;

use std::error::Error;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use bootstrap::{receive_blob, send_blob};
use socket2::SockRef;
use tcpx_core::{MemoryType, Post, Session, SessionOptions};

const MESSAGE: &[u8; 24] = b"Hello from TCPX client!\0";
const MESSAGE_BYTES: u64 = 64;
const TAG: i64 = 42;
const PATIENCE: Duration = Duration::from_secs(30);

fn server(port: u16) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?;
    // On Linux this also limits how long `accept` waits.
    SockRef::from(&listener).set_read_timeout(Some(PATIENCE))?;
    println!("port {}", listener.local_addr()?.port());

    let session = Session::new(SessionOptions::default())?;
    let conn_info = session.listen()?;
    // A peer with the connection info may connect: a real program hands it over in private.
    let (mut client, _) = listener.accept().map_err(|error| format!("no client came: {error}"))?;
    send_blob(&mut client, &conn_info)?;
    session.accept("client")?;

    let memory = session.allocate(MESSAGE_BYTES, MemoryType::Device)?;
    let transfer = session.create_transfer("client")?;
    transfer.post_recv(Post { memory, offset: 0, bytes: MESSAGE_BYTES, tag: TAG })?;
    transfer.wait(Some(PATIENCE))?;
    let mut received = [0; MESSAGE_BYTES as usize];
    session.read_memory(memory, 0, &mut received)?;
    let (text, rest) = received.split_at(MESSAGE.len());
    if text != MESSAGE || rest.iter().any(|byte| *byte != 0) {
        return Err(format!("received something else: {received:?}").into());
    }
    println!("received: {}\nPASSED", String::from_utf8_lossy(text).trim_end_matches('\0'));

    drop(transfer);
    session.deregister_memory(memory)?;
    session.disconnect("client")?;
    Ok(())
}

fn client(host: &str, port: u16) -> Result<(), Box<dyn Error>> {
    let mut server = TcpStream::connect((host, port))?;
    server.set_read_timeout(Some(PATIENCE))?;

    let session = Session::new(SessionOptions::default())?;
    session.load_remote_conn_info("server", &receive_blob(&mut server)?)?;
    session.connect("server")?;

    let memory = session.allocate(MESSAGE_BYTES, MemoryType::Device)?;
    session.write_memory(memory, 0, MESSAGE)?;
    let transfer = session.create_transfer("server")?;
    transfer.post_send(Post { memory, offset: 0, bytes: MESSAGE_BYTES, tag: TAG })?;
    transfer.wait(Some(PATIENCE))?;
    println!("sent\nPASSED");

    drop(transfer);
    session.deregister_memory(memory)?;
    session.disconnect("server")?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["server"] => server(0),
        ["server", port] => server(port.parse()?),
        ["client", host, port] => client(host, port.parse()?),
        _ => Err("usage: hello server [PORT] | client HOST PORT".into()),
    }
}
