//! Tests of every finding: a fixture has exactly its code and its cure.

mod devices;
mod devmem_findings;
mod encryption_findings;
#[path = "../../../../base/diagnosis/tests/suite/fixture/mod.rs"]
mod fixture;
mod limit_findings;
mod machine;
mod nic_findings;
mod nixl_findings;
mod peer_findings;
mod plugin_findings;
mod this_machine;
mod unknown_variables;
