//! Chapters of the table, and lookup of rows.

use super::{
    connection, daemon, environment, kernel, limits, nixl, plugin, requests, topology, transfer,
};
use crate::code::Code;
use crate::diagnosis::Diagnosis;

static CHAPTERS: &[(&str, &[&Diagnosis])] = &[
    ("Environment", environment::ALL),
    ("Plugin and CUDA", plugin::ALL),
    ("Topology", topology::ALL),
    ("Kernel and NIC", kernel::ALL),
    ("RxDM", daemon::ALL),
    ("Limits and network", limits::ALL),
    ("Connections", connection::ALL),
    ("Requests", requests::ALL),
    ("Transfers", transfer::ALL),
    ("NIXL", nixl::ALL),
];

/// Returns the title of each chapter and its diagnoses, in the order of their codes.
pub fn chapters() -> impl Iterator<Item = (&'static str, &'static [&'static Diagnosis])> {
    CHAPTERS.iter().copied()
}

/// Returns every diagnosis, in the order of their codes.
pub fn all() -> impl Iterator<Item = &'static Diagnosis> {
    chapters().flat_map(|(_, chapter)| chapter.iter().copied())
}

/// Returns the diagnosis with this code.
#[must_use]
pub fn explain(code: Code) -> Option<&'static Diagnosis> {
    all().find(|diagnosis| diagnosis.code == code)
}
