//! Lines and bars as SVG.

use super::label::escape;
use super::scale::Scale;
use crate::input::ByteSize;

/// The picture, and the plot in it, in units of its own. It is narrow, so that its texts are
/// legible on a phone.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 452.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 232.0;
/// Colours that colour-blind people can distinguish, too.
const COLOURS: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a7a7a"];
/// Most labels below a plot.
const MOST_LABELS: usize = 6;
/// Height of a bar of shares, with the space below it.
const SHARE_HEIGHT: f64 = 26.0;

#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) name: &'static str,
    pub(super) points: Vec<(f64, f64)>,
}

/// Points joined by lines.
#[derive(Clone, Debug)]
pub(super) struct LinePlot {
    pub(super) series: Vec<Series>,
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    /// `x` is a number of bytes; else it counts something.
    pub(super) by_size: bool,
    /// `y` grows by factors.
    pub(super) is_log: bool,
}

impl LinePlot {
    pub(super) fn by_size(series: Vec<Series>, y: &'static str, is_log: bool) -> Self {
        Self { series, x: "size of a message", y, by_size: true, is_log }
    }

    /// Returns the plot as SVG; empty without points at two positions across.
    pub(super) fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        // One position across is no line: the figure stands in the table.
        let first = points().next().map(|point| point.0);
        if points().all(|point| Some(point.0) == first) {
            return String::new();
        }
        let (across, up) = (points().map(|point| point.0), points().map(|point| point.1));
        let across = if self.by_size { Scale::log(across, 4.0) } else { Scale::counts(across) };
        let up = if self.is_log { Scale::log(up, 10.0) } else { Scale::linear(up) };
        let (base, at) = (4.0, |value| LEFT + across.position(value) * (RIGHT - LEFT));
        let x_label = |tick: f64| match self.by_size {
            true => ByteSize(tick.round() as u64).to_string(),
            false => across.label(tick),
        };
        // No message is shorter than a byte.
        let ticks = across.ticks(base).into_iter().filter(|tick| !self.by_size || *tick >= 1.0);
        let ticks: Vec<(f64, String)> = ticks.map(|tick| (at(tick), x_label(tick))).collect();
        let mut svg = frame(&up, self.y) + &below(&ticks, self.x);
        let shown = self.series.iter().filter(|series| !series.points.is_empty());
        for (series, colour) in shown.clone().zip(COLOURS) {
            svg += &line(series, colour, at, |value| BOTTOM - up.position(value) * (BOTTOM - TOP));
        }
        keys(shown.map(|series| series.name)) + &picture(HEIGHT, &svg)
    }
}

fn line(
    series: &Series,
    colour: &str,
    across: impl Fn(f64) -> f64,
    up: impl Fn(f64) -> f64,
) -> String {
    let at = |(x, y): &(f64, f64)| (across(*x), up(*y));
    let path: Vec<String> =
        series.points.iter().map(at).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let mut svg = format!(
        "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>\n",
        path.join(" ")
    );
    // Many points would hide the line.
    if series.points.len() <= 64 {
        for (x, y) in series.points.iter().map(at) {
            svg += &format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>\n");
        }
    }
    svg
}

/// Bars side by side.
#[derive(Clone, Debug)]
pub(super) struct BarPlot {
    pub(super) bars: Vec<(String, f64)>,
    pub(super) x: &'static str,
    pub(super) y: &'static str,
}

impl BarPlot {
    pub(super) fn svg(&self) -> String {
        let up = Scale::counts(self.bars.iter().map(|bar| bar.1));
        let step = (RIGHT - LEFT) / self.bars.len().max(1) as f64;
        let mut ticks = Vec::new();
        let mut svg = String::new();
        for (index, (name, value)) in self.bars.iter().enumerate() {
            let (x, height) = (LEFT + step * index as f64, up.position(*value) * (BOTTOM - TOP));
            svg += &format!(
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\" \
                 fill=\"{}\"/>\n",
                x + step * 0.05,
                BOTTOM - height,
                step * 0.9,
                COLOURS[0],
            );
            ticks.push((x + step / 2.0, name.clone()));
        }
        picture(HEIGHT, &(frame(&up, self.y) + &svg + &below(&ticks, self.x)))
    }
}

