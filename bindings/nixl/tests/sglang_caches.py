"""SGLang's managers of KV caches over NIXL, unmodified: pages from a prefill process to a decode process, on a CPU.

SGLang's server does not start on a CPU; its manager, sender and receiver do, with caches in host memory. Pages are sent in an
order of their own, in two parts, and then the auxiliary bytes of the request. What was not sent has to stay as it was.
"""

import json
import os
import pathlib
import socket
import tempfile
import time

import numpy
from sglang.srt import runtime_context
from sglang.srt.disaggregation.base.conn import KVArgs, KVPoll
from sglang.srt.disaggregation.nixl.conn import (
    NixlKVBootstrapServer,
    NixlKVManager,
    NixlKVReceiver,
    NixlKVSender,
)
from sglang.srt.disaggregation.utils import DisaggregationMode
from sglang.srt.server_args import ServerArgs

from agents import DEADLINE, Peer, pattern, run, until

LAYERS, PAGES, SENT = 4, 256, 100
# Of one layer's keys or values: 16 tokens of 64 numbers.
PAGE = 16 * 64 * 4
AUXILIARY, SLOTS = 64, 64
ROOM = 7
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "vocab_size": 257,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "torch_dtype": "float32",
}


def described(caches, auxiliary):
    """Returns what a manager has to know of its caches: keys of all layers, then values."""
    made = KVArgs()
    made.kv_data_ptrs = [cache.ctypes.data for cache in caches]
    made.kv_data_lens = [cache.nbytes for cache in caches]
    made.kv_item_lens = [PAGE] * len(caches)
    made.kv_layer_ids = [*range(LAYERS)] * 2
    made.kv_data_mem_kinds = ["DRAM"] * len(caches)
    made.kv_cache_dtype_str = "float32"
    made.kv_head_num = made.total_kv_head_num = 4
    made.page_size = 16
    made.aux_data_ptrs, made.aux_data_lens, made.aux_item_lens = [auxiliary.ctypes.data], [auxiliary.nbytes], [AUXILIARY]
    for name in ("types", "data_ptrs", "data_lens", "item_lens", "layer_ids", "dim_per_tensor", "slice_outer_counts"):
        setattr(made, f"state_{name}", [])
    made.state_conv_shard_groups = []
    made.engine_rank = made.gpu_id = made.system_dp_rank = made.pp_rank = made.prefill_start_layer = 0
    made.prefill_end_layer = LAYERS
    made.is_hybrid_mla_backend = False
    made.ib_device = made.rust_http_port = made.mla_compression_ratios = made.swa_kv_cache_layout = None
    return made


class Caches:
    """Caches of one process, with their manager. `mode` of the configuration is "prefill" or "decode"."""

    def __init__(self, _name, config, _parameters):
        self.mode, port = config["mode"], config["port"]
        self.url = f"127.0.0.1:{port}"
        self.caches = [numpy.zeros(PAGES * PAGE, numpy.uint8) for _ in range(2 * LAYERS)]
        self.auxiliary = numpy.zeros(SLOTS * AUXILIARY, numpy.uint8)
        with tempfile.TemporaryDirectory() as model:
            pathlib.Path(model, "config.json").write_text(json.dumps(MODEL))
            arguments = ServerArgs(
                model_path=model,
                device="cpu",
                host="127.0.0.1",
                disaggregation_mode=self.mode,
                disaggregation_transfer_backend="nixl",
                disaggregation_bootstrap_port=port,
            )
            ranks = runtime_context.SpawnRanks(world_rank=0, gpu_id=0)
            runtime_context.publish(arguments, role="scheduler", ranks=ranks)
        runtime_context.get_parallel().override_permanently(pp_group=None)
        if self.mode == "prefill":
            self.server = NixlKVBootstrapServer("127.0.0.1", port)
            until("the meeting place", self._is_listening)
        known = described(self.caches, self.auxiliary)
        self.manager = NixlKVManager(known, DisaggregationMode(self.mode), arguments)

    def _is_listening(self):
        with socket.socket() as caller:
            return caller.connect_ex(("127.0.0.1", int(self.url.partition(":")[2]))) == 0

    def _reach(self, end, state):
        """Waits until a sender or receiver is in a state."""

        def reached():
            now = end.poll()
            assert now != KVPoll.Failed, end.failure_exception()
            time.sleep(0.001)
            return now == state

        until(f"{self.mode} in state {state}", reached)

    def fill(self, seed):
        for number, cache in enumerate([*self.caches, self.auxiliary]):
            cache[:] = pattern(seed + number, len(cache))

    def send(self, pages, slot):
        """Sends pages in two parts, once the other end has said where they go."""
        sender = NixlKVSender(self.manager, self.url, ROOM)
        sender.init(len(pages), aux_index=slot)
        self._reach(sender, KVPoll.WaitingForInput)
        half = len(pages) // 2
        for part in (pages[:half], pages[half:]):
            sender.send(numpy.array(part, numpy.int32))
        self._reach(sender, KVPoll.Success)

    def receive(self, pages, slot):
        until("the prefill process", lambda: self.manager.try_ensure_parallel_info(self.url))
        receiver = NixlKVReceiver(self.manager, self.url, ROOM)
        receiver.init(0)
        self._reach(receiver, KVPoll.WaitingForInput)
        receiver.send_metadata(numpy.array(pages, numpy.int32), aux_index=slot)
        self._reach(receiver, KVPoll.Success)

    def wrong(self, seed, sent, got, slots):
        """How many pages and slots are not those that a process with this seed has sent, and whether all others are zeros."""
        wrong = 0
        moved = [(cache, sent, got, PAGE) for cache in self.caches]
        moved.append((self.auxiliary, slots[:1], slots[1:], AUXILIARY))
        for number, (cache, source, target, size) in enumerate(moved):
            expected = numpy.zeros((len(cache) // size, size), numpy.uint8)
            expected[target] = pattern(seed + number, len(cache)).reshape(-1, size)[source]
            wrong += int((cache.reshape(-1, size) != expected).any(axis=1).sum())
        return wrong


def caches(backend, **environment):
    """A request's pages go to other pages of the other process, and its auxiliary bytes to another slot."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment |= {"SGLANG_DISAGGREGATION_NIXL_BACKEND": backend}
    order = numpy.random.default_rng(3)
    sent, got = (order.permutation(PAGES)[:SENT].tolist() for _ in range(2))

    def process(mode):
        return Peer(mode, {"mode": mode, "port": port}, environment=environment, kind=Caches)

    with process("prefill") as prefill, process("decode") as decode:
        prefill.fill(21)
        assert decode.wrong(21, sent, got, [3, 5]) == SENT * 2 * LAYERS + 1
        decode.begin("receive", got, 5)
        prefill.send(sent, 3)
        decode.answer()
        assert decode.wrong(21, sent, got, [3, 5]) == 0
        print(f"   {backend}: {SENT * 2 * LAYERS} pages of {PAGE} bytes and a slot are equal")
        prefill.kill()
        decode.kill()


def tcpx():
    caches("TCPX")


def encrypted():
    caches("TCPX", TCPX_ENCRYPTION="require")


def ucx():
    caches("UCX")


if __name__ == "__main__":
    # Patience for a busy machine, in seconds.
    for name in ("BOOTSTRAP", "WAITING"):
        os.environ[f"SGLANG_DISAGGREGATION_{name}_TIMEOUT"] = str(DEADLINE)
    run([tcpx, encrypted, ucx])
