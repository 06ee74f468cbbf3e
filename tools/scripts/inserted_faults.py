#!/usr/bin/env python3
"""Puts the faults of tcpx-tests/faults into a copy of the tree, one at a time, and says which test
finds each. tcpx-tests/faults/README.md says what they are.

    tools/scripts/inserted_faults.py --check               whether every patch applies; builds nothing
    tools/scripts/inserted_faults.py                       all faults: narrow tests, fast tier, deep tier
    tools/scripts/inserted_faults.py --tier fast           without the deep tier
    tools/scripts/inserted_faults.py --only ID... --keep   some; what was built stays for the next call
    tools/scripts/inserted_faults.py --draw MUTANTS        which mutants of each area are drawn first

It exits with 0 when the tiers find as many as they must, with 1 when they do not, and with 2 when
a patch no longer applies or compiles, or a narrow test fails without any fault.
"""

import argparse
import collections
import dataclasses
import hashlib
import json
import math
import os
import pathlib
import queue
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAULTS = ROOT / "tcpx-tests" / "faults"
WORK = ROOT / "target" / "inserted-faults"
AREAS = {"protocol": 17, "lanes": 11, "softnet": 8, "unpack": 4, "control": 4, "capi": 3}
# Where the mutants of an area are drawn from: the first pattern that fits a file says its area.
SOURCES = [
    # For tests or other tools; for NICs, without which it does not run; or for a log.
    (None, r"/tests?[/.]|_tests\.rs|/sync/|/faults|/hooks"),
    (None, r"/bench|build\.rs|/nic_|region_use|downloads|ring_memory"),
    (None, r"/(log|log_sink|metrics|stats|panic_hook)\.rs"),
    ("protocol", r"^tcpx-core/protocol/src/peer"),
    ("lanes", r"^tcpx-core/src/transfer/|^plugins/softnet/src/comm/(lane|helper_threads)"),
    ("softnet", r"^plugins/softnet/src/"),
    ("unpack", r"^tcpx-(unpack|rx)/src/"),
    ("control", r"^tcpx-core/src/control/"),
    ("capi", r"^tcpx-capi/src/"),
]
# Functions that format texts.
WORDS = re.compile(r"(^|::|_)(fmt|words|text|reason|describe|log|name|label)(_|$)|Display|Debug")
SEED = 20261124
# Of forty-seven faults: as many are found by the fast tier, and by both.
ALL, BY_FAST, BY_BOTH = 47, 41, 46
TIERS = ["narrow", "fast", "deep"]
# Their tests read the source of others.
READERS = {"tcpx-tests", "xtask"}
# Seconds for a run of tests of each tier. What takes longer hangs. Tests wait up to 120 s for what
# must come.
LIMITS = {"narrow": 300, "fast": 1200, "deep": 1200}
BUILD_LIMIT = 3600
FAILED = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. FAILED$", re.MULTILINE)
# Cargo builds what a file is part of again when the file is newer than what was built of it. Two
# writes that lie nearer together than file systems tell apart would hide the second.
CLOCK = 0.02


class Broken(Exception):
    """Error of the patches or the tree, and not of the tests."""


@dataclasses.dataclass
class Fault:
    """A patch and its head."""

    path: pathlib.Path
    id: str
    area: str
    effect: str
    source: str
    # Arguments of cargo: the crates that are changed, and the tests that should find it.
    build: list
    tests: list

    @classmethod
    def read(cls, path):
        head, _, diff = path.read_text().partition("\ndiff --git ")
        fields = {}
        for line in head.strip().splitlines():
            name, colon, value = line.partition(": ")
            if not colon:
                raise Broken(f"{path.name}: no field: {line!r}")
            fields.setdefault(name, []).append(value.strip())
        wanted = ["Id", "Area", "Effect", "Source", "Build", "Tests"]
        one_each = all(len(fields.get(name, [])) == 1 for name in wanted[:-1])
        if not diff or sorted(fields) != sorted(wanted) or not one_each:
            raise Broken(f"{path.name}: a diff and one each of {', '.join(wanted)} are needed")
        one = {name: values[0] for name, values in fields.items()}
        is_drawn = re.fullmatch(rf"drawn \(seed {SEED}, number \d+\)", one["Source"])
        if one["Source"] != "chosen" and not is_drawn:
            raise Broken(f"{path.name}: unknown source {one['Source']!r}")
        is_named = re.fullmatch(rf"{one['Area']}-\d\d-[a-z0-9-]+", path.stem)
        if one["Id"] != path.stem or one["Area"] not in AREAS or not is_named:
            raise Broken(f"{path.name}: id and area do not fit the name")
        tests = [shlex.split(line) for line in fields["Tests"]]
        build = shlex.split(one["Build"])
        return cls(path, one["Id"], one["Area"], one["Effect"], one["Source"], build, tests)

    def crates(self):
        return [self.build[at + 1] for at, word in enumerate(self.build) if word == "-p"]


