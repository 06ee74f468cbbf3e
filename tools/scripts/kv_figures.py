"""Figures of KV caches for compare_nixl.py: what a turn measured, the line of a row, and
which rows there is memory for."""

import statistics
import sys


def percentile(times, part):
    """The time that this part of them, of 1, took at most, in ms."""
    return sorted(times)[min(len(times) - 1, int(part * len(times)))] * 1e3


def kv_figures(row, measured, answered):
    """The seconds of each request of a turn, GB/s, and processor seconds of both ends for a GB.

    A READ ends when its program sees that it is done, a WRITE when that of the other end sees the
    note behind it. Processes of a machine have one clock."""
    (posted, done, cost), (seen, its_cost) = measured, answered
    ends = done if row.operation == "READ" else [seen[index] for index in range(row.posts)]
    gigabytes = row.posts * row.message / 1e9
    times = [end - begin for begin, end in zip(posted, ends)]
    return times, gigabytes / (max(ends) - posted[0]), (cost + its_cost) / gigabytes


def kv_line(row, theirs, ours):
    """A line of the table of KV caches: the times of all requests, and the medians of the rest."""
    cells, rates = [], []
    for turns in (theirs, ours):
        times = [took for turn, _, _ in turns for took in turn]
        rate, cost = (statistics.median(turn[at] for turn in turns) for at in (1, 2))
        rates.append(rate)
        cells.append(f"{percentile(times, 0.5):.1f}, {percentile(times, 0.99):.1f} ms, "
                     f"{rate:.2f} GB/s, {cost:.2f} core s/GB")
    return f"| {row} | {cells[0]} | {cells[1]} | {rates[1] / rates[0]:.2f} |"


def fitting(wanted):
    """The rows whose areas take no more than half of the memory that is free, with those of all
    four processes."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    wanted = list(wanted)
    fits = [row for row in wanted if 4 * row.messages * row.message <= free // 2]
    for row in wanted:
        if row not in fits:
            print(f"left out: {row}: takes {4 * row.messages * row.message / 2**30:.1f} GiB",
                  file=sys.stderr)
    return fits
