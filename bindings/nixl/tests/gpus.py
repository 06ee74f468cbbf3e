"""Memory of real GPUs, in tensors of torch: both ways, in odd sizes, permuted, and notified."""

import random

from agents import BACKEND, Agent, Peer, run
from transfers import MIB, span

try:
    import torch
except ImportError:
    torch = None

SIZES = (1, 7, 4_095, 65_537, MIB + 3, 32 * MIB + 1)
AREA = 32 * MIB + 64
# What nothing may write over.
REST = 0xA5


def pattern(seed, count):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count,), generator=generator, dtype=torch.uint8)


class TensorAgent(Agent):
    """An agent whose areas are tensors: of GPU `device`, or of the host where it is None."""

    def add_tensor(self, count, device):
        place = "cpu" if device is None else f"cuda:{device}"
        area = torch.full((count,), REST, dtype=torch.uint8, device=place)
        self.settle()
        kind = "DRAM" if device is None else "VRAM"
        self.registrations.append(self.nixl.register_memory(
            [(area.data_ptr(), count, device or 0, "")], kind, backends=[BACKEND]))
        self.areas.append(area)
        return len(self.areas) - 1, area.data_ptr(), kind, device or 0

    def set(self, number, seed, offset=0, count=None):
        """Fills a range with a pattern, and all else with the rest."""
        area = self.areas[number]
        count = len(area) - offset if count is None else count
        area.fill_(REST)
        area[offset : offset + count] = pattern(seed, count).to(area.device)
        self.settle()

    def is_set(self, number, seed, offset=0, count=None):
        """Whether the range has the pattern, and all else the rest."""
        area = self.areas[number]
        count = len(area) - offset if count is None else count
        expected = torch.full((len(area),), REST, dtype=torch.uint8)
        expected[offset : offset + count] = pattern(seed, count)
        return torch.equal(area.cpu(), expected)

    def is_copy(self, number, seed, pairs):
        """Whether it has these pieces (source, target, bytes) of a pattern, and else the rest."""
        area = self.areas[number]
        source = pattern(seed, len(area))
        expected = torch.full((len(area),), REST, dtype=torch.uint8)
        for of, to, count in pairs:
            expected[to : to + count] = source[of : of + count]
        return torch.equal(area.cpu(), expected)

    def settle(self):
        """NIXL asks its programs to have written the bytes to be moved."""
        for gpu in range(torch.cuda.device_count()):
            torch.cuda.synchronize(gpu)


def ends(here, there, count):
    """Areas of the host and of the first and last GPU at both ends."""
    last = torch.cuda.device_count() - 1
    devices = list(dict.fromkeys([None, 0, last]))
    return (
        {device: here.add_tensor(count, device) for device in devices},
        {device: there.add_tensor(count, device) for device in devices},
    )


def every_way():
    """Host or GPU here and there; by WRITE and by READ, in sizes that nothing divides."""
    here, there = TensorAgent("here"), Peer("there", kind=TensorAgent)
    with there:
        ours, theirs = ends(here, there, AREA)
        here.know(there.metadata())
        seed = 0
        for (a, mine), (b, its) in [(x, y) for x in ours.items() for y in theirs.items()]:
            kinds = mine[2], its[2]
            for operation in ("WRITE", "READ"):
                source, of = (here, mine) if operation == "WRITE" else (there, its)
                target, to = (there, its) if operation == "WRITE" else (here, mine)
                for count in SIZES:
                    seed += 1
                    offset = 1 + seed % 31
                    source.set(of[0], seed, offset, count)
                    target.set(to[0], 0, 0, 0)
                    pairs = span(mine, its, count, offset)
                    here.transfer(operation, pairs, "there", b"%d" % seed, kinds)
                    assert there.notifications("here") == [b"%d" % seed]
                    assert target.is_set(to[0], seed, offset, count), (a, b, operation, count)
    print(f"  {seed} transfers", flush=True)


def permuted():
    """Blocks in another order and of odd lengths, between GPUs, posted three times."""
    blocks, block = 1_000, 4_096
    here, there = TensorAgent("here"), Peer("there", kind=TensorAgent)
    order = random.Random(3).sample(range(blocks), blocks)
    pieces = [(i * block + 1, to * block + 3, 1 + (i * 37) % (block - 8))
              for i, to in enumerate(order)]
    with there:
        ours, theirs = ends(here, there, blocks * block)
        here.know(there.metadata())
        gpus = [device for device in ours if device is not None]
        for mine, its in [(ours[a], theirs[b]) for a in gpus for b in gpus]:
            for operation in ("WRITE", "READ"):
                source, of = (here, mine) if operation == "WRITE" else (there, its)
                target, to = (there, its) if operation == "WRITE" else (here, mine)
                ranges = [
                    (mine[1] + (a if operation == "WRITE" else b), mine[3],
                     its[1] + (b if operation == "WRITE" else a), its[3], count)
                    for a, b, count in pieces
                ]
                handle = here.prepare(operation, ranges, "there", b"", ("VRAM", "VRAM"))
                for seed in range(3):
                    source.set(of[0], seed)
                    target.set(to[0], 0, 0, 0)
                    here.post(handle, b"%d" % seed)
                    here.finish(handle)
                    assert there.notifications("here") == [b"%d" % seed]
                    assert target.is_copy(to[0], seed, pieces), (operation, mine, its, seed)
                here.nixl.release_xfer_handle(handle)


def to_itself():
    """Between two tensors of GPUs of one agent."""
    here = TensorAgent("here")
    last = torch.cuda.device_count() - 1
    one, two = here.add_tensor(MIB + 9, 0), here.add_tensor(MIB + 9, last)
    here.set(0, 70)
    here.transfer("WRITE", span(one, two, MIB + 9), "here", b"across", ("VRAM", "VRAM"))
    assert here.notifications("here") == [b"across"]
    assert here.is_set(1, 70)


if __name__ == "__main__":
    if torch is None or not torch.cuda.is_available():
        print("skipped: there is no torch with a GPU")
    else:
        print(f"  {torch.cuda.device_count()} of {torch.cuda.get_device_name(0)}", flush=True)
        run([every_way, permuted, to_itself])
