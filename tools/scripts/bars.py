"""Measures the rows of the table of bars. `tools/scripts/bars.sh` says how to call it."""

import json
import os
import pathlib
import statistics
import subprocess
import sys

import ucx_over_tcp

HERE = pathlib.Path(__file__).parent
KIB, MIB = 1 << 10, 1 << 20
TRIP_SIZES = {4 * KIB: 300, 64 * KIB: 300, 512 * KIB: 150, 4 * MIB: 50}
GO_SIZES = [64 * KIB, 512 * KIB, 4 * MIB]
BUSY_SIZES = [1 * MIB, 4 * MIB, 16 * MIB]
STREAM = 64 * MIB
# Operations one at a time, and how many at 8 outstanding UCX moves.
ONE_SIDED = {4 * KIB: (500, 4000), 64 * KIB: (500, 2000), 512 * KIB: (200, 500), 4 * MIB: (50, 100), 64 * MIB: (10, 24)}
OUTSTANDING = 8
MEMORIES = ["host", "emulated"]


def size_name(size):
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"


class Figures:
    """Measured figures: a list for each name, an entry for each round."""

    def __init__(self):
        self.lists = {}

    def add(self, name, value):
        self.lists.setdefault(name, []).append(value)

    def median(self, name):
        values = self.lists.get(name)
        return statistics.median(values) if values else None

    def ratio(self, over, under):
        """Of the same round, so that what slows a whole round down does not count."""
        pairs = list(zip(self.lists.get(over, []), self.lists.get(under, [])))
        return statistics.median(a / b for a, b in pairs) if pairs else None


class Machine:
    """Runs the programs that measure."""

    def __init__(self, tcpx, venv):
        self.tcpx, self.python = tcpx, pathlib.Path(venv) / "bin" / "python"
        self.has_ucx = self.python.exists() and self.try_ucx()

    def perf(self, *flags, prefix=()):
        command = [*prefix, self.tcpx, "perf", "--json", *map(str, flags)]
        report = json.loads(self.output(command, {"RUST_LOG": "error"}))
        if not report["verified"]:
            raise SystemExit(f"wrong bytes: {command}")
        return report.get("sweep", [report])

    def ucx(self, what, size, iterations, *depth):
        # Without shared memory, and over the interface that both ends of `perf` use.
        variables = {**ucx_over_tcp.variables(), "NIXL_LOG_LEVEL": "ERROR"}
        command = [self.python, HERE / "nixl_ucx.py", what, *map(str, [size, iterations, *depth])]
        return json.loads(self.output(command, variables))

    def try_ucx(self):
        try:
            self.ucx("trip", 4 * KIB, 1)
            return True
        except subprocess.SubprocessError as error:
            print(f"UCX does not run here: {error}", file=sys.stderr)
            return False

    def bench(self, crate, name, *arguments):
        """The JSON lines that one of our benches prints. Others say why it has measured nothing."""
        command = ["cargo", "bench", "--quiet", "-p", crate, "--bench", name]
        # Building it may take longer than it may run.
        subprocess.run([*command, "--no-run"], check=True)
        figures = []
        for line in self.output([*command, "--", *arguments], {}).splitlines():
            if line.startswith("{"):
                figures.append(json.loads(line))
            elif line:
                print(f"{name}: {line}", file=sys.stderr, flush=True)
        return figures

    @staticmethod
    def output(command, variables):
        run = subprocess.run(
            command,
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            timeout=600,
            check=True,
            text=True,
        )
        return run.stdout


def measure_trips(machine, figures):
    for size, iterations in TRIP_SIZES.items():
        for memory in MEMORIES:
            flags = ["--latency", "--baseline", "--memory", memory]
            (case,) = machine.perf(*flags, "--size", size, "--iters", iterations)
            figures.add(f"trip {memory} {size}", case["half_round_trip_us"]["p50"])
            figures.add(f"trip {memory} {size} sockets", case["raw_half_round_trip_us"]["p50"])
        if machine.has_ucx:
            figures.add(f"trip ucx {size}", machine.ucx("trip", size, iterations)["half_us"])


