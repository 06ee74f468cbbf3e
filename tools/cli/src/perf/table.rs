//! Report for people: common facts of all sizes first, a row for each size as it comes, and an
//! explanation of the figures. At most 80 columns.

use super::columns::columns;
use super::explanation::explanation;
use super::figures::CaseFigures;
use super::histogram::Bucket;
use super::intervals::Interval;
use super::nic_traffic::NicTraffic;
use super::plan::{Mode, Receives};
use super::rate_unit::RateUnit;
use super::report::Report;
use super::wrapping::{COLUMNS, wrap};
use crate::input::ByteSize;
use crate::session::render_growth;

/// Widest bar of a histogram.
const BAR: usize = 50;
/// Most lines of one.
const MOST_BARS: usize = 16;

/// Returns the facts that hold for all sizes, and the names of the columns.
pub(super) fn heading(report: &Report) -> String {
    format!("{}\n\n{}", facts(report), names(report))
}

/// Returns the facts that hold for all sizes.
pub(super) fn facts(report: &Report) -> String {
    wrap(&constants(report))
}

/// Returns the names of the columns.
pub(super) fn names(report: &Report) -> String {
    let names: Vec<String> = columns(report.shape(), COLUMNS)
        .iter()
        .map(|column| format!("{:>width$}", column.heading, width = column.width))
        .collect();
    names.join("  ")
}

/// Returns the line of an interval.
pub(super) fn interval(interval: &Interval, unit: RateUnit) -> String {
    format!(
        "{:>8}  {:>8.2} - {:>8.2} s  {:>15}  {:>12.1} ops/s",
        ByteSize(interval.size_bytes).to_string(),
        interval.begin.as_secs_f64(),
        interval.end.as_secs_f64(),
        unit.render(interval.gb_per_s),
        interval.ops_per_s,
    )
}

/// Returns the line of one size.
pub(super) fn row(report: &Report, case: &CaseFigures) -> String {
    let cells: Vec<String> = columns(report.shape(), COLUMNS)
        .iter()
        .map(|column| format!("{:>width$}", (column.fill)(case), width = column.width))
        .collect();
    cells.join("  ")
}

/// Returns the text below the rows.
pub(super) fn closing(report: &Report) -> String {
    let notes: Vec<String> = notes(report).iter().map(|note| wrap(note)).collect();
    let text = notes.join("\n");
    match report.cases() {
        [case] => text + &histogram(case),
        _ => text,
    }
}

/// Returns what the figures mean, and what stands in no column.
pub(super) fn notes(report: &Report) -> Vec<String> {
    let cases = report.cases();
    let mut notes = vec![explanation(report)];
    notes.extend(render_growth(&report.nic_counters));
    notes.extend(cases.iter().filter_map(processor));
    notes.extend(cases.iter().map(tcp));
    notes.extend(cases.iter().filter_map(|case| nics(case, report.unit)));
    notes.extend(bounds(cases).into_iter().chain(report.kv.as_ref().map(|kv| kv.note())));
    notes
}

fn constants(report: &Report) -> String {
    let count = |count: u64, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    };
    let what = match report.mode {
        _ if report.is_all_to_all => "throughput, all to all",
        _ if report.is_incast() => "throughput, several clients at once",
        Mode::Throughput => "throughput",
        Mode::Bidirectional => "throughput, both ways at once",
        Mode::Latency => "half round trips",
        Mode::Notifications => "half round trips of notifications",
        Mode::Messages(_) => "throughput of batches",
        Mode::OneSided(one_sided) if one_sided.is_latency => "time of an operation",
        Mode::OneSided(_) => "throughput of operations",
    };
    let mut facts = vec![
        format!("{}: {what}", report.op),
        format!("{} transport ({})", report.transport, report.plugin_name),
        format!("{} memory", report.memory),
        format!("unpack {}", report.unpack),
        format!("chunk {}", ByteSize(report.chunk_bytes.into())),
        count(report.channels.into(), "channel"),
    ];
    if report.reverse {
        facts.insert(1, "server to client".to_owned());
    }
    facts.extend(report.data_path());
    facts.extend(report.depth.map(|depth| format!("depth {depth}")));
    facts.extend(report.descriptors.map(|it| count(it.into(), "descriptor")));
    if let Mode::Messages(batch) = report.mode {
        facts.push(count(batch.messages.into(), "message"));
    }
    facts.extend(report.scattered.filter(|it| *it).map(|_| "scattered".to_owned()));
    facts.push(match report.duration_s {
        Some(seconds) => format!("{seconds} s each"),
        None => count(report.iterations.into(), "iteration"),
    });
    match report.receives {
        Receives::Ahead => {}
        Receives::Go => facts.push("receives posted at \"go\"".to_owned()),
        Receives::Late => facts.push("receives posted when a message is on its way".to_owned()),
    }
    if report.idle_ms > 0 {
        facts.push(format!("{} ms of nothing before each message", report.idle_ms));
    }
    if report.busy > 0 {
        facts.push(format!("{} busy with other work", count(report.busy.into(), "thread")));
    }
    facts.push(format!("seed {}", report.seed));
    facts.join(", ")
}

