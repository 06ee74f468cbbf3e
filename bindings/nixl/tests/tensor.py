"""Tensors of torch on the CPU, both ways, as model servers hand them over."""

from agents import BACKEND, Agent, Peer, run

try:
    import torch
except ImportError:
    torch = None


class TensorAgent(Agent):
    """An agent with one tensor of several rows."""

    def make(self, rows, columns, value):
        self.tensor = torch.full((rows, columns), value, dtype=torch.bfloat16)
        self.nixl.register_memory(self.tensor, backends=[BACKEND])
        # Descriptors travel as bytes, one for each row.
        return self.nixl.get_serialized_descs(self.nixl.get_xfer_descs(list(self.tensor)))

    def move_tensor(self, operation, peer, descriptors, notification):
        mine = self.nixl.get_xfer_descs(list(self.tensor))
        its = self.nixl.deserialize_descs(descriptors)
        handle = self.nixl.initialize_xfer(operation, mine, its, peer, notification,
                                           backends=[BACKEND])
        self.post(handle)
        self.finish(handle)
        self.nixl.release_xfer_handle(handle)

    def pattern(self, value):
        numbers = torch.arange(self.tensor.numel()).reshape(self.tensor.shape) % 251
        return (numbers + value).to(self.tensor.dtype)

    def set(self, value):
        self.tensor.copy_(self.pattern(value))

    def is_set(self, value):
        return bool(torch.equal(self.tensor, self.pattern(value)))


def both_ways():
    """WRITE and READ of all rows of a tensor in another process."""
    if torch is None:
        print("skipped: there is no torch")
        return
    rows, columns = 32, 16 * 1024
    here, there = TensorAgent("here"), Peer("there", kind=TensorAgent)
    with there:
        here.make(rows, columns, 1.0)
        its = there.make(rows, columns, 2.0)
        here.know(there.metadata())
        here.set(3)
        here.move_tensor("WRITE", "there", its, b"written")
        assert there.notifications("here") == [b"written"]
        assert there.is_set(3)
        there.set(5)
        here.move_tensor("READ", "there", its, b"read")
        assert there.notifications("here") == [b"read"]
        assert here.is_set(5)


if __name__ == "__main__":
    run([both_ways])
