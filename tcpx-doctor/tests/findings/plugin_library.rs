//! Libraries that look like plugins, made by the C compiler. None of them is ever loaded.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

const TABLE: &str = "const char plugin_name[] = \"GPUDirectTCPX_v7\";\n\
                     struct { const char* name; void* members[18]; } ncclNetPlugin_v7 = {plugin_name, {0}};\n";

fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<TempDir> = OnceLock::new();
    DIRECTORY.get_or_init(|| tempfile::tempdir().expect("a directory")).path()
}

fn compile(name: &str, source: &str, arguments: &[&str]) -> PathBuf {
    let library = directory().join(name);
    let file = directory().join(format!("{name}.c"));
    std::fs::write(&file, source).expect("a source file");
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-nostdlib", "-o"])
        .arg(&library)
        .arg(&file)
        .args(["-Wl,--no-as-needed", "-L"])
        .arg(directory())
        .args(arguments)
        .status()
        .expect("a C compiler runs");
    assert!(status.success(), "{name} was compiled");
    library
}

/// A file that looks like Google's plugin 3.1.9: one NCCL symbol, and a need for libcuda and libcudart.
pub(crate) fn hardware() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        compile("libcuda.so", "void cuInit(void) {}\n", &["-Wl,-soname,libcuda.so.1"]);
        compile("libcudart.so", "void cudaFree(void) {}\n", &["-Wl,-soname,libcudart.so.12"]);
        compile("libhardware.so", TABLE, &["-lcuda", "-lcudart"])
    })
}

/// A file that looks like our software plugin.
pub(crate) fn software() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let source = format!("const char setting[] = \"TCPX_SOFT_POISON\";\n{TABLE}");
        compile("libsoftware.so", &source, &[])
    })
}

/// A plugin of another vendor: the v7 table among others.
pub(crate) fn other_vendor() -> PathBuf {
    let source =
        "char ncclNetPlugin_v7[152]; char ncclNetPlugin_v8[160]; char ncclCollNetPlugin_v7[160];\n";
    compile("libother.so", source, &[])
}

/// A v7 plugin that does not call itself GPUDirectTCPX.
pub(crate) fn stranger() -> PathBuf {
    compile("libstranger.so", "char ncclNetPlugin_v7[152] = {1};\n", &[])
}

/// A library without any table.
pub(crate) fn no_table() -> PathBuf {
    compile("libnotable.so", "const char plugin_name[] = \"GPUDirectTCPX_v7\";\n", &[])
}

/// A function where the table should be.
pub(crate) fn function_table() -> PathBuf {
    let source =
        "const char plugin_name[] = \"GPUDirectTCPX_v7\";\nvoid ncclNetPlugin_v7(void) {}\n";
    compile("libfunction.so", source, &[])
}

/// A table that is too short.
pub(crate) fn short_table() -> PathBuf {
    let source =
        "const char plugin_name[] = \"GPUDirectTCPX_v7\";\nchar ncclNetPlugin_v7[144] = {1};\n";
    compile("libshort.so", source, &[])
}
