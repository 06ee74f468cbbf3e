//! Where a value lies in a plot, and which values have a line of their own.

/// From values to a part of 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
}

impl Scale {
    /// From 0 to at least the greatest of the values.
    pub(super) fn linear(values: impl Iterator<Item = f64>) -> Self {
        let most = values.fold(0.0, f64::max);
        let step = step_of(most);
        let high = (most / step).ceil().max(1.0) * step;
        Self { low: 0.0, high, is_log: false }
    }

    /// From the least to the greatest of the values, and a little more where both are the same.
    /// `base`: of the powers between which it lies.
    pub(super) fn log(values: impl Iterator<Item = f64>, base: f64) -> Self {
        let positive = values.filter(|value| *value > 0.0);
        let (low, high) = positive
            .fold((f64::MAX, 0.0), |(low, high): (f64, f64), it| (low.min(it), high.max(it)));
        let (low, high) = if high == 0.0 { (1.0, base) } else { (low, high) };
        let power = |value: f64, round: fn(f64) -> f64| base.powf(round(value.ln() / base.ln()));
        let (low, high) = (power(low * 1.000_001, f64::floor), power(high * 0.999_999, f64::ceil));
        Self { low, high: if high > low { high } else { low * base }, is_log: true }
    }

    pub(super) fn place(&self, value: f64) -> f64 {
        let place = match self.is_log {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        place.clamp(0.0, 1.0)
    }

    /// Values that have a line: of a linear scale round ones, else powers of `base`.
    pub(super) fn ticks(&self, base: f64) -> Vec<f64> {
        if self.is_log {
            let ticks = std::iter::successors(Some(self.low), |tick| Some(tick * base));
            return ticks.take_while(|tick| *tick <= self.high * 1.000_001).collect();
        }
        let step = step_of(self.high);
        let count = (self.high / step).round() as u32;
        (0..=count).map(|index| f64::from(index) * step).collect()
    }
}

/// 1, 2 or 5 times a power of ten, so that up to `most` there are five to ten steps.
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
            assert!(scale.place(most) > 0.8 && scale.place(0.0) == 0.0);
        }
        assert_eq!(Scale::linear(std::iter::empty()).ticks(10.0).len(), 11, "up to 1");
    }

    #[test]
    fn logarithmic_scales_lie_between_powers() {
        let sizes = Scale::log([4096.0, 64.0 * 1024.0 * 1024.0].into_iter(), 4.0);
        assert_eq!((sizes.place(4096.0), sizes.ticks(4.0).len()), (0.0, 8));
        assert!((sizes.place(524_288.0) - 0.5).abs() < 1e-9);
        let one = Scale::log([5000.0].into_iter(), 4.0);
        assert!(one.place(5000.0) > 0.0 && one.place(5000.0) < 1.0, "{one:?}");
        assert_eq!(Scale::log(std::iter::empty(), 10.0).ticks(10.0).len(), 2);
    }
}
