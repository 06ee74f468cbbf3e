//! Files for pkg-config and CMake.

use super::library::{SYSTEM_LIBRARIES, VERSION};
use super::library_folder::LibraryFolder;

/// Returns the file for pkg-config. It finds the prefix by its own path, so an installation can be
/// moved.
pub(super) fn pkg_config(library: &LibraryFolder) -> String {
    let prefix = library.back_to_prefix(1);
    let private = SYSTEM_LIBRARIES.map(|name| format!("-l{name}")).join(" ");
    format!(
        "prefix=${{pcfiledir}}/{prefix}\n\
         libdir=${{prefix}}/{library}\n\
         includedir=${{prefix}}/include\n\
         \n\
         Name: tcpx_p2p\n\
         Description: GPU memory between hosts over TCP\n\
         Version: {VERSION}\n\
         Libs: -L${{libdir}} -ltcpx_p2p\n\
         Libs.private: {private}\n\
         Cflags: -I${{includedir}}\n"
    )
}

pub(super) fn cmake_config(library: &LibraryFolder, soname: &str) -> String {
    let prefix = library.back_to_prefix(2);
    let libraries = SYSTEM_LIBRARIES.join(";");
    format!(
        "# Targets: tcpx::p2p (shared), tcpx::p2p_static.\n\
         get_filename_component(_tcpx_p2p_prefix \"${{CMAKE_CURRENT_LIST_DIR}}/{prefix}\" ABSOLUTE)\n\
         if(NOT TARGET tcpx::p2p)\n\
         \x20 add_library(tcpx::p2p SHARED IMPORTED)\n\
         \x20 set_target_properties(tcpx::p2p PROPERTIES\n\
         \x20   IMPORTED_LOCATION \"${{_tcpx_p2p_prefix}}/{library}/{soname}\"\n\
         \x20   IMPORTED_SONAME \"{soname}\"\n\
         \x20   INTERFACE_INCLUDE_DIRECTORIES \"${{_tcpx_p2p_prefix}}/include\")\n\
         \x20 add_library(tcpx::p2p_static STATIC IMPORTED)\n\
         \x20 set_target_properties(tcpx::p2p_static PROPERTIES\n\
         \x20   IMPORTED_LOCATION \"${{_tcpx_p2p_prefix}}/{library}/libtcpx_p2p.a\"\n\
         \x20   IMPORTED_LINK_INTERFACE_LANGUAGES \"C\"\n\
         \x20   INTERFACE_LINK_LIBRARIES \"{libraries}\"\n\
         \x20   INTERFACE_INCLUDE_DIRECTORIES \"${{_tcpx_p2p_prefix}}/include\")\n\
         endif()\n\
         unset(_tcpx_p2p_prefix)\n"
    )
}

/// Returns CMake's version file. Before 1.0 a minor version may break programs, so the minor
/// version must be equal.
pub(super) fn cmake_version() -> String {
    let (major, minor) = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
    format!(
        "set(PACKAGE_VERSION \"{VERSION}\")\n\
         if(PACKAGE_FIND_VERSION_MAJOR EQUAL {major} AND PACKAGE_FIND_VERSION_MINOR EQUAL {minor}\n\
         \x20  AND PACKAGE_FIND_VERSION VERSION_LESS_EQUAL PACKAGE_VERSION)\n\
         \x20 set(PACKAGE_VERSION_COMPATIBLE TRUE)\n\
         \x20 if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)\n\
         \x20   set(PACKAGE_VERSION_EXACT TRUE)\n\
         \x20 endif()\n\
         else()\n\
         \x20 set(PACKAGE_VERSION_COMPATIBLE FALSE)\n\
         endif()\n"
    )
}
