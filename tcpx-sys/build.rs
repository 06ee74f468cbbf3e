//! Compiles the variadic log callback.

fn main() {
    println!("cargo:rerun-if-changed=src/logger.c");
    cc::Build::new()
        .file("src/logger.c")
        .warnings(true)
        .extra_warnings(true)
        .compile("tcpx_sys_logger");
}
