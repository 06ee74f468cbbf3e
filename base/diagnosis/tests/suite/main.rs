//! A fixture for every finding before the plugin is loaded: what is seen leads to exactly its code
//! and its cure. And the table of diagnoses with its page.

mod diagnosis_page;
mod fixture;
mod known_symptoms;
mod nic_findings;
mod pci_tree;
mod plugin_findings;
mod preflight_findings;
mod profile_script;
mod rxdm_findings;
mod settings_page;
mod this_host;
mod variable_findings;