/// Returns one bar of shares for each row; empty without rows.
pub(super) fn shares(rows: &[(String, Vec<(&'static str, f64)>)]) -> String {
    let Some((_, names)) = rows.first() else { return String::new() };
    let mut svg = String::new();
    for (index, (name, parts)) in rows.iter().enumerate() {
        let (y, mut x) = (SHARE_HEIGHT * index as f64, LEFT);
        svg += &text(LEFT - 8.0, y + 15.0, "end", name);
        for ((what, share), colour) in parts.iter().zip(COLOURS) {
            let width = share.clamp(0.0, 1.0) * (RIGHT - LEFT);
            svg += &format!(
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"20\" \
                 fill=\"{colour}\"><title>{}: {:.1} %</title></rect>\n",
                escape(what),
                share * 100.0
            );
            x += width;
        }
    }
    let height = SHARE_HEIGHT * rows.len() as f64;
    keys(names.iter().map(|(name, _)| *name)) + &picture(height, &svg)
}

/// Returns the lines across the plot, with their values.
fn frame(up: &Scale, name: &str) -> String {
    let mut svg = text(8.0, TOP - 14.0, "start", name);
    for tick in up.ticks(10.0) {
        let y = BOTTOM - up.position(tick) * (BOTTOM - TOP);
        svg += &format!(
            "<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#e3e7ed\"/>\n"
        );
        svg += &text(LEFT - 8.0, y + 4.0, "end", &up.label(tick));
    }
    svg
}

/// Returns the labels below the plot, at most `MOST_LABELS`.
fn below(ticks: &[(f64, String)], name: &str) -> String {
    let every = ticks.len().div_ceil(MOST_LABELS).max(1);
    let labels = ticks.iter().step_by(every);
    let labels = labels.map(|(x, label)| text(*x, BOTTOM + 19.0, "middle", label));
    labels.collect::<String>() + &text((LEFT + RIGHT) / 2.0, BOTTOM + 40.0, "middle", name)
}

/// Returns the meaning of the colours, which wraps as text does.
fn keys<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let key = |(name, colour): (&str, &str)| {
        format!("<span><i style=\"background:{colour}\"></i>{}</span>\n", escape(name))
    };
    format!("<p class=\"keys\">{}</p>\n", names.zip(COLOURS).map(key).collect::<String>())
}

fn text(x: f64, y: f64, anchor: &str, words: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>\n", escape(words))
}

fn picture(height: f64, content: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" xmlns=\"http://www.w3.org/2000/svg\">\n\
         {content}</svg>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_lies_in_the_plot() {
        let points = vec![(4096.0, 0.5), (65_536.0, 2.0), (1_048_576.0, 4.2)];
        for is_log in [false, true] {
            let series = vec![Series { name: "a", points: points.clone() }];
            let svg = LinePlot::by_size(series, "GB/s", is_log).svg();
            assert_eq!(svg.matches("<circle").count(), 3);
            for part in svg.split("<circle cx=\"").skip(1) {
                let mut numbers = part.split('"').filter_map(|it| it.parse::<f64>().ok());
                let (x, y) = (numbers.next().unwrap(), numbers.next().unwrap());
                assert!((LEFT..=RIGHT).contains(&x) && (TOP..=BOTTOM).contains(&y), "{x} {y}");
            }
            assert!(svg.contains("1 MiB") && svg.contains("GB/s"), "{svg}");
        }
        let one = vec![Series { name: "a", points: points[..1].to_vec() }; 2];
        assert_eq!(LinePlot::by_size(one, "GB/s", false).svg(), "", "no line of one size");
        assert_eq!(LinePlot::by_size(vec![], "GB/s", false).svg(), "");
    }

    #[test]
    fn bars_and_shares_have_a_rectangle_each() {
        let bars = vec![("1".to_owned(), 3.0), ("<2".to_owned(), 1.0)];
        let svg = BarPlot { bars, x: "us", y: "count" }.svg();
        assert_eq!(svg.matches("<rect").count(), 2);
        assert!(svg.contains("&lt;2"));
        let svg = shares(&[("4 KiB".to_owned(), vec![("a", 0.25), ("b", 0.75)])]);
        assert_eq!(svg.matches("<rect").count(), 2);
        assert_eq!(svg.matches("<i style=").count(), 2, "what their colours mean");
        assert_eq!(shares(&[]), "");
    }
}
