//! The commands as methods, with their answers unwrapped.

use tcpx_sys::{NetDeviceHandle, UnpackNetDeviceHandle};

use crate::harness::process::Process;
use crate::harness::verdict::{Verdict, fail, require, require_rc};
use crate::link::command::{
    Census, CommKind, Command, Counted, LoadFailure, Loaded, Made, Properties, Reply, Stream,
    StreamQueue, Tested,
};
use crate::message::pattern::Mismatch;
use crate::message::unpack_row::Entry;

/// The answer of the expected shape; any other is a fault of the agent, not of the plugin.
macro_rules! answer {
    ($reply:expr, $shape:pat => $value:expr) => {
        match $reply {
            $shape => Ok($value),
            other => Err(fail("the agent answers the question", format!("{other:?}"))),
        }
    };
}

/// Where an agent's messages lie, and their registration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    pub at: u64,
    pub mhandle: u64,
}

/// What `accept` published of a receive comm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    pub kind: i32,
    pub version: i32,
    pub handle: u64,
    pub size: u64,
    pub needs_proxy_progress: i32,
}

/// The unpack queue of a receive comm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    pub meta: u64,
    pub bounce: u64,
    pub head: u64,
}

impl Process {
    /// A call that returns nothing but its code.
    pub(crate) fn rc(&self, command: &Command) -> Verdict<i32> {
        answer!(self.call(command)?, Reply::Rc(rc) => rc)
    }

    /// A call that makes something.
    pub(crate) fn made(&self, command: &Command) -> Verdict<Made> {
        answer!(self.call(command)?, Reply::Made(made) => made)
    }

    /// Opens the plugin; the text says why it cannot be.
    pub(crate) fn load(&self) -> Verdict<Result<Loaded, LoadFailure>> {
        answer!(self.call(&Command::Load)?, Reply::Loaded(loaded) => loaded)
    }

    pub(crate) fn init(&self, logger: bool) -> Verdict<i32> {
        self.rc(&Command::Init { logger })
    }

    pub(crate) fn devices(&self) -> Verdict<Counted> {
        answer!(self.call(&Command::Devices)?, Reply::Counted(counted) => counted)
    }

    pub(crate) fn properties(&self, dev: i32) -> Verdict<Properties> {
        answer!(self.call(&Command::Properties { dev })?, Reply::Properties(properties) => properties)
    }

    pub(crate) fn test(&self, request: u64) -> Verdict<Tested> {
        answer!(self.call(&Command::Test { request })?, Reply::Tested(tested) => tested)
    }

    pub(crate) fn iflush(&self, comm: u64, n: i32, request: u64) -> Verdict<Counted> {
        answer!(self.call(&Command::Iflush { comm, n, request })?, Reply::Counted(counted) => counted)
    }

    /// Closes a comm, which always succeeds (§2.12).
    pub(crate) fn close(&self, kind: CommKind, comm: u64) -> Verdict {
        let command = Command::Close { kind, comm };
        require_rc(command.call(), self.rc(&command)?, 0)
    }

    pub(crate) fn reg_mr(&self, comm: u64, data: u64, bytes: u64, kind: i32) -> Verdict<Made> {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        self.made(&Command::RegMr { comm, data, bytes, kind })
    }

    /// A buffer of its own with a registration.
    pub(crate) fn registered(&self, comm: u64, bytes: u64, kind: i32) -> Verdict<Buffer> {
        let at = match kind {
            tcpx_sys::PTR_CUDA => self.allocate_device(bytes)?,
            _ => self.allocate(bytes)?,
        };
        let made = self.reg_mr(comm, at, bytes, kind)?;
        require_rc(&format!("regMr of {bytes} page-aligned bytes as type {kind}"), made.rc, 0)?;
        Ok(Buffer { at, mhandle: made.pointer })
    }

    pub(crate) fn allocate(&self, bytes: u64) -> Verdict<u64> {
        answer!(self.call(&Command::Allocate { bytes })?, Reply::Address(at) => at)
    }

    pub(crate) fn allocate_device(&self, bytes: u64) -> Verdict<u64> {
        answer!(self.call(&Command::AllocateDevice { bytes })?, Reply::Address(at) => at)
    }

