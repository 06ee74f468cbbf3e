//! The report as a table for people.

use super::plan::{LARGE_BYTES, Mode};
use super::report::{Case, Report};
use super::samples::{Samples, gb_per_s, micros, millis};
use crate::input::ByteSize;
use crate::session::render_growth;

/// A heading and how one case fills the column below it.
type Column<'a> = (&'a str, Box<dyn Fn(&Case) -> String + 'a>);

/// The whole text, without the last line break.
pub(super) fn render(report: &Report) -> String {
    let mut columns = vec![
        ("size", column(|case| ByteSize(case.bytes).to_string())),
        ("chunk", column(|_| ByteSize(report.chunk_bytes.into()).to_string())),
        ("channels", column(|_| report.channels.to_string())),
        ("transport", column(|_| report.transport.clone())),
        ("memory", column(|_| report.memory.to_string())),
        ("unpack", column(|_| report.unpack.clone())),
    ];
    let has_baseline = report.cases.iter().any(|case| !case.raw.is_empty());
    let note = match report.mode {
        Mode::Throughput | Mode::Messages(_) => {
            columns.extend(throughput_columns(has_baseline));
            "GB/s (10^9 bytes a second): median, and p99, which 99 of 100 iterations reached. sender: from \"go\" until \
             its send is complete; receiver: from its \"go\" until the last byte is in place."
        }
        Mode::Latency => {
            columns.extend(latency_columns(has_baseline));
            "Round trips as the client sees them: from posting its send until the answer, received and sent again by \
             the server, is in place."
        }
    };
    if let Mode::Messages(_) = report.mode {
        columns.extend(batch_columns());
    }
    columns.push(("verified", column(verified)));
    let mut text = lay_out(&columns, &report.cases);
    text.push_str(&format!("{} iterations. {note}", report.iterations));
    if let Mode::Messages(_) = report.mode {
        text.push_str(&format!(
            " Posting is part of both times. large: the same bytes in messages of {}, in turns; time ratio: small by \
             large, as the receiver sees them.",
            ByteSize(LARGE_BYTES)
        ));
    }
    if has_baseline {
        text.push_str(" raw: plain sockets in the same run, in turns.");
        if report.mode == Mode::Latency {
            text.push_str(" Their ends spin, yield and sleep as the session's do.");
        }
    }
    for line in render_growth(&report.nics) {
        text.push_str(&format!("\n{line}"));
    }
    text.extend(report.cases.iter().filter_map(stages));
    text
}

fn column<'a>(fill: impl Fn(&Case) -> String + 'a) -> Box<dyn Fn(&Case) -> String + 'a> {
    Box::new(fill)
}

fn verified(case: &Case) -> String {
    if case.mismatch.is_none() { "yes" } else { "NO" }.to_owned()
}

/// Where the time of a case went.
fn stages(case: &Case) -> Option<String> {
    let shares = case.shares.as_ref()?;
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let mut text = format!(
        "\n{}: the receiver waited for the network {} of the time, for network and unpack {}, for the unpack {}; handing \
         chunks to it took {}.",
        ByteSize(case.bytes),
        percent(shares.receiver_network),
        percent(shares.receiver_network_and_unpack),
        percent(shares.receiver_unpack),
        percent(shares.receiver_submit),
    );
    for (share, what) in [
        (shares.sender_copies_down, "copied down from the sender's GPU"),
        (shares.receiver_copies_up, "copied up to the receiver's GPU"),
    ] {
        if share > 0.0 {
            text += &format!(" A channel {what} {} of the time.", percent(share));
        }
    }
    Some(text + &format!(" Bound by: {}.", shares.bound_by))
}

fn throughput_columns(has_baseline: bool) -> Vec<Column<'static>> {
    let median =
        |samples: &Samples, case: &Case| rate(gb_per_s(case.total_bytes(), samples.median()));
    let p99 =
        |samples: &Samples, case: &Case| rate(gb_per_s(case.total_bytes(), samples.percentile(99)));
    let mut columns = vec![
        ("sender GB/s", column(move |case| median(&case.sender, case))),
        ("p99", column(move |case| p99(&case.sender, case))),
        ("receiver GB/s", column(move |case| median(&case.receiver, case))),
        ("p99", column(move |case| p99(&case.receiver, case))),
        ("mean ms", column(|case| format!("{:.3}", millis(case.receiver.mean())))),
    ];
    if has_baseline {
        columns.push(("raw GB/s", column(move |case| median(&case.raw, case))));
        columns.push(("ratio", column(|case| ratio(case.throughput_ratio()))));
    }
    columns
}

fn batch_columns() -> Vec<Column<'static>> {
    let large = |case: &Case| rate(gb_per_s(case.total_bytes(), case.large.median()));
    vec![
        ("messages", column(|case| case.messages.to_string())),
        ("us/message", column(|case| format!("{:.3}", case.message_us()))),
        ("large GB/s", column(large)),
        ("time ratio", column(|case| ratio(case.small_message_ratio()))),
    ]
}

fn latency_columns(has_baseline: bool) -> Vec<Column<'static>> {
    let p = |samples: &Samples, percent| format!("{:.1}", micros(samples.percentile(percent)));
    let mut columns = vec![
        ("p50 us", column(move |case| p(&case.sender, 50))),
        ("p99 us", column(move |case| p(&case.sender, 99))),
    ];
    if has_baseline {
        columns.push(("raw p50 us", column(move |case| p(&case.raw, 50))));
        columns.push(("raw p99 us", column(move |case| p(&case.raw, 99))));
        columns.push(("ratio", column(|case| ratio(case.latency_ratio()))));
    }
    columns
}

fn rate(gb_per_s: f64) -> String {
    format!("{gb_per_s:.3}")
}

fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))
}

/// Columns as wide as their widest cell, two blanks between them.
fn lay_out(columns: &[Column<'_>], cases: &[Case]) -> String {
    let mut rows =
        vec![columns.iter().map(|(heading, _)| (*heading).to_owned()).collect::<Vec<_>>()];
    rows.extend(cases.iter().map(|case| columns.iter().map(|(_, fill)| fill(case)).collect()));
    let widths: Vec<usize> = (0..columns.len())
        .map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        text.push_str(&cells.join("  "));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::stages::{Shares, Stages};

    #[test]
    fn columns_line_up_and_mismatches_shout() {
        let case = Case { bytes: 64 << 20, mismatch: Some("byte 7".into()), ..Case::default() };
        let columns = [
            ("size", column(|case: &Case| ByteSize(case.bytes).to_string())),
            ("verified", column(verified)),
        ];
        let good = Case { bytes: 1, ..Case::default() };
        let text = lay_out(&columns, &[case, good]);
        assert_eq!(text, "  size  verified\n64 MiB        NO\n   1 B       yes\n");
    }

    #[test]
    fn stages_are_said_where_they_are_known() {
        let mut case = Case { bytes: 64 << 20, ..Case::default() };
        assert_eq!(stages(&case), None);
        let end = Stages { sending_ns: 8, copying_down_ns: 4, ..Stages::default() };
        let other = Stages { receiving_ns: 3, unpacking_ns: 1, ..Stages::default() };
        case.shares = Shares::new(&end, &other, 1);
        let text = stages(&case).unwrap();
        for words in ["64 MiB", "network 75.0 %", "unpack 25.0 %", "GPU 50.0 %", "Bound by: the n"]
        {
            assert!(text.contains(words), "{text}");
        }
        assert!(!text.contains("copied up"), "{text}");
    }
}
