//! A send comm and its receive comm, each in a process of its own, with registered buffers and the
//! receiver's queue.
//!
//! § is a section of docs/plugin-contract.md.

use std::cell::Cell;
use std::rc::Rc;

use tcpx_sys::{LoadMeta, UNPACK_QUEUE_DEPTH};

use crate::harness::calls::{Buffer, CommKind, Queue};
use crate::harness::fixture::Fixture;
use crate::harness::pending_pair::PendingPair;
use crate::harness::process::Process;
use crate::harness::verdict::{Verdict, fail, require, require_made, require_rc};
use crate::link::values::{Made, Tested};
use crate::memory_kind::MemoryKind;
use crate::message::unpack_row::{self, Entry};

/// Bytes of each buffer: 16 messages of a chunk each.
pub(crate) const BUFFER_BYTES: u64 = 16 * CHUNK_BYTES;
/// Bytes that one request carries at most without losing pages (§3.6).
pub(crate) const CHUNK_BYTES: u64 = 512 * 1024;

/// Two connected comms.
#[derive(Debug)]
pub(crate) struct CommPair {
    pub sender: Rc<Process>,
    pub receiver: Rc<Process>,
    pub send_comm: u64,
    pub recv_comm: u64,
    pub outgoing: Buffer,
    pub incoming: Buffer,
    pub queue: Queue,
    /// Address of the device struct that names the queue.
    pub device_struct: u64,
    /// Where the receiver puts a message together.
    pub scratch: u64,
    pub memory: MemoryKind,
    /// Whether receives come as entries.
    unpacks: bool,
    received: Cell<u64>,
}

/// A posted receive: how many came before it on the comm, and where its message lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Receive {
    pub request: u64,
    pub index: u64,
    pub place: u64,
}

impl CommPair {
    /// Connects a new comm from `sender` to `receiver` and registers a buffer at each end.
    pub(crate) fn connect(
        fixture: &Fixture<'_>,
        sender: Rc<Process>,
        receiver: Rc<Process>,
        send_kind: i32,
        recv_kind: i32,
    ) -> Verdict<Self> {
        let pending = PendingPair::between(fixture, sender, receiver)?;
        let comms = pending.establish(fixture)?;
        Self::of(fixture, &pending, comms, send_kind, recv_kind)
    }

    /// Another comm between the same processes, over the memory of this one: what they hold then
    /// is the plugin's.
    pub(crate) fn another(&self, fixture: &Fixture<'_>) -> Verdict<Self> {
        let (sender, receiver) = (Rc::clone(&self.sender), Rc::clone(&self.receiver));
        let pending = PendingPair::between(fixture, sender, receiver)?;
        let comms = pending.establish(fixture)?;
        let kind = self.memory.pointer_type();
        let places = [self.outgoing.at, self.incoming.at, self.scratch];
        Self::over(fixture, &pending, comms, [kind, kind], places)
    }

    /// Made of a pair whose comms are there, with a buffer at each end.
    pub(crate) fn of(
        fixture: &Fixture<'_>,
        pending: &PendingPair,
        comms: (u64, u64),
        send_kind: i32,
        recv_kind: i32,
    ) -> Verdict<Self> {
        let places = [
            pending.connector.allocate_as(send_kind, BUFFER_BYTES)?,
            pending.listener.allocate_as(recv_kind, BUFFER_BYTES)?,
            pending.listener.allocate(BUFFER_BYTES)?,
        ];
        Self::over(fixture, pending, comms, [send_kind, recv_kind], places)
    }

    /// The same with buffers that are there: closes the listen comm and registers them.
    fn over(
        fixture: &Fixture<'_>,
        pending: &PendingPair,
        (send_comm, recv_comm): (u64, u64),
        [send_kind, recv_kind]: [i32; 2],
        [outgoing, incoming, scratch]: [u64; 3],
    ) -> Verdict<Self> {
        let (sender, receiver) = (Rc::clone(&pending.connector), Rc::clone(&pending.listener));
        receiver.close(CommKind::Listen, pending.listen_comm)?;
        let device_struct = receiver.device(pending.device)?.handle;
        Ok(Self {
            queue: receiver.queue(device_struct)?,
            outgoing: sender.registered_at(send_comm, outgoing, BUFFER_BYTES, send_kind)?,
            incoming: receiver.registered_at(recv_comm, incoming, BUFFER_BYTES, recv_kind)?,
            scratch,
            memory: fixture.memory(),
            unpacks: recv_kind == tcpx_sys::PTR_CUDA,
            received: Cell::new(0),
            sender,
            receiver,
            send_comm,
            recv_comm,
            device_struct,
        })
    }

