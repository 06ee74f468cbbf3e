//! The report as a table for people.

use super::plan::{LARGE_BYTES, Mode};
use super::report::{CaseFigures, Report};
use crate::input::ByteSize;
use crate::session::render_growth;

/// A heading and how one case fills the column below it.
type Column<'a> = (&'a str, Box<dyn Fn(&CaseFigures) -> String + 'a>);

/// The whole text, without the last line break.
pub(super) fn render(report: &Report) -> String {
    let cases = report.cases();
    let is_latency = report.mode == Mode::Latency;
    let is_batch = matches!(report.mode, Mode::Messages(_));
    let has_baseline =
        cases.iter().any(|case| case.raw_socket.is_some() || case.raw_latency_us.is_some());
    let mut columns = vec![
        column("size", |case| ByteSize(case.size_bytes).to_string()),
        column("chunk", |_| ByteSize(report.chunk_bytes.into()).to_string()),
        column("channels", |_| report.channels.to_string()),
        column("transport", |_| report.transport.clone()),
        column("memory", |_| report.memory.to_string()),
        column("unpack", |_| report.unpack.clone()),
    ];
    columns.extend(if is_latency { latency_columns() } else { throughput_columns() });
    if has_baseline {
        columns.extend(if is_latency { raw_latency_columns() } else { raw_throughput_columns() });
    }
    if is_batch {
        columns.extend(batch_columns());
    }
    columns.push(column("verified", verified));
    let mut text = lay_out(&columns, cases);
    text += &format!("{} iterations. ", report.iterations);
    text += if is_latency {
        "Round trips as the client sees them: from posting its send until the answer, received and \
         sent again by the server, is in place."
    } else {
        "GB/s (10^9 bytes a second): median, and p99, which 99 of 100 iterations reached. sender: \
         from \"go\" until its send is complete; receiver: from its \"go\" until the last byte is \
         in place."
    };
    if is_batch {
        text += &format!(
            " Posting is part of both times. large: the same bytes in messages of {}, in turns; \
             time ratio: small by large, as the receiver sees them.",
            ByteSize(LARGE_BYTES)
        );
    }
    if has_baseline {
        text += " raw: plain sockets in the same run, in turns.";
        if is_latency {
            text += " Their ends spin, yield and sleep as the session's do.";
        }
    }
    for line in render_growth(&report.nic_counters) {
        text += &format!("\n{line}");
    }
    text.extend(cases.iter().filter_map(stages));
    text
}

fn column<'a>(heading: &'a str, fill: impl Fn(&CaseFigures) -> String + 'a) -> Column<'a> {
    (heading, Box::new(fill))
}

fn verified(case: &CaseFigures) -> String {
    if case.verified { "yes" } else { "NO" }.to_owned()
}

/// Where the time of a case went.
fn stages(case: &CaseFigures) -> Option<String> {
    let shares = case.stages.as_ref()?;
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let mut text = format!(
        "\n{}: the receiver waited for the network {} of the time, for network and unpack {}, for \
         the unpack {}; handing chunks to it took {}.",
        ByteSize(case.size_bytes),
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

fn throughput_columns() -> Vec<Column<'static>> {
    vec![
        column("sender GB/s", |case| number(&case.sender, 3, |rates| rates.gb_per_s_median)),
        column("p99", |case| number(&case.sender, 3, |rates| rates.gb_per_s_p99)),
        column("receiver GB/s", |case| number(&case.receiver, 3, |rates| rates.gb_per_s_median)),
        column("p99", |case| number(&case.receiver, 3, |rates| rates.gb_per_s_p99)),
        column("mean ms", |case| number(&case.receiver, 3, |rates| rates.mean_ms)),
    ]
}

fn raw_throughput_columns() -> Vec<Column<'static>> {
    vec![
        column("raw GB/s", |case| number(&case.raw_socket, 3, |rates| rates.gb_per_s_median)),
        column("ratio", |case| number(&case.ratio_to_raw, 2, |ratio| *ratio)),
    ]
}

fn batch_columns() -> Vec<Column<'static>> {
    vec![
        column("messages", |case| number(&case.batch, 0, |batch| batch.messages as f64)),
        column("us/message", |case| number(&case.batch, 3, |batch| batch.us_per_message)),
        column("large GB/s", |case| {
            number(&case.batch, 3, |batch| batch.large_messages.gb_per_s_median)
        }),
        column("time ratio", |case| {
            number(&case.batch, 2, |batch| batch.time_ratio_to_large_messages)
        }),
    ]
}

fn latency_columns() -> Vec<Column<'static>> {
    vec![
        column("p50 us", |case| number(&case.latency_us, 1, |trips| trips.p50)),
        column("p99 us", |case| number(&case.latency_us, 1, |trips| trips.p99)),
    ]
}

fn raw_latency_columns() -> Vec<Column<'static>> {
    vec![
        column("raw p50 us", |case| number(&case.raw_latency_us, 1, |trips| trips.p50)),
        column("raw p99 us", |case| number(&case.raw_latency_us, 1, |trips| trips.p99)),
        column("ratio", |case| number(&case.latency_ratio_to_raw, 2, |ratio| *ratio)),
    ]
}

/// A figure with so many decimals, `-` where there is none.
fn number<T>(figures: &Option<T>, decimals: usize, pick: impl Fn(&T) -> f64) -> String {
    figures.as_ref().map_or_else(|| "-".to_owned(), |it| format!("{:.decimals$}", pick(it)))
}

/// Columns as wide as their widest cell, two blanks between them.
fn lay_out(columns: &[Column<'_>], cases: &[CaseFigures]) -> String {
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
        let case = CaseFigures { size_bytes: 64 << 20, ..CaseFigures::default() };
        let columns = [
            column("size", |case| ByteSize(case.size_bytes).to_string()),
            column("verified", verified),
        ];
        let good = CaseFigures { size_bytes: 1, verified: true, ..CaseFigures::default() };
        let text = lay_out(&columns, &[case, good]);
        assert_eq!(text, "  size  verified\n64 MiB        NO\n   1 B       yes\n");
    }

    #[test]
    fn stages_are_said_where_they_are_known() {
        let mut case = CaseFigures { size_bytes: 64 << 20, ..CaseFigures::default() };
        assert_eq!(stages(&case), None);
        let end = Stages::from([8, 0, 0, 0, 0, 4, 0]);
        let other = Stages::from([0, 3, 0, 1, 0, 0, 0]);
        case.stages = Shares::new(&end, &other, 1);
        let text = stages(&case).unwrap();
        for words in ["64 MiB", "network 75.0 %", "unpack 25.0 %", "GPU 50.0 %", "Bound by: the n"]
        {
            assert!(text.contains(words), "{text}");
        }
        assert!(!text.contains("copied up"), "{text}");
    }
}
