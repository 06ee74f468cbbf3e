"""Packs the plugin into a wheel: python3 wheel.py FOLDER VERSION GLIBC OUT

FOLDER has libplugin_TCPX.so and its licences, GLIBC is the one that the plugin needs, as 2.28. The
wheel's path is printed. It is the same, to the byte, for the same files.
"""

import base64
import hashlib
import pathlib
import platform
import sys
import zipfile

NAME = "nixl_tcpx"
METADATA = """Metadata-Version: 2.1
Name: nixl-tcpx
Version: {version}
Summary: The TCPX backend for NIXL: GPU memory over TCP
License: Apache-2.0
Requires-Python: >=3.10
"""
WHEEL = """Wheel-Version: 1.0
Generator: tcpx
Root-Is-Purelib: false
Tag: py3-none-{platform}
"""


def contents(folder, version, tag):
    """Bytes by path in the wheel."""
    package = pathlib.Path(__file__).parent / NAME
    files = {f"{NAME}/{file.name}": file.read_bytes() for file in sorted(package.glob("*.py"))}
    files[f"{NAME}/libplugin_TCPX.so"] = (folder / "libplugin_TCPX.so").read_bytes()
    info = f"{NAME}-{version}.dist-info"
    licenses = folder / "licenses"
    for file in sorted(licenses.rglob("*")):
        if file.is_file():
            files[f"{info}/licenses/{file.relative_to(licenses)}"] = file.read_bytes()
    files[f"{info}/METADATA"] = METADATA.format(version=version).encode()
    files[f"{info}/WHEEL"] = WHEEL.format(platform=tag).encode()
    return files, f"{info}/RECORD"


def record(files, own):
    """The list of all files that a wheel has in it."""
    lines = []
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}\n")
    return "".join(lines) + f"{own},,\n"


def main(folder, version, glibc, out):
    tag = f"manylinux_{glibc.replace('.', '_')}_{platform.machine()}"
    files, own = contents(pathlib.Path(folder), version, tag)
    files[own] = record(files, own).encode()
    wheel = pathlib.Path(out) / f"{NAME}-{version}-py3-none-{tag}.whl"
    wheel.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            # A time of its own would make every wheel another one.
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    print(wheel)


if __name__ == "__main__":
    main(*sys.argv[1:])
