//! Units in which the table and the page show rates. JSON and CSV always have GB/s.

/// Unit of a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RateUnit {
    /// 10^9 bytes a second.
    #[default]
    Gigabytes,
    /// 10^9 bits a second.
    Gigabits,
}

impl RateUnit {
    /// Returns the unit's name in a heading.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gigabytes => "GB/s",
            Self::Gigabits => "Gbit/s",
        }
    }

    /// Returns the name with what it stands for.
    pub(super) fn definition(self) -> &'static str {
        match self {
            Self::Gigabytes => "GB/s (10^9 bytes a second)",
            Self::Gigabits => "Gbit/s (10^9 bits a second)",
        }
    }

    /// Returns a rate of 10^9 bytes a second in this unit.
    pub(super) fn of(self, gb_per_s: f64) -> f64 {
        match self {
            Self::Gigabytes => gb_per_s,
            Self::Gigabits => gb_per_s * 8.0,
        }
    }

    /// Returns the rate as text, with its unit.
    pub(super) fn render(self, gb_per_s: f64) -> String {
        format!("{:.3} {}", self.of(gb_per_s), self.name())
    }

    /// Returns how many characters longer its name is than that of the default.
    pub(super) fn extra_width(self) -> usize {
        self.name().len() - Self::default().name().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_has_eight_bits() {
        assert_eq!(RateUnit::default().render(1.5), "1.500 GB/s");
        assert_eq!(RateUnit::Gigabits.render(1.5), "12.000 Gbit/s");
        for unit in [RateUnit::Gigabytes, RateUnit::Gigabits] {
            assert!(unit.definition().starts_with(unit.name()));
        }
        assert_eq!([RateUnit::Gigabytes, RateUnit::Gigabits].map(RateUnit::extra_width), [0, 2]);
    }
}