def rows_trips(figures):
    for memory in MEMORIES:
        for size in TRIP_SIZES:
            own = f"trip {memory} {size}"
            to_ucx = figures.ratio(own, f"trip ucx {size}")
            to_sockets = figures.ratio(own, f"{own} sockets")
            if memory == "emulated":
                bar, is_met = ("<= 1.2 UCX", at_most(to_ucx, 1.2)) if size <= 64 * KIB else ("", None)
            elif size <= 64 * KIB:
                bar = "<= UCX, <= 1.5 sockets"
                is_met = both(at_most(to_ucx, 1.0), at_most(to_sockets, 1.5))
            else:
                bar, is_met = "<= 1.05 UCX", at_most(to_ucx, 1.05)
            yield Row(
                f"half a round trip, {memory}, {size_name(size)}, us",
                figures.median(own),
                figures.median(f"{own} sockets"),
                figures.median(f"trip ucx {size}"),
                to_sockets,
                to_ucx,
                bar,
                is_met,
            )


def measure_go(machine, figures):
    one_way(machine, figures, "go", GO_SIZES, ["--receives", "go", "--iters", 200])


def measure_busy(machine, figures):
    one_way(machine, figures, "busy", BUSY_SIZES, ["--busy", os.cpu_count(), "--iters", 100])


def one_way(machine, figures, name, sizes, flags):
    for memory in MEMORIES:
        for size in sizes:
            (case,) = machine.perf(*flags, "--baseline", "--memory", memory, "--size", size)
            figures.add(f"{name} {memory} {size}", case["receiver"]["gb_per_s_median"])
            figures.add(f"{name} {memory} {size} sockets", case["raw_socket"]["gb_per_s_median"])


def rows_go(figures):
    return one_way_rows(figures, "go", 'receive at "go"', GO_SIZES, {"host": 0.9, "emulated": 0.75})


def rows_busy(figures):
    bars = {"host": 0.7, "emulated": 0.7}
    return one_way_rows(figures, "busy", "all processors busy", BUSY_SIZES, bars)


def one_way_rows(figures, name, words, sizes, bars):
    for memory, bar in bars.items():
        for size in sizes:
            own = f"{name} {memory} {size}"
            to_sockets = figures.ratio(own, f"{own} sockets")
            yield Row(
                f"one way, {words}, {memory}, {size_name(size)}, GB/s",
                figures.median(own),
                figures.median(f"{own} sockets"),
                None,
                to_sockets,
                None,
                f">= {bar} sockets",
                at_least(to_sockets, bar),
            )


def measure_stream(machine, figures):
    for memory in MEMORIES:
        (case,) = machine.perf("--baseline", "--memory", memory, "--size", STREAM, "--iters", 8)
        figures.add(f"stream {memory}", case["receiver"]["gb_per_s_median"])
        figures.add(f"stream {memory} sockets", case["raw_socket"]["gb_per_s_median"])
    for operation in ["WRITE", "READ"] if machine.has_ucx else []:
        figures.add(f"stream {operation}", machine.ucx(operation, STREAM, 16)["gb_per_s"])


def rows_stream(figures):
    for memory, bar in [("host", 0.95), ("emulated", 0.75)]:
        own = f"stream {memory}"
        to_ucx = figures.ratio(own, "stream WRITE")
        to_sockets = figures.ratio(own, f"{own} sockets")
        is_met = at_least(to_sockets, bar)
        if memory == "host":
            is_met = both(is_met, at_least(to_ucx, 1.0))
        yield Row(
            f"stream of 64 MiB, {memory}, GB/s",
            figures.median(own),
            figures.median(f"{own} sockets"),
            figures.median("stream WRITE"),
            to_sockets,
            to_ucx,
            (">= UCX WRITE, " if memory == "host" else "") + f">= {bar} sockets",
            is_met,
        )
    read = figures.median("stream READ")
    if read:
        yield Row("  UCX READ, for comparison, GB/s", None, None, read, None, None, "", None)


