//! System calls by which a data socket moves the bytes of chunks: plain, zero-copy, or
//! straight into and from memory of a NIC; or encrypted.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::net::TcpStream;
use std::os::fd::AsFd;

use tcpx_comm::wire::Side;
use tcpx_seal::exchange::SocketKeys;

use super::chunk::Chunk;
use super::encrypted_io::{EncryptedIn, EncryptedOut};
use super::zerocopy::{ZeroCopy, ZerocopySends};
use crate::memory::{IoList, IoOutcome};
use crate::nic_memory::{NicArrivals, NicDepartures};

/// System calls by which a data socket moves bytes.
#[derive(Debug)]
pub(super) enum SocketIo {
    /// The system copies what comes.
    Receive,
    /// The system copies what is sent.
    Send,
    /// What comes is decrypted.
    ReceiveEncrypted(EncryptedIn),
    /// What is sent is encrypted first.
    SendEncrypted(EncryptedOut),
    /// The system may read what is sent where it is.
    SendZerocopy(ZerocopySends),
    /// What comes is in a NIC's region already.
    Arrive(NicArrivals),
    /// A NIC reads what is sent where it is.
    Depart(NicDepartures),
}

impl SocketIo {
    /// Creates the mode of a plain socket.
    pub(super) fn plain(socket: &TcpStream, index: usize, side: Side, zerocopy: ZeroCopy) -> Self {
        match side {
            Side::Recv => Self::Receive,
            Side::Send => {
                ZerocopySends::new(socket, index, zerocopy).map_or(Self::Send, Self::SendZerocopy)
            }
        }
    }

    /// Creates the mode of a socket whose bytes are encrypted.
    pub(super) fn encrypted(keys: SocketKeys, side: Side) -> Self {
        match side {
            Side::Recv => Self::ReceiveEncrypted(EncryptedIn::new(keys.opener)),
            Side::Send => Self::SendEncrypted(EncryptedOut::new(keys.sealer)),
        }
    }

    /// Makes one system call for the first of `chunks`, or for several; returns `None` when the
    /// first waits for bytes or pages. Also returns how many calls must be complete before the
    /// memory has been read.
    pub(super) fn call(
        &mut self,
        socket: &TcpStream,
        chunks: &mut VecDeque<Chunk>,
        most: usize,
        signal: c_int,
    ) -> Option<(IoOutcome, u64)> {
        match self {
            // One chunk a call: no fragment belongs to two chunks.
            Self::Arrive(arrivals) => {
                let (left, pieces, held) = chunks.front_mut()?.growing();
                Some((arrivals.receive(socket, left, most, pieces, held), 0))
            }
            Self::Depart(departures) => {
                let chunk = chunks.front()?;
                Some(departures.send(socket, chunk.source, chunk.rest(), most))
            }
            Self::Receive
            | Self::Send
            | Self::ReceiveEncrypted(_)
            | Self::SendEncrypted(_)
            | Self::SendZerocopy(_) => {
                let mut list = IoList::new(most);
                let unseen = chunks.front()?.unseen;
                for chunk in chunks.iter() {
                    if chunk.unseen != unseen || !chunk.list(&mut list) {
                        break;
                    }
                }
                if list.is_empty() {
                    return None;
                }
                Some(match self {
                    Self::SendZerocopy(sends) => sends.send(socket, &mut list, signal),
                    Self::Send => (list.send(socket.as_fd(), signal), 0),
                    Self::SendEncrypted(out) => (out.send(socket, &list, signal), 0),
                    Self::ReceiveEncrypted(input) => (input.receive(socket, &list, unseen), 0),
                    _ => (list.receive(socket.as_fd()), 0),
                })
            }
        }
    }

    /// Reads from the error queue which zero-copy sends are complete.
    pub(super) fn reap_completions(&mut self, socket: &TcpStream) {
        match self {
            Self::SendZerocopy(sends) => sends.reap_completions(socket),
            Self::Depart(departures) => departures.reap_completions(socket),
            _ => {}
        }
    }

    /// Returns whether the first `calls` of those are complete.
    pub(super) fn are_complete(&self, calls: u64) -> bool {
        match self {
            Self::SendZerocopy(sends) => sends.are_complete(calls),
            Self::Depart(departures) => departures.are_complete(calls),
            _ => true,
        }
    }

    /// Returns whether bytes were read from the socket, and wait for a chunk to be placed in.
    pub(super) fn has_bytes(&self) -> bool {
        matches!(self, Self::ReceiveEncrypted(input) if input.has_bytes())
    }

    /// Returns whether bytes may come, or be here, although the socket does not show them.
    pub(super) fn expects(&self) -> bool {
        match self {
            Self::Arrive(arrivals) => arrivals.expects(),
            _ => self.has_bytes(),
        }
    }

    /// Returns whether the system reads no memory of chunks any more.
    pub(super) fn is_idle(&self) -> bool {
        match self {
            Self::SendZerocopy(sends) => sends.is_idle(),
            Self::Depart(departures) => departures.is_idle(),
            _ => true,
        }
    }
}
