"""Checks of transfers as such: long lists, handles that are used again or given up, first ones."""

import time

import numpy

from .verify_agent import MIB, Failure, demand, first_difference, pair, pattern, span, spans

BLOCK = 64


def permuted_lists(options):
    """Lists of many descriptors, permuted and of odd sizes, bring each piece to its place."""
    blocks = options.descriptors
    here, there, mine, its = pair(options, blocks * BLOCK)
    here.fill(mine[0], 1)
    numbers = numpy.random.default_rng(2)
    order = numbers.permutation(blocks)
    counts = numbers.integers(1, BLOCK + 1, blocks)
    local = spans(mine[1] + BLOCK * numpy.arange(blocks, dtype=numpy.uint64), counts)
    remote = spans(its[1] + BLOCK * order.astype(numpy.uint64), counts)
    kept = numpy.arange(BLOCK)[None, :] < counts[:, None]
    source = here.areas[mine[0]].reshape(blocks, BLOCK).copy()
    expected = numpy.zeros((blocks, BLOCK), dtype=numpy.uint8)
    expected[order] = numpy.where(kept, source, 0)
    here.transfer("WRITE", local, remote, "there", b"all")
    there.notifications("here", 1, options.within)
    demand(first_difference(there.read(its[0]), expected.reshape(-1)), "a WRITE")
    here.set(mine[0], 0)
    here.transfer("READ", local, remote, "there")
    demand(first_difference(here.areas[mine[0]], numpy.where(kept, source, 0).reshape(-1)), "a READ")
    return f"WRITE and READ of {blocks} permuted descriptors of 1 to {BLOCK} bytes"


def overlapping_lists(options):
    """Ranges that overlap at their source bring the same bytes to each target."""
    blocks, step = min(options.descriptors, 50_000), 8
    here, there, mine, its = pair(options, blocks * BLOCK)
    extent = (blocks - 1) * step + BLOCK
    windows = numpy.lib.stride_tricks.sliding_window_view
    close = numpy.arange(blocks, dtype=numpy.uint64) * numpy.uint64(step)
    apart = numpy.arange(blocks, dtype=numpy.uint64) * numpy.uint64(BLOCK)
    for operation in ("WRITE", "READ"):
        (here if operation == "WRITE" else there).fill((mine if operation == "WRITE" else its)[0], 3)
        source = pattern(3, blocks * BLOCK)[:extent]
        expected = windows(source, BLOCK)[::step].reshape(-1)
        local, remote = (close, apart) if operation == "WRITE" else (apart, close)
        here.transfer(operation, spans(mine[1] + local, BLOCK), spans(its[1] + remote, BLOCK), "there", b"all")
        there.notifications("here", 1, options.within)
        got = there.read(its[0]) if operation == "WRITE" else here.areas[mine[0]]
        demand(first_difference(got, expected), f"a {operation}")
    return f"WRITE and READ of {blocks} descriptors of {BLOCK} bytes, {step} bytes apart"


def repost(options):
    """A handle that is posted again moves what the memory has then, with that post's notification."""
    times = 50
    here, there, mine, its = pair(options, MIB)
    handle = here.prepare("WRITE", span(mine[1], MIB), span(its[1], MIB), "there")
    for turn in range(times):
        here.fill(mine[0], turn)
        state = here.outcome(handle, b"%d" % turn)
        if state != "DONE":
            raise Failure(f"post {turn} ends with {state}")
        came = there.notifications("here", 1, options.within)
        if came != [b"%d" % turn]:
            raise Failure(f"post {turn} has notifications {came}")
        demand(first_difference(there.read(its[0]), here.areas[mine[0]]), f"post {turn}")
    here.release(handle)
    return f"one handle, {times} posts"


def release_active(options):
    """A handle that is released under way is given up or refused; the next transfers work."""
    count = 32 * MIB
    here, there, mine, its = pair(options, count)
    target = here.add_area(MIB)
    there.fill(its[0], 4)
    active = refused = 0
    for _ in range(10):
        handle = here.prepare("READ", span(mine[1], count), span(its[1], count), "there")
        active += here.post(handle) == "PROC"
        try:
            here.release(handle)
        except Exception:  # pylint: disable=broad-except
            refused += 1
            here.end_of(handle)
            here.release(handle)
        here.set(target[0], 0)
        here.transfer("READ", span(target[1], MIB), span(its[1], MIB), "there")
        demand(first_difference(here.areas[target[0]], pattern(4, count)[:MIB]), "the next READ")
    return f"{active} of 10 were under way, {refused} releases were refused, all READs after them whole"


def idle(options):
    """A transfer after a time of idleness works, and takes no longer than others do."""
    here, there, mine, its = pair(options, MIB)
    here.transfer("WRITE", span(mine[1], MIB), span(its[1], MIB), "there")
    time.sleep(options.idle)
    here.fill(mine[0], 5)
    begin = time.monotonic()
    here.transfer("WRITE", span(mine[1], MIB), span(its[1], MIB), "there", b"back")
    took = time.monotonic() - begin
    there.notifications("here", 1, options.within)
    demand(first_difference(there.read(its[0]), here.areas[mine[0]]), "after idleness")
    there.notify("here", b"here too")
    here.notifications("there", 1, options.within)
    if took > options.slow:
        raise Failure(f"1 MiB after {options.idle:g} s took {took:.2f} s")
    return f"1 MiB after {options.idle:g} s of idleness: {took * 1000:.1f} ms"


def first_transfer(options):
    """The first READ of 64 MiB takes at most some seconds more than the tenth."""
    count = 64 * MIB
    here, there, mine, its = pair(options, count)
    there.fill(its[0], 6)
    times = []
    for _ in range(10):
        begin = time.monotonic()
        here.transfer("READ", span(mine[1], count), span(its[1], count), "there")
        times.append(time.monotonic() - begin)
    demand(first_difference(here.areas[mine[0]], pattern(6, count)), "the last READ")
    seen = f"first {times[0] * 1000:.0f} ms, tenth {times[9] * 1000:.0f} ms ({times[0] / times[9]:.1f} times)"
    if times[0] > times[9] + options.slow:
        raise Failure(seen)
    return seen
