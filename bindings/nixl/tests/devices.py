"""Memory of GPUs that ordinary memory stands in for, beside the host's."""

import os

os.environ["TCPX_EMULATED_GPUS"] = "3"

from agents import Agent, Peer, run  # noqa: E402
from ends import fails  # noqa: E402
from transfers import MIB, span  # noqa: E402

EMULATED = {"TCPX_EMULATED_GPUS": "3"}


def all_four_ways():
    """Host or GPU here, host or GPU there; by WRITE and by READ."""
    here, there = Agent("here"), Peer("there", environment=EMULATED)
    with there:
        ours = {"DRAM": here.add_area(MIB), "VRAM": here.add_area(MIB, "VRAM", 1)}
        theirs = {"DRAM": there.add_area(MIB), "VRAM": there.add_area(MIB, "VRAM", 2)}
        here.know(there.metadata())
        seed = 60
        for kinds in [(a, b) for a in ours for b in theirs]:
            mine, its = ours[kinds[0]], theirs[kinds[1]]
            for operation in ("WRITE", "READ"):
                source, target = (here, there) if operation == "WRITE" else (there, here)
                of, to = (mine, its) if operation == "WRITE" else (its, mine)
                seed += 1
                source.fill(of[0], seed)
                here.transfer(operation, span(mine, its, MIB), "there", b"%d" % seed, kinds)
                assert target.is_filled(to[0], seed), (operation, kinds)
                assert there.notifications("here") == [b"%d" % seed]


def several_devices_at_once():
    """One transfer of several GPUs at both ends, whose notification comes when all are done."""
    gpus, blocks = 3, 16
    here, there = Agent("here"), Peer("there", environment=EMULATED)
    with there:
        ours = [here.add_area(MIB, "VRAM", gpu) for gpu in range(gpus)]
        theirs = [there.add_area(MIB, "VRAM", gpu) for gpu in range(gpus)]
        here.know(there.metadata())
        block = MIB // blocks
        pairs = [
            (ours[i % gpus][1] + i // gpus * block, i % gpus,
             theirs[(i + i // gpus) % gpus][1] + i // gpus * block, (i + i // gpus) % gpus, block)
            for i in range(gpus * blocks)
        ]
        handle = here.prepare("WRITE", pairs, "there", b"all", ("VRAM", "VRAM"))
        for round_ in range(5):
            for gpu in range(gpus):
                here.fill(gpu, 80 + 10 * round_ + gpu)
            here.post(handle)
            here.finish(handle)
            assert there.notifications("here", 1, 0.001) == [b"all"]
            for address, of, target, to, count in pairs:
                offset = address - ours[of][1]
                assert target - theirs[to][1] == offset
                assert there.read(to, count, offset) == here.read(of, count, offset)
        here.nixl.release_xfer_handle(handle)


def backends_of_gpus():
    """A way of unpacking that GPUs alone have keeps no agent from its other memory."""
    for unpack in ("d2d", "kernel"):
        here = Agent("here", parameters={"unpack": unpack})
        there = Peer("there", environment={**EMULATED, "UCCL_TCPX_UNPACK_IMPL": unpack})
        with there:
            for kind in ("DRAM", "VRAM"):
                mine, its = (agent.add_area(MIB, kind, 0) for agent in (here, there))
                here.know(there.metadata())
                here.fill(mine[0], 90)
                here.transfer("WRITE", span(mine, its, MIB), "there", b"", (kind, kind))
                assert there.is_filled(its[0], 90)


def to_itself_between_devices():
    """From the host to a GPU of the same agent, and from there to another one."""
    here = Agent("here")
    host = here.add_area(MIB)
    one, two = (here.add_area(MIB, "VRAM", gpu) for gpu in range(2))
    here.fill(0, 70)
    here.transfer("WRITE", span(host, one, MIB), "here", b"up", ("DRAM", "VRAM"))
    assert here.notifications("here") == [b"up"]
    here.transfer("READ", span(two, one, MIB), "here", b"", ("VRAM", "VRAM"))
    assert here.is_filled(2, 70)


def no_such_device():
    """A GPU that is not there is refused, and the agent goes on."""
    here = Agent("here")
    fails("memory of GPU 7", "NOT_SUPPORTED|BACKEND|NOT_FOUND", here.add_area, 4096, "VRAM", 7)
    source, target = here.add_area(4096), here.add_area(4096)
    here.transfer("WRITE", span(source, target, 4096), "here")


if __name__ == "__main__":
    run([
        all_four_ways, several_devices_at_once, backends_of_gpus, to_itself_between_devices, no_such_device,
    ])
