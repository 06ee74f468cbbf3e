//! Scale of a plot: the position of a value, and the ticks.

use super::label::label;

/// Map from values to positions from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    steps: TickSpacing,
}

/// Distance from one tick to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
enum TickSpacing {
    /// Ticks at multiples of a number.
    Linear(f64),
    /// Ticks at powers of a base.
    Powers,
}

impl Scale {
    /// Returns a linear scale from 0 to at least the greatest of the values.
    pub(super) fn linear(values: impl Iterator<Item = f64>) -> Self {
        Self::in_steps(values, 0.0)
    }

    /// Returns a linear scale of whole numbers, without ticks between them.
    pub(super) fn counts(values: impl Iterator<Item = f64>) -> Self {
        Self::in_steps(values, 1.0)
    }

    fn in_steps(values: impl Iterator<Item = f64>, least: f64) -> Self {
        let most = values.fold(0.0, f64::max);
        let step = step_of(most).max(least);
        let high = (most / step).ceil().max(1.0) * step;
        Self { low: 0.0, high, steps: TickSpacing::Linear(step) }
    }

    /// Returns a logarithmic scale from the least to the greatest of the values, rounded out to
    /// powers of `base`. A single value has room on both sides.
    pub(super) fn log(values: impl Iterator<Item = f64>, base: f64) -> Self {
        let positive = values.filter(|value| *value > 0.0);
        let (low, high) = positive
            .fold((f64::MAX, 0.0), |(low, high): (f64, f64), it| (low.min(it), high.max(it)));
        let (low, high) = if high == 0.0 { (1.0, base) } else { (low, high) };
        let power = |value: f64, round: fn(f64) -> f64| base.powf(round(value.ln() / base.ln()));
        let (low, high) = (power(low * 1.000_001, f64::floor), power(high * 0.999_999, f64::ceil));
        let (low, high) = if high > low { (low, high) } else { (low / base, low * base) };
        Self { low, high, steps: TickSpacing::Powers }
    }

    pub(super) fn position(&self, value: f64) -> f64 {
        let position = match self.steps {
            TickSpacing::Powers => (value / self.low).ln() / (self.high / self.low).ln(),
            TickSpacing::Linear(_) => (value - self.low) / (self.high - self.low),
        };
        position.clamp(0.0, 1.0)
    }

    /// Returns the ticks: round values on a linear scale, else powers of `base`.
    pub(super) fn ticks(&self, base: f64) -> Vec<f64> {
        let TickSpacing::Linear(step) = self.steps else {
            let ticks = std::iter::successors(Some(self.low), |tick| Some(tick * base));
            return ticks.take_while(|tick| *tick <= self.high * 1.000_001).collect();
        };
        let count = (self.high / step).round() as u32;
        (0..=count).map(|index| f64::from(index) * step).collect()
    }

    /// Returns the label of a tick. On a linear scale all have the same decimals.
    pub(super) fn label(&self, tick: f64) -> String {
        match self.steps {
            TickSpacing::Powers => label(tick),
            TickSpacing::Linear(step) => {
                let decimals = (-step.log10() - 1e-9).ceil().max(0.0) as usize;
                format!("{tick:.decimals$}")
            }
        }
    }
}

/// Returns 1, 2 or 5 times a power of ten, so that there are five to ten steps up to `most`.
fn step_of(most: f64) -> f64 {
    if most <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf((most / 10.0).log10().ceil());
    let steps = [power / 10.0, power / 5.0, power / 2.0, power];
    steps.into_iter().find(|step| most / step <= 10.0).unwrap_or(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_scales_begin_at_nothing_and_have_round_ticks() {
        for most in [0.003, 0.9, 1.0, 2.4, 7.0, 10.0, 99.0, 12_345.0] {
            let scale = Scale::linear([most / 2.0, most].into_iter());
            let ticks = scale.ticks(10.0);
            assert!((2..=11).contains(&ticks.len()), "{most}: {ticks:?}");
            assert!(ticks[0] == 0.0 && *ticks.last().unwrap() >= most * 0.999, "{ticks:?}");
            assert!(scale.position(most) > 0.8 && scale.position(0.0) == 0.0);
        }
        assert_eq!(Scale::linear(std::iter::empty()).ticks(10.0), [0.0, 1.0]);
    }

    #[test]
    fn logarithmic_scales_lie_between_powers() {
        let sizes = Scale::log([4096.0, 64.0 * 1024.0 * 1024.0].into_iter(), 4.0);
        assert_eq!((sizes.position(4096.0), sizes.ticks(4.0).len()), (0.0, 8));
        assert!((sizes.position(524_288.0) - 0.5).abs() < 1e-9);
        let one = Scale::log([5000.0].into_iter(), 4.0);
        assert!(one.position(5000.0) > 0.0 && one.position(5000.0) < 1.0, "{one:?}");
        let power = Scale::log([64.0].into_iter(), 4.0);
        assert_eq!((power.position(64.0), power.ticks(4.0)), (0.5, vec![16.0, 64.0, 256.0]));
        assert_eq!(Scale::log(std::iter::empty(), 10.0).ticks(10.0).len(), 2);
    }

    /// Rates of small messages are far below 1 GB/s.
    #[test]
    fn every_line_has_another_label_however_small_the_values_are() {
        let mut most = 1e-7;
        while most < 1e6 {
            let linear = Scale::linear([most].into_iter());
            let scales = [linear, Scale::log([most, most * 300.0].into_iter(), 10.0)];
            for scale in scales {
                let labels: Vec<String> =
                    scale.ticks(10.0).into_iter().map(|tick| scale.label(tick)).collect();
                let distinct: std::collections::BTreeSet<&String> = labels.iter().collect();
                assert_eq!(distinct.len(), labels.len(), "{most}: {labels:?}");
                assert!(labels.iter().all(|it| it.len() <= 10), "{most}: {labels:?}");
            }
            most *= 1.7;
        }
        let rates = Scale::linear([2.4].into_iter());
        assert_eq!(rates.ticks(10.0).last().map(|it| rates.label(*it)), Some("2.5".into()));
    }

    #[test]
    fn counts_have_ticks_at_whole_numbers_only() {
        for most in 1..30 {
            let scale = Scale::counts([f64::from(most)].into_iter());
            let ticks = scale.ticks(10.0);
            assert!(ticks.iter().all(|tick| tick.fract() == 0.0) && ticks.len() <= 11, "{ticks:?}");
            assert_eq!(scale.label(ticks[1]), format!("{:.0}", ticks[1]));
        }
    }
}
