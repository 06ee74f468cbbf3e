//! Commands of a check to an agent.

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::link::socket::Link;
use crate::link::values::{
    CountReply, DeviceArgument, LoadFailure, LoadedTable, PointerReply, ProcessResources,
    Properties, Stream, StreamQueue, TestReply,
};
use crate::message::pattern::Mismatch;
use crate::message::unpack_row::Entry;

/// An agent's reply. The error says why the agent could not execute the command, for a reason
/// outside the plugin.
pub(crate) type Reply<T> = Result<T, String>;

/// The table of all commands: name, arguments, reply, and the name in a report.
///
/// `commands!(expand)` passes it to the macro `expand`. This file defines [`Command`] and
/// [`Commands`] by it, and `harness::calls` the methods of an `AgentProcess`.
macro_rules! commands {
    ($expand:ident) => {
        $expand! {
            /// Opens the plugin.
            load() -> Result<LoadedTable, LoadFailure>, "dlopen";
            init(logger: bool) -> i32, "init";
            devices() -> CountReply, "devices";
            properties(dev: i32) -> Properties, "getProperties";
            listen(dev: i32, handle: u64) -> PointerReply, "listen";
            connect(dev: i32, handle: u64, device: DeviceArgument) -> PointerReply, "connect";
            /// Connects, and measures the thread's own time in the call.
            timed_connect(dev: i32, handle: u64, device: DeviceArgument) -> (PointerReply, Duration),
                "connect";
            accept(listen_comm: u64, device: DeviceArgument) -> PointerReply, "accept";
            reg_mr(comm: u64, data: u64, bytes: i32, kind: i32) -> PointerReply, "regMr";
            dereg_mr(comm: u64, mhandle: u64) -> i32, "deregMr";
            isend(comm: u64, data: u64, bytes: i32, tag: i32, mhandle: u64) -> PointerReply, "isend";
            /// Passes `n` times the same data, size, tag and registration; without a tag, a NULL
            /// array.
            irecv(comm: u64, n: i32, data: u64, bytes: i32, tag: Option<i32>, mhandle: u64) -> PointerReply,
                "irecv";
            iflush(comm: u64, n: i32, request: u64) -> CountReply, "iflush";
            test(request: u64) -> TestReply, "test";
            irecv_consumed(comm: u64, n: i32, request: u64) -> i32, "irecvConsumed";
            close_send(comm: u64) -> i32, "closeSend";
            close_recv(comm: u64) -> i32, "closeRecv";
            close_listen(comm: u64) -> i32, "closeListen";
            get_device_mr(comm: u64, mhandle: u64) -> PointerReply, "getDeviceMr";
            /// Sends a stream; the text says what went wrong in it.
            #[allow(dead_code, reason = "`run_streams` sends both halves before it waits for one")]
            send_stream(stream: Stream) -> Result<(), String>, "a stream of isend and test";
            /// Receives a stream; without a queue the bytes land where they were posted.
            #[allow(dead_code, reason = "`run_streams` sends both halves before it waits for one")]
            recv_stream(stream: Stream, queue: Option<StreamQueue>) -> Result<(), String>,
                "a stream of irecv, test and irecvConsumed";
            /// Allocates page-aligned ordinary memory, zeroed and never freed.
            allocate(bytes: u64) -> u64, "an access to the agent's own memory";
            /// Allocates memory of the agent's GPU, or ordinary memory without a GPU.
            allocate_device(bytes: u64) -> u64, "an access to the agent's own memory";
            read_bytes(at: u64, bytes: u32) -> Vec<u8>, "a read of what the plugin published";
            /// Reads one aligned word in a single access.
            word(at: u64) -> u64, "a read of what the plugin published";
            write(at: u64, bytes: Vec<u8>) -> (), "an access to the agent's own memory";
            /// Writes the message of `seed` at `at`.
            fill(at: u64, bytes: u64, seed: u64) -> (), "an access to the agent's own memory";
            /// Returns the first byte at `at` that differs from the message of `seed`.
            verify(at: u64, bytes: u64, seed: u64) -> Option<Mismatch>,
                "an access to the agent's own memory";
            /// Copies entries from the bounce buffer to their destinations behind `to`.
            gather(bounce: u64, entries: Vec<Entry>, to: u64) -> (),
                "a read of what the plugin published";
            /// Returns the bytes from `at` to the end of its memory mapping; `None` outside any.
            mapped_bytes(at: u64) -> Option<u64>, "an access to the agent's own memory";
            /// Counts the open file descriptors and threads of the process.
            resources() -> ProcessResources, "a count of the agent's descriptors";
            /// Returns the file behind a descriptor, by device and inode; `None` if it is closed.
            descriptor(number: i32) -> Option<(u64, u64)>, "a look at the agent's descriptors";
            /// Makes another GPU's context current, and allocates its memory from now on.
            use_gpu(ordinal: u32) -> (), "a change of the agent's GPU";
            /// Restores the default action of SIGPIPE, as in a C program.
            default_sigpipe() -> (), "a change of the agent's signals";
        }
    };
}
pub(crate) use commands;

macro_rules! define {
    ($(
        $(#[$doc:meta])*
        $name:ident($($argument:ident: $type:ty),*) -> $answer:ty, $call:literal;
    )*) => {
        /// One command, as it travels. Its variants have the names of the methods that send and
        /// execute them.
        #[derive(Clone, Debug, Serialize, Deserialize)]
        #[allow(non_camel_case_types, reason = "the table spells each name once")]
        pub(crate) enum Command {
            $($(#[$doc])* $name { $($argument: $type),* },)*
        }

        impl Command {
            /// Returns the name of the call in a report: the C name, if there is one.
            pub(crate) const fn name(&self) -> &'static str {
                match self {
                    $(Self::$name { .. } => $call,)*
                }
            }

            /// Executes the command and sends the reply.
            pub(crate) fn execute(
                self,
                agent: &mut impl Commands,
                link: &mut Link,
            ) -> io::Result<()> {
                match self {
                    $(Self::$name { $($argument),* } => {
                        link.send(&agent.$name($($argument),*), None)
                    })*
                }
            }
        }

        /// Execution of each command.
        pub(crate) trait Commands {
            $($(#[$doc])* fn $name(&mut self, $($argument: $type),*) -> Reply<$answer>;)*
        }
    };
}
commands!(define);