def measure_one_sided(machine, figures):
    for operation in ["WRITE", "READ"]:
        for size, (latencies, stream) in ONE_SIDED.items():
            flags = ["--op", operation.lower(), "--memory", "host", "--size", size]
            (case,) = machine.perf(*flags, "--latency", "--iters", latencies)
            figures.add(f"latency {operation} {size}", case["operation_us"]["p50"])
            (case,) = machine.perf(*flags, "--depth", OUTSTANDING, "--iters", 5)
            figures.add(f"outstanding {operation} {size}", case["initiator"]["gb_per_s_median"])
            if machine.has_ucx:
                figures.add(f"latency {operation} {size} ucx", machine.ucx(operation, size, latencies, 1)["us"])
                moved = machine.ucx(operation, size, stream, OUTSTANDING)
                figures.add(f"outstanding {operation} {size} ucx", moved["gb_per_s"])


def rows_one_sided(figures):
    for operation in ["WRITE", "READ"]:
        for size in ONE_SIDED:
            # How many times as fast as UCX.
            times = 2.5 if operation == "READ" and size >= 512 * KIB else 1.0
            own = f"latency {operation} {size}"
            to_ucx = figures.ratio(own, f"{own} ucx")
            yield Row(
                f"one {operation} at a time, host, {size_name(size)}, us",
                figures.median(own),
                None,
                figures.median(f"{own} ucx"),
                None,
                to_ucx,
                f"<= {1 / times:.3g} UCX",
                at_most(to_ucx, 1 / times),
            )
            own = f"outstanding {operation} {size}"
            to_ucx = figures.ratio(own, f"{own} ucx")
            yield Row(
                f"{OUTSTANDING} {operation}s under way, host, {size_name(size)}, GB/s",
                figures.median(own),
                None,
                figures.median(f"{own} ucx"),
                None,
                to_ucx,
                f">= {times:.3g} UCX",
                at_least(to_ucx, times),
            )


def measure_lists(machine, figures):
    for memory in MEMORIES:
        for operation in ["write", "read"]:
            flags = ["--op", operation, "--memory", memory, "--scattered"]
            (case,) = machine.perf(*flags, "--descriptors", 100_000, "--depth", 1, "--iters", 3)
            figures.add(f"list {memory} {operation}", case["time_ratio_to_one_range"])
            (case,) = machine.perf(*flags, "--descriptors", 1000, "--latency", "--iters", 50)
            figures.add(f"repost {memory} {operation}", case["repost_us"]["p50"])


def rows_lists(figures):
    for memory in MEMORIES:
        for operation in ["write", "read"]:
            ratio = figures.median(f"list {memory} {operation}")
            words = f"{operation} of 100,000 x 4 KiB, scattered, {memory}, x the time of one range"
            yield Row(words, ratio, None, None, None, None, "<= 1.5", at_most(ratio, 1.5))
            repost = figures.median(f"repost {memory} {operation}")
            words = f"post a {operation} of 1,000 x 4 KiB again, {memory}, us of processor"
            yield Row(words, repost, None, None, None, None, "<= 10 us", at_most(repost, 10))


def measure_notify(machine, figures):
    (case,) = machine.perf("--latency", "--notify", "--memory", "host", "--size", 64, "--iters", 1000)
    figures.add("notify", case["half_round_trip_us"]["p50"])
    if machine.has_ucx:
        figures.add("notify ucx", machine.ucx("notify", 64, 1000)["half_us"])


def rows_notify(figures):
    to_ucx = figures.ratio("notify", "notify ucx")
    yield Row(
        "notification of 64 B one way, us",
        figures.median("notify"),
        None,
        figures.median("notify ucx"),
        None,
        to_ucx,
        "<= UCX",
        at_most(to_ucx, 1.0),
    )