/// Returns what a case costs the processors, and its messages a second.
pub(super) fn processor(case: &CaseFigures) -> Option<String> {
    let figures = case.processor.as_ref()?;
    let ops_per_s = case.ops_per_s.unwrap_or_default();
    let (client, server) = (figures.client_cores, figures.server_cores);
    Some(format!(
        "{}: {ops_per_s:.0} ops/s, busy cores: client {client:.2}, server {server:.2}; {:.3} core s/GB",
        ByteSize(case.size_bytes),
        figures.core_s_per_gb,
    ))
}

/// Returns what the kernels know of the connections of a case.
fn tcp(case: &CaseFigures) -> String {
    let size = ByteSize(case.size_bytes);
    match &case.tcp {
        Some(figures) => format!(
            "{size}: retransmits {}, RTT: mean {:.0} us, longest {} us",
            figures.retransmits, figures.rtt_us_mean, figures.rtt_us_max,
        ),
        None => format!("{size}: retransmits -, RTT -"),
    }
}

/// Returns the traffic of each NIC, where there are several.
fn nics(case: &CaseFigures, unit: RateUnit) -> Option<String> {
    let line = |nic: &NicTraffic| {
        let rate = nic.gb_per_s.map(|rate| format!(", {}", unit.render(rate)));
        let rate = rate.unwrap_or_default();
        format!("{}: {}: {} bytes{rate}", ByteSize(case.size_bytes), nic.nic, nic.bytes)
    };
    let lines: Vec<String> = case.nics.iter().map(line).collect();
    (lines.len() > 1).then(|| lines.join("\n"))
}

/// Returns the histogram of a case, with a bar for each bucket.
fn histogram(case: &CaseFigures) -> String {
    let buckets = &case.histogram;
    let most = buckets.iter().map(|bucket| bucket.count).max().unwrap_or(0).max(1);
    let Some(first_count) = buckets.get(MOST_BARS).map(|_| most / 200) else {
        return buckets.iter().map(|bucket| bar(bucket.up_to_us, bucket.count, most)).collect();
    };
    // The tail, whose buckets are nearly empty, has one line.
    let (shown, rare): (Vec<&Bucket>, Vec<&Bucket>) =
        buckets.iter().partition(|bucket| bucket.count > first_count);
    let mut text: String =
        shown.iter().map(|bucket| bar(bucket.up_to_us, bucket.count, most)).collect();
    let rest: u64 = rare.iter().map(|bucket| bucket.count).sum();
    if rest > 0 {
        text += &format!("\n{:>12}  {rest:>8}", "elsewhere");
    }
    text
}

fn bar(up_to_us: f64, count: u64, most: u64) -> String {
    let length = (count as f64 / most as f64 * BAR as f64).round() as usize;
    let line = format!("{up_to_us:>9.1} us  {count:>8}  {}", "#".repeat(length));
    debug_assert!(line.len() <= COLUMNS);
    format!("\n{}", line.trim_end())
}

