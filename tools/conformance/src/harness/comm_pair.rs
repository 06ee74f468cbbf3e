//! A send comm and its receive comm, each in a process of its own, with registered buffers and the
//! receiver's queue.
//!
//! § is a section of docs/plugin-contract.md.

use std::cell::Cell;
use std::rc::Rc;

use tcpx_sys::{LoadMeta, UNPACK_QUEUE_DEPTH};

use crate::harness::agent_process::AgentProcess;
use crate::harness::calls::{CommKind, RegisteredBuffer, UnpackQueue};
use crate::harness::check_result::{CheckResult, fail, require, require_pointer, require_rc};
use crate::harness::fixture::Fixture;
use crate::harness::pending_pair::PendingPair;
use crate::link::values::{PointerReply, TestReply};
use crate::memory_kind::MemoryKind;
use crate::message::unpack_row::{self, Entry};

/// Bytes of each buffer: room for 16 messages of one chunk.
pub(crate) const BUFFER_BYTES: u64 = 16 * CHUNK_BYTES;
/// Bytes that one request carries at most without losing pages (§3.6).
pub(crate) const CHUNK_BYTES: u64 = 512 * 1024;

/// Two connected comms.
#[derive(Debug)]
pub(crate) struct CommPair {
    pub sender: Rc<AgentProcess>,
    pub receiver: Rc<AgentProcess>,
    pub send_comm: u64,
    pub recv_comm: u64,
    pub outgoing: RegisteredBuffer,
    pub incoming: RegisteredBuffer,
    pub queue: UnpackQueue,
    /// Address of the device struct that names the queue.
    pub device_struct: u64,
    /// Address at which the receiver assembles a message from its entries.
    pub scratch: u64,
    pub memory: MemoryKind,
    /// Whether receives arrive as entries of the unpack queue.
    unpacks: bool,
    received: Cell<u64>,
}

/// A posted receive: its request, how many came before it on the comm, and its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PostedReceive {
    pub request: u64,
    pub index: u64,
    pub place: u64,
}

impl CommPair {
    /// Connects a new comm from `sender` to `receiver` and registers a buffer at each end.
    pub(crate) fn connect(
        fixture: &Fixture<'_>,
        sender: Rc<AgentProcess>,
        receiver: Rc<AgentProcess>,
        send_kind: i32,
        recv_kind: i32,
    ) -> CheckResult<Self> {
        let pending = PendingPair::between(fixture, sender, receiver)?;
        let comms = pending.establish(fixture)?;
        Self::from_pending(fixture, &pending, comms, send_kind, recv_kind)
    }

    /// Connects another comm between the same processes, over the memory of this one: any
    /// descriptor or thread that they gain is the plugin's.
    pub(crate) fn connect_another(&self, fixture: &Fixture<'_>) -> CheckResult<Self> {
        let (sender, receiver) = (Rc::clone(&self.sender), Rc::clone(&self.receiver));
        let pending = PendingPair::between(fixture, sender, receiver)?;
        let comms = pending.establish(fixture)?;
        let kind = self.memory.pointer_type();
        let places = [self.outgoing.at, self.incoming.at, self.scratch];
        Self::with_buffers(fixture, &pending, comms, [kind, kind], places)
    }

    /// Registers a new buffer at each end of a pair whose comms are connected.
    pub(crate) fn from_pending(
        fixture: &Fixture<'_>,
        pending: &PendingPair,
        comms: (u64, u64),
        send_kind: i32,
        recv_kind: i32,
    ) -> CheckResult<Self> {
        let places = [
            pending.connector.allocate_as(send_kind, BUFFER_BYTES)?,
            pending.listener.allocate_as(recv_kind, BUFFER_BYTES)?,
            pending.listener.allocate(BUFFER_BYTES)?,
        ];
        Self::with_buffers(fixture, pending, comms, [send_kind, recv_kind], places)
    }

