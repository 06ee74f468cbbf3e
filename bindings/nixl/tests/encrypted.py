"""Encryption by environment alone, and what one that listens to the machine's network sees."""

import socket
import threading

from agents import Peer, blocks, run
from transfers import MIB, span

EMULATED_GPUS = "2"
# Ethernet frames of every protocol.
ALL_PROTOCOLS = 3
# Larger than anything that a test moves, so that nothing is lost while the listener waits.
BUFFER = 256 * MIB
RECEIVE_BUFFER_BY_FORCE = 33
SEEDS = {"DRAM": 401, "VRAM": 402, "small": 403}
NOTE = b"a notification that no other program sends"


class Listener:
    """Reads all that crosses the loopback device, as tcpdump does. It takes root."""

    def __enter__(self):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
        self.socket.setsockopt(socket.SOL_SOCKET, RECEIVE_BUFFER_BY_FORCE, BUFFER)
        self.socket.bind(("lo", 0))
        self.socket.settimeout(0.1)
        self.frames = []
        self.is_over = False
        self.thread = threading.Thread(target=self._listen)
        self.thread.start()
        return self

    def _listen(self):
        # What has come is read to its end, also when no more is to come.
        while True:
            try:
                self.frames.append(self.socket.recv(1 << 17))
            except socket.timeout:
                if self.is_over:
                    return

    def __exit__(self, *_):
        self.is_over = True
        self.thread.join()
        self.socket.close()

    def all(self):
        return b"".join(self.frames)


def pieces(seed, count):
    """Some bytes out of every 64 KiB of a pattern: one at least lies within one frame."""
    return [bytes(block[100:132]) for _, block in blocks(seed, count)]


def listened_to(encryption):
    """Moves host and GPU memory both ways, long and short, and a notification. Returns what the
    listener has seen of each."""
    environment = {"TCPX_ENCRYPTION": encryption, "TCPX_EMULATED_GPUS": EMULATED_GPUS}
    here, there = (Peer(name, environment=environment) for name in ("here", "there"))
    with Listener() as listener, here, there:
        for kind in ("DRAM", "VRAM"):
            mine, its = (peer.add_area(4 * MIB, kind, int(kind == "VRAM")) for peer in (here, there))
            here.know(there.metadata())
            here.fill(mine[0], SEEDS[kind])
            kinds = (kind, kind)
            here.transfer("WRITE", span(mine, its, 4 * MIB), "there", NOTE, kinds)
            assert there.notifications("here") == [NOTE]
            assert there.is_filled(its[0], SEEDS[kind])
            there.fill(its[0], SEEDS["small"], 0, 4096)
            here.transfer("READ", span(mine, its, 4096), "there", b"", kinds)
            assert here.is_filled(mine[0], SEEDS["small"], 0, 4096)
    bytes_seen = listener.all()
    seen = {kind: any(piece in bytes_seen for piece in pieces(SEEDS[kind], 4 * MIB))
            for kind in ("DRAM", "VRAM")}
    seen["small"] = pieces(SEEDS["small"], 4096)[0] in bytes_seen
    seen["notification"] = NOTE in bytes_seen
    return len(bytes_seen), seen


def heard():
    """All in clear is seen, which is how the test knows that it listens; nothing else is."""
    try:
        Listener().__enter__().__exit__()
    except PermissionError:
        print("skipped: listening to a network takes root")
        return
    count, seen = listened_to("off")
    assert all(seen.values()), seen
    for encryption in ("prefer", "require"):
        encrypted, seen = listened_to(encryption)
        assert not any(seen.values()), (encryption, seen)
        assert encrypted > 8 * MIB, (encryption, encrypted, count)


def one_end_requires():
    """An agent that requires it refuses one in clear, whichever of them begins."""
    for settings in (("require", "off"), ("off", "require")):
        here, there = (
            Peer(name, environment={"TCPX_ENCRYPTION": setting})
            for name, setting in zip(("here", "there"), settings)
        )
        with here, there:
            mine, its = here.add_area(4096), there.add_area(4096)
            here.know(there.metadata())
            here.fill(0, 404)
            error = here.refusal_of("transfer", "WRITE", span(mine, its, 4096), "there")
            assert "NIXL_ERR" in error, error
            assert there.read(0, 4096) == bytes(4096)


if __name__ == "__main__":
    run([heard, one_end_requires])
