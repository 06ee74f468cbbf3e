"""Checks pyright's report about the package: `pyright --verifytypes tcpx --outputjson | python known_types.py`.

The adapters extend classes of packages that are not installed here, so their types are not known.
"""

import json
import sys

ADAPTERS = ("tcpx.ray.", "tcpx.torch.", "tcpx.vllm.", "tcpx._vllm_")

symbols = json.load(sys.stdin)["typeCompleteness"]["symbols"]
own = [symbol for symbol in symbols if not symbol["name"].startswith(ADAPTERS)]
unknown = [symbol["name"] for symbol in own if not symbol["isTypeKnown"]]
print(f"{len(own)} symbols of tcpx, {len(unknown)} of unknown type")
if len(own) < 100 or unknown:
    sys.exit(f"types are unknown, or symbols are missing: {unknown}")
