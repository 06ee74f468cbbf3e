//! `tcpx transfer`: one short message, with every step of it in the log.

use serde::{Deserialize, Serialize};
use tcpx_core::{Post, Session};
use tcpx_doctor::NicGrowth;

use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::rendezvous::{ConnectedEnd, EndsArgs, Message, Program, Role};
use crate::session::{NicWatch, render_growth};

const TEXT: &[u8] = b"Hello from TCPX client!";
const TAG: i64 = 42;
/// Registered bytes: one page, aligned to one.
const BUFFER_BYTES: u64 = 4096;
/// Byte that fills the destination before the message arrives.
const POISON: u8 = 0xdb;

/// Send "Hello from TCPX client!" with tag 42 and show every step in the log.
///
/// Alone it runs both ends here, as two processes over loopback. For two hosts start
/// `tcpx transfer server` on one and `tcpx transfer client ADDR` on the other. The log on stderr
/// shows plugin, registration, request metadata, device handle, each unpack descriptor and the
/// bounce buffer's first bytes. Exit status: 0 when the message arrived as sent.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct TransferArgs {
    /// Print one JSON object instead of a line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    pub(crate) ends: EndsArgs,
}

/// Server's verification of the message: the mistake in it; empty if there is none.
#[derive(Debug, Serialize, Deserialize)]
struct Verification {
    difference: String,
}

impl Message for Verification {
    const KIND: u16 = 8;
}

/// Transfers, and prints PASSED or what differs.
pub(crate) fn run(args: &TransferArgs) -> Result<(), Failure> {
    tracing::debug!("=== TCPX GPU-to-GPU transfer test ===");
    tracing::debug!("Using payload_bytes={}", TEXT.len());
    tracing::debug!("Running in {} mode", args.ends.role().name().to_uppercase());
    let program = Program {
        command: "transfer",
        ends: &args.ends,
        is_over_plugin: true,
        make_plan: &|| Ok(()),
        check_plan: &|()| Ok(()),
        body: &|connected, ()| transfer(connected),
        several: None,
    };
    program.run(|(verification, nics)| print_result(args, verification, nics))
}

/// JSON object of the result.
#[derive(Serialize)]
struct TransferReport<'a> {
    verified: bool,
    bytes: usize,
    text: &'a str,
    tag: i64,
    /// Mistake in the bytes that arrived.
    difference: Option<&'a str>,
    nic_counters: Vec<NicGrowth>,
}

/// Prints whether the text arrived.
fn print_result(
    args: &TransferArgs,
    Verification { difference }: Verification,
    nics: Vec<NicGrowth>,
) -> Result<(), Failure> {
    let text = &*String::from_utf8_lossy(TEXT);
    let (bytes, verified) = (TEXT.len(), difference.is_empty());
    if args.json {
        let difference = (!verified).then_some(difference.as_str());
        let (tag, nic_counters) = (TAG, nics);
        print_json(&TransferReport { verified, bytes, text, tag, difference, nic_counters })?;
    } else if verified {
        let mut lines = vec![format!("PASSED: {bytes} bytes \"{text}\", tag {TAG}")];
        lines.extend(render_growth(&nics));
        print(&lines.join("\n"))?;
    }
    if verified { Ok(()) } else { Err(Failure::NotVerified(difference)) }
}

/// Runs one end, and reads the NICs' counters before and after.
fn transfer(connected: &mut ConnectedEnd<'_>) -> Result<(Verification, Vec<NicGrowth>), Failure> {
    let watch = NicWatch::start(connected.session);
    let verification = match connected.role {
        Role::Client => send(connected)?,
        Role::Server => receive(connected)?,
    };
    Ok((verification, watch.end(connected.session)))
}

/// Registers a buffer, and returns the post that moves the message from or to its beginning.
fn register(connected: &ConnectedEnd<'_>, what: &str) -> Result<Post, Failure> {
    let session = connected.session;
    let memory = session.allocate(BUFFER_BYTES, connected.memory.memory_type())?;
    let info = session.memory_info(memory)?;
    tracing::debug!(
        "Registered {} {what} buffer ptr={:#x} bytes={}",
        connected.role.name(),
        info.address,
        info.bytes
    );
    Ok(Post { memory, offset: 0, bytes: TEXT.len() as u64, tag: TAG })
}

fn send(connected: &mut ConnectedEnd<'_>) -> Result<Verification, Failure> {
    let session = connected.session;
    let message = register(connected, "send")?;
    session.write_memory(message.memory, 0, TEXT)?;
    tracing::debug!("Wrote test message to GPU buffer: {}", String::from_utf8_lossy(TEXT));
    let transfer = session.create_transfer(connected.peer())?;
    tracing::debug!("Sending {} bytes with tag {TAG}", TEXT.len());
    transfer.post_send(message)?;
    connected.link.budget().wait(&transfer)?;
    tracing::debug!("Send completed successfully");
    drop(transfer);
    session.deregister_memory(message.memory)?;
    let verification: Verification = connected.link.receive()?;
    if verification.difference.is_empty() {
        tracing::debug!("Client test completed successfully");
    }
    Ok(verification)
}

fn receive(connected: &mut ConnectedEnd<'_>) -> Result<Verification, Failure> {
    let session = connected.session;
    let message = register(connected, "receive")?;
    session.write_memory(message.memory, 0, &[POISON; BUFFER_BYTES as usize])?;
    let transfer = session.create_transfer(connected.peer())?;
    tracing::debug!("Waiting for client data, expected bytes={}", TEXT.len());
    transfer.post_recv(message)?;
    connected.link.budget().wait(&transfer)?;
    drop(transfer);
    tracing::debug!("Device unpack completed successfully ({})", connected.unpack);
    let difference = read_back(session, message)?;
    let verification = Verification { difference };
    connected.link.send(&verification)?;
    if verification.difference.is_empty() {
        tracing::debug!("Server test completed successfully");
    }
    Ok(verification)
}

/// Frees the receive buffer. Returns the mistake in it.
fn read_back(session: &Session, message: Post) -> Result<String, Failure> {
    let mut buffer = [0; BUFFER_BYTES as usize];
    session.read_memory(message.memory, 0, &mut buffer)?;
    session.deregister_memory(message.memory)?;
    let (text, rest) = buffer.split_at(TEXT.len());
    tracing::debug!("Received data ({} bytes): {}", text.len(), text.escape_ascii());
    let difference = difference(text, rest);
    match difference.as_str() {
        "" => tracing::debug!("✓ Data validation PASSED"),
        difference => tracing::error!("✗ Data validation FAILED: {difference}"),
    }
    Ok(difference)
}

/// Returns the mistake in the receive buffer; empty if there is none.
fn difference(text: &[u8], rest: &[u8]) -> String {
    if text != TEXT {
        let hex: Vec<String> = text.iter().map(|byte| format!("{byte:02x}")).collect();
        return format!(
            "expected {}, got {} ({})",
            TEXT.escape_ascii(),
            text.escape_ascii(),
            hex.join(" ")
        );
    }
    match rest.iter().position(|byte| *byte != POISON) {
        Some(at) => format!("byte {} behind the message was overwritten", TEXT.len() + at),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_difference_is_named() {
        let rest = [POISON; 100];
        assert_eq!(difference(TEXT, &rest), "");
        let wrong = difference(&[0; 23], &rest);
        assert!(wrong.contains("Hello from TCPX client!") && wrong.contains("00 00"), "{wrong}");
        let mut overrun = rest;
        overrun[1] = 0;
        assert!(difference(TEXT, &overrun).contains("byte 24"));
    }
}
