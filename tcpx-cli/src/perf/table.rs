//! The report as a table for people.

use super::plan::{LARGE_BYTES, Mode, Receives};
use super::report::{CaseFigures, OneSidedFigures, Percentiles, Report, Throughput};
use crate::input::ByteSize;
use crate::session::render_growth;

/// A heading and how one case fills the column below it.
type Column<'a> = (&'a str, Box<dyn Fn(&CaseFigures) -> String + 'a>);

/// The whole text, without the last line break.
pub(super) fn render(report: &Report) -> String {
    let cases = report.cases();
    let is_latency = report.mode.is_latency();
    let is_batch = matches!(report.mode, Mode::Messages(_));
    let has_baseline =
        cases.iter().any(|case| case.raw_socket.is_some() || case.raw_half_round_trip_us.is_some());
    let mut columns = vec![
        column("size", |case| ByteSize(case.size_bytes).to_string()),
        column("chunk", |_| ByteSize(report.chunk_bytes.into()).to_string()),
        column("channels", |_| report.channels.to_string()),
        column("transport", |_| report.transport.clone()),
        column("memory", |_| report.memory.to_string()),
        column("unpack", |_| report.unpack.clone()),
    ];
    columns.extend(match report.mode {
        Mode::OneSided(_) => one_sided_columns(report),
        _ if is_latency => latency_columns(),
        _ => throughput_columns(),
    });
    if has_baseline {
        columns.extend(if is_latency { raw_latency_columns() } else { raw_throughput_columns() });
    }
    if is_batch {
        columns.extend(batch_columns());
    }
    columns.push(column("verified", verified));
    let mut text = lay_out(&columns, cases) + &explanation(report, has_baseline);
    for line in render_growth(&report.nic_counters) {
        text += &format!("\n{line}");
    }
    text.extend(cases.iter().filter_map(stages));
    text
}

/// What the figures mean.
fn explanation(report: &Report, has_baseline: bool) -> String {
    let (is_latency, cases) = (report.mode.is_latency(), report.cases());
    let mut text = format!("{} iterations. ", report.iterations);
    text += match report.mode {
        Mode::OneSided(_) => {
            "As the client sees it: from posting operations on the server's memory until every \
             byte is in place, while the server's program waits. repost: processor time of the \
             client's thread for posting an operation once more; ratio: time by that of the same \
             bytes in one range, in turns."
        }
        Mode::Notifications => {
            "Half of a round trip as the client sees it: from sending a notification until the \
             server's answer has been taken out."
        }
        Mode::Latency => {
            "Half of a round trip as the client sees it: from posting its send until the answer, \
             received and sent again by the server, is in place."
        }
        Mode::Throughput | Mode::Messages(_) => {
            "GB/s (10^9 bytes a second): median, and p99, which 99 of 100 iterations reached. \
             receiver: from its \"go\" until the last byte is in place; sender: from \"go\" until \
             its send is complete."
        }
    };
    let has_sender = matches!(report.mode, Mode::Throughput | Mode::Messages(_));
    if has_sender && cases.iter().any(|case| case.sender.is_none()) {
        text += " Without a sender's rate: its sends were complete before the bytes were there.";
    }
    if matches!(report.mode, Mode::Messages(_)) {
        text += &format!(
            " large: the same bytes in messages of {}, in turns; time ratio: small by large, as \
             the receiver sees them.",
            ByteSize(LARGE_BYTES)
        );
    }
    match report.receives {
        Receives::Ahead => {}
        Receives::Go => text += " Receives are posted at \"go\", and their posts are part of it.",
        Receives::Late => text += " A receive is posted when its message is on its way.",
    }
    if report.idle_ms > 0 {
        text += &format!(
            " Before each message both ends do nothing for {} ms, which is taken off.",
            report.idle_ms
        );
    }
    if report.busy > 0 {
        text += &format!(" Meanwhile {} threads are busy with other work.", report.busy);
    }
    if has_baseline {
        text += " raw: plain sockets that block, in the same run, in turns";
        text += if is_latency { "; ratio: less is better." } else { "; ratio: more is better." };
    }
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
        column("receiver GB/s", |case| number(&case.receiver, 3, |rates| rates.gb_per_s_median)),
        column("p99", |case| number(&p99(&case.receiver), 3, |rate| *rate)),
        column("mean ms", |case| number(&case.receiver, 3, |rates| rates.mean_ms)),
        column("sender GB/s", |case| number(&case.sender, 3, |rates| rates.gb_per_s_median)),
        column("p99", |case| number(&p99(&case.sender), 3, |rate| *rate)),
    ]
}

fn one_sided_columns(report: &Report) -> Vec<Column<'_>> {
    fn of(case: &CaseFigures) -> Option<&OneSidedFigures> {
        case.one_sided.as_ref()
    }
    let count = |count: Option<u32>| count.map_or_else(|| "-".to_owned(), |it| it.to_string());
    let mut columns = vec![
        column("op", |_| report.op.to_owned()),
        column("depth", move |_| count(report.depth)),
        column("descriptors", move |_| count(report.descriptors)),
    ];
    columns.extend(if report.mode.is_latency() {
        let headings = ["p50 us", "p90 us", "p99 us", "p99.9 us"];
        percentile_columns(headings, |case| of(case)?.operation_us.as_ref())
    } else {
        let rates = |case: &CaseFigures| of(case)?.initiator.clone();
        vec![
            column("GB/s", move |case| number(&rates(case), 3, |rates| rates.gb_per_s_median)),
            column("mean ms", move |case| number(&rates(case), 3, |rates| rates.mean_ms)),
        ]
    });
    let reposts = |case: &CaseFigures| of(case)?.repost_us.as_ref().map(|times| times.p50);
    columns.push(column("repost us", move |case| number(&reposts(case), 1, |time| *time)));
    if report.descriptors.is_some_and(|descriptors| descriptors > 1) {
        let ratio = |case: &CaseFigures| of(case)?.time_ratio_to_one_range;
        columns.push(column("ratio", move |case| number(&ratio(case), 2, |ratio| *ratio)));
    }
    columns
}

fn p99(rates: &Option<Throughput>) -> Option<f64> {
    rates.as_ref()?.gb_per_s_p99
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
    let headings = ["p50 us", "p90 us", "p99 us", "p99.9 us"];
    percentile_columns(headings, |case| case.half_round_trip_us.as_ref())
}

fn raw_latency_columns() -> Vec<Column<'static>> {
    let headings = ["raw p50 us", "raw p90 us", "raw p99 us", "raw p99.9 us"];
    let mut columns = percentile_columns(headings, |case| case.raw_half_round_trip_us.as_ref());
    columns.push(column("ratio", |case| number(&case.latency_ratio_to_raw, 2, |ratio| *ratio)));
    columns
}

fn percentile_columns(
    headings: [&'static str; 4],
    of: fn(&CaseFigures) -> Option<&Percentiles>,
) -> Vec<Column<'static>> {
    let picks: [fn(&Percentiles) -> Option<f64>; 4] =
        [|times| Some(times.p50), |times| times.p90, |times| times.p99, |times| times.p99_9];
    let columns = headings.into_iter().zip(picks).map(|(heading, pick)| {
        column(heading, move |case| number(&of(case).and_then(pick), 1, |time| *time))
    });
    columns.collect()
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
