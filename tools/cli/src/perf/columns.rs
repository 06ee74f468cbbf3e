//! Columns of the table: the figures that differ from size to size.

use super::figures::{CaseFigures, OneSidedFigures};
use super::pair_times::EachWay;
use super::plan::Mode;
use super::rate_unit::RateUnit;
use super::rates::{Percentiles, Throughput};
use crate::input::ByteSize;

/// Blanks between columns.
const GAP: usize = 2;
/// Width of the last column.
const VERIFIED: usize = 8;
/// Headings of times that the rates say as well: they give way where there is no room.
const SPARE: [&str; 2] = ["mean ms", "us/msg"];

/// Column: a heading, its width, and the function that fills it for one case.
pub(super) struct Column {
    pub(super) heading: String,
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
    /// Whether they send to each other, too.
    pub(super) is_all_to_all: bool,
    pub(super) unit: RateUnit,
}

/// Returns the columns of a table, which is at most `most` characters wide if `most` is a
/// terminal's width or more.
pub(super) fn columns(shape: TableShape, most: usize) -> Vec<Column> {
    let mut columns = vec![column("size", 8, |case| ByteSize(case.size_bytes).to_string())];
    let unit = shape.unit;
    columns.extend(match shape.mode {
        _ if shape.is_all_to_all => all_to_all_columns(unit),
        Mode::Throughput | Mode::Bidirectional if shape.is_incast => incast_columns(unit),
        Mode::OneSided(one_sided) => {
            one_sided_columns(unit, one_sided.is_latency, one_sided.descriptors)
        }
        Mode::Latency | Mode::Notifications => latency_columns(shape.has_baseline),
        Mode::Bidirectional => both_ways_columns(unit),
        Mode::Messages(_) => batch_columns(unit, shape.has_baseline),
        Mode::Throughput => throughput_columns(unit, shape.has_baseline),
    });
    if !has_room(&columns, 0, most) {
        columns.retain(|column| !SPARE.contains(&&*column.heading));
    }
    for column in extra_columns(shape) {
        if has_room(&columns, column.width + GAP, most) {
            columns.push(column);
        }
    }
    columns.push(column("verified", VERIFIED, verified));
    columns
}

/// Returns the columns that stand where there is room, the first ones first.
fn extra_columns(shape: TableShape) -> Vec<Column> {
    let is_one_way = matches!(shape.mode, Mode::Throughput) && !shape.is_incast;
    let bound = |case: &CaseFigures| case.stages.as_ref().map_or("-", |it| it.bound_by.label());
    let bound = is_one_way.then(|| column("bound by", 9, move |case| bound(case).to_owned()));
    let iterations =
        shape.has_duration.then(|| column("iters", 8, |case| case.iterations.to_string()));
    let ops = (!shape.mode.is_latency())
        .then(|| column("ops/s", 9, |case| number(&case.ops_per_s, 0, |rate| *rate)));
    let mean = is_one_way.then(|| {
        column("mean ms", 9, |case| number(&case.receiver, 3, |receiver| receiver.mean_ms))
    });
    [bound, iterations, ops, mean].into_iter().flatten().collect()
}

/// Returns whether `extra` characters fit beside the columns and the last one.
fn has_room(columns: &[Column], extra: usize, most: usize) -> bool {
    let width: usize = columns.iter().map(|column| column.width + GAP).sum();
    width + extra + VERIFIED <= most
}

fn column(
    heading: impl Into<String>,
    width: usize,
    fill: impl Fn(&CaseFigures) -> String + 'static,
) -> Column {
    Column { heading: heading.into(), width, fill: Box::new(fill) }
}

/// Returns a column of rates in `unit`. `what`: the rate's name, with a blank after it; `width`:
/// that of the column in GB/s.
fn rate(
    unit: RateUnit,
    what: &str,
    width: usize,
    pick: impl Fn(&CaseFigures) -> Option<f64> + 'static,
) -> Column {
    let heading = format!("{what}{}", unit.name());
    let width = width + unit.extra_width();
    column(heading, width, move |case| number(&pick(case), 3, |rate| unit.of(*rate)))
}

/// Returns the column of the rates that 99 of 100 iterations reach.
fn rate_p99(unit: RateUnit, of: fn(&CaseFigures) -> &Option<Throughput>) -> Column {
    let pick = move |case: &CaseFigures| of(case).as_ref()?.gb_per_s_p99;
    column("p99", 7, move |case| number(&pick(case), 3, |rate| unit.of(*rate)))
}

fn verified(case: &CaseFigures) -> String {
    if case.verified { "yes" } else { "NO" }.to_owned()
}

