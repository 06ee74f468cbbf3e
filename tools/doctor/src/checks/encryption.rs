//! Facts that matter to encryption: the kernel's TLS, the clock, and the network of a cloud.

use tcpx_diagnosis::table::limits as table;
use tcpx_diagnosis::{Finding, Host, Tree};

use crate::kernel::Kernel;

/// Asset tag of the chassis of every virtual machine of Azure.
const AZURE_TAG: &str = "7783-7084-3265-9085-8269-3286-77";

/// Returns the findings about encryption by this machine and around it.
pub(crate) fn check(host: &Host<'_>, kernel: &dyn Kernel) -> Vec<Finding> {
    let tree = host.tree();
    let mut findings = Vec::from_iter(check_kernel_tls(&tree));
    findings.extend(check_cloud(&tree));
    if host.env.get("TCPX_TLS_CERT").is_some_and(|path| !path.is_empty()) {
        findings.extend(check_clock(kernel));
    }
    findings
}

/// Returns the finding that says whether the kernel has TLS. Reads files alone: a socket that asks
/// for it has the kernel load its module. A kernel that does not list what it has says nothing.
fn check_kernel_tls(tree: &Tree<'_>) -> Option<Finding> {
    let loaded = tree.text("/proc/sys/net/ipv4/tcp_available_ulp").ok()?;
    let seen = if loaded.split_whitespace().any(|name| name == "tls") {
        "the kernel has TLS"
    } else if has_module(tree) {
        "the kernel has TLS in a module, which is not loaded"
    } else {
        "the kernel has no TLS"
    };
    Some(Finding::new(&table::KERNEL_TLS_UNUSED, seen))
}

/// Returns whether a module with TLS is installed for the running kernel.
fn has_module(tree: &Tree<'_>) -> bool {
    let Some(release) = tree.word("/proc/sys/kernel/osrelease") else { return false };
    ["/lib/modules", "/usr/lib/modules"]
        .iter()
        .any(|modules| !tree.names(format!("{modules}/{release}/kernel/net/tls")).is_empty())
}

/// Returns the finding about a clock by which certificates are checked. A kernel that does not
/// answer says nothing.
fn check_clock(kernel: &dyn Kernel) -> Option<Finding> {
    let synchronised = kernel.is_clock_synchronised().ok()?;
    (!synchronised).then(|| {
        let seen = "the kernel says that nothing has set its clock lately";
        Finding::new(&table::CLOCK_NOT_SYNCHRONISED, seen)
    })
}

/// Returns the finding about the network of the cloud that this machine belongs to. It says what
/// the cloud's documents state: nothing in a machine shows what its network encrypts.
fn check_cloud(tree: &Tree<'_>) -> Option<Finding> {
    let fact = |name: &str| tree.word(format!("/sys/class/dmi/id/{name}")).unwrap_or_default();
    let seen = if fact("product_name") == "Google Compute Engine" {
        "Google Cloud: its documents say that all traffic between virtual machines in a VPC \
         network, and in peered ones, is encrypted"
    } else if fact("sys_vendor") == "Amazon EC2" {
        "Amazon EC2: its documents say that instances of some types encrypt what they send each \
         other in one VPC or in peered ones of a Region, and that others do not"
    } else if fact("chassis_asset_tag") == AZURE_TAG {
        "Azure: its documents say that traffic between datacenters is encrypted, and traffic \
         between virtual machines where the virtual network has encryption enabled"
    } else {
        return None;
    };
    Some(Finding::new(&table::CLOUD_ENCRYPTS, seen))
}
