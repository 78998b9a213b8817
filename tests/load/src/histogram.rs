//! A histogram of fixed size for durations: integers only, log-linear.
//!
//! Each power of two is cut into 64 equal buckets, so a reported value is at most one 64th (1.6 %) above the
//! true one, and never below it. The idea is that of Gil Tene's HdrHistogram.

/// Buckets in each power of two, as a power of two.
const RESOLUTION_BITS: u32 = 6;
const BUCKETS_PER_OCTAVE: usize = 1 << RESOLUTION_BITS;
/// Values below 64 have a bucket each; each of the 58 octaves above has 64.
const BUCKETS: usize = BUCKETS_PER_OCTAVE * (1 + 64 - RESOLUTION_BITS as usize);

/// Counts of values of type `u64`, for instance nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    maximum: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0, maximum: 0 }
    }
}

impl Histogram {
    /// Counts one value.
    pub fn record(&mut self, value: u64) {
        self.counts[bucket_of(value)] += 1;
        self.total += 1;
        self.maximum = self.maximum.max(value);
    }

    /// How many values were counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The largest value, exact; 0 when there is none.
    #[must_use]
    pub fn maximum(&self) -> u64 {
        self.maximum
    }

    /// The value that `per_mille` thousandths of the values do not exceed (500 is the median, 990 is p99);
    /// `None` when nothing was counted.
    #[must_use]
    pub fn quantile(&self, per_mille: u64) -> Option<u64> {
        let wanted = (u128::from(self.total) * u128::from(per_mille)).div_ceil(1000).max(1);
        let mut counted = 0_u128;
        for (bucket, count) in self.counts.iter().enumerate() {
            counted += u128::from(*count);
            if counted >= wanted {
                return Some(last_of(bucket).min(self.maximum));
            }
        }
        None
    }
}

fn bucket_of(value: u64) -> usize {
    if value < BUCKETS_PER_OCTAVE as u64 {
        return value as usize;
    }
    let shift = value.ilog2() - RESOLUTION_BITS;
    // The top bit only names the octave; the six bits below it choose the bucket.
    let within_octave = (value >> shift) as usize - BUCKETS_PER_OCTAVE;
    BUCKETS_PER_OCTAVE * (1 + shift as usize) + within_octave
}

/// The largest value of a bucket.
fn last_of(bucket: usize) -> u64 {
    if bucket < BUCKETS_PER_OCTAVE {
        return bucket as u64;
    }
    let shift = bucket / BUCKETS_PER_OCTAVE - 1;
    let first = ((BUCKETS_PER_OCTAVE + bucket % BUCKETS_PER_OCTAVE) as u64) << shift;
    first + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_quantile() {
        assert_eq!(Histogram::default().quantile(500), None);
    }

    #[test]
    fn buckets_join_without_a_hole_up_to_the_largest_value() {
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert_eq!(last_of(BUCKETS - 1), u64::MAX);
        for bucket in 0..BUCKETS - 1 {
            assert_eq!(bucket_of(last_of(bucket)), bucket);
            assert_eq!(bucket_of(last_of(bucket) + 1), bucket + 1);
        }
    }

    #[test]
    fn quantiles_of_known_values_are_never_low_and_at_most_a_64th_high() {
        let mut histogram = Histogram::default();
        // 1,000 to 1,000,000 in steps of 1,000, in an order that is not theirs.
        for number in 0..1000_u64 {
            histogram.record((number * 7 % 1000 + 1) * 1000);
        }
        for per_mille in [1, 500, 900, 990, 1000] {
            let exact = per_mille * 1000;
            let found = histogram.quantile(per_mille).unwrap();
            assert!(found >= exact && found <= exact + exact / 64 + 1, "{per_mille}: {found}");
        }
        assert_eq!(histogram.total(), 1000);
        assert_eq!(histogram.quantile(1000), Some(1_000_000));
        assert_eq!(histogram.maximum(), 1_000_000);
    }

    #[test]
    fn small_values_are_exact() {
        let mut histogram = Histogram::default();
        for value in [3, 1, 2, 63] {
            histogram.record(value);
        }
        assert_eq!([250, 500, 750, 1000].map(|at| histogram.quantile(at).unwrap()), [1, 2, 3, 63]);
    }
}
