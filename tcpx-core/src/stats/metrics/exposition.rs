//! Writer of Prometheus's text format: sorts samples into families, and declares each family once.

use std::fmt::Write as _;

/// Labels of a sample as they are written, `name="value",name="value"`.
#[derive(Clone, Debug, Default)]
pub(super) struct Labels(String);

impl Labels {
    /// Returns these labels and one more.
    pub(super) fn and(&self, name: &str, value: &str) -> Self {
        let Self(mut text) = self.clone();
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(name);
        text.push_str("=\"");
        for char in value.chars() {
            match char {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                other => text.push(other),
            }
        }
        text.push('"');
        Self(text)
    }
}

/// Kind of a metric.
#[derive(Clone, Copy, Debug)]
pub(super) enum MetricKind {
    /// Number that only grows.
    Counter,
    /// Time that only grows: nanoseconds, which are written as seconds.
    Seconds,
    /// Number that may grow and shrink.
    Gauge,
    /// Time that may grow and shrink: microseconds, which are written as seconds.
    Microseconds,
}

/// Readers of a metric's values.
pub(super) enum MetricSamples<T: 'static> {
    /// Reader of the only value.
    One(Value<T>),
    /// Name of a label, and a reader for each value of the label.
    ByLabel(&'static str, &'static [(&'static str, Value<T>)]),
}

type Value<T> = fn(&T) -> u64;

/// Metrics that are read from a `T`: name, help, kind, values.
pub(super) type MetricTable<T> =
    &'static [(&'static str, &'static str, MetricKind, MetricSamples<T>)];

/// Page of metrics, in the order in which they were first added.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    families: Vec<Family>,
}

#[derive(Debug)]
struct Family {
    name: &'static str,
    kind: MetricKind,
    help: &'static str,
    samples: String,
}

impl Family {
    fn sample(&mut self, Labels(labels): &Labels, value: u64) {
        // Writing to a String cannot fail.
        let _ = match self.kind {
            // Nanoseconds are written as whole numbers, which no double would hold.
            MetricKind::Seconds => {
                let (seconds, nanos) = (value / 1_000_000_000, value % 1_000_000_000);
                writeln!(self.samples, "{}{{{labels}}} {seconds}.{nanos:09}", self.name)
            }
            MetricKind::Microseconds => {
                let (seconds, micros) = (value / 1_000_000, value % 1_000_000);
                writeln!(self.samples, "{}{{{labels}}} {seconds}.{micros:06}", self.name)
            }
            MetricKind::Counter | MetricKind::Gauge => {
                writeln!(self.samples, "{}{{{labels}}} {value}", self.name)
            }
        };
    }
}

impl Exposition {
    /// Adds a sample of each metric of a table. A metric with a label gets a sample for each value
    /// of the label.
    pub(super) fn add<T>(&mut self, table: MetricTable<T>, labels: &Labels, of: &T) {
        for (name, help, kind, samples) in table {
            let family = self.family(name, help, *kind);
            match samples {
                MetricSamples::One(value) => family.sample(labels, value(of)),
                MetricSamples::ByLabel(label, values) => values
                    .iter()
                    .for_each(|(name, value)| family.sample(&labels.and(label, name), value(of))),
            }
        }
    }

    fn family(&mut self, name: &'static str, help: &'static str, kind: MetricKind) -> &mut Family {
        let place = self.families.iter().position(|family| family.name == name);
        let place = place.unwrap_or_else(|| {
            self.families.push(Family { name, kind, help, samples: String::new() });
            self.families.len() - 1
        });
        &mut self.families[place]
    }

    /// Returns the whole page.
    pub(super) fn into_text(self) -> String {
        let mut text = String::new();
        for Family { name, kind, help, samples } in self.families {
            let kind = match kind {
                MetricKind::Gauge | MetricKind::Microseconds => "gauge",
                MetricKind::Counter | MetricKind::Seconds => "counter",
            };
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{samples}");
        }
        text
    }
}