    /// Fills the message of `seed` at `offset` of the outgoing buffer and posts it.
    pub(crate) fn send(&self, offset: u64, bytes: u64, seed: u64) -> Verdict<u64> {
        let data = self.outgoing.at + offset;
        self.sender.fill(data, bytes, seed)?;
        let made = self.isend(data, bytes)?;
        require_made(&format!("isend of {bytes} bytes"), made, "isend hands out a request")
    }

    /// The raw isend.
    pub(crate) fn isend(&self, data: u64, bytes: u64) -> Verdict<Made> {
        self.sender.isend(self.send_comm, data, int(bytes)?, 0, self.outgoing.mhandle)
    }

    /// Posts a receive of `bytes` at `offset` of the incoming buffer.
    pub(crate) fn receive(&self, offset: u64, bytes: u64) -> Verdict<Receive> {
        let made = self.irecv(self.incoming.at + offset, bytes)?;
        let call = format!("irecv of {bytes} bytes");
        let request = require_made(&call, made, "irecv hands out a request")?;
        Ok(self.posted(request, self.incoming.at + offset))
    }

    /// The raw irecv. One that succeeds must be told to [`posted`](Self::posted).
    pub(crate) fn irecv(&self, data: u64, bytes: u64) -> Verdict<Made> {
        let mhandle = self.incoming.mhandle;
        self.receiver.irecv(self.recv_comm, 1, data, int(bytes)?, Some(0), mhandle)
    }

    /// Counts a receive that a check posted by itself.
    pub(crate) fn posted(&self, request: u64, place: u64) -> Receive {
        let index = self.received.replace(self.received.get() + 1);
        Receive { request, index, place }
    }

    /// Receives posted so far.
    pub(crate) fn received(&self) -> u64 {
        self.received.get()
    }

    /// Counts receives that an agent posted by itself.
    pub(crate) fn received_more(&self, count: u64) {
        self.received.set(self.received.get() + count);
    }

    /// Tests the oldest request of each end until both are done.
    pub(crate) fn complete(&self, fixture: &Fixture<'_>, send: u64, receive: &Receive) -> Verdict {
        let (mut sent, mut got) = (false, false);
        loop {
            sent = sent || step(&self.sender, send, "send")?;
            got = got || step(&self.receiver, receive.request, "receive")?;
            if sent && got {
                return Ok(());
            }
            require(!fixture.used(1, 1), "both requests are done", || {
                format!("send done: {sent}, receive done: {got}, at the deadline")
            })?;
        }
    }

    /// Tests the oldest requests of both ends in order until all are done.
    pub(crate) fn complete_all(
        &self,
        fixture: &Fixture<'_>,
        sends: &[u64],
        receives: &[Receive],
    ) -> Verdict {
        let (mut sent, mut got) = (0, 0);
        while sent < sends.len() || got < receives.len() {
            if let Some(&send) = sends.get(sent) {
                sent += usize::from(step(&self.sender, send, "send")?);
            }
            if let Some(receive) = receives.get(got) {
                got += usize::from(step(&self.receiver, receive.request, "receive")?);
            }
            require(!fixture.used(1, 1), "every request is done", || {
                format!(
                    "{sent} of {} sends and {got} of {} receives at the deadline",
                    sends.len(),
                    receives.len()
                )
            })?;
        }
        Ok(())
    }