def measure_messages(machine, figures):
    for memory in MEMORIES:
        for place in [[], ["--scattered"]]:
            flags = ["--messages", 100_000, "--memory", memory, "--iters", 3, *place]
            (case,) = machine.perf(*flags)
            name = f"messages {memory} {'scattered' if place else 'neighbours'}"
            figures.add(name, case["time_ratio_to_large_messages"])


def rows_messages(figures):
    for memory in MEMORIES:
        for place, bar in [("neighbours", 1.5), ("scattered", 2.0)]:
            ratio = figures.median(f"messages {memory} {place}")
            words = f"100,000 x 4 KiB, {memory}, {place}, x the time of large messages"
            yield Row(words, ratio, None, None, None, None, f"<= {bar}", at_most(ratio, bar))


def measure_idle(machine, figures):
    flags = ["--latency", "--baseline", "--memory", "host", "--size", 64, "--idle-ms", 10]
    (case,) = machine.perf(*flags, "--iters", 60, "--warmup", 5)
    for figure in ["p50", "p90"]:
        figures.add(f"idle {figure}", case["half_round_trip_us"][figure])
        figures.add(f"idle {figure} sockets", case["raw_half_round_trip_us"][figure])


def rows_idle(figures):
    for figure in ["p50", "p90"]:
        own = f"idle {figure}"
        yield Row(
            f"64 B one way after 10 ms of idleness, {figure}, us",
            figures.median(own),
            figures.median(f"{own} sockets"),
            None,
            figures.ratio(own, f"{own} sockets"),
            None,
            "<= 60 us" if figure == "p50" else "",
            at_most(figures.median(own), 60) if figure == "p50" else None,
        )


def measure_descriptors(machine, figures):
    for line in machine.bench("tcpx-rx", "descriptors", "--json"):
        if line["fragments"] == 128 and line["has_bar"]:
            figures.add(f"descriptors {line['step']}", line["median_ns"])


def rows_descriptors(figures):
    for name in [name for name in figures.lists if name.startswith("descriptors ")]:
        median = figures.median(name)
        words = name.removeprefix("descriptors ")
        words = f"128 descriptors, {words}, ns a fragment"
        yield Row(words, median, None, None, None, None, "<= 3.0", at_most(median, 3.0))


def measure_locks(machine, figures):
    for line in machine.bench("tcpx-tests", "lock_latency", "--json"):
        for figure in ["p50_us", "p99_us"]:
            name = f"locks {line['call']} {line['driven_by']} {figure}"
            figures.add(name, line[figure])
            figures.add(f"{name} control", line[f"control_{figure}"])


def rows_locks(figures):
    for name in [name for name in figures.lists if name.startswith("locks ")]:
        if name.endswith(" control"):
            continue
        own, control = figures.median(name), figures.median(f"{name} control")
        words = name.removeprefix("locks ").removesuffix("_us")
        is_p50 = name.endswith("p50_us")
        bar = "<= 10 us" if is_p50 else "<= 1.5 control"
        to_control = figures.ratio(name, f"{name} control")
        is_met = at_most(own, 10) if is_p50 else at_most(to_control, 1.5)
        words = f"{words}, while 64 MiB messages move, us (sockets: control)"
        yield Row(words, own, control, None, to_control, None, bar, is_met)


def measure_quiet(machine, figures):
    for line in machine.bench("tcpx-tests", "peer_cost", "--json"):
        peers = line["peers"]
        for figure in ["cpu_percent", "switches_per_s"]:
            figures.add(f"quiet {peers} {figure}", line[figure])
        figures.add(f"peers {peers} message", line["message_us"])
        for end in ["first", "last"]:
            figures.add(f"peers {peers} {end} connects", line[f"{end}_connects_us"])


