//! Modules of PTX, read for its version and the names of its kernels.

use std::sync::Arc;

use cudarc::driver::sys::CUresult;

use crate::gpu::Gpu;
use crate::handles::Handles;
use crate::status::Result;

/// The modules of this process.
pub(crate) static MODULES: Handles<Module> = Handles::new();
/// Their kernels.
pub(crate) static FUNCTIONS: Handles<Function> = Handles::new();

/// The newest PTX that this driver takes, 8.2: that of CUDA 12.2.
const NEWEST_PTX: (u32, u32) = (8, 2);

/// A program that was loaded.
#[derive(Debug)]
pub(crate) struct Module {
    gpu: &'static Gpu,
    image: String,
}

/// A kernel of a module, which must live as long as launches of it run.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) gpu: &'static Gpu,
    pub(crate) kernel: Option<Kernel>,
    pub(crate) module: Arc<Module>,
}

/// A kernel that this driver can carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// `tcpx_unpack_by_value`: a `ByValue`.
    ByValue,
    /// `tcpx_unpack_from_memory`: a `Completion`, and a pointer to entries.
    FromMemory,
}

impl Module {
    /// Takes a PTX text of a version that it knows.
    pub(crate) fn new(gpu: &'static Gpu, image: &str) -> Result<Arc<Self>> {
        let version = image.lines().find_map(|line| line.strip_prefix(".version "));
        let version = version.and_then(|version| version.trim().split_once('.'));
        let parsed = version.and_then(|(major, minor)| {
            Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
        });
        match parsed {
            None => Err(CUresult::CUDA_ERROR_INVALID_PTX),
            Some(version) if version > NEWEST_PTX => {
                Err(CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
            }
            Some(_) => Ok(Arc::new(Self { gpu, image: image.to_owned() })),
        }
    }

    /// The kernel of this name.
    pub(crate) fn function(self: &Arc<Self>, name: &str) -> Result<Arc<Function>> {
        if !self.image.contains(&format!(".entry {name}(")) {
            return Err(CUresult::CUDA_ERROR_NOT_FOUND);
        }
        let kernel = match name {
            "tcpx_unpack_by_value" if self.takes(name, &[4096]) => Some(Kernel::ByValue),
            "tcpx_unpack_from_memory" if self.takes(name, &[32, 8]) => Some(Kernel::FromMemory),
            _ => None,
        };
        Ok(Arc::new(Function { gpu: self.gpu, kernel, module: Arc::clone(self) }))
    }

    /// Whether the kernel's parameters have these sizes, and there are no more of them.
    fn takes(&self, name: &str, sizes: &[usize]) -> bool {
        let Some((_, rest)) = self.image.split_once(&format!(".entry {name}(")) else {
            return false;
        };
        let Some((parameters, _)) = rest.split_once(')') else { return false };
        let parameters: Vec<&str> = parameters.split(',').map(str::trim).collect();
        parameters.len() == sizes.len()
            && parameters.iter().zip(sizes).enumerate().all(|(at, (parameter, size))| {
                let bytes = parameter.ends_with(&format!("{name}_param_{at}[{size}]"));
                let word = parameter.ends_with(&format!(".u64 {name}_param_{at}"));
                parameter.starts_with(".param ") && (bytes || (*size == 8 && word))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::gpu;

    const OURS: &str = include_str!("../../../../tcpx-unpack/kernels/unpack.ptx");

    fn kernel_of(image: &str, name: &str) -> Result<Option<Kernel>> {
        let module = Module::new(gpu(0).expect("there is one"), image)?;
        Ok(module.function(name)?.kernel)
    }

    #[test]
    fn the_kernels_of_the_repository_are_known_by_name_and_parameters() {
        assert_eq!(kernel_of(OURS, "tcpx_unpack_by_value"), Ok(Some(Kernel::ByValue)));
        assert_eq!(kernel_of(OURS, "tcpx_unpack_from_memory"), Ok(Some(Kernel::FromMemory)));
        assert_eq!(kernel_of(OURS, "tcpx_unpack"), Err(CUresult::CUDA_ERROR_NOT_FOUND));
        let other = OURS.replace("param_0[4096]", "param_0[4112]");
        assert_eq!(kernel_of(&other, "tcpx_unpack_by_value"), Ok(None));
    }

    #[test]
    fn ptx_of_an_unknown_version_is_refused() {
        let newer = OURS.replacen(".version 8.2", ".version 8.3", 1);
        let refused = kernel_of(&newer, "tcpx_unpack_by_value");
        assert_eq!(refused, Err(CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION));
        assert_eq!(kernel_of("ELF", "any"), Err(CUresult::CUDA_ERROR_INVALID_PTX));
    }
}
