//! Metrics of the doctor's findings, in a file for node_exporter's textfile collector.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use tcpx_diagnosis::{Code, Report, Severity};

use crate::failure::Failure;

const SEVERITIES: [Severity; 4] =
    [Severity::Info, Severity::Warning, Severity::Error, Severity::FatalForPlugin];

/// Writes the report to `path` by renaming: a reader gets the whole old or the whole new file.
pub(super) fn write(path: &Path, report: &Report) -> Result<(), Failure> {
    let shown = path.display();
    // A device or a directory must not be replaced by a file.
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err(Failure::Usage(format!(
            "--textfile {shown}: it exists and is no regular file"
        )));
    }
    let Some(name) = path.file_name() else {
        return Err(Failure::Usage(format!("--textfile {shown}: it names no file")));
    };
    if path.extension().is_none_or(|extension| extension != "prom") {
        tracing::warn!("--textfile {shown}: node_exporter reads only files named *.prom");
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    // Hidden, and not named *.prom, so that no collector reads it before it is whole.
    let own = format!(".{}.{}", name.to_string_lossy(), std::process::id());
    let unfinished = path.with_file_name(own);
    let written = fs::write(&unfinished, render(report, now));
    written.and_then(|()| fs::rename(&unfinished, path)).map_err(|error| {
        // It may not exist.
        let _ = fs::remove_file(&unfinished);
        Failure::Usage(format!("--textfile {shown}: {error}; name a file that this user may write"))
    })
}

/// Returns the page. Severities without a finding have a sample, too: a sample that first appears
/// with a finding raises no alert.
fn render(report: &Report, now: u64) -> String {
    let mut by_severity: BTreeMap<Severity, usize> = SEVERITIES.map(|it| (it, 0)).into();
    let mut by_id: BTreeMap<(Code, Severity), usize> = BTreeMap::new();
    for finding in report.findings() {
        *by_severity.entry(finding.severity).or_default() += 1;
        *by_id.entry((finding.id, finding.severity)).or_default() += 1;
    }
    let mut page = String::new();
    let mut family = |name: &str, help: &str, samples: &[(String, u64)]| {
        // Writing to a String cannot fail.
        let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} gauge");
        for (labels, value) in samples {
            let _ = writeln!(page, "{name}{labels} {value}");
        }
    };
    let severities = by_severity.into_iter();
    family(
        "tcpx_doctor_findings",
        "Findings of tcpx doctor, by severity.",
        &severities.map(|(it, n)| (format!("{{severity=\"{it}\"}}"), n as u64)).collect::<Vec<_>>(),
    );
    let ids = by_id.into_iter();
    family(
        "tcpx_doctor_finding",
        "Findings of tcpx doctor, by the id that tcpx explain takes.",
        &ids.map(|((id, it), n)| (format!("{{id=\"{id}\",severity=\"{it}\"}}"), n as u64))
            .collect::<Vec<_>>(),
    );
    family(
        "tcpx_doctor_exit_status",
        "0 nothing or info, 1 warning, 2 error, 3 fatal for the plugin.",
        &[(String::new(), report.exit_status().into())],
    );
    family(
        "tcpx_doctor_last_run_timestamp_seconds",
        "When the machine was last examined.",
        &[(String::new(), now)],
    );
    let version = env!("CARGO_PKG_VERSION");
    family(
        "tcpx_doctor_info",
        "The tcpx that examined; always 1.",
        &[(format!("{{version=\"{version}\"}}"), 1)],
    );
    page
}

#[cfg(test)]
mod tests {
    use tcpx_diagnosis::Finding;
    use tcpx_diagnosis::table::daemon::RXDM_SOCKET_MISSING;

    use super::*;

    #[test]
    fn findings_are_counted_by_severity_and_by_id() {
        let finding = || Finding::new(&RXDM_SOCKET_MISSING, "seen");
        let mild = finding().at(Severity::Info);
        let page = render(&Report::new(vec![finding(), mild, finding()]), 1_700_000_000);
        let (id, severity) = (RXDM_SOCKET_MISSING.code, RXDM_SOCKET_MISSING.severity);
        for line in [
            format!("tcpx_doctor_findings{{severity=\"{severity}\"}} 2"),
            "tcpx_doctor_findings{severity=\"warning\"} 0".to_owned(),
            format!("tcpx_doctor_finding{{id=\"{id}\",severity=\"{severity}\"}} 2"),
            format!("tcpx_doctor_finding{{id=\"{id}\",severity=\"info\"}} 1"),
            format!("tcpx_doctor_exit_status {}", severity.exit_status()),
            "tcpx_doctor_last_run_timestamp_seconds 1700000000".to_owned(),
        ] {
            assert!(page.lines().any(|it| it == line), "{line}\n{page}");
        }
    }

    #[test]
    fn a_folder_is_not_replaced_and_a_file_is() {
        let folder = tempfile::tempdir().unwrap();
        let report = Report::default();
        let error = write(folder.path(), &report).unwrap_err().to_string();
        assert!(error.contains("no regular file"), "{error}");
        let absent = folder.path().join("absent/tcpx.prom");
        let error = write(&absent, &report).unwrap_err().to_string();
        assert!(error.contains("may write"), "{error}");
        let file = folder.path().join("tcpx.prom");
        fs::write(&file, "old").unwrap();
        write(&file, &report).unwrap();
        assert!(fs::read_to_string(&file).unwrap().starts_with("# HELP tcpx_doctor_findings "));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }
}