def rows_quiet(figures):
    for name in [name for name in figures.lists if name.startswith("quiet ")]:
        _, peers, figure = name.split()
        words, bar = {"cpu_percent": ("% of a core", 0.1), "switches_per_s": ("wakeups a second", 1.0)}[figure]
        value = figures.median(name)
        words = f"idle progress thread, {peers} peers, {words}"
        yield Row(words, value, None, None, None, None, f"<= {bar}", at_most(value, bar))
    most = max((int(name.split()[1]) for name in figures.lists if name.startswith("peers ")), default=0)
    pairs = {
        f"a message of 4 KiB of one of {most} peers, us": (f"peers {most} message", "peers 1 message"),
        f"connect of the last of {most} peers, us": (f"peers {most} last connects", f"peers {most} first connects"),
    }
    for words, (many, one) in pairs.items():
        ratio = figures.ratio(many, one)
        words = f"{words} (sockets: of one, of the first)"
        yield Row(words, figures.median(many), figures.median(one), None, ratio, None, "<= 1.5", at_most(ratio, 1.5))


def measure_link(machine, figures):
    for line in machine.bench("tcpx-tests", "late_receive", "--json"):
        figures.add("link", line["half_us"])
        figures.add("link sockets", line["raw_half_us"])


def rows_link(figures):
    to_link = figures.ratio("link", "link sockets")
    own, link = figures.median("link"), figures.median("link sockets")
    words = "4 KiB one way over 100 us, receive posted late, us"
    yield Row(words, own, link, None, to_link, None, "<= 1.2 sockets", at_most(to_link, 1.2))


class Row:
    """A line of the table. `None` leaves a cell empty."""

    def __init__(self, what, ours, sockets, ucx, to_sockets, to_ucx, bar, is_met):
        figures = [ours, sockets, ucx, to_sockets, to_ucx]
        verdict = {True: "met", False: "MISSED", None: ""}[is_met]
        self.cells = [what, *map(figure, figures), bar, verdict]


def figure(value):
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def at_most(value, bar):
    return None if value is None else value <= bar


def at_least(value, bar):
    return None if value is None else value >= bar


def both(one, other):
    """Met, missed, or unknown because something was not measured."""
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def print_table(rows):
    heading = ["what", "ours", "sockets", "UCX", "to sockets", "to UCX", "bar", ""]
    lines = [heading, *(row.cells for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heading))]
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, widths)]
        print("  ".join(cells).rstrip(), flush=True)


GROUPS = {
    "trips": (measure_trips, rows_trips),
    "go": (measure_go, rows_go),
    "link": (measure_link, rows_link),
    "stream": (measure_stream, rows_stream),
    "one-sided": (measure_one_sided, rows_one_sided),
    "lists": (measure_lists, rows_lists),
    "notify": (measure_notify, rows_notify),
    "messages": (measure_messages, rows_messages),
    "idle": (measure_idle, rows_idle),
    "busy": (measure_busy, rows_busy),
    "descriptors": (measure_descriptors, rows_descriptors),
    "locks": (measure_locks, rows_locks),
    "quiet": (measure_quiet, rows_quiet),
}
# Once is enough: they measure for long, or take medians themselves.
ONCE = {"descriptors", "locks", "quiet", "link"}


def main():
    tcpx, venv, *words = sys.argv[1:]
    rounds = int(words.pop(0)) if words and words[0].isdigit() else 5
    unknown = set(words) - set(GROUPS)
    if unknown or rounds < 1:
        raise SystemExit(f"bars.sh: {' '.join(sorted(unknown))}: see tools/scripts/bars.sh --help")
    groups = words or list(GROUPS)
    machine, figures = Machine(tcpx, venv), Figures()
    load = os.getloadavg()[0]
    for round_number in range(rounds):
        for group in groups:
            if round_number == 0 or group not in ONCE:
                print(f"round {round_number + 1}: {group}", file=sys.stderr, flush=True)
                try:
                    GROUPS[group][0](machine, figures)
                except (subprocess.SubprocessError, LookupError, ValueError) as error:
                    # The other rows are measured all the same.
                    print(f"not measured: {error!r}", file=sys.stderr, flush=True)
    print(f"medians of {rounds} rounds; load when they began {load:.1f}, {os.cpu_count()} processors\n")
    print_table(row for group in groups for row in GROUPS[group][1](figures))


if __name__ == "__main__":
    main()
