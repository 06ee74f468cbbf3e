//! Credit: running count of posted receives, which the receiver sends to a sender that waits for
//! receives (`NCCL_GPUDIRECTTCPX_RECV_SYNC`).

use std::io;

use super::control_socket::ControlSocket;

/// Running count of posted receives on its way to a sender that waits for it.
#[derive(Debug, Default)]
pub(crate) struct CreditOut {
    sent: u32,
    /// Encoded count that is partly out, and the number of its bytes that are out.
    partial: Option<([u8; 4], usize)>,
}

impl CreditOut {
    /// Sends the sender the count of `posted` receives, if the socket has room.
    pub(crate) fn send(&mut self, socket: &mut ControlSocket, posted: u64) -> io::Result<()> {
        // The count is cut to 32 bits; the sender adds up the differences.
        let posted = posted as u32;
        loop {
            if self.partial.is_none() {
                if self.sent == posted {
                    return Ok(());
                }
                self.sent = posted;
                self.partial = Some((posted.to_le_bytes(), 0));
            }
            let Some((bytes, sent)) = &mut self.partial else { return Ok(()) };
            let Some(count) = socket.try_write(&bytes[*sent..])? else { return Ok(()) };
            *sent += count;
            if *sent == bytes.len() {
                self.partial = None;
            }
        }
    }
}

/// The sender's view of the number of receives that the peer has posted.
#[derive(Debug, Default)]
pub(crate) struct CreditIn {
    /// Number of receives posted by the peer.
    credit: u64,
    partial: [u8; 4],
    filled: usize,
}

impl CreditIn {
    /// Returns whether the peer has posted the receive for request `number`.
    pub(crate) fn covers(&self, number: u64) -> bool {
        number < self.credit
    }

    /// Reads counts that have come. The peer can be ahead by no more receives than a comm holds.
    pub(crate) fn read(
        &mut self,
        socket: &mut ControlSocket,
        sent: u64,
        most_outstanding: u64,
    ) -> io::Result<()> {
        loop {
            match socket.try_read(&mut self.partial[self.filled..])? {
                None => return Ok(()),
                Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(count) => self.filled += count,
            }
            if self.filled < self.partial.len() {
                continue;
            }
            self.filled = 0;
            let more = u32::from_le_bytes(self.partial).wrapping_sub(self.credit as u32);
            let credit = self.credit + u64::from(more);
            if more == 0 || credit > sent + most_outstanding {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "count of posted receives is wrong",
                ));
            }
            self.credit = credit;
        }
    }
}
