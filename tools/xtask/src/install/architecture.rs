//! Processors that packages are built for: this machine's, or another with Debian's cross tools.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use clap::ValueEnum;

/// Processor of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Architecture {
    #[value(name = "x86_64")]
    X86_64,
    Aarch64,
}

impl Architecture {
    /// Processor of this machine.
    pub(crate) const HOST: Self = match std::env::consts::ARCH.as_bytes() {
        b"aarch64" => Self::Aarch64,
        _ => Self::X86_64,
    };

    /// Returns the name that Linux, Python and the compilers have for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// Returns Debian's name for it.
    pub(super) fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// Returns the arguments that have cargo build for it.
    pub(super) fn cargo_words(self) -> Vec<String> {
        if self == Self::HOST {
            return Vec::new();
        }
        vec!["--target".to_owned(), format!("{}-unknown-linux-gnu", self.name())]
    }

    /// Returns the name of a tool that works on its files: `strip`, or `aarch64-linux-gnu-strip`.
    pub(super) fn tool(self, name: &str) -> String {
        if self == Self::HOST {
            return name.to_owned();
        }
        // Debian calls the compilers of all targets by the names of GCC's.
        let name = match name {
            "cc" => "gcc",
            "c++" => "g++",
            name => name,
        };
        format!("{}-linux-gnu-{name}", self.name())
    }

    /// Returns a command that runs a program of it: by qemu, if it is not this machine's.
    pub(super) fn run(self, program: &Path) -> Command {
        if self == Self::HOST {
            return Command::new(program);
        }
        let mut command = Command::new(format!("qemu-{}", self.name()));
        command.arg("-L").arg(format!("/usr/{}-linux-gnu", self.name())).arg(program);
        command
    }

    /// Returns CMake's definitions for it.
    pub(super) fn cmake_words(self) -> Vec<OsString> {
        if self == Self::HOST {
            return Vec::new();
        }
        let system = format!("-DCMAKE_SYSTEM_PROCESSOR={}", self.name());
        let compiler = format!("-DCMAKE_CXX_COMPILER={}", self.tool("c++"));
        ["-DCMAKE_SYSTEM_NAME=Linux".to_owned(), system, compiler].map(OsString::from).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_of_this_machine_have_plain_names() {
        assert_eq!(Architecture::HOST.name(), std::env::consts::ARCH);
        assert_eq!(Architecture::HOST.tool("c++"), "c++");
        assert!(Architecture::HOST.cargo_words().is_empty());
        let program = Path::new("/bin/true");
        assert_eq!(Architecture::HOST.run(program).get_program(), program.as_os_str());
    }

    #[test]
    fn those_of_another_have_its_name_before_theirs() {
        let (other, name) = match Architecture::HOST {
            Architecture::X86_64 => (Architecture::Aarch64, "aarch64"),
            Architecture::Aarch64 => (Architecture::X86_64, "x86_64"),
        };
        assert_eq!(other.tool("c++"), format!("{name}-linux-gnu-g++"));
        assert_eq!(other.tool("strip"), format!("{name}-linux-gnu-strip"));
        assert_eq!(other.cargo_words()[1], format!("{name}-unknown-linux-gnu"));
        assert_eq!(*other.run(Path::new("/x")).get_program(), *format!("qemu-{name}"));
    }
}
