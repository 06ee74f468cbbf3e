"""Compiles a CUDA source to PTX with an NVRTC library: kernel_ptx.py NVRTC SOURCE ARCH.

Writes the PTX to standard output, preceded by the SHA-256 of the source, by which a test tells
whether the committed PTX belongs to the committed source.
"""

import ctypes
import hashlib
import sys


def fail(message: str) -> None:
    sys.exit(f"kernel_ptx: {message}")


def compile_ptx(nvrtc: ctypes.CDLL, source: bytes, name: str, arch: str) -> str:
    """PTX of `source` for `arch`; stops the program with the compiler's log on an error."""

    def call(function: str, *arguments: object) -> None:
        status = getattr(nvrtc, function)(*arguments)
        if status != 0:
            nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
            fail(f"{function}: {nvrtc.nvrtcGetErrorString(status).decode()}")

    def text(size_of: str, get: str) -> str:
        size = ctypes.c_size_t()
        call(size_of, program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        call(get, program, buffer)
        return buffer.value.decode()

    program = ctypes.c_void_p()
    call("nvrtcCreateProgram", ctypes.byref(program), source, name.encode(), 0, None, None)
    options = [f"--gpu-architecture={arch}".encode(), b"--std=c++17"]
    status = nvrtc.nvrtcCompileProgram(
        program, len(options), (ctypes.c_char_p * len(options))(*options)
    )
    log = text("nvrtcGetProgramLogSize", "nvrtcGetProgramLog")
    if status != 0:
        fail(f"{name} does not compile:\n{log}")
    if log.strip():
        print(log, file=sys.stderr)
    return text("nvrtcGetPTXSize", "nvrtcGetPTX")


def main() -> None:
    if len(sys.argv) != 4:
        fail("usage: kernel_ptx.py NVRTC SOURCE ARCH")
    library, path, arch = sys.argv[1:]
    with open(path, "rb") as file:
        source = file.read()
    ptx = compile_ptx(ctypes.CDLL(library), source, path.rsplit("/", 1)[-1], arch)
    digest = hashlib.sha256(source).hexdigest()
    sys.stdout.write(f"// source sha256 {digest}\n{ptx.strip()}\n")


if __name__ == "__main__":
    main()
