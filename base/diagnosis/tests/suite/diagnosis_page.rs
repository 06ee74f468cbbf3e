//! The table itself and the page made from it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use tcpx_diagnosis::table::{all, chapters};
use tcpx_diagnosis::{Diagnosis, explain};

/// Text above the first diagnosis of `docs/diagnosis.md`, without the index.
const HEAD: &str = "\
# Diagnosis

What is known to go wrong with GPUDirect-TCPX and with this library, and what to do about it.
`tcpx doctor` finds the cases that it can see on a machine; `tcpx explain TCPX-101` shows one of
them. This page is rendered from the table in `tcpx-diagnosis`; change it there.

In a cure each line is a command to type, or advice that starts with `#`. A word such as `<NIC>`
stands for a name of your machine, which `tcpx doctor` fills in. Severities: *info*, *warning*,
*error*, *fatal-for-plugin* (the hardware plugin would exit, crash, hang or refuse to start).

`tcpx explain` knows lines of a log by what the symptoms quote and by the *known lines*. In them `n`
stands for any number, a word such as `<NAME>` and three dots for a few words.

The source of a row says how it is known:

- *plugin 3.1.9*: read in the source of Google's plugin, or seen when it ran;
  [plugin-contract.md](plugin-contract.md) says what was found there. *RxDM*: likewise for the
  daemon.
- *kernel 6.18*: the file of the Linux kernel's source. A name such as *unix(7)* is a page of
  Linux's manual.
- *A3 High*, *A3 topology notes*, *deployments*, *guides*: files and guides for clusters of A3
  hosts.
- *p2p notes on errors*, *transfer test guide*, *transfer flow notes*, *plugin interface notes*:
  notes of those who moved GPU memory with the plugin before this project did.
- *this project*: an error of this library's own.
";

/// Returns the text of `docs/diagnosis.md`. Each section has an anchor of its own, `#tcpx-101`,
/// which stays when a title changes.
fn render_page() -> String {
    let mut page = HEAD.to_owned();
    let anchor = |diagnosis: &Diagnosis| diagnosis.code.to_string().to_lowercase();
    // Writing to a String cannot fail.
    let _ = write!(page, "\n## Index\n\n| id | title |\n|---|---|\n");
    for (chapter, diagnoses) in chapters() {
        let _ = writeln!(page, "| | **{chapter}** |");
        for diagnosis in diagnoses {
            let (code, title) = (diagnosis.code, escaped(diagnosis.title));
            let _ = writeln!(page, "| [{code}](#{}) | {title} |", anchor(diagnosis));
        }
    }
    for (chapter, diagnoses) in chapters() {
        let _ = write!(page, "\n## {chapter}\n");
        for diagnosis in diagnoses {
            let _ = write!(
                page,
                "\n### <a id=\"{}\"></a>{} {}\n\n*{}*\n\n- **Symptom:** {}\n{}- **Cause:** {}\n- **Source:** {}\n\n```sh\n{}\n```\n",
                anchor(diagnosis),
                diagnosis.code,
                escaped(diagnosis.title),
                diagnosis.severity,
                escaped(diagnosis.symptom),
                known_lines(diagnosis),
                escaped(diagnosis.cause),
                escaped(diagnosis.source),
                diagnosis.cure.join("\n"),
            );
        }
    }
    page
}

fn known_lines(diagnosis: &Diagnosis) -> String {
    if diagnosis.lines.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = diagnosis.lines.iter().map(|line| format!("`{line}`")).collect();
    format!("- **Known lines:** {}\n", lines.join(" · "))
}

/// Escapes text so that Markdown does not read `<NIC>` as a tag, or `|` as the end of a cell.
fn escaped(text: &str) -> String {
    text.replace('<', "\\<").replace('|', "\\|")
}

#[test]
fn the_index_leads_to_every_diagnosis() {
    let page = render_page();
    let (index, sections) = page.split_once("## Environment").expect("the first chapter");
    for diagnosis in all() {
        let (code, anchor) = (diagnosis.code, diagnosis.code.to_string().to_lowercase());
        assert_eq!(index.matches(&format!("| [{code}](#{anchor}) | ")).count(), 1, "{code}");
        assert_eq!(
            sections.matches(&format!("<a id=\"{anchor}\"></a>{code} ")).count(),
            1,
            "{code}"
        );
    }
}

#[test]
fn the_committed_page_is_the_rendering() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/diagnosis.md");
    let rendered = render_page();
    if std::env::var_os("TCPX_UPDATE").is_some() {
        std::fs::create_dir_all(page.parent().expect("a parent")).expect("a directory");
        std::fs::write(&page, &rendered).expect("the page can be written");
    }
    let committed = std::fs::read_to_string(&page).expect("docs/diagnosis.md is there");
    assert!(
        committed == rendered,
        "docs/diagnosis.md is stale: run TCPX_UPDATE=1 cargo test -p tcpx-diagnosis"
    );
}

#[test]
fn codes_are_unique_and_in_order() {
    let codes: Vec<_> = all().map(|diagnosis| diagnosis.code).collect();
    assert!(codes.windows(2).all(|pair| pair[0] < pair[1]), "{codes:?}");
    assert!(codes.len() >= 150, "{}", codes.len());
    for code in codes {
        assert_eq!(explain(code).map(|diagnosis| diagnosis.code), Some(code));
    }
    assert_eq!(explain("TCPX-9999".parse().expect("a code")), None);
}

#[test]
fn every_cure_can_be_typed() {
    let commands: BTreeSet<&str> = [
        "export",
        "unset",
        "ip",
        "ethtool",
        "ls",
        "sysctl",
        "ulimit",
        "mount",
        "nvidia-smi",
        "tcpx",
        "dmesg",
        "file",
        "readelf",
        "ldd",
        "uname",
        "lspci",
        "modprobe",
        "cat",
        "readlink",
        "sudo",
        "chmod",
        "ping",
        "ss",
        "cargo",
        "pip",
        "openssl",
        "date",
        "python",
    ]
    .into();
    for diagnosis in all() {
        assert!(!diagnosis.cure.is_empty(), "{}", diagnosis.code);
        for line in diagnosis.cure {
            let first = line.split_whitespace().next().unwrap_or_default();
            assert!(first == "#" || commands.contains(first), "{}: {line}", diagnosis.code);
        }
        for text in [diagnosis.title, diagnosis.symptom, diagnosis.cause, diagnosis.source] {
            assert!(!text.trim().is_empty(), "{}", diagnosis.code);
        }
    }
}
