//! Columns of the table: the figures that differ from size to size.

use super::figures::{CaseFigures, OneSidedFigures, Percentiles, Throughput};
use super::plan::Mode;
use super::wrapping::COLUMNS;
use crate::input::ByteSize;

/// Blanks between columns.
const GAP: usize = 2;
/// Width of the last column.
const VERIFIED: usize = 8;
/// Column: a heading, its width, and the function that fills it for one case.
pub(super) struct Column {
    pub(super) heading: &'static str,
    pub(super) width: usize,
    pub(super) fill: Box<dyn Fn(&CaseFigures) -> String>,
}

/// Properties of a table that choose its columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableShape {
    pub(super) mode: Mode,
    pub(super) has_baseline: bool,
    /// Whether sizes differ in how often they are measured.
    pub(super) has_duration: bool,
    /// Whether several clients send at once.
    pub(super) is_incast: bool,
}

/// Returns the columns of a table, which is at most 80 characters wide.
pub(super) fn columns(shape: TableShape) -> Vec<Column> {
    let mut columns = vec![column("size", 8, |case| ByteSize(case.size_bytes).to_string())];
    columns.extend(match shape.mode {
        Mode::OneSided(one_sided) => one_sided_columns(one_sided.is_latency, one_sided.descriptors),
        Mode::Latency | Mode::Notifications => latency_columns(shape.has_baseline),
        Mode::Bidirectional => both_ways_columns(),
        Mode::Messages(_) => batch_columns(shape.has_baseline),
        Mode::Throughput if shape.is_incast => incast_columns(),
        Mode::Throughput => throughput_columns(shape.has_baseline),
    });
    let iterations =
        shape.has_duration.then(|| column("iters", 8, |case| case.iterations.to_string()));
    let ops = (!shape.mode.is_latency())
        .then(|| column("ops/s", 9, |case| number(&case.ops_per_s, 0, |rate| *rate)));
    add_where_room(&mut columns, iterations.into_iter().chain(ops));
    columns.push(column("verified", VERIFIED, verified));
    columns
}

fn add_where_room(columns: &mut Vec<Column>, extra: impl IntoIterator<Item = Column>) {
    for column in extra {
        let width: usize = columns.iter().map(|column| column.width + GAP).sum();
        if width + column.width + GAP + VERIFIED <= COLUMNS {
            columns.push(column);
        }
    }
}

fn column(
    heading: &'static str,
    width: usize,
    fill: impl Fn(&CaseFigures) -> String + 'static,
) -> Column {
    Column { heading, width, fill: Box::new(fill) }
}

fn verified(case: &CaseFigures) -> String {
    if case.verified { "yes" } else { "NO" }.to_owned()
}

fn throughput_columns(has_baseline: bool) -> Vec<Column> {
    let mut columns = vec![
        column("recv GB/s", 9, |case| median(&case.receiver)),
        column("p99", 7, |case| number(&p99(&case.receiver), 3, |rate| *rate)),
        column("mean ms", 9, |case| number(&case.receiver, 3, |rates| rates.mean_ms)),
        column("send GB/s", 9, |case| median(&case.sender)),
    ];
    if has_baseline {
        columns.extend(raw_throughput_columns());
    } else {
        columns.push(column("p99", 7, |case| number(&p99(&case.sender), 3, |rate| *rate)));
    }
    columns
}

fn both_ways_columns() -> Vec<Column> {
    vec![
        column("server GB/s", 11, |case| median(&case.receiver)),
        column("client GB/s", 11, |case| median(&case.client_receiver)),
        column("both GB/s", 9, |case| median(&case.both_ways)),
        column("mean ms", 9, |case| number(&case.both_ways, 3, |rates| rates.mean_ms)),
    ]
}

fn incast_columns() -> Vec<Column> {
    vec![
        column("all GB/s", 9, |case| {
            number(&case.incast, 3, |incast| incast.all_clients.gb_per_s_median)
        }),
        column("mean ms", 9, |case| number(&case.incast, 3, |incast| incast.all_clients.mean_ms)),
        column("slowest GB/s", 12, |case| {
            number(&case.incast, 3, |incast| incast.slowest_client_gb_per_s)
        }),
        column("fastest GB/s", 12, |case| {
            number(&case.incast, 3, |incast| incast.fastest_client_gb_per_s)
        }),
    ]
}

