//! Tests of the table of this library's own variables, against those who read them.

use std::cell::RefCell;
use std::collections::BTreeSet;

use tcpx_diagnosis::variables::{Kind, LibrarySetting, Reader, library_settings};
use tcpx_softnet::Settings;

fn soft_settings() -> impl Iterator<Item = &'static LibrarySetting> {
    let readers = [Reader::SoftwarePlugin, Reader::FaultScript];
    library_settings().iter().filter(move |setting| readers.contains(&setting.reader))
}

#[test]
fn the_table_has_exactly_what_the_software_plugin_reads() {
    let asked = RefCell::new(BTreeSet::new());
    let settings = Settings::from_variables(Some(65_536), &|name| {
        asked.borrow_mut().insert(name.to_owned());
        None
    });
    assert!(settings.is_ok());
    let asked = asked.into_inner().into_iter().filter(|name| name.starts_with("TCPX_"));
    let known: BTreeSet<_> = soft_settings().map(|setting| setting.name.to_owned()).collect();
    assert_eq!(asked.collect::<BTreeSet<_>>(), known);
}

#[test]
fn the_software_plugin_takes_what_the_table_allows_and_nothing_else() {
    let takes = |name: &str, text: &str| {
        let read = |asked: &str| (asked == name).then(|| text.to_owned());
        Settings::from_variables(Some(65_536), &read).is_ok()
    };
    for LibrarySetting { name, kind, .. } in soft_settings() {
        match kind {
            Kind::Integer { min, max } => {
                assert!(takes(name, &min.to_string()) && takes(name, &max.to_string()), "{name}");
                assert!(!takes(name, &(min - 1).to_string()), "{name}");
                assert!(*max == i64::MAX || !takes(name, &(max + 1).to_string()), "{name}");
            }
            Kind::Choice { words } => {
                assert!(words.iter().all(|word| takes(name, word)), "{name}");
                assert!(!takes(name, "nonsense"), "{name}");
            }
            _ => {}
        }
    }
}
