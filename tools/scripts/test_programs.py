#!/usr/bin/env python3
"""Lines of "crate target program", out of what `cargo test --no-run --message-format=json` says.

For scripts of this folder that run tests by themselves. A crate has its own name here, which its
folder may not have.
"""

import json
import re
import sys

for line in sys.stdin:
    message = json.loads(line) if line.startswith("{") else {}
    program = message.get("executable")
    if program is None or "/deps/" not in program:
        continue
    # path+file:///FOLDER#VERSION, or #NAME@VERSION where the folder has another name.
    folder, name, _ = re.fullmatch(r".*/([^/#]+)#(?:([^@]+)@)?(.*)", message["package_id"]).groups()
    print(name or folder, message["target"]["name"], program)
