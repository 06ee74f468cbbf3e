//! Tests of the table of this library's own variables, against those who read them.

use std::cell::RefCell;
use std::collections::BTreeSet;

use tcpx_diagnosis::variables::{Kind, LibrarySetting, Reader, library_settings};
use tcpx_softnet::Settings;
use tcpx_softnet_faults::{Read, VARIABLES, read_all};
use tcpx_testkit::certificates::{Authority, CertificateFolder, Validity};

use crate::tcpx::Tcpx;

fn settings_of(reader: Reader) -> impl Iterator<Item = &'static LibrarySetting> {
    library_settings().iter().filter(move |setting| setting.reader == reader)
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
    // It refuses scripts.
    let known = settings_of(Reader::SoftwarePlugin).chain(settings_of(Reader::FaultScript));
    let known: BTreeSet<_> = known.map(|setting| setting.name.to_owned()).collect();
    assert_eq!(asked.collect::<BTreeSet<_>>(), known);
}

#[test]
fn the_software_plugin_takes_what_the_table_allows_and_nothing_else() {
    takes_the_table(Reader::SoftwarePlugin, |read| {
        Settings::from_variables(Some(65_536), read).is_ok()
    });
}

#[test]
fn its_double_takes_the_scripts_and_the_plugin_refuses_them() {
    let names: BTreeSet<_> = settings_of(Reader::FaultScript).map(|it| it.name).collect();
    assert_eq!(names, BTreeSet::from(VARIABLES));
    takes_the_table(Reader::FaultScript, |read| read_all(Some(65_536), read).is_ok());
    for script in names {
        let read = |asked: &str| (asked == script).then(|| "1".to_owned());
        let refused = Settings::from_variables(Some(65_536), &read).expect_err(script);
        assert!(refused.to_string().starts_with(&format!("{script} is \"1\"")), "{refused}");
    }
}

/// `takes_all`: whether all variables are taken, as this says what they are.
fn takes_the_table(reader: Reader, takes_all: impl Fn(Read<'_>) -> bool) {
    let takes =
        |name: &str, text: &str| takes_all(&|asked| (asked == name).then(|| text.to_owned()));
    for LibrarySetting { name, kind, .. } in settings_of(reader) {
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

/// Certificates of a fleet serve the commands, whose two ends are called "client" and "server".
#[test]
fn the_ends_of_a_command_have_names_for_certificates() {
    let (folder, authority) = (CertificateFolder::new(), Authority::new());
    for (names, fits) in [(&["client", "server"][..], true), (&["client", "other"], false)] {
        let files = folder.write_for(names, &authority, &[&authority], Validity::Now);
        let words = ["perf", "--size", "4K", "--iters", "2", "--json"];
        let mut perf = Tcpx::new(&words).env("TCPX_ENCRYPTION", "require");
        for (name, path) in files.variables() {
            perf = perf.env(name, path.to_str().expect("text"));
        }
        let finished = perf.run();
        match fits {
            true => assert_eq!(finished.json()["verified"], true),
            false => finished.expect_error(&["\"server\" is not among", "TCPX-749"]),
        }
    }
}