fn one_sided_columns(is_latency: bool, descriptors: u32) -> Vec<Column> {
    fn of(case: &CaseFigures) -> Option<&OneSidedFigures> {
        case.one_sided.as_ref()
    }
    let mut columns = match is_latency {
        true => percentile_columns(|case| of(case)?.operation_us.as_ref()),
        false => {
            let rates = |case: &CaseFigures| of(case)?.initiator.clone();
            vec![
                column("GB/s", 9, move |case| median(&rates(case))),
                column("us/op", 9, |case| number(&of(case), 1, |it| it.mean_us().unwrap_or(0.0))),
            ]
        }
    };
    let reposts = |case: &CaseFigures| of(case)?.repost_us.as_ref().map(|times| times.p50);
    columns.push(column("repost us", 9, move |case| number(&reposts(case), 1, |time| *time)));
    if descriptors > 1 {
        let ratio = |case: &CaseFigures| of(case)?.time_ratio_to_one_range;
        columns.push(column("ratio", 6, move |case| number(&ratio(case), 2, |ratio| *ratio)));
    }
    columns
}

fn raw_throughput_columns() -> Vec<Column> {
    vec![
        column("raw GB/s", 8, |case| median(&case.raw_socket)),
        column("ratio", 5, |case| number(&case.ratio_to_raw, 2, |ratio| *ratio)),
    ]
}

fn batch_columns(has_baseline: bool) -> Vec<Column> {
    let mut columns = vec![
        column("recv GB/s", 9, |case| median(&case.receiver)),
        column("us/msg", 7, |case| number(&case.batch, 3, |batch| batch.us_per_message)),
        column("large GB/s", 10, |case| {
            number(&case.batch, 3, |batch| batch.large_messages.gb_per_s_median)
        }),
        column("time ratio", 10, |case| {
            number(&case.batch, 2, |batch| batch.time_ratio_to_large_messages)
        }),
    ];
    if has_baseline {
        columns.extend(raw_throughput_columns());
    } else {
        columns.push(column("send GB/s", 9, |case| median(&case.sender)));
    }
    columns
}

fn latency_columns(has_baseline: bool) -> Vec<Column> {
    let mut columns = percentile_columns(|case| case.half_round_trip_us.as_ref());
    if has_baseline {
        columns.push(column("raw p50 us", 10, |case| {
            number(&case.raw_half_round_trip_us, 1, |times| times.p50)
        }));
        columns
            .push(column("ratio", 5, |case| number(&case.latency_ratio_to_raw, 2, |ratio| *ratio)));
    }
    columns
}

fn percentile_columns(of: fn(&CaseFigures) -> Option<&Percentiles>) -> Vec<Column> {
    type Pick = fn(&Percentiles) -> Option<f64>;
    let picks: [(&'static str, Pick); 4] = [
        ("p50 us", |times| Some(times.p50)),
        ("p90 us", |times| times.p90),
        ("p99 us", |times| times.p99),
        ("p99.9 us", |times| times.p99_9),
    ];
    let columns = picks.into_iter().map(|(heading, pick)| {
        column(heading, 8, move |case| number(&of(case).and_then(pick), 1, |time| *time))
    });
    columns.collect()
}

fn median(rates: &Option<Throughput>) -> String {
    number(rates, 3, |rates| rates.gb_per_s_median)
}

fn p99(rates: &Option<Throughput>) -> Option<f64> {
    rates.as_ref()?.gb_per_s_p99
}

/// Returns a figure with `decimals` decimals, `-` where there is none.
fn number<T>(figures: &Option<T>, decimals: usize, pick: impl Fn(&T) -> f64) -> String {
    figures.as_ref().map_or_else(|| "-".to_owned(), |it| format!("{:.decimals$}", pick(it)))
}