    /// The row of a finished receive.
    pub(crate) fn row(&self, receive: &Receive) -> Verdict<Vec<Entry>> {
        let slot = receive.index % UNPACK_QUEUE_DEPTH as u64;
        let cnt = self.receiver.word(unpack_row::count_address(self.queue.meta, slot))?;
        let count = unpack_row::check_count(cnt)
            .map_err(|text| fail(format!("a valid cnt in slot {slot}"), text))?;
        let bytes = (count * size_of::<LoadMeta>()) as u32;
        Ok(unpack_row::parse_row(
            &self.receiver.read(unpack_row::row_address(self.queue.meta, slot), bytes)?,
        ))
    }

    /// Checks that the bytes of a finished receive are those of the message, by its entries or in
    /// place.
    pub(crate) fn check(&self, receive: &Receive, bytes: u64, seed: u64) -> Verdict {
        let at = if self.unpacks {
            let entries = self.row(receive)?;
            unpack_row::check_cover(&entries, bytes).map_err(|text| {
                fail(format!("entries that cover the message of {bytes} bytes exactly"), text)
            })?;
            self.receiver.gather(self.queue.bounce, entries, self.scratch)?;
            self.scratch
        } else {
            receive.place
        };
        match self.receiver.verify(at, bytes, seed)? {
            None => Ok(()),
            Some(wrong) => {
                Err(fail(format!("the {bytes} bytes that were sent"), format!("{wrong:x?}")))
            }
        }
    }

    /// Tells the plugin that the receive was copied out.
    pub(crate) fn consume(&self, receive: &Receive) -> Verdict {
        require_rc(
            "irecvConsumed of the oldest finished receive",
            self.consumed(receive.request)?,
            0,
        )
    }

    /// The raw irecvConsumed.
    pub(crate) fn consumed(&self, request: u64) -> Verdict<i32> {
        self.receiver.irecv_consumed(self.recv_comm, 1, request)
    }

    /// Deregisters and closes, in the order that works (§2.12).
    pub(crate) fn release(&self) -> Verdict {
        for (process, comm, mhandle) in [
            (&self.sender, self.send_comm, self.outgoing.mhandle),
            (&self.receiver, self.recv_comm, self.incoming.mhandle),
        ] {
            require_rc("deregMr", process.dereg_mr(comm, mhandle)?, 0)?;
        }
        self.sender.close(CommKind::Send, self.send_comm)?;
        self.receiver.close(CommKind::Recv, self.recv_comm)
    }

    /// One whole message: posted at both ends, completed, checked and consumed.
    pub(crate) fn transfer(&self, fixture: &Fixture<'_>, bytes: u64, seed: u64) -> Verdict {
        let receive = self.receive(0, bytes)?;
        let send = self.send(0, bytes, seed)?;
        self.complete(fixture, send, &receive)?;
        self.check(&receive, bytes, seed)?;
        self.consume(&receive)
    }
}

impl Fixture<'_> {
    /// Two processes and a comm between them, with registered buffers of the run's kind of memory.
    pub(crate) fn pair(&self) -> Verdict<CommPair> {
        let kind = self.memory().pointer_type();
        self.pair_of(kind, kind)
    }

    /// The same for checks of the unpack queue.
    pub(crate) fn unpack_pair(&self) -> Verdict<CommPair> {
        self.require_entries()?;
        self.pair()
    }

    /// Two processes and a comm between them; the buffers are registered as the given types.
    pub(crate) fn pair_of(&self, send_kind: i32, recv_kind: i32) -> Verdict<CommPair> {
        self.require_available()?;
        let (sender, receiver) = (self.ready()?, self.ready()?);
        CommPair::connect(self, sender.into(), receiver.into(), send_kind, recv_kind)
    }
}

/// Tests a request once, and says whether it is done now.
pub(crate) fn step(process: &Process, request: u64, what: &str) -> Verdict<bool> {
    let Tested { rc, done, .. } = process.test(request)?;
    require_rc(&format!("test of the oldest {what}"), rc, 0)?;
    require(done == 0 || done == 1, "test writes 0 or 1 to done", || done.to_string())?;
    Ok(done == 1)
}

/// A byte count as the plugin takes it.
fn int(bytes: u64) -> Verdict<i32> {
    i32::try_from(bytes).map_err(|_| fail("a message below 2 GiB", bytes.to_string()))
}