@dataclasses.dataclass
class Result:
    """Which tier found a fault."""

    id: str
    area: str
    caught_by: str
    seconds: float
    test: str


def read_faults(only):
    faults = [Fault.read(path) for path in sorted(FAULTS.glob("*.patch"))]
    counts = {area: sum(fault.area == area for fault in faults) for area in AREAS}
    if counts != AREAS:
        raise Broken(f"faults of each area: {counts}, wanted: {AREAS}")
    unknown = set(only or []) - {fault.id for fault in faults}
    if unknown:
        raise Broken(f"no such fault: {', '.join(sorted(unknown))}")
    return [fault for fault in faults if not only or fault.id in only]


def draw(path):
    """The mutants of each area in the order in which they are drawn: that of a hash."""
    areas, seen = collections.defaultdict(list), collections.Counter()
    for mutant in json.loads(path.read_text()):
        function = mutant["function"] or {"function_name": "", "return_type": ""}
        is_text = "str" in function["return_type"].lower()
        is_text = is_text or WORDS.search(function["function_name"])
        area = next((area for area, files in SOURCES if re.search(files, mutant["file"])), None)
        # Lines move; what is changed in which function does not.
        name = re.sub(r":\d+:\d+:", ":", mutant["name"])
        seen[name] += 1
        if area and not is_text:
            text = f"{SEED} {name} {seen[name]}"
            areas[area].append((hashlib.sha256(text.encode()).hexdigest(), mutant))
    in_order = {area: sorted(areas[area], key=lambda it: it[0]) for area in AREAS}
    return {area: [mutant for _, mutant in mutants] for area, mutants in in_order.items()}


def apply_to(tree, fault, *flags):
    command = ["git", "apply", *flags, str(fault.path)]
    # A copy has no repository of its own; without this, git takes that around it.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        hint = "port it as tcpx-tests/faults/README.md says"
        raise Broken(f"{fault.id} does not apply: {hint}\n{done.stderr}")


def changed_files(fault):
    return re.findall(r"^\+\+\+ b/(\S+)$", fault.path.read_text(), re.MULTILINE)


