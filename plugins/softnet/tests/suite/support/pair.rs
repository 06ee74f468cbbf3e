//! A pair of comms with one buffer for all that moves.

use std::ffi::c_int;

use super::{Memory, Net, PluginPtr, Receiver, Sender, sockets};

/// A pair with one buffer, registered as memory of one kind on both ends.
pub(crate) struct Pair {
    pub(crate) net: Net,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) memory: Memory,
    pub(crate) mhandle: PluginPtr,
}

impl Pair {
    /// With sockets that hold the same on every machine.
    pub(crate) fn new(net: Net, bytes: usize, kind: c_int) -> Self {
        let (sender, receiver) = net.pair();
        sockets::level();
        let mut memory = Memory::patterned(bytes, 7);
        let (rc, mhandle) = net.register(sender.comm, memory.data(), bytes, kind);
        assert_eq!(rc, 0);
        Self { net, sender, receiver, memory, mhandle }
    }

    pub(crate) fn isend(&mut self, bytes: usize) -> PluginPtr {
        let data = self.memory.data();
        let (rc, request) = self.net.isend(self.sender.comm, data, bytes as c_int, self.mhandle);
        assert_eq!(rc, 0);
        request
    }

    pub(crate) fn irecv(&mut self, bytes: usize) -> (u64, PluginPtr) {
        let data = self.memory.data();
        self.receiver.post(data, bytes, self.mhandle)
    }

    pub(crate) fn consumed(&self, request: PluginPtr) -> c_int {
        self.net.consumed(self.receiver.comm, request)
    }

    pub(crate) fn close(self) {
        assert_eq!((self.net.close(self.sender.comm), self.net.close(self.receiver.comm)), (0, 0));
    }
}
