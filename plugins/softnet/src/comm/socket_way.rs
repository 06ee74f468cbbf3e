//! Way in which a data socket moves the bytes of chunks: by plain calls, by sends in place, or
//! straight into and from memory of a NIC.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::net::TcpStream;
use std::os::fd::AsFd;

use tcpx_comm::wire::Side;

use super::chunk::Chunk;
use super::zerocopy::{SendsInPlace, ZeroCopy};
use crate::memory::{IoList, IoOutcome};
use crate::nic_memory::{NicArrivals, NicDepartures};

/// Way in which a data socket moves bytes.
#[derive(Debug)]
pub(super) enum SocketWay {
    /// The system copies what comes.
    Receive,
    /// The system copies what is sent.
    Send,
    /// The system may read what is sent where it is.
    SendInPlace(SendsInPlace),
    /// What comes is in a NIC's region already.
    Arrive(NicArrivals),
    /// A NIC reads what is sent where it is.
    Depart(NicDepartures),
}

impl SocketWay {
    /// Returns the way of plain sockets.
    pub(super) fn plain(socket: &TcpStream, index: usize, side: Side, zerocopy: ZeroCopy) -> Self {
        match side {
            Side::Recv => Self::Receive,
            Side::Send => {
                SendsInPlace::new(socket, index, zerocopy).map_or(Self::Send, Self::SendInPlace)
            }
        }
    }

    /// Makes one system call for the first of `chunks`, or for several; returns `None` when the
    /// first waits for bytes or pages. Also returns how many calls must be over before the memory
    /// has been read.
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
            Self::Receive | Self::Send | Self::SendInPlace(_) => {
                let mut list = IoList::new(most);
                for chunk in chunks.iter() {
                    if !chunk.list(&mut list) {
                        break;
                    }
                }
                if list.is_empty() {
                    return None;
                }
                Some(match self {
                    Self::SendInPlace(sends) => sends.send(socket, &mut list, signal),
                    Self::Send => (list.send(socket.as_fd(), signal), 0),
                    _ => (list.receive(socket.as_fd()), 0),
                })
            }
        }
    }

    /// Reads from the system which sends in place are over.
    pub(super) fn hear(&mut self, socket: &TcpStream) {
        match self {
            Self::SendInPlace(sends) => sends.hear(socket),
            Self::Depart(departures) => departures.hear(socket),
            Self::Receive | Self::Send | Self::Arrive(_) => {}
        }
    }

    /// Returns whether the first `calls` of those are over.
    pub(super) fn are_over(&self, calls: u64) -> bool {
        match self {
            Self::SendInPlace(sends) => sends.are_over(calls),
            Self::Depart(departures) => departures.are_over(calls),
            Self::Receive | Self::Send | Self::Arrive(_) => true,
        }
    }

    /// Returns whether bytes may come, or be here, although the socket does not show them.
    pub(super) fn expects(&self) -> bool {
        matches!(self, Self::Arrive(arrivals) if arrivals.expects())
    }

    /// Returns whether the system reads no memory of chunks any more.
    pub(super) fn is_idle(&self) -> bool {
        match self {
            Self::SendInPlace(sends) => sends.is_idle(),
            Self::Depart(departures) => departures.is_idle(),
            Self::Receive | Self::Send | Self::Arrive(_) => true,
        }
    }
}
