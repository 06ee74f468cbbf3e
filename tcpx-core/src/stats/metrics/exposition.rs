//! Prometheus's text format: samples sorted into families, each of which is declared once.

use std::fmt::{Display, Write as _};

/// Labels of a sample as they are written, `name="value",name="value"`.
#[derive(Clone, Debug, Default)]
pub(super) struct Labels(String);

impl Labels {
    /// These and one more.
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

/// A page of metrics, in the order in which they were first told.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    families: Vec<Family>,
}

#[derive(Debug)]
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    samples: String,
}

impl Exposition {
    /// A number that only grows.
    pub(super) fn counter(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &Labels,
        value: u64,
    ) {
        self.sample(name, "counter", help, labels, value);
    }

    /// A time that only grows, in seconds.
    pub(super) fn seconds(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &Labels,
        nanos: u64,
    ) {
        let (seconds, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        self.sample(name, "counter", help, labels, format_args!("{seconds}.{nanos:09}"));
    }

    /// A number as it is now.
    pub(super) fn gauge(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &Labels,
        value: impl Display,
    ) {
        self.sample(name, "gauge", help, labels, value);
    }

    fn sample(
        &mut self,
        name: &'static str,
        kind: &'static str,
        help: &'static str,
        labels: &Labels,
        value: impl Display,
    ) {
        let place = self.families.iter().position(|family| family.name == name);
        let place = place.unwrap_or_else(|| {
            self.families.push(Family { name, kind, help, samples: String::new() });
            self.families.len() - 1
        });
        // Writing to a String cannot fail.
        let _ = writeln!(self.families[place].samples, "{name}{{{}}} {value}", labels.0);
    }

    /// The whole page.
    pub(super) fn into_text(self) -> String {
        let mut text = String::new();
        for Family { name, kind, help, samples } in self.families {
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{samples}");
        }
        text
    }
}
