//! `tcpx transfer`: one short message with everything that happens to it in the log.

use std::iter;

use tcpx_core::{Post, Session};
use tcpx_doctor::NicGrowth;

use crate::bootstrap::{Link, Message, Program};
use crate::end::{EndArgs, Role};
use crate::failure::Failure;
use crate::meeting::{self, Agreement};
use crate::output::print;
use crate::session::{NicWatch, SessionArgs, render_growth};

const TEXT: &[u8] = b"Hello from TCPX client!";
const TAG: i32 = 42;
/// Registered bytes: one page, aligned to one.
const BUFFER_BYTES: u64 = 4096;
/// What the destination holds before the message comes.
const POISON: u8 = 0xdb;

/// Send "Hello from TCPX client!" with tag 42 and show every step in the log.
///
/// Alone it runs both ends here, as two processes over loopback. For two hosts start `tcpx transfer server` on one and
/// `tcpx transfer client ADDR` on the other. The log on stderr shows plugin, registration, request metadata, device
/// handle, each unpack descriptor and the bounce buffer's first bytes. Exit status: 0 when the message arrived as sent.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct TransferArgs {
    #[command(flatten)]
    pub(crate) end: EndArgs,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
}

/// Transfers, and prints PASSED or what differs.
pub(crate) fn run(args: &TransferArgs) -> Result<(), Failure> {
    args.end.begin()?;
    tracing::debug!("=== TCPX GPU-to-GPU transfer test ===");
    tracing::debug!("Using payload_bytes={}", TEXT.len());
    let (difference, nics) = match args.end.role() {
        Role::Client => {
            tracing::debug!("Running in CLIENT mode");
            meeting::as_client(&args.end, &args.session, Program::Transfer, watched(send))?
        }
        Role::Server => {
            tracing::debug!("Running in SERVER mode");
            meeting::as_server(&args.end, &args.session, "transfer", |_| Ok(()), watched(receive))?
        }
    };
    if args.end.is_started_end() {
        return Ok(());
    }
    if !difference.is_empty() {
        return Err(Failure::NotVerified(difference));
    }
    let text = String::from_utf8_lossy(TEXT);
    let passed = format!("PASSED: {} bytes \"{text}\", tag {TAG}", TEXT.len());
    let lines: Vec<String> = iter::once(passed).chain(render_growth(&nics)).collect();
    print(&lines.join("\n"))
}

/// Does `body` and sees what the NICs count meanwhile.
fn watched(
    body: impl FnOnce(&mut Link, &Session, &Agreement) -> Result<String, Failure>,
) -> impl FnOnce(&mut Link, &Session, &Agreement) -> Result<(String, Vec<NicGrowth>), Failure> {
    |link, session, agreement| {
        let watch = NicWatch::start(session);
        Ok((body(link, session, agreement)?, watch.end(session)))
    }
}

fn register(session: &Session, agreement: &Agreement, what: &str) -> Result<u64, Failure> {
    let memory = session.allocate(BUFFER_BYTES, agreement.memory.memory_type())?;
    let info = session.memory_info(memory)?;
    tracing::debug!(
        "Registered {} {what} buffer ptr={:#x} bytes={}",
        agreement.role.name(),
        info.address,
        info.bytes
    );
    Ok(memory)
}

fn send(link: &mut Link, session: &Session, agreement: &Agreement) -> Result<String, Failure> {
    let memory = register(session, agreement, "send")?;
    session.write_memory(memory, 0, TEXT)?;
    tracing::debug!("Wrote test message to GPU buffer: {}", String::from_utf8_lossy(TEXT));
    let transfer = session.create_transfer(agreement.peer())?;
    tracing::debug!("Sending {} bytes with tag {TAG}", TEXT.len());
    transfer.post_send(message(memory))?;
    transfer.wait(Some(link.timeout()))?;
    tracing::debug!("Send completed successfully");
    drop(transfer);
    session.deregister_memory(memory)?;
    let difference = link.receive("verdict", |message| match message {
        Message::Verdict { difference } => Ok(difference),
        other => Err(other),
    })?;
    if difference.is_empty() {
        tracing::debug!("Client test completed successfully");
    }
    Ok(difference)
}

fn receive(link: &mut Link, session: &Session, agreement: &Agreement) -> Result<String, Failure> {
    let memory = register(session, agreement, "receive")?;
    session.write_memory(memory, 0, &[POISON; BUFFER_BYTES as usize])?;
    let transfer = session.create_transfer(agreement.peer())?;
    tracing::debug!("Waiting for client data, expected bytes={}", TEXT.len());
    transfer.post_recv(message(memory))?;
    transfer.wait(Some(link.timeout()))?;
    drop(transfer);
    tracing::debug!("Device unpack completed successfully ({})", agreement.unpack);
    let mut buffer = [0; BUFFER_BYTES as usize];
    session.read_memory(memory, 0, &mut buffer)?;
    session.deregister_memory(memory)?;
    let (text, rest) = buffer.split_at(TEXT.len());
    tracing::debug!("Received data ({} bytes): {}", text.len(), text.escape_ascii());
    let difference = difference(text, rest);
    match difference.as_str() {
        "" => tracing::debug!("✓ Data validation PASSED"),
        difference => tracing::error!("✗ Data validation FAILED: {difference}"),
    }
    link.send(&Message::Verdict { difference: difference.clone() })?;
    if difference.is_empty() {
        tracing::debug!("Server test completed successfully");
    }
    Ok(difference)
}

fn message(memory: u64) -> Post {
    Post { memory, offset: 0, bytes: TEXT.len() as u64, tag: TAG }
}

/// What is wrong with the receive buffer; empty if nothing is.
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
