"""Checks of bytes and notifications: none torn, none missing, none out of order."""

import random

from .verify_agent import MIB, Failure, demand, first_difference, pair, pattern, span, spans

GENERATIONS = 200


def torn_writes(options):
    """When the notification of generation n is there, every byte is at least of generation n."""
    count = 2 * MIB
    here, there, mine, its = pair(options, count)
    there.begin("watch_generations", its[0], "here", GENERATIONS, options.deadline)
    piece = 4096
    offsets = range(0, count, piece)
    local, remote = (
        spans([start + offset for offset in offsets], [piece] * len(offsets))
        for start in (mine[1], its[1])
    )
    for generation in range(1, GENERATIONS + 1):
        here.set(mine[0], generation)
        # By turns as one range, which backends may cut, and as many.
        descriptors = (local, remote) if generation % 2 else (span(mine[1], count), span(its[1], count))
        here.transfer("WRITE", *descriptors, "there", b"%d" % generation)
    wrong, seen = there.answer()
    if wrong:
        generation, oldest, older = wrong[0]
        raise Failure(f"{len(wrong)} of {GENERATIONS} notifications came before their bytes; at {generation} "
                      f"{older} of {count} bytes were older, the oldest of {oldest}")
    if seen != GENERATIONS:
        raise Failure(f"{seen} notifications of {GENERATIONS} came")
    return f"{GENERATIONS} generations of {count // MIB} MiB, all whole"


def truncated_reads(options):
    """A READ that is done has brought every byte, and has touched none beside them."""
    count, edge = 8 * MIB + 64, 32
    here, there, mine, its = pair(options, count)
    there.fill(its[0], 1)
    source = pattern(1, count)
    sizes = [1, 7, 4095, 4096, 4097, 65535, 65537, MIB + 3, 4 * MIB, 8 * MIB]
    for turn in range(4):
        for size in sizes:
            here.set(mine[0], 0)
            offset = edge - turn
            here.transfer("READ", span(mine[1] + offset, size), span(its[1] + offset, size), "there")
            expected = source.copy()
            expected[:offset] = 0
            expected[offset + size:] = 0
            demand(first_difference(here.areas[mine[0]], expected), f"a READ of {size} bytes")
    return f"{4 * len(sizes)} READs of 1 byte to 8 MiB, all whole"


def notification_order(options):
    """Each WRITE's notification comes once, after those of WRITEs that were done before it, and
    its bytes are there then."""
    slots, slot = 500, 64
    here, there, mine, its = pair(options, slots * slot)
    here.fill(mine[0], 2)
    there.begin("call", watch_slots, its[0], slots, slot)
    for index in range(slots):
        there_now, here_now = (start + index * slot for start in (its[1], mine[1]))
        here.transfer("WRITE", span(here_now, slot), span(there_now, slot), "there", b"%d" % index)
    wrong = there.answer()
    if wrong:
        raise Failure(wrong)
    demand(first_difference(there.read(its[0]), here.areas[mine[0]]), "after all")
    return f"{slots} notifications in order, each once, none before its bytes"


def watch_slots(agent, number, slots, slot):
    """Looks at the slot of each notification as it comes. Returns what was wrong."""
    wanted = pattern(2, slots * slot)
    area, seen = agent.areas[number], []
    while len(seen) < slots:
        messages = agent.notifications("here", 1, agent.options.within)
        for message in messages:
            index = int(message)
            if index != len(seen):
                return f"notification {index} came where {len(seen)} was next"
            seen.append(index)
            part = slice(index * slot, (index + 1) * slot)
            difference = first_difference(area[part].copy(), wanted[part])
            if difference:
                return f"notification {index} came before its bytes: {difference}"
    return ""


def notifications_alone(options):
    """Notifications without a transfer come, whole and each once, of 1 byte to 4 KiB."""
    here, there, *_ = pair(options, 4096)
    numbers = random.Random(3)
    sent = [b"%d:" % index + numbers.randbytes(numbers.choice([1, 64, 1000, 4000])) for index in range(500)]
    for message in sent:
        here.notify("there", message)
    came = there.notifications("here", len(sent), options.within)
    if sorted(came) != sorted(sent):
        lost = len(set(sent) - set(came))
        raise Failure(f"{len(came)} came of {len(sent)}, {lost} are lost or wrong")
    return f"{len(sent)} notifications, {'in order' if came == sent else 'in another order'}"
