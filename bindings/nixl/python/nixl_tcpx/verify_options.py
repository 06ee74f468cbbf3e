"""Options of the conformance checks, and their flags. It needs no numpy."""

import dataclasses

from .places import Unusable


@dataclasses.dataclass
class Options:
    """What checks are run with. Times are in seconds."""

    backend: str = "TCPX"
    parameters: dict = dataclasses.field(default_factory=dict)
    deadline: float = 60.0
    """For a whole check."""
    within: float = 30.0
    """For a transfer, a notification or an error."""
    slow: float = 2.0
    """By which a transfer may be slower than others."""
    idle: float = 5.0
    stopped: float = 2.0
    descriptors: int = 10_000
    agents: int = 4


def add_arguments(parser):
    """What the command line may say."""
    default = Options()
    parser.add_argument("--backend", metavar="NAME", default=default.backend,
                        help="NIXL's name of it: TCPX, UCX, LIBFABRIC, ... (default %(default)s)")
    parser.add_argument("--parameter", metavar="KEY=VALUE", action="append", default=[],
                        help="one for create_backend; again for more")
    parser.add_argument("--only", metavar="CHECK", action="append",
                        help="this check; again for more")
    parser.add_argument("--list", action="store_true", help="print the checks, and run none")
    parser.add_argument("--json", metavar="FILE", help="write the report there, too; - for standard output")
    for flag, kind, name, about_it in (
        ("seconds", float, "deadline", "that a check may take before it counts as hung"),
        ("within", float, "within", "in which a transfer, a notification or an error has to come, in seconds"),
        ("slow", float, "slow", "by which the first transfer, or one after idleness, may be slower than others"),
        ("idle", float, "idle", "seconds of idleness before a transfer"),
        ("stopped", float, "stopped", "seconds for which a peer stands still"),
        ("descriptors", int, "descriptors", "of long lists; 200000 is a hard one"),
        ("agents", int, "agents", "that exchange all to all; 16 is a hard one"),
    ):
        parser.add_argument(f"--{flag}", dest=name, type=kind, default=getattr(default, name), metavar="N",
                            help=f"{about_it} (default %(default)s)")


def options_of(asked):
    """Options of the command line."""
    pairs = [one.partition("=") for one in asked.parameter]
    if not all(equals for _, equals, _ in pairs):
        raise Unusable("a parameter is KEY=VALUE")
    fields = {field.name for field in dataclasses.fields(Options)} - {"parameters"}
    values = {name: getattr(asked, name) for name in fields}
    return Options(parameters={key: value for key, _, value in pairs}, **values)
