"""Checks of peers that end, stop or come back, of memory that changes, and of processes."""

import os
import time

from .verify_agent import MIB, Agent, Failure, Peer, demand, first_difference, pair, pattern, span

BIG = 64 * MIB
OLD, NEW = 0x11, 0xEE


def deregister_under_reads(options):
    """Memory that is taken back while a peer reads it: READs fail, or have the bytes it had before."""
    count = 4 * MIB
    here, there, mine, its = pair(options, count)
    done = failed = 0
    for _ in range(3):
        number, address = there.add_area(count, OLD)
        relearn(here, there)
        handle = here.prepare("READ", span(mine[1], count), span(address, count), "there")
        demand("" if here.outcome(handle) == "DONE" else "it failed", "a READ before")
        one_done, one_failed, wrong = read_until_gone(
            here, handle, mine[0], lambda: there.begin("deregister_and_fill", number, NEW), there.has_answered
        )
        there.answer()
        demand(wrong, "a READ that is done")
        done, failed = done + one_done, failed + one_failed
        try:
            here.release(handle)
        except Exception:  # pylint: disable=broad-except
            pass  # What failed may not be released, for some.
        relearn(here, there)
        here.transfer_within("READ", span(mine[1], MIB), span(its[1], MIB), "there", options.within)
    return f"{done} READs whole, {failed} failed, both ends go on"


def read_until_gone(here, handle, number, take_back, gone):
    """Posts over and over while a peer takes memory back, and some more. Returns how many were done
    and failed, and what was wrong with bytes."""
    done = failed = 0
    more = 5
    while more:
        more -= done + failed > 0 and gone()
        here.set(number, 0)
        state = here.post(handle)
        if not done + failed:
            take_back()
        state = here.end_of(handle) if state == "PROC" else state
        done, failed = done + (state == "DONE"), failed + (state != "DONE")
        if state == "DONE":
            area = here.areas[number]
            wrong = int((area != OLD).sum())
            if wrong:
                later = int((area == NEW).sum())
                return done, failed, f"{wrong} bytes are not those of the memory, {later} are of its later use"
    return done, failed, ""


def relearn(here, there):
    """Has an agent forget what it knows of a peer, and load what is so now."""
    here.forget("there")
    here.know(there.metadata())


def metadata_changes(options):
    """Memory registered after the first exchange can be used once its metadata was loaded, beside
    the other, and still when other memory is gone."""
    here, there, mine, its = pair(options, MIB)
    here.transfer("WRITE", span(mine[1], MIB), span(its[1], MIB), "there")
    for turn in range(4):
        source, target = here.add_area(MIB), there.add_area(MIB)
        here.know(there.metadata())
        here.fill(source[0], turn)
        here.transfer("WRITE", span(source[1], MIB), span(target[1], MIB), "there", b"new")
        there.notifications("here", 1, options.within)
        demand(first_difference(there.read(target[0]), here.areas[source[0]]), "into new memory")
        here.transfer("WRITE", span(mine[1], MIB), span(its[1], MIB), "there")
        if turn % 2:
            there.deregister(target[0])
            relearn(here, there)
            here.transfer("WRITE", span(mine[1], MIB), span(its[1], MIB), "there")
    return "4 areas added and 2 taken back after the first exchange"


def peer_killed(options):
    """A transfer whose peer is killed ends in its time, later ones with an error in theirs, and
    those with other peers go on."""
    here, there, mine, its = pair(options, BIG)
    other = Peer("other", options)
    others = other.add_area(MIB)
    here.know(other.metadata())
    handle = here.prepare("WRITE", span(mine[1], BIG), span(its[1], BIG), "there")
    here.transfer("WRITE", span(mine[1], MIB), span(others[1], MIB), "other")
    here.transfer("WRITE", span(mine[1], MIB), span(its[1], MIB), "there")
    # Stopped first, so that it is killed with the transfer under way.
    there.stop()
    state = here.post(handle)
    there.kill()
    begin = time.monotonic()
    state = here.end_of(handle) if state == "PROC" else state
    took = time.monotonic() - begin
    again = here.attempt("WRITE", span(mine[1], MIB), span(its[1], MIB), "there")
    if again == "DONE":
        raise Failure("a WRITE to a peer that was killed is done")
    here.fill(mine[0], 1)
    here.transfer("WRITE", span(mine[1], MIB), span(others[1], MIB), "other", b"alive")
    other.notifications("here", 1, options.within)
    demand(first_difference(other.read(others[0]), here.areas[mine[0]][:MIB]), "another peer")
    return f"{state} after {took:.2f} s, then {again}"


def peer_stopped(options):
    """A transfer whose peer stands still for a while ends once it goes on: done, with its bytes and
    its notification, or with an error; the next ones work."""
    here, there, mine, its = pair(options, BIG)
    here.transfer("WRITE", span(mine[1], MIB), span(its[1], MIB), "there")
    here.fill(mine[0], 2)
    handle = here.prepare("WRITE", span(mine[1], BIG), span(its[1], BIG), "there", b"through")
    there.stop()
    state = here.post(handle, b"through")
    time.sleep(options.stopped)
    there.proceed()
    state = here.end_of(handle) if state == "PROC" else state
    if state == "DONE":
        there.notifications("here", 1, options.within)
        demand(first_difference(there.read(its[0]), here.areas[mine[0]]), "a WRITE that is done")
    tries = here.transfer_within("READ", span(mine[1], MIB), span(its[1], MIB), "there", options.within)
    demand(first_difference(here.areas[mine[0]][:MIB], there.read(its[0])[:MIB]), "the next READ")
    return f"stopped for {options.stopped:g} s: {state}; READ number {tries} after it works"


