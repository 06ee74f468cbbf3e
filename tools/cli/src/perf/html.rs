//! Report as one page without other files: plots of throughput or latency at both ends, the
//! breakdown of the time, and the figures.
//!
//! - `chart`: lines and bars as SVG. `scale`: position of a value in a plot; `label`: its texts
//! - `origin`: when, where and by which command

mod chart;
mod label;
mod origin;
mod scale;

use chart::{BarPlot, LinePlot, Series};
use label::{escape, label};

use super::columns::columns;
use super::figures::CaseFigures;
use super::rate_unit::RateUnit;
use super::rates::{Percentiles, Throughput};
use super::report::Report;
use super::table;
use crate::input::ByteSize;

const STYLE: &str = "\
body{font:16px/1.5 system-ui,sans-serif;color:#1d2430;background:#fff;max-width:1180px;margin:1em \
auto 2em;padding:0 1em;-webkit-text-size-adjust:100%}
h1{font-size:1.5em;margin-bottom:0}h2{font-size:1.1em;margin:1.6em 0 .3em}
.facts{color:#56606f;margin-top:.2em;overflow-wrap:anywhere}.bad{color:#b3261e;font-weight:600}
.plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,440px),1fr));gap:0 2.5em}
svg{width:100%;height:auto;display:block}svg text{font:14px system-ui,sans-serif;fill:#56606f}
.keys{margin:.2em 0;font-size:14px}.keys span{margin-right:1.2em}
.keys i{display:inline-block;width:.75em;height:.75em;margin-right:.4em}
.table{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
td,th{padding:.2em .6em;text-align:right;border-bottom:1px solid #e3e7ed;white-space:nowrap}
@media(max-width:600px){table{font-size:14px}td,th{padding:.2em .45em}}
.notes p{max-width:46em;margin:.5em 0;overflow-wrap:anywhere}
";

/// Returns the page of measurements, each with what tells it from the others; empty for a single
/// one.
pub(super) fn render(measurements: &[(String, &Report)]) -> String {
    let op = measurements.first().map_or("", |(_, report)| report.op);
    let title = format!("tcpx perf: {op}");
    let body: String = measurements
        .iter()
        .map(|(variant, report)| {
            let comma = if variant.is_empty() { "" } else { ", " };
            format!("<h1>{}</h1>\n", escape(&format!("{title}{comma}{variant}")))
                + &measurement(report)
        })
        .collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n{body}</body>\n</html>\n",
        escape(&title)
    )
}

fn measurement(report: &Report) -> String {
    let facts = table::facts(report).replace('\n', " ");
    let hosts = report.hosts.iter().map(|it| format!("{}: {}", it.end, it.host));
    let facts = [facts].into_iter().chain(hosts).chain(origin::facts(report.role.name()));
    let facts: Vec<String> = facts.map(|fact| escape(&fact)).collect();
    let mut body = format!("<p class=\"facts\">{}</p>\n", facts.join("<br>"));
    if let Some(mismatch) = report.mismatch() {
        body += &format!("<p class=\"bad\">NOT VERIFIED: {}</p>\n", escape(mismatch));
    }
    if report.interrupted {
        body += "<p class=\"bad\">Interrupted: this is what was measured until then.</p>\n";
    }
    body += &figures(report);
    body += &format!("<div class=\"plots\">\n{}</div>\n", plots(report));
    body + &notes(report)
}

fn plots(report: &Report) -> String {
    let cases = report.cases();
    let mut text = section("Throughput", &throughput(cases, report.unit));
    text += &section("Latency", &latency(cases));
    text += &section("What the time went to", &stages(cases));
    if let Some(largest) = cases.iter().max_by_key(|case| case.size_bytes) {
        let of = ByteSize(largest.size_bytes);
        text += &section(&format!("Iterations of {of}"), &iterations(largest));
    }
    for case in cases.iter().filter(|case| !case.histogram.is_empty()) {
        let bars =
            case.histogram.iter().map(|bucket| (label(bucket.up_to_us), bucket.count as f64));
        let of = ByteSize(case.size_bytes);
        let bars = BarPlot { bars: bars.collect(), x: "up to µs", y: "how often" };
        text += &section(&format!("Histogram of {of}"), &bars.svg());
    }
    text
}

fn section(title: &str, plot: &str) -> String {
    if plot.is_empty() {
        return String::new();
    }
    format!("<section>\n<h2>{}</h2>\n{plot}\n</section>\n", escape(title))
}

/// Returns the plot of rates, with a line for each end that has one.
fn throughput(cases: &[CaseFigures], unit: RateUnit) -> String {
    type Rate = fn(&CaseFigures) -> Option<&Throughput>;
    let ends: [(&'static str, Rate); 7] = [
        ("receiver (server)", |case| case.receiver.as_ref()),
        ("sender (client)", |case| case.sender.as_ref()),
        ("receiver (client)", |case| case.client_receiver.as_ref()),
        ("both ways", |case| case.both_ways.as_ref()),
        ("all at once", |case| case.incast.as_ref().map(|incast| &incast.all_clients)),
        ("initiator (client)", |case| case.one_sided.as_ref()?.initiator.as_ref()),
        ("plain sockets", |case| case.raw_socket.as_ref()),
    ];
    let series = ends.into_iter().map(|(name, rate)| {
        let point = |case| Some((size_of(case), unit.of(rate(case)?.gb_per_s_median)));
        Series { name, points: cases.iter().filter_map(point).collect() }
    });
    LinePlot::by_size(series.collect(), unit.name(), false).svg()
}

fn size_of(case: &CaseFigures) -> f64 {
    case.size_bytes as f64
}

fn latency(cases: &[CaseFigures]) -> String {
    type Pick = fn(&Percentiles) -> Option<f64>;
    let picks: [(&'static str, Pick); 4] = [
        ("p50", |times| Some(times.p50)),
        ("p90", |times| times.p90),
        ("p99", |times| times.p99),
        ("p99.9", |times| times.p99_9),
    ];
    let mut series: Vec<Series> = picks
        .into_iter()
        .map(|(name, pick)| {
            let point = |case: &CaseFigures| Some((size_of(case), pick(case.latency()?)?));
            Series { name, points: cases.iter().filter_map(point).collect() }
        })
        .collect();
    let raw = |case: &CaseFigures| Some((size_of(case), case.raw_half_round_trip_us.as_ref()?.p50));
    let points = cases.iter().filter_map(raw).collect();
    series.push(Series { name: "plain socket, p50", points });
    LinePlot::by_size(series, "µs", true).svg()
}

/// Returns the plot of the breakdown of the time, with a bar for each size.
fn stages(cases: &[CaseFigures]) -> String {
    let rows = cases.iter().filter_map(|case| {
        let shares = case.stages.as_ref()?;
        let parts = vec![
            ("receiver: network", shares.receiver_network),
            ("receiver: network and unpack", shares.receiver_network_and_unpack),
            ("receiver: unpack", shares.receiver_unpack),
            ("receiver: handing over and copying", shares.receiver_submit),
        ];
        Some((ByteSize(case.size_bytes).to_string(), parts))
    });
    chart::shares(&rows.collect::<Vec<_>>())
}

fn iterations(case: &CaseFigures) -> String {
    let Some(rate) = case.rate() else { return String::new() };
    let points = (1..).zip(&rate.iteration_ms).map(|(index, ms)| (f64::from(index), *ms));
    let series = Series { name: "time of an iteration", points: points.collect() };
    LinePlot { series: vec![series], x: "iteration", y: "ms", by_size: false, is_log: false }.svg()
}

/// Returns the table, with all columns, which scrolls where it is wider than the page.
fn figures(report: &Report) -> String {
    let columns = columns(report.shape(), usize::MAX);
    let names: String =
        columns.iter().map(|column| format!("<th>{}</th>", escape(&column.heading))).collect();
    let row = |case: &CaseFigures| {
        let cells = columns.iter().map(|column| match (column.fill)(case) {
            text if text == "NO" => "<td class=\"bad\">NO</td>".to_owned(),
            text => format!("<td>{}</td>", escape(&text)),
        });
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let rows: String = report.cases().iter().map(row).collect();
    format!(
        "<h2>Figures</h2>\n<div class=\"table\">\n<table>\n<tr>{names}</tr>\n{rows}</table>\n</div>\n"
    )
}

/// Returns what the figures mean, and what stands in no column.
fn notes(report: &Report) -> String {
    let notes = table::notes(report);
    let lines = notes.iter().flat_map(|note| note.lines());
    let lines: String = lines.map(|line| format!("<p>{}</p>\n", escape(line))).collect();
    format!("<h2>Notes</h2>\n<div class=\"notes\">\n{lines}</div>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_other_end_are_escaped() {
        assert_eq!(section("none", ""), "");
        assert!(section("<none>", "x").contains("&lt;none&gt;"));
    }
}
