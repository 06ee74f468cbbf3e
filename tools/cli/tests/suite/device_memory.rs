//! Tests of `--plugin devmem` on a machine whose NICs cannot: a refusal that says what is missing,
//! and the doctor's cure. The loopback can on no machine.

use crate::tcpx::Tcpx;

#[test]
fn a_nic_that_cannot_is_refused_with_its_diagnosis() {
    let refused =
        Tcpx::new(&["connect", "--plugin", "devmem"]).env("TCPX_SOFT_IFNAME", "=lo").run();
    assert_eq!(refused.status, Some(1), "{refused}");
    let last = refused.stderr.lines().last().unwrap_or_default();
    assert!(last.starts_with("error: "), "{refused}");
    // Flow steering is off, or the kernel has nothing of all this.
    let known = ["TCPX-407", "TCPX-420"];
    assert!(known.iter().any(|id| last.contains(id)), "{refused}");
    assert!(last.contains("tcpx explain"), "{refused}");
    refused.expect_alone();
}

#[test]
fn the_doctor_says_what_to_type() {
    let examined = Tcpx::new(&["doctor", "--plugin", "devmem"])
        .env("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "=lo")
        .run();
    assert!(examined.stdout.contains("plugin devmem (named by flag or variable)"), "{examined}");
    assert!(examined.stdout.contains("TCPX-434"), "{examined}");
    assert!(examined.stdout.contains("docs/devmem.md"), "{examined}");
    assert_eq!(examined.status, Some(2), "{examined}");
}
