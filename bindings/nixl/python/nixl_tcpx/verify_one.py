"""One check, in a process of its own: `python -m nixl_tcpx.verify_one NAME OPTIONS FILE`, which
`verify` runs. OPTIONS is JSON, and FILE is where the result goes."""

import json
import sys
import time

from . import verify_bytes, verify_lists, verify_peers
from .verify_agent import Failure, Hung, Refused
from .verify_options import Options

CHECKS = {
    function.__name__.replace("_", "-"): function
    for function in (
        verify_bytes.torn_writes, verify_bytes.truncated_reads,
        verify_bytes.notification_order, verify_bytes.notifications_alone,
        verify_lists.permuted_lists, verify_lists.overlapping_lists,
        verify_lists.repost, verify_lists.release_active,
        verify_lists.first_transfer, verify_lists.idle,
        verify_peers.deregister_under_reads, verify_peers.metadata_changes,
        verify_peers.peer_killed, verify_peers.peer_stopped, verify_peers.peer_restarted,
        verify_peers.two_agents, verify_peers.fork, verify_peers.all_to_all,
    )
}


def about(name):
    """What a backend must do, in a sentence."""
    return " ".join((CHECKS[name].__doc__ or "").split())


def result_of(name, options):
    """Runs a check here. Returns its state and what was seen."""
    try:
        return "passed", CHECKS[name](options)
    except Refused as error:
        return "refused", str(error)
    except Hung as error:
        return "hung", str(error)
    except Failure as error:
        return "failed", str(error)
    except Exception as error:  # pylint: disable=broad-except
        state = "refused" if "NOT_SUPPORTED" in str(error) else "failed"
        return state, f"{type(error).__name__}: {error}"


def main(words):
    """Runs a check and writes down how it went."""
    name, options, path = words
    begin = time.monotonic()
    state, seen = result_of(name, Options(**json.loads(options)))
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"state": state, "seconds": time.monotonic() - begin, "seen": seen}, file)


if __name__ == "__main__":
    main(sys.argv[1:])
