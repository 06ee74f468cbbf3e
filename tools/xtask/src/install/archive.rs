//! The static library: one object, whose only global names are those of the header, and these
//! hidden. So a shared library that links it exports none of them, and a program may link it beside
//! another library written in Rust.

use std::path::Path;
use std::process::Command;

use super::error::InstallError;
use super::library::Debug;
use super::{file, tool};

/// Makes the library `to` of cargo's archive `from`. `work` is a folder for what lies between.
pub(super) fn make(
    from: &Path,
    to: &Path,
    exports: &[&str],
    debug: Debug,
    work: &Path,
) -> Result<(), InstallError> {
    let [stripped, hidden, object, joined, names] =
        ["all.a", "hidden.s", "hidden.o", "joined.o", "exports"].map(|name| work.join(name));
    // Objects of the standard library carry LLVM's bitcode, on which binutils with LLVM's plug-in
    // stumble once the objects are joined.
    let mut objcopy = Command::new("objcopy");
    objcopy.args(["--remove-section", ".llvmbc", "--remove-section", ".llvmcmd"]);
    if debug == Debug::Strip {
        objcopy.arg("--strip-debug");
    }
    tool::run(objcopy.arg(from).arg(&stripped))?;

    file::write(&hidden, &hiding(exports))?;
    tool::run(Command::new("as").arg(&hidden).arg("-o").arg(&object))?;
    let mut ld = Command::new("ld");
    // Of groups of one name a program keeps the first: another library's would be left without
    // what is local here. And no --gc-sections, which makes weak references strong.
    ld.args(["--relocatable", "--force-group-allocation"]);
    ld.args(exports.iter().flat_map(|name| ["--undefined", name]));
    tool::run(ld.arg(&object).arg(&stripped).arg("-o").arg(&joined))?;

    file::write(&names, &exports.join("\n"))?;
    let mut keep = std::ffi::OsString::from("--keep-global-symbols=");
    keep.push(&names);
    tool::run(Command::new("objcopy").arg(keep).arg(&joined))?;
    file::clear(to)?; // `ar` would add to what is there
    tool::run(Command::new("ar").arg("rcsD").arg(to).arg(&joined)).map(|_| ())
}

/// Assembly that makes names hidden in whatever it is joined with.
fn hiding(exports: &[&str]) -> String {
    let lines = exports.iter().map(|name| format!(".hidden {name}\n"));
    // Without this section the linker would take it that the code runs on the stack.
    lines.chain([".section .note.GNU-stack,\"\",@progbits\n".to_owned()]).collect()
}
