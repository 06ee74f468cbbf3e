//! TCPX-10xx: the backend for NIXL, `libplugin_TCPX.so`.

use crate::diagnosis::diagnoses;

diagnoses! {
NIXL_BACKEND_FOUND = 1001 Info "NIXL has the TCPX backend"
    symptom "none"
    cause "libplugin_TCPX.so lies where this NIXL looks for backends"
    cure ["# nothing to do; programs choose it with backends=[\"TCPX\"]"]
    source "this project"
NIXL_BACKEND_ABSENT = 1002 Info "NIXL has no TCPX backend"
    symptom "NIXL says \"unsupported backend 'TCPX'\", createBackend gives NIXL_ERR_NOT_FOUND"
    lines ["unsupported backend 'TCPX'", "Plugin file does not exist: .../libplugin_TCPX.so"]
    cause "libplugin_TCPX.so does not lie where this NIXL looks; it has to on both ends"
    cure ["python -m nixl_tcpx install", "# or have NIXL_PLUGIN_DIR name a folder that has it"]
    source "NIXL 1.5.1, run"
NIXL_PLUGIN_DIR_MISSING = 1003 Error "NIXL_PLUGIN_DIR names no folder"
    symptom "NIXL finds no backend at all, neither TCPX nor UCX, and no agent can be made"
    cause "the variable takes the place of NIXL's own folder of plugins, also when it leads nowhere"
    cure ["ls -ld <FOLDER>", "unset NIXL_PLUGIN_DIR", "# or name the folder that has libplugin_TCPX.so"]
    source "NIXL 1.4.0, run"
NIXL_BACKENDS_HIDDEN = 1004 Info "NIXL_PLUGIN_DIR hides NIXL's own backends"
    symptom "NIXL finds TCPX and no UCX"
    cause "the variable takes the place of NIXL's own folder of plugins"
    cure ["# to have both: unset NIXL_PLUGIN_DIR, and python -m nixl_tcpx install"]
    source "NIXL 1.5.1, run"
NIXL_BACKENDS_COMPETE = 1005 Info "NIXL has both UCX and TCPX"
    symptom "transfers go over UCX although there is TCPX, or the other way"
    cause "an agent that was given both uses any of them for a call that names none"
    cure ["# name it: nixl_agent_config(backends=[\"TCPX\"]), and backends=[\"TCPX\"] with each call"]
    source "NIXL 1.4.0, run"
NIXL_BACKEND_NOT_LOADABLE = 1006 Error "NIXL cannot load the TCPX backend"
    symptom "with NIXL_LOG_LEVEL=INFO: \"Failed to find nixl_plugin_init\", \"file too short\", \"cannot open shared object file\""
    cause "the file <PATH> is damaged, of another processor, or no backend of NIXL"
    cure ["file -L <PATH>", "python -m nixl_tcpx install"]
    source "NIXL 1.5.1, run"
NIXL_BACKEND_OTHER_ABI = 1007 Error "the TCPX backend is built for another C++ standard library"
    symptom "the process ends with SIGSEGV when the backend is created, without a message"
    cause "NIXL hands over std::string of libstdc++ with its newer layout; a backend that was built with _GLIBCXX_USE_CXX11_ABI=0 or for libc++ reads it as something else"
    cure ["# build it again without that option, for libstdc++: cargo xtask nixl --out FOLDER"]
    source "NIXL 1.4.0, run"
NIXL_TOO_OLD = 1008 Error "this NIXL is too old for the TCPX backend"
    symptom "createBackend gives NIXL_ERR_INVALID_PARAM, or the process ends with SIGSEGV"
    cause "NIXL 1.0 has changed the interface of backends, and its number has stayed the same"
    cure ["pip install 'nixl>=1.0.1'"]
    source "NIXL 0.10.1, run"
NIXL_UNTESTED = 1009 Info "this NIXL is newer than those that the TCPX backend was tested with"
    symptom "none is known"
    cause "the backend was tested with NIXL 1.0.1, 1.4.0 and 1.5.1; later ones may have another interface without saying so"
    cure ["python -m nixl_tcpx check"]
    source "this project"
NIXL_BACKEND_OTHER_VERSION = 1010 Warning "the TCPX backend of NIXL is of another version"
    symptom "two ends do not understand each other: NIXL_ERR_MISMATCH, or an error of a handshake"
    cause "<PATH> was built from another version of tcpx than this program"
    cure ["python -m nixl_tcpx install", "# with the same version on both ends"]
    source "this project"
NIXL_BACKEND_TOO_NEW = 1011 Error "the TCPX backend is built for later libraries than this system's"
    symptom "NIXL finds no TCPX; with NIXL_LOG_LEVEL=INFO: \"version `GLIBC_2.38' not found\""
    lines ["version `GLIBCXX_3.4.32' not found (required by .../libplugin_TCPX.so)"]
    cause "<PATH> was built on a later system, and needs a version of glibc or libstdc++ that this one does not have"
    cure ["# a wheel for glibc 2.28 and later: cargo xtask wheel --glibc 2.28 --out FOLDER", "python -m nixl_tcpx install"]
    source "NIXL 1.5.1, run"
NIXL_BACKEND_STANDS_IN = 1012 Warning "the TCPX backend has the place of another backend of NIXL"
    symptom "programs that choose UCX or LIBFABRIC move their bytes over tcpx; a peer with NIXL's own file gives NIXL_ERR_MISMATCH"
    lines ["is damaged, of another backend, or of another version of this one"]
    cause "python -m nixl_tcpx install --as <NAME> has put it there; NIXL's own file is kept beside it, with .original after its name"
    cure ["# nothing to do if all ends have it so", "# NIXL's own one again: python -m nixl_tcpx uninstall --as <NAME>"]
    source "NIXL 1.5.1, run"
}
