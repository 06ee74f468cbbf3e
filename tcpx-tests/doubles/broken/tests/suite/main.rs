//! Tests of the conformance checks, by plugins that break them.

mod broken;
mod conformance;
mod leftovers;
