//! Static library: one object, whose only global names are those of the header, and these hidden. A
//! shared library that links it exports none of them, and a program may link it beside another
//! library written in Rust.

use std::path::Path;
use std::process::Command;

use super::error::InstallError;
use super::library::DebugInfo;
use super::{file, tool};

/// Makes the library `to` of cargo's archive `from`. `work` is a folder for intermediate files.
pub(super) fn make(
    from: &Path,
    to: &Path,
    exports: &[&str],
    debug: DebugInfo,
    work: &Path,
) -> Result<(), InstallError> {
    let [stripped, hidden, object, joined, names] =
        ["all.a", "hidden.s", "hidden.o", "joined.o", "exports"].map(|name| work.join(name));
    // Objects of the standard library carry LLVM's bitcode, on which binutils with LLVM's plug-in
    // stumble once the objects are joined.
    let mut objcopy = Command::new("objcopy");
    objcopy.args(["--remove-section", ".llvmbc", "--remove-section", ".llvmcmd"]);
    if debug == DebugInfo::Strip {
        objcopy.arg("--strip-debug");
    }
    tool::run(objcopy.arg(from).arg(&stripped))?;

    file::write(&hidden, &hiding(exports))?;
    tool::run(Command::new("as").arg(&hidden).arg("-o").arg(&object))?;
    let mut ld = Command::new("ld");
    // A program keeps the first of several groups of one name, so another library would lack the
    // names that are local here. And no --gc-sections, which makes weak references strong.
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

/// Returns assembly that hides names in the object with which it is joined.
fn hiding(exports: &[&str]) -> String {
    let lines = exports.iter().map(|name| format!(".hidden {name}\n"));
    // Without this section the linker would assume that the code needs an executable stack.
    lines.chain([".section .note.GNU-stack,\"\",@progbits\n".to_owned()]).collect()
}
