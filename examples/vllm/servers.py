"""Servers of vLLM on this machine's CPU, each a group of processes with a log."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import aiohttp

# Tokens in a block of the cache, and in a prompt with its answer at most.
BLOCK, LONGEST = 32, 512
# What decides which bytes go where is said by the transport alone.
FOREIGN = ("TCPX_", "UCX_", "NIXL_", "VLLM_")
SETTINGS = {
    "CUDA_VISIBLE_DEVICES": "",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "NIXL_LOG_LEVEL": "INFO",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1",
    "VLLM_NO_USAGE_STATS": "1",
}
# What vLLM says of a READ that it had posted, and whose state then was an error.
FAILED_READ = re.compile(r"NIXL transfer failure: transfer_(?:failed|exception)\b")


def free_port():
    """Returns a port of the loopback that nothing listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server of the model in a folder; with a role and a backend of NIXL it produces or consumes caches."""

    def __init__(self, model, log, role=None, backend=None, environment=None):
        self.model, self.log, self.role, self.backend = model, log, role, backend
        self.port, self.side_port = free_port(), free_port()
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        self.environment |= SETTINGS | {"VLLM_CACHE_ROOT": str(log.parent / "cache")}
        self.environment |= {"VLLM_NIXL_SIDE_CHANNEL_PORT": str(self.side_port)} | (environment or {})
        self.process = None

    @property
    def url(self):
        """Where it serves."""
        return f"http://127.0.0.1:{self.port}"

    def command(self):
        """Returns the command that serves."""
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(self.model)]
        command += ["--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--dtype", "float32", "--enforce-eager", "--max-model-len", str(LONGEST), "--max-num-seqs", "8"]
        # Each prompt is computed, or comes from the other server, whether or not it was here before.
        command += ["--block-size", str(BLOCK), "--no-enable-prefix-caching"]
        if self.role:
            transfer = {
                "kv_connector": "NixlConnector",
                "kv_role": self.role,
                "kv_buffer_device": "cpu",
                # A cache that does not come fails its request: the decode server does not compute it itself.
                "kv_load_failure_policy": "fail",
                "kv_connector_extra_config": {"backends": [self.backend]},
            }
            command += ["--kv-transfer-config", json.dumps(transfer)]
        return command

    def start(self):
        """Starts its processes."""
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                self.command(),
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    async def ready(self, session, seconds):
        """Waits until it serves; an error after this many seconds, or when it ends."""
        try:
            async with asyncio.timeout(seconds):
                while not await self.healthy(session):
                    if self.process.poll() is not None:
                        raise SystemExit(f"the server ended with {self.process.returncode}: see {self.log}")
                    await asyncio.sleep(0.5)
            self.unbind()
        except TimeoutError:
            raise SystemExit(f"the server did not start within {seconds:.0f} s: see {self.log}") from None

    def unbind(self):
        """Lets all its threads run on every processor.

        vLLM's connector binds a CPU worker to the last processor of the machine, "nobind" or not: that of each server here.
        """
        for task in Path("/proc").glob("[0-9]*/task/[0-9]*"):
            with contextlib.suppress(OSError):
                if os.getpgid(int(task.name)) == self.process.pid:
                    os.sched_setaffinity(int(task.name), os.sched_getaffinity(0))

    async def healthy(self, session):
        """Returns whether it says that it serves."""
        try:
            async with session.get(f"{self.url}/health", timeout=aiohttp.ClientTimeout(5)) as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    def kill(self):
        """Kills all its processes at once, and waits for their end."""
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def stop(self):
        """Stops all its processes where they are."""
        os.killpg(self.process.pid, signal.SIGSTOP)

    def go_on(self):
        """Lets them go on."""
        os.killpg(self.process.pid, signal.SIGCONT)

    async def transferred(self, session):
        """Returns what vLLM has counted here: transfers, their bytes, failed ones, and tokens of prompts by source."""
        async with session.get(f"{self.url}/metrics", timeout=aiohttp.ClientTimeout(30)) as response:
            text = await response.text()
        return {
            "transfers": metric(text, "vllm:nixl_bytes_transferred_count"),
            "bytes": metric(text, "vllm:nixl_bytes_transferred_sum"),
            "failed": metric(text, "vllm:nixl_num_failed_transfers_total"),
            "received tokens": metric(text, "vllm:prompt_tokens_by_source_total", 'source="external_kv_transfer"'),
            "computed tokens": metric(text, "vllm:prompt_tokens_by_source_total", 'source="local_compute"'),
        }

    def carried(self):
        """Returns the line of the log that says what carries the bytes to and from a peer."""
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if "peer is up" in line]
        return lines[-1].partition(" transport=")[2] if lines else None

    def failed_reads(self):
        """Returns of how many READs the log says that they were under way, and failed."""
        return len(FAILED_READ.findall(self.log.read_text(errors="replace")))


def metric(text, name, label=""):
    """Returns the sum of a metric's values."""
    values = re.findall(rf"^{re.escape(name)}{{[^}}]*{re.escape(label)}[^}}]*}} (\S+)$", text, re.MULTILINE)
    if not values:
        raise SystemExit(f"vLLM does not count {name} {label}")
    return int(sum(map(float, values)))
