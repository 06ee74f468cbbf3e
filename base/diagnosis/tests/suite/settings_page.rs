//! The page made from the tables of variables.

use std::fmt::Write as _;
use std::path::Path;

use tcpx_diagnosis::variables::{Effect, Reader, library_settings, variables};

/// Text above the first table of `docs/settings.md`.
const HEAD: &str = "\
# Settings

Every environment variable that this project reads, and those of the hardware plugin and of NCCL
that matter beside them. `tcpx env` shows how they are set, `tcpx doctor --env` says what is wrong
with them, `tcpx explain NAME` explains one. An empty variable counts as unset. This page is
rendered from the tables in `tcpx-diagnosis`; change it there.

A session reads its variables where the program asks it to (`SessionOptions::from_env`,
`tcpx_session_options_init` and the `tcpx` command), and an option that the program sets counts more. Of
a setting with two names the first that is set counts; the second is the name of UCCL's programs.
";

fn row(page: &mut String, cells: &[&str]) {
    let cells: Vec<String> =
        cells.iter().map(|cell| cell.replace('<', "\\<").replace('|', "\\|")).collect();
    // Writing to a String cannot fail.
    let _ = writeln!(page, "| {} |", cells.join(" | "));
}

fn chapter(page: &mut String, title: &str) {
    let _ = write!(
        page,
        "\n## {title}\n\n| variable | values | default | meaning |\n|---|---|---|---|\n"
    );
}

fn render_page() -> String {
    let mut page = HEAD.to_owned();
    for (reader, title) in [
        (Reader::Session, "Sessions"),
        (Reader::Command, "The `tcpx` command"),
        (Reader::SoftwarePlugin, "The software plugin"),
        (Reader::NixlBackend, "The backend for NIXL"),
        (Reader::FaultScript, "Doubles of the software plugin, which misbehave for tests"),
    ] {
        chapter(&mut page, title);
        for setting in library_settings().iter().filter(|setting| setting.reader == reader) {
            let names: Vec<String> = setting.names().map(|name| format!("`{name}`")).collect();
            row(
                &mut page,
                &[&names.join(", "), &setting.kind.range(), setting.default, setting.note],
            );
        }
    }
    for (effect, title) in [
        (Effect::Acts, "The hardware plugin"),
        (Effect::Nccl, "NCCL's own, beside the hardware plugin"),
        (Effect::None, "Known to the hardware plugin, without effect"),
        (Effect::Missing, "Set by scripts, read by no program"),
    ] {
        chapter(&mut page, title);
        for variable in variables().iter().filter(|variable| variable.effect == effect) {
            let name = format!("`{}`", variable.name);
            row(&mut page, &[&name, &variable.kind.range(), variable.default, variable.note]);
        }
    }
    page
}

#[test]
fn the_committed_page_of_settings_is_the_rendering() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
    let rendered = render_page();
    if std::env::var_os("TCPX_UPDATE").is_some() {
        std::fs::write(&page, &rendered).expect("the page can be written");
    }
    let committed = std::fs::read_to_string(&page).expect("docs/settings.md is there");
    assert!(
        committed == rendered,
        "docs/settings.md is stale: run TCPX_UPDATE=1 cargo test -p tcpx-diagnosis"
    );
}

#[test]
fn every_variable_has_one_row() {
    let page = render_page();
    let own = library_settings().iter().flat_map(|setting| setting.names());
    for name in own.chain(variables().iter().map(|variable| variable.name)) {
        let cell = format!("`{name}`");
        let rows = page
            .lines()
            .filter(|line| line.split(" | ").next().is_some_and(|names| names.contains(&cell)));
        assert_eq!(rows.count(), 1, "{name}");
    }
}
