"""Packs a wheel: python3 wheel.py TREE TAG GLIBC PROCESSOR OUT

TREE has METADATA, perhaps entry_points.txt, and the folders `package`, whose contents are installed as they lie there,
`licenses`, and perhaps `scripts`, whose programs are put on the path. TAG says for which Python it
is, as py3-none, GLIBC which C library it needs, as 2.28, and PROCESSOR which machine, as
x86_64. The wheel's path is printed. It is the
same, to the byte, for the same files.
"""

import base64
import hashlib
import pathlib
import re
import sys
import zipfile

WHEEL = """Wheel-Version: 1.0
Generator: tcpx
Root-Is-Purelib: false
Tag: {tag}
"""
# By path of a program: regular files, which pip lets run or not.
MODES = {False: 0o100644, True: 0o100755}


def files_of(folder):
    """Files below a folder, and their paths there."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return [(file, file.relative_to(folder)) for file in files if "__pycache__" not in file.parts]


def contents(tree, tag):
    """Name and version, and bytes by path in the wheel."""
    metadata = (tree / "METADATA").read_text()
    name, version = (re.search(f"^{key}: (.*)$", metadata, re.M)[1] for key in ("Name", "Version"))
    stem = f"{name.replace('-', '_')}-{version}"
    places = {"package": "", "scripts": f"{stem}.data/scripts/", "licenses": f"{stem}.dist-info/licenses/"}
    files = {}
    for folder, place in places.items():
        for file, path in files_of(tree / folder):
            files[f"{place}{path}"] = file.read_bytes()
    files[f"{stem}.dist-info/METADATA"] = metadata.encode()
    entry_points = tree / "entry_points.txt"
    if entry_points.exists():
        files[f"{stem}.dist-info/entry_points.txt"] = entry_points.read_bytes()
    files[f"{stem}.dist-info/WHEEL"] = WHEEL.format(tag=tag).encode()
    return stem, files


def record(files, own):
    """The list of all files that a wheel has in it."""
    lines = []
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}\n")
    return "".join(lines) + f"{own},,\n"


def main(tree, tag, glibc, processor, out):
    tag = f"{tag}-manylinux_{glibc.replace('.', '_')}_{processor}"
    stem, files = contents(pathlib.Path(tree), tag)
    own = f"{stem}.dist-info/RECORD"
    files[own] = record(files, own).encode()
    wheel = pathlib.Path(out) / f"{stem}-{tag}.whl"
    wheel.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            # A time of its own would make every wheel another one.
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = MODES[".data/scripts/" in path] << 16
            archive.writestr(entry, data)
    print(wheel)


if __name__ == "__main__":
    main(*sys.argv[1:])