class Tree:
    """A copy of the working tree, with a folder that is built in."""

    def __init__(self, number):
        self.path = WORK / f"tree-{number}"
        self.build = WORK / f"build-{number}"
        self.running = None
        self.environment = {
            **os.environ,
            "CARGO_TARGET_DIR": str(self.build),
            "CARGO_INCREMENTAL": "1",
            "CARGO_TERM_COLOR": "never",
            "PROPTEST_FAILURE_PERSISTENCE": "off",
        }

    def update(self):
        """Makes the copy what the working tree is. Files that are so already keep their times."""
        listed = run_git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        names = filter(None, listed.split("\0"))
        # Some links lead to folders.
        files = {name for name in names if (ROOT / name).is_file() or (ROOT / name).is_symlink()}
        self.path.mkdir(parents=True, exist_ok=True)
        for name in sorted(files):
            source, target = ROOT / name, self.path / name
            if source.is_symlink():
                target.unlink(missing_ok=True)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(os.readlink(source))
            elif not target.is_file() or target.read_bytes() != source.read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
        for folder, folders, names in os.walk(self.path):
            for path in [pathlib.Path(folder, name) for name in folders + names]:
                is_folder = path.is_dir() and not path.is_symlink()
                if not is_folder and str(path.relative_to(self.path)) not in files:
                    path.unlink()

    def dependents(self, crates):
        """These crates of the workspace, and all that are built of them or read their source."""
        command = ["cargo", "metadata", "--no-deps", "--format-version", "1"]
        output = subprocess.run(command, cwd=self.path, check=True, capture_output=True).stdout
        packages = json.loads(output)["packages"]
        needs = {it["name"]: {need["name"] for need in it["dependencies"]} for it in packages}
        found = set(crates) | READERS
        while True:
            more = {name for name, its in needs.items() if its & found} - found
            if not more:
                return [name for name in needs if name in found]
            found |= more

    def cargo(self, arguments, limit):
        """Runs `cargo test`, until a test has failed. Returns its status, or `None` if it took too
        long, and its output."""
        log, end = WORK / f"log-{self.path.name}", time.monotonic() + limit
        with log.open("w") as output:
            process = subprocess.Popen(
                ["cargo", "test", *arguments],
                cwd=self.path,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            status, self.running = None, process.pid
            try:
                while status is None and time.monotonic() < end:
                    status = wait(process, 0.5)
                    if status is None and FAILED.search(log.read_text(errors="replace")):
                        status = 1
            finally:
                self.stop()
                process.wait()
                self.running = None
        return status, log.read_text(errors="replace")

    def stop(self):
        """Ends the running command."""
        if self.running is not None:
            kill_session(self.running)

    def compile(self, what, arguments):
        status, output = self.cargo(["--no-run", *arguments], BUILD_LIMIT)
        if status != 0:
            raise Broken(f"{what} does not compile, or not in time:\n{output[-4000:]}")

    def test(self, what, arguments, tier):
        """Builds and runs some tests. Returns what is wrong: nothing, a test's name, or `hang`."""
        at = arguments.index("--") if "--" in arguments else len(arguments)
        self.compile(what, arguments[:at])
        status, output = self.cargo(arguments, LIMITS[tier])
        if status is None:
            return f"hang; {first_failed(output)}" if first_failed(output) else "hang"
        if status == 0:
            if tier == "narrow" and not re.search(r"^running [1-9]", output, re.MULTILINE):
                raise Broken(f"{what}: no test is called so: cargo test {shlex.join(arguments)}")
            return None
        return first_failed(output) or output.strip().splitlines()[-1][:100]


def run_git(*arguments):
    command = ["git", "-C", ROOT, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def wait(process, seconds):
    """Returns its status, if it ends within this many seconds."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None


def kill_session(session):
    """Ends the processes that a run has left: tests start them, in groups of their own."""
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.getsid(int(entry.name)) == session:
                os.kill(int(entry.name), signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass


def first_failed(output):
    """The test that failed first, or the program that did not come to an end."""
    running = re.compile(r"^test (\S+) has been running", re.MULTILINE)
    ended = re.compile(r"(process didn't exit successfully: .*)")
    for pattern in [FAILED, running, ended]:
        if found := pattern.search(output):
            return found[1][:100]
    return None


def find(tree, fault, last_tier):
    """Runs the tiers until one finds the fault, which is in the tree."""
    began = time.monotonic()

    def result(caught_by, test=""):
        return Result(fault.id, fault.area, caught_by, round(time.monotonic() - began, 1), test)

    for tests in fault.tests:
        if wrong := tree.test(fault.id, tests, "narrow"):
            return result("fast-narrow", wrong)
    if last_tier == "narrow":
        return result("ESCAPED")
    crates = [word for crate in tree.dependents(fault.crates()) for word in ("-p", crate)]
    if wrong := tree.test(fault.id, crates, "fast"):
        return result("fast", wrong)
    if last_tier == "deep" and (wrong := tree.test(fault.id, [*crates, "--", "--ignored"], "deep")):
        return result("deep", wrong)
    return result("ESCAPED")


def find_one(tree, fault, last_tier):
    """Puts a fault in, looks for it, and takes it out again."""
    apply_to(tree.path, fault, "--check")
    saved = {tree.path / name: (tree.path / name).read_bytes() for name in changed_files(fault)}
    try:
        time.sleep(CLOCK)
        apply_to(tree.path, fault)
        return find(tree, fault, last_tier)
    finally:
        # With new times: what was built of the fault is older, and is built again.
        time.sleep(CLOCK)
        for path, content in saved.items():
            path.write_bytes(content)


def work(tree, groups, last_tier, results, problems):
    """Takes faults of one crate after the other, so that little is built again."""
    while True:
        try:
            group = groups.get_nowait()
        except queue.Empty:
            return
        try:
            for tests in unique(tests for fault in group for tests in fault.tests):
                if wrong := tree.test("the tree without a fault", tests, "narrow"):
                    raise Broken(f"without a fault, cargo test {shlex.join(tests)} fails: {wrong}")
            for fault in group:
                try:
                    results.append(find_one(tree, fault, last_tier))
                    print(line_of(results[-1]), file=sys.stderr, flush=True)
                except Broken as problem:
                    problems.append(problem)
        except (Broken, OSError, subprocess.SubprocessError) as problem:
            problems.append(problem)


def unique(lists):
    return [list(words) for words in dict.fromkeys(tuple(words) for words in lists)]


def run_all(faults, options):
    groups, by_crate = queue.Queue(), {}
    for fault in faults:
        by_crate.setdefault(tuple(fault.build), []).append(fault)
    for group in by_crate.values():
        groups.put(group)
    results, problems = [], []
    trees = [Tree(number) for number in range(min(options.jobs, len(by_crate)))]
    threads = []
    try:
        for tree in trees:
            tree.update()
            arguments = (tree, groups, options.tier, results, problems)
            threads.append(threading.Thread(target=work, args=arguments, daemon=True))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        # Of a call that is interrupted, something may run.
        for tree in trees:
            tree.stop()
        if not options.keep:
            shutil.rmtree(WORK, ignore_errors=True)
    return sorted(results, key=lambda result: result.id), problems


def line_of(result):
    return f"{result.id:44} {result.caught_by:11} {result.seconds:7.1f} s  {result.test}"


def report(results, options):
    """Prints the table. Returns whether enough was found."""
    for result in results:
        print(line_of(result))
    by_fast = sum(result.caught_by.startswith("fast") for result in results)
    by_both = sum(result.caught_by != "ESCAPED" for result in results)
    least_fast = math.ceil(len(results) * BY_FAST / ALL)
    least_both = math.ceil(len(results) * BY_BOTH / ALL) if options.tier == "deep" else 0
    print(f"of {len(results)} the fast tier finds {by_fast}, and must find {least_fast}")
    if least_both:
        print(f"of {len(results)} both tiers find {by_both}, and must find {least_both}")
    if options.json:
        rows = [dataclasses.asdict(result) for result in results]
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
    return by_fast >= least_fast and by_both >= least_both


def main():
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--check", action="store_true", help="only apply each, and build nothing")
    parser.add_argument("--draw", type=pathlib.Path, metavar="MUTANTS", help="show the drawn mutants")
    parser.add_argument("--tier", choices=TIERS, default="deep", help="the last tier to try")
    parser.add_argument("--only", nargs="+", metavar="ID", help="these faults")
    jobs = "copies at the same time, one for each crate at most"
    parser.add_argument("--jobs", type=int, default=1, help=jobs)
    results = "write the results there, too"
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help=results)
    keep = "keep target/inserted-faults for the next call"
    parser.add_argument("--keep", action="store_true", help=keep)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    if options.draw:
        for area, mutants in draw(options.draw).items():
            for number, mutant in enumerate(mutants[:AREAS[area] * 2], 1):
                print(f"{area} {number} of {len(mutants)}: {mutant['name']}")
        return 0
    try:
        faults = read_faults(options.only)
        for fault in faults:
            apply_to(ROOT, fault, "--check")
        if options.check:
            print(f"all {len(faults)} faults apply")
            return 0
        results, problems = run_all(faults, options)
    except Broken as problem:
        results, problems = [], [problem]
    is_enough = report(results, options) if results else False
    for problem in problems:
        print(f"inserted_faults: {problem}", file=sys.stderr)
    return 2 if problems else 0 if is_enough else 1


if __name__ == "__main__":
    sys.exit(main())
