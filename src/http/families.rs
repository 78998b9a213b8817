//! Metric families built from snapshots of counters that others keep, for the Prometheus text format.
//!
//! The rooms count with plain integers and know no metrics library; one scrape turns their snapshots into
//! families and throws them away. Values are doubles in the format itself; counters stay exact up to 2^53.

use prometheus::proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{Encoder, TextEncoder};

/// The families of one scrape, in the order in which they were added.
#[derive(Default)]
pub struct Families(Vec<MetricFamily>);

/// One family that is being filled.
pub struct Family<'a>(&'a mut MetricFamily);

impl Families {
    /// A value that only rises; its name ends in `_total`.
    pub fn counter(&mut self, name: &str, help: &str) -> Family<'_> {
        self.add(name, help, MetricType::COUNTER)
    }

    /// A value that rises and falls.
    pub fn gauge(&mut self, name: &str, help: &str) -> Family<'_> {
        self.add(name, help, MetricType::GAUGE)
    }

    /// A distribution.
    pub fn histogram(&mut self, name: &str, help: &str) -> Family<'_> {
        self.add(name, help, MetricType::HISTOGRAM)
    }

    fn add(&mut self, name: &str, help: &str, kind: MetricType) -> Family<'_> {
        let mut family = MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        let index = self.0.len();
        self.0.push(family);
        Family(&mut self.0[index])
    }

    /// The text format, version 0.0.4. A family without a value is left out.
    ///
    /// # Errors
    /// When a name is not allowed by the format.
    pub fn encode(mut self) -> prometheus::Result<Vec<u8>> {
        self.0.retain(|family| !family.get_metric().is_empty());
        let mut text = Vec::with_capacity(16 * 1024);
        TextEncoder::new().encode(&self.0, &mut text)?;
        Ok(text)
    }
}

impl Family<'_> {
    /// Adds a value with its labels.
    pub fn value(&mut self, labels: &[(&str, &str)], value: f64) -> &mut Self {
        let mut metric = labelled(labels);
        if self.0.get_field_type() == MetricType::COUNTER {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        } else {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        }
        self.0.mut_metric().push(metric);
        self
    }

    /// Adds a whole number with its labels.
    #[expect(
        clippy::cast_precision_loss,
        reason = "the format has doubles only; 2^53 events are out of reach"
    )]
    pub fn count(&mut self, labels: &[(&str, &str)], count: u64) -> &mut Self {
        self.value(labels, count as f64)
    }

    /// Adds a distribution: upper bounds in the unit of the name, each with the number of observations up to
    /// it, the sum of all and their number.
    pub fn distribution(&mut self, cumulative: &[(f64, u64)], sum: f64, count: u64) -> &mut Self {
        let buckets = cumulative.iter().map(|(bound, count)| {
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(*bound);
            bucket.set_cumulative_count(*count);
            bucket
        });
        let mut histogram = Histogram::default();
        histogram.set_bucket(buckets.collect());
        histogram.set_sample_sum(sum);
        histogram.set_sample_count(count);
        let mut metric = labelled(&[]);
        metric.set_histogram(histogram);
        self.0.mut_metric().push(metric);
        self
    }
}

fn labelled(labels: &[(&str, &str)]) -> Metric {
    let pairs = labels.iter().map(|(name, value)| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value((*value).to_owned());
        pair
    });
    Metric::from_label(pairs.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_that_of_the_format() {
        let mut families = Families::default();
        families.counter("freshet_things_total", "Things.").count(&[("class", "a\"b")], 3).count(&[], 4);
        families.gauge("freshet_empty", "Nothing.");
        families.histogram("freshet_wait_seconds", "Waits.").distribution(&[(0.5, 1), (1.0, 2)], 1.25, 3);
        let text = String::from_utf8(families.encode().unwrap()).unwrap();
        assert_eq!(
            text,
            "# HELP freshet_things_total Things.\n\
             # TYPE freshet_things_total counter\n\
             freshet_things_total{class=\"a\\\"b\"} 3\n\
             freshet_things_total 4\n\
             # HELP freshet_wait_seconds Waits.\n\
             # TYPE freshet_wait_seconds histogram\n\
             freshet_wait_seconds_bucket{le=\"0.5\"} 1\n\
             freshet_wait_seconds_bucket{le=\"1\"} 2\n\
             freshet_wait_seconds_bucket{le=\"+Inf\"} 3\n\
             freshet_wait_seconds_sum 1.25\n\
             freshet_wait_seconds_count 3\n"
        );
    }
}
