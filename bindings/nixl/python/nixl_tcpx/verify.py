"""Conformance of any NIXL backend: named checks, each in fresh processes with a deadline, so that
one that crashes or hangs fails and no other does."""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from .places import Unusable, version_of
from .verify_agent import death
from .verify_one import CHECKS, about
from .verify_options import options_of

LOG = 2000
STATES = ("passed", "failed", "refused", "hung")


def run_one(name, options):
    """Runs a check in a session of processes of its own, and ends all of them. Returns what the
    report says of it."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "result")
        words = [name, json.dumps(dataclasses.asdict(options)), path]
        begin = time.monotonic()
        with tempfile.TemporaryFile() as log:
            process = subprocess.Popen([sys.executable, "-m", __package__ + ".verify_one", *words],
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       start_new_session=True)
            try:
                code = process.wait(options.deadline)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            report = judge(result_in(path), code, options.deadline)
            size = log.seek(0, os.SEEK_END)
            log.seek(max(0, size - LOG))
            report["log"] = "" if report["state"] == "passed" else log.read().decode(errors="replace")
    seconds = report.pop("seconds", None)
    seconds = time.monotonic() - begin if seconds is None else seconds
    return {"name": name, "seconds": round(seconds, 3), "about": about(name), **report}


def result_in(path):
    """What a check wrote down, or nothing."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def judge(result, code, deadline):
    """The state of a check by what it wrote down and how its process ended: `None` for one that
    did not."""
    if code is None:
        after = f"; before: {result['state']}, {result['seen']}" if result else ""
        return {"state": "hung", "seen": f"no end within {deadline:g} s{after}"}
    if code:
        after = f" after it had {result['state']}: {result['seen']}" if result else ""
        return {"state": "failed", "seen": f"the process {death(code)}{after}"}
    return result or {"state": "failed", "seen": "the process ended without a result"}


def line(report):
    """A row of the table."""
    seen = report["seen"].splitlines() or [""]
    return f"{report['name']:<23}{report['state']:<9}{report['seconds']:>7.1f}  {seen[0]}"


def verify(asked):
    """Runs what is asked for, and prints it. Returns the exit status: 0 when no check failed or
    hung, and at least one passed."""
    names = asked.only or list(CHECKS)
    unknown = ", ".join(name for name in names if name not in CHECKS)
    if unknown:
        raise Unusable(f"there is no check {unknown}; verify --list prints them")
    if asked.list:
        for name in names:
            print(f"{name}: {about(name)}")
        return 0
    options = options_of(asked)
    out = sys.stderr if asked.json == "-" else sys.stdout
    nixl = version_of("nixl")
    print(f"{options.backend} of NIXL {nixl}", file=out)
    print(f"{'check':<23}{'state':<9}{'seconds':>7}  seen", file=out, flush=True)
    reports = []
    for name in names:
        reports.append(run_one(name, options))
        print(line(reports[-1]), file=out, flush=True)
    counts = {state: sum(one["state"] == state for one in reports) for state in STATES}
    print(", ".join(f"{count} {state}" for state, count in counts.items()), file=out)
    worked = counts["passed"] > 0 and not counts["failed"] + counts["hung"]
    write_report(asked.json, {
        "backend": options.backend, "nixl": nixl, "conforms": worked, "counts": counts,
        "options": dataclasses.asdict(options), "checks": reports,
    })
    return 0 if worked else 1


def write_report(path, report):
    """Writes the report as JSON, where one is asked for."""
    text = json.dumps(report, indent=2) + "\n"
    if path == "-":
        print(text, end="")
    elif path:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
