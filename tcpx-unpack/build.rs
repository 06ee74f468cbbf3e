//! Compiles the unpack kernel to PTX where nvcc is at hand.
//!
//! nvcc is looked for in `NVCC` (empty: not at all), in `CUDA_HOME` and `CUDA_PATH`, on `PATH` and
//! in the site-packages of `python3`. Where there is none, or one that cannot compile an empty
//! kernel (no host compiler, say), the committed PTX serves alone. An nvcc that works but refuses
//! `kernels/unpack.cu` fails the build.
//!
//! The committed PTX is always built in as well: PTX of a new nvcc does not load on an old driver.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "kernels/unpack.cu";
/// The oldest GPUs served, A100; later ones take the same PTX.
const ARCH: &str = "compute_80";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=kernels");
    for variable in ["NVCC", "CUDA_HOME", "CUDA_PATH", "PATH"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    println!("cargo::rustc-check-cfg=cfg(nvcc_ptx)");

    let Some(nvcc) = find_nvcc() else { return };
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    if let Err(reason) = compile_empty_kernel(&nvcc, &out_dir) {
        let nvcc = nvcc.display();
        println!("cargo::warning=the committed kernel is used: {nvcc} does not work: {reason}");
        return;
    }
    if let Err(reason) = compile(&nvcc, Path::new(SOURCE), &out_dir.join("unpack.ptx")) {
        panic!("{} refuses {SOURCE}:\n{reason}", nvcc.display());
    }
    println!("cargo::rustc-cfg=nvcc_ptx");
}

fn find_nvcc() -> Option<PathBuf> {
    if let Some(nvcc) = env::var_os("NVCC") {
        return (!nvcc.is_empty()).then(|| PathBuf::from(nvcc));
    }
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os);
    let in_homes = homes.map(|home| PathBuf::from(home).join("bin/nvcc"));
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).map(|folder| folder.join("nvcc"));
    in_homes.chain(on_path).find(|nvcc| nvcc.is_file()).or_else(find_in_site_packages)
}

/// NVIDIA's wheels unpack to `nvidia/<package>/bin/nvcc`.
fn find_in_site_packages() -> Option<PathBuf> {
    let script = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let output = Command::new("python3").args(["-c", script]).output().ok()?;
    let site_packages = String::from_utf8(output.stdout).ok()?;
    let packages = fs::read_dir(Path::new(site_packages.trim()).join("nvidia")).ok()?;
    packages
        .filter_map(Result::ok)
        .map(|package| package.path().join("bin/nvcc"))
        .find(|nvcc| nvcc.is_file())
}

fn compile_empty_kernel(nvcc: &Path, out_dir: &Path) -> Result<(), String> {
    let source = out_dir.join("empty.cu");
    fs::write(&source, "extern \"C\" __global__ void empty() {}\n")
        .map_err(|error| error.to_string())?;
    compile(nvcc, &source, &out_dir.join("empty.ptx"))
}

fn compile(nvcc: &Path, source: &Path, ptx: &Path) -> Result<(), String> {
    let output = Command::new(nvcc)
        .args(["--ptx", "--std=c++17", "--gpu-architecture", ARCH, "--output-file"])
        .args([ptx, source])
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
}