    pub(crate) fn read(&self, at: u64, bytes: u32) -> Verdict<Vec<u8>> {
        let read = answer!(self.call(&Command::Read { at, bytes })?, Reply::Bytes(read) => read)?;
        if read.len() == bytes as usize {
            Ok(read)
        } else {
            Err(fail("the agent reads what was asked for", "another length"))
        }
    }

    /// One aligned word.
    pub(crate) fn word(&self, at: u64) -> Verdict<u64> {
        answer!(self.call(&Command::ReadWord { at })?, Reply::Address(word) => word)
    }

    pub(crate) fn write(&self, at: u64, bytes: Vec<u8>) -> Verdict {
        answer!(self.call(&Command::Write { at, bytes })?, Reply::Done => ())
    }

    /// Puts the message of `seed` at `at`.
    pub(crate) fn fill(&self, at: u64, bytes: u64, seed: u64) -> Verdict {
        answer!(self.call(&Command::Fill { at, bytes, seed })?, Reply::Done => ())
    }

    /// The first byte at `at` that is not the message of `seed`.
    pub(crate) fn verify(&self, at: u64, bytes: u64, seed: u64) -> Verdict<Option<Mismatch>> {
        answer!(self.call(&Command::Verify { at, bytes, seed })?, Reply::Verified(found) => found)
    }

    pub(crate) fn gather(&self, bounce: u64, entries: Vec<Entry>, to: u64) -> Verdict {
        answer!(self.call(&Command::Gather { bounce, entries, to })?, Reply::Done => ())
    }

    /// Bytes from `at` to the end of its mapping, `None` outside any.
    pub(crate) fn mapped_bytes(&self, at: u64) -> Verdict<Option<u64>> {
        answer!(self.call(&Command::MappedBytes { at })?, Reply::MappedBytes(bytes) => bytes)
    }

    pub(crate) fn census(&self) -> Verdict<Census> {
        answer!(self.call(&Command::Census)?, Reply::Census(census) => census)
    }

    pub(crate) fn default_sigpipe(&self) -> Verdict {
        answer!(self.call(&Command::DefaultSigpipe)?, Reply::Done => ())
    }

    /// The device handle that `accept` wrote at `at`.
    pub(crate) fn device(&self, at: u64) -> Verdict<Device> {
        let bytes = self.read(at, size_of::<NetDeviceHandle>() as u32)?;
        Ok(Device {
            kind: int_at(&bytes, 0),
            version: int_at(&bytes, 4),
            handle: word_at(&bytes, 8),
            size: word_at(&bytes, 16),
            needs_proxy_progress: int_at(&bytes, 24),
        })
    }

    /// The queue behind a device handle.
    pub(crate) fn queue(&self, handle: u64) -> Verdict<Queue> {
        require(handle != 0, "accept publishes a device struct", || "a NULL handle".to_owned())?;
        let bytes = self.read(handle, size_of::<UnpackNetDeviceHandle>() as u32)?;
        Ok(Queue {
            meta: word_at(&bytes, 0),
            bounce: word_at(&bytes, 8),
            head: word_at(&bytes, 16),
        })
    }
}

/// Runs a stream in both agents at once.
pub(crate) fn run_streams(
    sender: (&Process, Stream),
    receiver: (&Process, Stream, Option<StreamQueue>),
) -> Verdict {
    let (send, receive) =
        (Command::SendStream(sender.1), Command::RecvStream(receiver.1, receiver.2));
    receiver.0.begin(&receive)?;
    sender.0.begin(&send)?;
    let received = answer!(receiver.0.finish(receive.call())?, Reply::Streamed(result) => result)?;
    received.map_err(|text| fail("every message of the stream arrives", text))?;
    let sent = answer!(sender.0.finish(send.call())?, Reply::Streamed(result) => result)?;
    sent.map_err(|text| fail("every send of the stream is done", text))
}

fn int_at(bytes: &[u8], at: usize) -> i32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    i32::from_ne_bytes(word)
}

fn word_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(word)
}