    /// Closes the listen comm of a connected pair, and registers the given buffers.
    fn with_buffers(
        fixture: &Fixture<'_>,
        pending: &PendingPair,
        (send_comm, recv_comm): (u64, u64),
        [send_kind, recv_kind]: [i32; 2],
        [outgoing, incoming, scratch]: [u64; 3],
    ) -> CheckResult<Self> {
        let (sender, receiver) = (Rc::clone(&pending.connector), Rc::clone(&pending.listener));
        receiver.close(CommKind::Listen, pending.listen_comm)?;
        let device_struct = receiver.device_handle(pending.device)?.handle;
        Ok(Self {
            queue: receiver.unpack_queue(device_struct)?,
            outgoing: sender.register_at(send_comm, outgoing, BUFFER_BYTES, send_kind)?,
            incoming: receiver.register_at(recv_comm, incoming, BUFFER_BYTES, recv_kind)?,
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

    /// Fills the message of `seed` at `offset` of the outgoing buffer, posts it, and returns its
    /// request.
    pub(crate) fn send(&self, offset: u64, bytes: u64, seed: u64) -> CheckResult<u64> {
        let data = self.outgoing.at + offset;
        self.sender.fill(data, bytes, seed)?;
        let reply = self.isend(data, bytes)?;
        require_pointer(&format!("isend of {bytes} bytes"), reply, "isend hands out a request")
    }

    /// Calls isend and returns its reply.
    pub(crate) fn isend(&self, data: u64, bytes: u64) -> CheckResult<PointerReply> {
        self.sender.isend(self.send_comm, data, int(bytes)?, 0, self.outgoing.mhandle)
    }

    /// Posts a receive of `bytes` at `offset` of the incoming buffer.
    pub(crate) fn receive(&self, offset: u64, bytes: u64) -> CheckResult<PostedReceive> {
        let reply = self.irecv(self.incoming.at + offset, bytes)?;
        let call = format!("irecv of {bytes} bytes");
        let request = require_pointer(&call, reply, "irecv hands out a request")?;
        Ok(self.count_posted(request, self.incoming.at + offset))
    }

    /// Calls irecv and returns its reply. Pass one that succeeds to
    /// [`count_posted`](Self::count_posted).
    pub(crate) fn irecv(&self, data: u64, bytes: u64) -> CheckResult<PointerReply> {
        let mhandle = self.incoming.mhandle;
        self.receiver.irecv(self.recv_comm, 1, data, int(bytes)?, Some(0), mhandle)
    }

    /// Counts a receive that a check posted with [`irecv`](Self::irecv) or by the agent.
    pub(crate) fn count_posted(&self, request: u64, place: u64) -> PostedReceive {
        let index = self.received.replace(self.received.get() + 1);
        PostedReceive { request, index, place }
    }

    /// Returns how many receives were posted so far.
    pub(crate) fn received(&self) -> u64 {
        self.received.get()
    }

    /// Counts receives that an agent posted in a stream.
    pub(crate) fn count_received(&self, count: u64) {
        self.received.set(self.received.get() + count);
    }

    /// Tests the oldest request of each end until both are done.
    pub(crate) fn complete(
        &self,
        fixture: &Fixture<'_>,
        send: u64,
        receive: &PostedReceive,
    ) -> CheckResult {
        let (mut sent, mut got) = (false, false);
        loop {
            sent = sent || test_once(&self.sender, send, "send")?;
            got = got || test_once(&self.receiver, receive.request, "receive")?;
            if sent && got {
                return Ok(());
            }
            require(!fixture.has_used(1, 1), "both requests are done", || {
                format!("send done: {sent}, receive done: {got}, at the deadline")
            })?;
        }
    }

    /// Tests the oldest requests of both ends in order until all are done.
    pub(crate) fn complete_all(
        &self,
        fixture: &Fixture<'_>,
        sends: &[u64],
        receives: &[PostedReceive],
    ) -> CheckResult {
        let (mut sent, mut got) = (0, 0);
        while sent < sends.len() || got < receives.len() {
            if let Some(&send) = sends.get(sent) {
                sent += usize::from(test_once(&self.sender, send, "send")?);
            }
            if let Some(receive) = receives.get(got) {
                got += usize::from(test_once(&self.receiver, receive.request, "receive")?);
            }
            require(!fixture.has_used(1, 1), "every request is done", || {
                format!(
                    "{sent} of {} sends and {got} of {} receives at the deadline",
                    sends.len(),
                    receives.len()
                )
            })?;
        }
        Ok(())
    }

    /// Reads the entries of a finished receive.
    pub(crate) fn row(&self, receive: &PostedReceive) -> CheckResult<Vec<Entry>> {
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
    pub(crate) fn check(&self, receive: &PostedReceive, bytes: u64, seed: u64) -> CheckResult {
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
            Some(wrong) => Err(fail(format!("the {bytes} sent bytes"), format!("{wrong:x?}"))),
        }
    }

    /// Consumes the oldest finished receive.
    pub(crate) fn consume(&self, receive: &PostedReceive) -> CheckResult {
        require_rc(
            "irecvConsumed of the oldest finished receive",
            self.irecv_consumed(receive.request)?,
            0,
        )
    }

    /// Calls irecvConsumed and returns its code.
    pub(crate) fn irecv_consumed(&self, request: u64) -> CheckResult<i32> {
        self.receiver.irecv_consumed(self.recv_comm, 1, request)
    }

    /// Deregisters and closes, in the order that works (§2.12).
    pub(crate) fn release(&self) -> CheckResult {
        for (process, comm, mhandle) in [
            (&self.sender, self.send_comm, self.outgoing.mhandle),
            (&self.receiver, self.recv_comm, self.incoming.mhandle),
        ] {
            require_rc("deregMr", process.dereg_mr(comm, mhandle)?, 0)?;
        }
        self.sender.close(CommKind::Send, self.send_comm)?;
        self.receiver.close(CommKind::Recv, self.recv_comm)
    }

    /// Moves one message: posts both ends, completes, checks and consumes.
    pub(crate) fn transfer(&self, fixture: &Fixture<'_>, bytes: u64, seed: u64) -> CheckResult {
        let receive = self.receive(0, bytes)?;
        let send = self.send(0, bytes, seed)?;
        self.complete(fixture, send, &receive)?;
        self.check(&receive, bytes, seed)?;
        self.consume(&receive)
    }
}

impl Fixture<'_> {
    /// Starts two processes and connects a comm between them, with registered buffers of the run's
    /// kind of memory.
    pub(crate) fn pair(&self) -> CheckResult<CommPair> {
        let kind = self.memory().pointer_type();
        self.pair_of(kind, kind)
    }

    /// Connects a pair for a check of the unpack queue; skips the check without entries.
    pub(crate) fn unpack_pair(&self) -> CheckResult<CommPair> {
        self.require_entries()?;
        self.pair()
    }

    /// Starts two processes and connects a comm between them, with buffers registered as the given
    /// types.
    pub(crate) fn pair_of(&self, send_kind: i32, recv_kind: i32) -> CheckResult<CommPair> {
        self.require_available()?;
        let (sender, receiver) = (self.ready_agent()?, self.ready_agent()?);
        CommPair::connect(self, sender.into(), receiver.into(), send_kind, recv_kind)
    }
}

/// Tests a request once and returns whether it is done.
pub(crate) fn test_once(process: &AgentProcess, request: u64, what: &str) -> CheckResult<bool> {
    let TestReply { rc, done, .. } = process.test(request)?;
    require_rc(&format!("test of the oldest {what}"), rc, 0)?;
    require(done == 0 || done == 1, "test writes 0 or 1 to done", || done.to_string())?;
    Ok(done == 1)
}

/// Converts a byte count to the type that the plugin takes.
fn int(bytes: u64) -> CheckResult<i32> {
    i32::try_from(bytes).map_err(|_| fail("a message below 2 GiB", bytes.to_string()))
}
