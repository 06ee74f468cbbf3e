//! Commands that a check may give to an agent.

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::link::socket::Link;
use crate::link::values::{
    Census, Counted, DeviceArgument, LoadFailure, Loaded, Made, Properties, Stream, StreamQueue,
    Tested,
};
use crate::message::pattern::Mismatch;
use crate::message::unpack_row::Entry;

/// An agent's answer. The text says why it could not carry the command out at all, for a reason
/// that lies outside the plugin.
pub(crate) type Answer<T> = Result<T, String>;

/// The table of all commands: name, arguments, answer, and what a report calls it.
///
/// `commands!(expand)` hands it to the macro `expand`. This file makes [`Command`] and [`Commands`]
/// of it, and `harness::calls` the methods of a `Process`.
macro_rules! commands {
    ($expand:ident) => {
        $expand! {
            /// Opens the plugin.
            load() -> Result<Loaded, LoadFailure>, "dlopen";
            init(logger: bool) -> i32, "init";
            devices() -> Counted, "devices";
            properties(dev: i32) -> Properties, "getProperties";
            listen(dev: i32, handle: u64) -> Made, "listen";
            connect(dev: i32, handle: u64, device: DeviceArgument) -> Made, "connect";
            /// And what the call took of the thread's own time.
            timed_connect(dev: i32, handle: u64, device: DeviceArgument) -> (Made, Duration),
                "connect";
            accept(listen_comm: u64, device: DeviceArgument) -> Made, "accept";
            reg_mr(comm: u64, data: u64, bytes: i32, kind: i32) -> Made, "regMr";
            dereg_mr(comm: u64, mhandle: u64) -> i32, "deregMr";
            isend(comm: u64, data: u64, bytes: i32, tag: i32, mhandle: u64) -> Made, "isend";
            /// `n` times the same data, size, tag and registration; no tag at all is a NULL array.
            irecv(comm: u64, n: i32, data: u64, bytes: i32, tag: Option<i32>, mhandle: u64) -> Made,
                "irecv";
            iflush(comm: u64, n: i32, request: u64) -> Counted, "iflush";
            test(request: u64) -> Tested, "test";
            irecv_consumed(comm: u64, n: i32, request: u64) -> i32, "irecvConsumed";
            close_send(comm: u64) -> i32, "closeSend";
            close_recv(comm: u64) -> i32, "closeRecv";
            close_listen(comm: u64) -> i32, "closeListen";
            get_device_mr(comm: u64, mhandle: u64) -> Made, "getDeviceMr";
            /// Half of a stream; the text says what went wrong in it.
            #[allow(dead_code, reason = "`run_streams` sends both halves before it waits for one")]
            send_stream(stream: Stream) -> Result<(), String>, "a stream of isend and test";
            /// The other half; without a queue the bytes land where they were posted.
            #[allow(dead_code, reason = "`run_streams` sends both halves before it waits for one")]
            recv_stream(stream: Stream, queue: Option<StreamQueue>) -> Result<(), String>,
                "a stream of irecv, test and irecvConsumed";
            /// Page-aligned ordinary memory, zeroed; never freed.
            allocate(bytes: u64) -> u64, "an access to the agent's own memory";
            /// The same of the agent's GPU, if it has one.
            allocate_device(bytes: u64) -> u64, "an access to the agent's own memory";
            read_bytes(at: u64, bytes: u32) -> Vec<u8>, "a read of what the plugin published";
            /// One aligned word, read in a single access.
            word(at: u64) -> u64, "a read of what the plugin published";
            write(at: u64, bytes: Vec<u8>) -> (), "an access to the agent's own memory";
            /// Puts the message of `seed` at `at`.
            fill(at: u64, bytes: u64, seed: u64) -> (), "an access to the agent's own memory";
            /// The first byte at `at` that is not the message of `seed`.
            verify(at: u64, bytes: u64, seed: u64) -> Option<Mismatch>,
                "an access to the agent's own memory";
            /// Copies entries from the bounce buffer to their places behind `to`.
            gather(bounce: u64, entries: Vec<Entry>, to: u64) -> (),
                "a read of what the plugin published";
            /// Bytes from `at` to the end of its memory mapping, `None` outside any.
            mapped_bytes(at: u64) -> Option<u64>, "an access to the agent's own memory";
            /// Open file descriptors and threads of the process.
            census() -> Census, "a count of what the agent holds";
            /// The file behind a descriptor, by device and inode; `None` if it is closed.
            descriptor(number: i32) -> Option<(u64, u64)>, "a look at the agent's descriptors";
            /// From now on another GPU's context is current, and its memory allocated.
            use_gpu(ordinal: u32) -> (), "a change of the agent's GPU";
            /// Gives SIGPIPE its default action back, as in a C program.
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
        /// answer them.
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

            /// Carries the command out and sends the answer.
            pub(crate) fn answer(
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

        /// What an agent can do.
        pub(crate) trait Commands {
            $($(#[$doc])* fn $name(&mut self, $($argument: $type),*) -> Answer<$answer>;)*
        }
    };
}
commands!(define);