fn throughput_columns(unit: RateUnit, has_baseline: bool) -> Vec<Column> {
    let mut columns = vec![
        rate(unit, "recv ", 9, |case| median(&case.receiver)),
        rate_p99(unit, |case| &case.receiver),
        rate(unit, "send ", 9, |case| median(&case.sender)),
    ];
    if has_baseline {
        columns.extend(raw_throughput_columns(unit));
    } else {
        columns.push(rate_p99(unit, |case| &case.sender));
    }
    columns
}

fn both_ways_columns(unit: RateUnit) -> Vec<Column> {
    vec![
        rate(unit, "server ", 11, |case| median(&case.receiver)),
        rate(unit, "client ", 11, |case| median(&case.client_receiver)),
        rate(unit, "both ", 9, |case| median(&case.both_ways)),
        column("mean ms", 9, |case| number(&case.both_ways, 3, |rates| rates.mean_ms)),
    ]
}

fn incast_columns(unit: RateUnit) -> Vec<Column> {
    vec![
        rate(unit, "all ", 9, |case| Some(case.incast.as_ref()?.all_clients.gb_per_s_median)),
        column("mean ms", 9, |case| number(&case.incast, 3, |incast| incast.all_clients.mean_ms)),
        rate(unit, "slowest ", 12, |case| Some(case.incast.as_ref()?.slowest_client_gb_per_s)),
        rate(unit, "fastest ", 12, |case| Some(case.incast.as_ref()?.fastest_client_gb_per_s)),
    ]
}

fn all_to_all_columns(unit: RateUnit) -> Vec<Column> {
    fn each_way(case: &CaseFigures) -> Option<&EachWay> {
        case.incast.as_ref()?.each_way.as_ref()
    }
    vec![
        rate(unit, "all ", 9, |case| Some(case.incast.as_ref()?.all_clients.gb_per_s_median)),
        column("mean ms", 9, |case| number(&case.incast, 3, |incast| incast.all_clients.mean_ms)),
        rate(unit, "least ", 10, |case| Some(each_way(case)?.gb_per_s_min)),
        rate(unit, "median ", 11, |case| Some(each_way(case)?.gb_per_s_median)),
        rate(unit, "most ", 9, |case| Some(each_way(case)?.gb_per_s_max)),
    ]
}

fn one_sided_columns(unit: RateUnit, is_latency: bool, descriptors: u32) -> Vec<Column> {
    fn of(case: &CaseFigures) -> Option<&OneSidedFigures> {
        case.one_sided.as_ref()
    }
    fn under_way(case: &CaseFigures) -> Option<&Percentiles> {
        of(case)?.under_way_us.as_ref()
    }
    let mut columns = match is_latency {
        true => percentile_columns(|case| of(case)?.operation_us.as_ref()),
        false => {
            vec![
                rate(unit, "", 9, |case| median(&of(case)?.initiator)),
                column("us/op", 8, |case| number(&of(case), 1, |it| it.mean_us().unwrap_or(0.0))),
                column("p50 us", 8, |case| number(&under_way(case), 1, |times| times.p50)),
                column("p99 us", 8, |case| {
                    number(&under_way(case).and_then(|times| times.p99), 1, |time| *time)
                }),
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

fn raw_throughput_columns(unit: RateUnit) -> Vec<Column> {
    vec![
        rate(unit, "raw ", 8, |case| median(&case.raw_socket)),
        column("ratio", 5, |case| number(&case.ratio_to_raw, 2, |ratio| *ratio)),
    ]
}

fn batch_columns(unit: RateUnit, has_baseline: bool) -> Vec<Column> {
    let mut columns = vec![
        rate(unit, "recv ", 9, |case| median(&case.receiver)),
        column("us/msg", 7, |case| number(&case.batch, 3, |batch| batch.us_per_message)),
        rate(unit, "large ", 10, |case| Some(case.batch.as_ref()?.large_messages.gb_per_s_median)),
        column("time ratio", 10, |case| {
            number(&case.batch, 2, |batch| batch.time_ratio_to_large_messages)
        }),
    ];
    if has_baseline {
        columns.extend(raw_throughput_columns(unit));
    } else {
        columns.push(rate(unit, "send ", 9, |case| median(&case.sender)));
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

fn median(rates: &Option<Throughput>) -> Option<f64> {
    Some(rates.as_ref()?.gb_per_s_median)
}

/// Returns a figure with `decimals` decimals, `-` where there is none.
fn number<T>(figures: &Option<T>, decimals: usize, pick: impl Fn(&T) -> f64) -> String {
    figures.as_ref().map_or_else(|| "-".to_owned(), |it| format!("{:.decimals$}", pick(it)))
}
