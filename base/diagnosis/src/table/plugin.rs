//! TCPX-2xx: the plugin's file and the CUDA driver.

use crate::diagnosis::diagnoses;

diagnoses! {
PLUGIN_MISSING = 201 FatalForPlugin "the plugin's file is missing"
    symptom "\"Loading plugin: ...\" followed by a dlopen error"
    lines ["cannot open shared object file: No such file or directory"]
    cause "there is no file at this path"
    cure ["ls -l <PATH>", "# install the GPUDirect-TCPX plugin there, name another path, or use plugin = soft"]
    source "transfer test guide, section on plugin loading"
PLUGIN_NOT_LOADABLE = 202 FatalForPlugin "the plugin's file is no loadable library"
    symptom "dlopen fails: invalid ELF header, file too short, wrong ELF class"
    cause "the file is not a shared ELF object: truncated by an interrupted copy, a text stub, or an archive"
    cure ["file -L <PATH>", "# copy the plugin again from its container image"]
    source "ELF"
PLUGIN_WRONG_MACHINE = 203 FatalForPlugin "the plugin is made for another processor"
    symptom "dlopen fails although the file exists"
    cause "the library's machine type is not this machine's"
    cure ["file -L <PATH>", "uname -m"]
    source "ELF"
PLUGIN_ON_NOEXEC = 204 FatalForPlugin "the plugin lies on a noexec mount"
    symptom "dlopen fails: failed to map segment from shared object"
    cause "code cannot be mapped from a file system mounted noexec; /var/lib/tcpx often is"
    cure ["mount -o remount,exec <MOUNT>", "# or copy the plugin to another file system"]
    source "deployment notes of p2p users"
PLUGIN_SYMBOL_MISSING = 205 FatalForPlugin "the library has no symbol ncclNetPlugin_v7"
    symptom "the plugin is rejected after it was loaded"
    lines ["undefined symbol: ncclNetPlugin_v7"]
    cause "the library is no ncclNet v7 plugin"
    cure ["readelf -W --dyn-syms <PATH>"]
    source "plugin 3.1.9, run"
PLUGIN_OTHER_VENDOR = 206 FatalForPlugin "the library is another vendor's libnccl-net"
    symptom "devices or accept behave unlike TCPX; connections fail"
    cause "libnccl-net.so is a name that several plugins share, and another one (aws-ofi-nccl, UCX) comes first"
    cure ["readelf -d <PATH>", "# name the TCPX plugin by its full path"]
    source "deployment notes of p2p users"
PLUGIN_DEPENDENCY_MISSING = 207 FatalForPlugin "a library that the plugin needs is not found"
    symptom "dlopen fails: cannot open shared object file"
    lines [
        "error while loading shared libraries",
        "cannot open shared object file: No such file or directory",
    ]
    cause "<LIBRARY> is in none of the directories that the dynamic linker searches"
    cure ["ldd <PATH>", "export LD_LIBRARY_PATH=/usr/local/nvidia/lib64:/usr/local/cuda/lib64:$LD_LIBRARY_PATH"]
    source "plugin 3.1.9, run; container deployments"
PLUGIN_UNREADABLE = 208 FatalForPlugin "the plugin's file cannot be read"
    symptom "dlopen fails: permission denied"
    cause "this user has no right to read the file"
    cure ["ls -lL <PATH>", "chmod a+rx <PATH>"]
    source "POSIX"
PLUGIN_IS_SOFTWARE = 209 Info "the plugin is the software plugin"
    symptom "transfers work, over plain TCP"
    cause "this file is our own plugin over plain TCP sockets; it needs no GPU, daemon or special kernel"
    cure ["# nothing to do; name the GPUDirect-TCPX plugin's path for the hardware one"]
    source "this project"
PLUGIN_SYMBOL_SHAPE = 210 FatalForPlugin "ncclNetPlugin_v7 is no table of 152 bytes"
    symptom "a crash at the first call of the plugin"
    cause "the symbol must be a data object that is the table itself, 19 pointers long"
    cure ["readelf -W --dyn-syms <PATH>", "# the file is damaged or of another version: install 3.1.9 again"]
    source "plugin 3.1.9, run"
PLUGIN_UNUSABLE = 211 Error "the plugin reports no NIC that this library can use"
    symptom "\"it reports 0 NICs\", or a device type or version other than unpack 0x7"
    lines ["net->devices rc=0 ndev=0"]
    cause "no interface matches its settings, or it is made for another version of NCCL"
    cure ["tcpx doctor", "tcpx env", "# install the plugin's release 3.1.9, or use plugin = soft"]
    source "plugin 3.1.9, run"
SOFT_PLUGIN_ABSENT = 212 Error "this build has no software plugin"
    symptom "\"the software plugin is not part of this build\""
    cause "the library was built without its feature soft, and no hardware plugin is installed or named"
    cure ["cargo build --release", "# or name a plugin file by its path"]
    source "this project"
PLUGIN_SYMBOL_UNDEFINED = 213 FatalForPlugin "a library that the plugin needs lacks a function"
    symptom "dlopen fails: \"undefined symbol: <NAME>\""
    lines ["symbol lookup error: <FILE> undefined symbol", "version <NAME> not found (required by <FILE>)"]
    cause "the CUDA runtime, the driver's libcuda.so.1 or the C library that the dynamic linker found is older than those that the plugin was built with, or a stub"
    cure ["ldd -r <PATH>", "# put the directories of the driver and of the CUDA release that the plugin belongs to first in LD_LIBRARY_PATH", "nvidia-smi"]
    source "ld.so"
CUDA_LIBRARY_MISSING = 221 FatalForPlugin "libcuda.so.1 cannot be loaded"
    symptom "the process exits during plugin init"
    cause "the plugin calls cuInit and ends the process when it fails; in a container the driver's libraries must be mounted and found"
    cure ["export LD_LIBRARY_PATH=/usr/local/nvidia/lib64:$LD_LIBRARY_PATH", "# or run ldconfig /usr/local/nvidia/lib64, or install the NVIDIA driver"]
    source "plugin 3.1.9, run; container deployments"
CUDA_DRIVER_NOT_LOADED = 222 FatalForPlugin "the NVIDIA kernel driver is not loaded"
    symptom "the process exits during plugin init; nvidia-smi fails"
    cause "/proc/driver/nvidia/version is missing, so cuInit fails and the plugin ends the process"
    cure ["modprobe nvidia", "nvidia-smi"]
    source "plugin 3.1.9, run"
CUDA_DRIVER_OLD = 223 Warning "the NVIDIA driver is older than 535"
    symptom "the unpack kernel is not used; with a driver older than 525, sessions of a GPU are refused"
    cause "the unpack kernel's PTX needs driver 535 or newer, and copies are used instead; a stream that reports the end of its copies needs CUDA 12.0, driver 525"
    cure ["nvidia-smi --query-gpu=driver_version --format=csv", "# update the NVIDIA driver to the version that the TCPX release names"]
    source "CUDA PTX ISA table; CUDA driver API, stream memory operations"
GPU_MISSING = 224 FatalForPlugin "there is no NVIDIA GPU"
    symptom "the process exits during plugin init"
    cause "the plugin needs a GPU even for host memory"
    cure ["lspci -d 10de:", "# use plugin = soft on a machine without a GPU"]
    source "plugin 3.1.9, source"
LIBRARY_PATH_WITHOUT_NVIDIA = 225 Warning "LD_LIBRARY_PATH lacks the driver's directory"
    symptom "libcuda.so.1 is not found although the driver is mounted"
    cause "container images of A3 hosts mount the driver at /usr/local/nvidia/lib64, which no default path covers"
    cure ["export LD_LIBRARY_PATH=/usr/local/nvidia/lib64:$LD_LIBRARY_PATH"]
    source "container deployments"
GPU_NODES_MISSING = 226 FatalForPlugin "the GPU's device nodes are missing"
    symptom "the process exits during plugin init; nvidia-smi finds no device"
    cause "/dev/nvidiactl is not there: the container was started without its GPUs"
    cure ["ls -l /dev/nvidiactl /dev/nvidia0", "# start the container with --gpus all, or ask for nvidia.com/gpu"]
    source "container deployments"
LIBRARY_PATH_MISSING_DIRECTORY = 227 Info "LD_LIBRARY_PATH names a directory that does not exist"
    symptom "a library is not found"
    cause "a mount or an installation is missing, or the name is misspelt"
    cure ["ls -d <PATH>"]
    source "ld.so"
GPU_MEMORY_UNAVAILABLE = 228 Error "GPU memory cannot be used"
    symptom "\"cuda memory is not available\" with the driver's words"
    cause "no GPU has this number, the driver refuses, or the memory belongs to another GPU"
    cure ["nvidia-smi -L", "tcpx devices", "# choose a GPU that is listed, or host memory"]
    source "this project"
GPU_NEEDED = 229 Error "a session without a GPU on the hardware plugin"
    symptom "\"gpu = none: the hardware plugin only works with a GPU\"; without this check, SIGSEGV at the first accept"
    cause "the hardware plugin's device handle, unpack queue and bounce buffer lie in GPU memory, which the CPU may not touch; a session without a GPU (gpu = -1 in C, --memory host or emulated) would read them with the CPU"
    cure ["tcpx devices", "# name the GPU: gpu = 0 in the options, TCPX_GPU=0, or tcpx ... --memory cuda --gpu 0", "# memory of the host can be sent from in such a session; without a GPU use plugin = soft"]
    source "plugin 3.1.9, run"
OTHER_TRANSPORT = 230 Error "a session asks for another transport than its process has"
    symptom "\"plugin = devmem: this session asks for device memory, and the software plugin of this process has plain sockets\"; or, with plugin = auto, a line in the log, and the session takes what there is"
    cause "a process has one software plugin, and the first session that opens it chooses for all: plain sockets, device memory, or, with plugin = auto, device memory for GPUs that a NIC reaches; TCPX_SOFT_TRANSPORT may have chosen, too"
    cure ["# name the same plugin in all sessions of the process, or let the one that wants device memory come first", "# or start a process for each", "# look for TCPX_PLUGIN and TCPX_SOFT_TRANSPORT in its environment"]
    source "this project"
}
