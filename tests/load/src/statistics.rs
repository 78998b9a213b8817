//! Medians and spreads of repeated measurements.

/// The least, the median and the greatest of some measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The least.
    pub least: f64,
    /// The middle one; the mean of the two middle ones when their number is even.
    pub median: f64,
    /// The greatest.
    pub greatest: f64,
}

impl Spread {
    /// Of these values; `None` when there is none.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            *sorted.get(middle)?
        } else {
            (sorted.get(middle.checked_sub(1)?)? + sorted.get(middle)?) / 2.0
        };
        Some(Self { least: *sorted.first()?, median, greatest: *sorted.last()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_even_and_empty() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([3.0, 1.0, 2.5]), Some(Spread { least: 1.0, median: 2.5, greatest: 3.0 }));
        assert_eq!(Spread::of([4.0, 1.0]), Some(Spread { least: 1.0, median: 2.5, greatest: 4.0 }));
    }
}