/// Returns the breakdown of the time of a case.
fn stages(case: &CaseFigures) -> Option<String> {
    let shares = case.stages.as_ref()?;
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let mut text = format!(
        "{}: the receiver waited for the network {} of the time, for network and unpack {}, for \
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
    Some(text)
}

/// Returns what bounds the sizes, each bound once, and of a single size the breakdown of its time.
fn bounds(cases: &[CaseFigures]) -> Vec<String> {
    let of = |case: &CaseFigures| Some(case.stages.as_ref()?.bound_by.explanation());
    let mut lines: Vec<String> = Vec::new();
    for line in cases.iter().filter_map(of).filter(|line| !line.is_empty()) {
        let line = format!("Bound by {line}");
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    if let [case] = cases {
        lines.extend(stages(case));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::columns::TableShape;
    use crate::perf::operations::{Direction, OneSided};
    use crate::perf::plan::Batch;
    use crate::perf::stages::{StageShares, StageTimes};
    use crate::perf::tcp::TcpFigures;

    #[test]
    fn no_table_is_wider_than_a_terminal() {
        let one_sided = |is_latency| {
            let (direction, depth, descriptors) = (Direction::Read, 1, 2);
            let (is_scattered, is_notified) = (false, is_latency);
            Mode::OneSided(OneSided {
                direction,
                depth,
                descriptors,
                is_scattered,
                is_latency,
                is_notified,
            })
        };
        for mode in [
            Mode::Throughput,
            Mode::Bidirectional,
            Mode::Latency,
            Mode::Notifications,
            Mode::Messages(Batch { messages: 2, is_scattered: false }),
            one_sided(false),
            one_sided(true),
        ] {
            for flags in 0..16 {
                let [has_baseline, has_duration, is_incast, has_bits] =
                    [1, 2, 4, 8].map(|flag| flags & flag != 0);
                let unit = if has_bits { RateUnit::Gigabits } else { RateUnit::Gigabytes };
                let shape = TableShape {
                    mode,
                    has_baseline,
                    has_duration,
                    is_incast,
                    is_all_to_all: is_incast && mode == Mode::Bidirectional,
                    unit,
                };
                let columns = columns(shape, COLUMNS);
                let has_bytes = columns.iter().any(|column| column.heading.ends_with("GB/s"));
                assert_eq!(has_bytes, !has_bits && !mode.is_latency(), "{mode:?} {flags}");
                let width: usize = columns.iter().map(|column| column.width + 2).sum();
                assert!(width <= COLUMNS + 2, "{mode:?} {flags}: {width}");
                assert!(columns.iter().all(|column| column.heading.len() <= column.width));
                let bad = CaseFigures { size_bytes: 64 << 20, ..CaseFigures::default() };
                assert_eq!((columns[0].fill)(&bad), "64 MiB");
                let verified = columns.last().unwrap();
                assert_eq!((verified.fill)(&bad), "NO", "it shouts");
                let good = CaseFigures { verified: true, ..bad };
                assert_eq!((verified.fill)(&good), "yes");
            }
        }
    }

    #[test]
    fn a_histogram_has_a_bar_for_each_bucket_and_one_line_for_the_rare_ones() {
        let bucket = |index: u32, count| Bucket { up_to_us: 1.25_f64.powi(index as i32), count };
        let few = CaseFigures {
            histogram: vec![bucket(1, 10), bucket(2, 5), bucket(3, 0)],
            ..CaseFigures::default()
        };
        let text = histogram(&few);
        assert_eq!(text.matches('#').count(), BAR + BAR / 2, "{text}");
        let mut many = vec![bucket(0, 1000)];
        many.extend((1..60).map(|index| bucket(index, 1)));
        let text = histogram(&CaseFigures { histogram: many, ..CaseFigures::default() });
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.ends_with("elsewhere        59"), "{text}");
    }

    #[test]
    fn what_the_kernels_do_not_know_is_a_dash() {
        let mut case = CaseFigures { size_bytes: 4096, ..CaseFigures::default() };
        assert_eq!(tcp(&case), "4 KiB: retransmits -, RTT -");
        case.tcp = Some(TcpFigures { retransmits: 3, rtt_us_mean: 41.6, rtt_us_max: 90 });
        assert_eq!(tcp(&case), "4 KiB: retransmits 3, RTT: mean 42 us, longest 90 us");
    }

    #[test]
    fn stages_are_said_where_they_are_known() {
        let mut case = CaseFigures { size_bytes: 64 << 20, ..CaseFigures::default() };
        assert_eq!(stages(&case), None);
        let end = StageTimes::from([8, 0, 0, 0, 0, 4, 0]);
        let other = StageTimes::from([0, 3, 0, 1, 0, 0, 0]);
        case.stages = StageShares::new(&end, &other, 1);
        let text = stages(&case).unwrap();
        for words in ["64 MiB", "network 75.0 %", "unpack 25.0 %", "GPU 50.0 %"] {
            assert!(text.contains(words), "{text}");
        }
        assert!(!text.contains("copied up"), "{text}");
        assert_eq!(bounds(std::slice::from_ref(&case)).last(), Some(&text));
        let of_two = bounds(&[case.clone(), case]);
        assert!(of_two.len() == 1 && of_two[0].starts_with("Bound by network: "), "{of_two:?}");
    }
}