def peer_restarted(options):
    """A peer that was killed and started again under its name can be reached when its new metadata
    was loaded."""
    here, there, mine, its = pair(options, MIB)
    here.transfer("WRITE", span(mine[1], MIB), span(its[1], MIB), "there")
    tries = []
    for life in range(2):
        there.kill()
        there = Peer("there", options)
        its = there.add_area(MIB)
        relearn(here, there)
        there.know(here.metadata())
        here.fill(mine[0], 3 + life)
        tries.append(here.transfer_within("WRITE", span(mine[1], MIB), span(its[1], MIB), "there", options.within))
        here.transfer("WRITE", span(mine[1], MIB), span(its[1], MIB), "there", b"back")
        there.notifications("here", 1, options.within)
        demand(first_difference(there.read(its[0]), here.areas[mine[0]]), "after a restart")
    return f"restarted twice: WRITE number {' and '.join(map(str, tries))} works"


def two_agents(options):
    """Two agents of a process reach each other, themselves and a third elsewhere."""
    here, there, mine, its = pair(options, MIB)
    beside = Agent("beside", options)
    besides, own = beside.add_area(MIB), here.add_area(MIB)
    here.know(beside.metadata())
    beside.know(here.metadata())
    beside.know(there.metadata())
    for turn, (agent, source, peer, target) in enumerate((
        (here, mine, "beside", besides), (beside, besides, "here", mine), (here, mine, "here", own),
        (here, mine, "there", its), (beside, besides, "there", its),
    )):
        agent.fill(source[0], turn)
        agent.transfer("WRITE", span(source[1], MIB), span(target[1], MIB), peer, b"%d" % turn)
        at = {"here": here, "beside": beside, "there": there}[peer]
        came = at.notifications(agent.name, 1, options.within)
        demand("" if came == [b"%d" % turn] else f"{came}", f"notifications of {agent.name} at {peer}")
        demand(first_difference(at.read(target[0]), pattern(turn, MIB)), f"{agent.name} to {peer}")
    return "5 ways between two agents of a process and one elsewhere"


def fork(options):
    """A child process that only exits leaves its parent's agent working."""
    here, there, mine, its = pair(options, BIG)
    children = 5
    for turn in range(children):
        here.fill(mine[0], turn)
        handle = here.prepare("WRITE", span(mine[1], BIG), span(its[1], BIG), "there", b"whole")
        state = here.post(handle, b"whole")
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
        state = here.end_of(handle) if state == "PROC" else state
        here.release(handle)
        demand("" if state == "DONE" else state, "a WRITE with a fork in it")
        there.notifications("here", 1, options.within)
        demand(first_difference(there.read(its[0]), here.areas[mine[0]]), "a WRITE with a fork in it")
    return f"{children} children were forked in WRITEs of {BIG // MIB} MiB"


def all_to_all(options):
    """Each of several agents writes to each, all at once; all bytes and notifications come."""
    count, slot = options.agents, 256 * 1024
    peers = [Peer(f"agent {index}", options) for index in range(count)]
    for peer in peers:
        peer.begin("add_area", count * slot)
    areas = [peer.answer()[1] for peer in peers]
    for peer in peers:
        peer.begin("add_area", slot)
    metadata = [(peer.answer(), peer.metadata())[1] for peer in peers]
    begin = time.monotonic()
    for index, peer in enumerate(peers):
        peer.begin("call", exchange, index, areas, metadata, slot)
    for peer in peers:
        peer.answer()
    took = time.monotonic() - begin
    for to, peer in enumerate(peers):
        got = peer.read(0)
        for index in range(count):
            if index != to:
                part = got[index * slot:(index + 1) * slot]
                demand(first_difference(part, pattern(index, slot)), f"agent {index} to agent {to}")
    return f"{count * (count - 1)} ways between {count} agents, {took:.1f} s"


def exchange(agent, index, areas, metadata, slot):
    """Writes to all others, and waits for theirs."""
    others = [to for to in range(len(areas)) if to != index]
    for to in others:
        agent.know(metadata[to])
    agent.fill(1, index)
    source = agent.areas[1].ctypes.data
    handles = [
        agent.prepare("WRITE", span(source, slot), span(areas[to] + index * slot, slot), f"agent {to}", b"mine")
        for to in others
    ]
    states = [agent.post(handle, b"mine") for handle in handles]
    for handle, state in zip(handles, states):
        state = agent.end_of(handle) if state == "PROC" else state
        demand("" if state == "DONE" else state, f"agent {index} to another")
        agent.release(handle)
    for to in others:
        came = agent.notifications(f"agent {to}", 1, agent.options.within)
        demand("" if came == [b"mine"] else f"{came}", f"notifications of agent {to}")
