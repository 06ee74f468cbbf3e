#!/usr/bin/env python3
"""Looks for a setting with which messages move faster than with the defaults.

Each start is a new process, and the settings of a round take turns in an order of their own. The best of many medians is best
by luck in part. So the even rounds choose the best setting of each size, and the odd ones say how much of its speed the
defaults have. Figures are medians; a machine that does something else gives none that mean anything. A start takes 5 s of the
command on two processors and 7 s of the bench on 16, so all of it takes 12 to 20 minutes.

The command moves messages between two processes. Two processes that share a GPU take turns on it: there, the bench
gpu_stream has both ends in one process (cargo bench -p tcpx-tests --bench gpu_stream --no-run prints its path).
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys

SIZES = ["64KiB", "256KiB", "1MiB", "4MiB", "16MiB", "64MiB"]
UNDER_WAY = [1, 8]
DEFAULT = ""
SETTINGS = {
    "host": [f"TCPX_CHANNELS={channels}" for channels in (1, 2, 4, 8, 16)]
    + [f"TCPX_CHUNK_BYTES={kib << 10}" for kib in (64, 128, 256, 1024, 4096)]
    + ["TCPX_SOFT_HELPERS=0", "TCPX_SOFT_HELPERS=1", "TCPX_SPIN_US=0", "TCPX_SPIN_US=2000"]
    + ["TCPX_EAGER_BYTES=0", "TCPX_EAGER_BYTES=65536", "TCPX_SOFT_ZEROCOPY=auto"]
}
SETTINGS["emulated"] = SETTINGS["host"]
SETTINGS["cuda"] = SETTINGS["host"] + [f"TCPX_UNPACK={way}" for way in ("host", "d2d", "kernel")]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path, help="the tcpx command, or the bench gpu_stream")
    parser.add_argument("--memory", choices=SETTINGS, default="host", help="gpu_stream has cuda only")
    parser.add_argument("--rounds", type=int, default=8, help="starts of each setting, 2 or more (default: %(default)s)")
    parser.add_argument("--sizes", default=",".join(SIZES), help="bytes of a message (default: %(default)s)")
    parser.add_argument("--setting", action="append", help="NAME=VALUE[,NAME=VALUE], in place of those tried by default")
    parser.add_argument("--bar", type=float, default=0.95, help="least part of the best speed (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print every figure, one object a line")
    chosen = parser.parse_args()
    if chosen.rounds < 2:
        parser.error("--rounds: one round chooses, another compares")
    if any("=" not in pair for setting in chosen.setting or [] for pair in setting.split(",")):
        parser.error("--setting: NAME=VALUE[,NAME=VALUE]")
    if not os.access(chosen.program, os.X_OK):
        parser.error(f"{chosen.program} is no program")
    chosen.program = chosen.program.resolve()
    return chosen


def run(command, setting):
    """Returns what a program prints that has a setting."""
    environment = dict(os.environ, RUST_LOG="error")
    environment.update(pair.split("=", 1) for pair in setting.split(",") if pair)
    ended = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=600, check=False)
    if ended.returncode:
        raise SystemExit(f"{setting or 'defaults'}: {' '.join(map(str, command))}: {ended.stderr.strip()}")
    return ended.stdout


def figures_of_bench(program, sizes, setting):
    """Yields (messages under way, bytes, GB/s). The bench takes the unpack from its command line alone."""
    others = [pair for pair in setting.split(",") if pair and not pair.startswith("TCPX_UNPACK=")]
    ways = [pair.split("=")[1] for pair in setting.split(",") if pair.startswith("TCPX_UNPACK=")]
    for line in run([program, "--json", *(ways or ["default"]), *map(in_bytes, sizes)], ",".join(others)).splitlines():
        figure = json.loads(line)
        yield figure["under_way"], figure["bytes"], figure["gb_per_s"]


def figures_of_command(program, sizes, setting, memory):
    """Yields the same."""
    for messages in UNDER_WAY:
        flags = [] if messages == 1 else ["--messages", messages]
        report = json.loads(run([program, "perf", "--json", "--memory", memory, "--size", ",".join(sizes), *flags], setting))
        if not report["verified"]:
            raise SystemExit(f"wrong bytes with {setting or 'defaults'}")
        for case in report.get("sweep", [report]):
            rates = case.get("receiver") or case["initiator"]
            yield messages, case["size_bytes"], rates["gb_per_s_median"]


def in_bytes(size):
    for suffix, factor in (("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)):
        if size.endswith(suffix):
            return int(size.removesuffix(suffix)) * factor
    return int(size)


def main():
    chosen = arguments()
    is_bench = chosen.program.name.startswith("gpu_stream")
    memory = "cuda" if is_bench else chosen.memory
    settings = [DEFAULT, *(chosen.setting or SETTINGS[memory])]
    sizes = chosen.sizes.split(",")
    order = random.Random(1)
    # (messages, bytes) -> setting -> a list for the even rounds and one for the odd.
    measured = {}
    for turn in range(chosen.rounds):
        for setting in order.sample(settings, len(settings)):
            figures = figures_of_command(chosen.program, sizes, setting, memory)
            for messages, size, rate in figures_of_bench(chosen.program, sizes, setting) if is_bench else figures:
                measured.setdefault((messages, size), {}).setdefault(setting, ([], []))[turn % 2].append(rate)
                if chosen.json:
                    row = {"under_way": messages, "bytes": size, "setting": setting, "round": turn, "gb_per_s": rate}
                    print(json.dumps(row), flush=True)
    missed = show(measured, chosen.bar)
    print(f"the defaults have less than {chosen.bar} of the best setting's speed in {missed} of {len(measured)} cases")
    sys.exit(missed > 0)


def show(measured, bar):
    """Prints a line for each case, and returns the number of those that miss the bar."""
    missed = 0
    print(f"{'messages, bytes':>18} {'defaults':>9} {'best':>7} {'ratio':>6}  setting")
    for (messages, size), rates in sorted(measured.items()):
        best = max(rates, key=lambda setting: statistics.median(rates[setting][0]))
        defaults, others = (statistics.median(rates[setting][1]) for setting in (DEFAULT, best))
        missed += defaults / others < bar
        word = best or "(the defaults)"
        print(f"{messages:4} x {size:>11} {defaults:9.2f} {others:7.2f} {defaults / others:6.2f}  {word}")
    return missed


if __name__ == "__main__":
    main()
