//! Heart-beats: what the two sides agreed to send, and when silence means that the other side is gone.
//!
//! Each side says in its `heart-beat` header how often it can send and how often it wants to receive, in
//! milliseconds (STOMP 1.2, "Heart-beating"). For one direction the larger of the two numbers counts, and 0 on
//! either side means none.

use std::time::Duration;

use tokio::time::Instant;

/// How many of its own intervals a broker may be silent. ActiveMQ Classic in good health takes two: its check
/// comes once an interval and skips one when something was sent since the last (AMQ-4710; 5.17.2 on an idle
/// machine left 2.01 s and 8.00 s after CONNECTED with intervals of 1 s and 4 s). Half an interval more is for
/// the network and for pauses of the broker.
pub const SILENCE_INTERVALS: f32 = 2.5;

/// What was agreed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// How often we must send something.
    pub send_within: Option<Duration>,
    /// How often the broker will send something.
    pub receive_within: Option<Duration>,
}

impl Agreement {
    /// Compares our offer with the broker's header. A header that is absent promises nothing, and one that
    /// cannot be read counts as absent: a broker that cannot say what it does is not held to it.
    #[must_use]
    pub fn of(send_millis: u64, receive_millis: u64, broker_header: Option<&str>) -> Self {
        let (broker_sends, broker_wants) = broker_header.and_then(read).unwrap_or((0, 0));
        Self {
            send_within: larger_unless_zero(send_millis, broker_wants),
            receive_within: larger_unless_zero(receive_millis, broker_sends),
        }
    }
}

fn read(header: &str) -> Option<(u64, u64)> {
    let (sends, wants) = header.split_once(',')?;
    Some((sends.trim().parse().ok()?, wants.trim().parse().ok()?))
}

fn larger_unless_zero(one: u64, other: u64) -> Option<Duration> {
    (one != 0 && other != 0).then(|| Duration::from_millis(one.max(other)))
}

/// Keeps the time of both directions.
#[derive(Clone, Copy, Debug)]
pub struct HeartBeat {
    agreement: Agreement,
    last_sent: Instant,
    /// Nothing while we do not read: bytes that wait in the socket are not silence.
    last_received: Option<Instant>,
}

impl HeartBeat {
    /// Starts to count.
    #[must_use]
    pub fn new(agreement: Agreement, now: Instant) -> Self {
        Self { agreement, last_sent: now, last_received: Some(now) }
    }

    /// Something was sent.
    pub fn sent(&mut self, now: Instant) {
        self.last_sent = now;
    }

    /// Something was received, or we read again after a pause.
    pub fn received(&mut self, now: Instant) {
        self.last_received = Some(now);
    }

    /// We stop reading for a while.
    pub fn reading_paused(&mut self) {
        self.last_received = None;
    }

    /// When the next heart-beat of ours is due: after half of the promised interval, because the broker counts
    /// from its own clock and network, and some forgive nothing.
    #[must_use]
    pub fn beat_due(&self) -> Option<Instant> {
        self.agreement.send_within.map(|interval| self.last_sent + interval / 2)
    }

    /// When silence means that the broker is gone: after [`SILENCE_INTERVALS`].
    #[must_use]
    pub fn silence_ends(&self) -> Option<Instant> {
        Some(self.last_received? + self.agreement.receive_within?.mul_f32(SILENCE_INTERVALS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Option<Duration> {
        Some(Duration::from_millis(millis))
    }

    #[test]
    fn the_larger_number_counts_and_zero_is_none() {
        // (we send, we want, the broker's header) → (we must send, the broker will send)
        let cases = [
            ((4000, 4000, Some("4000,4000")), (millis(4000), millis(4000))),
            ((1000, 8000, Some("2000,3000")), (millis(3000), millis(8000))),
            ((1000, 1000, Some("0,0")), (None, None)),
            ((0, 1000, Some("500,500")), (None, millis(1000))),
            ((1000, 0, Some("500,500")), (millis(1000), None)),
            ((1000, 1000, None), (None, None)),
            ((1000, 1000, Some("rubbish")), (None, None)),
            ((1000, 1000, Some("-1,5")), (None, None)),
        ];
        for ((send, receive, header), (send_within, receive_within)) in cases {
            assert_eq!(Agreement::of(send, receive, header), Agreement { send_within, receive_within });
        }
    }

    #[test]
    fn ours_are_early_and_theirs_may_be_late() {
        let start = Instant::now();
        let mut heart_beat = HeartBeat::new(Agreement::of(4000, 2000, Some("2000,4000")), start);
        assert_eq!(heart_beat.beat_due(), Some(start + Duration::from_millis(2000)));
        assert_eq!(heart_beat.silence_ends(), Some(start + Duration::from_millis(5000)));

        let later = start + Duration::from_millis(1500);
        heart_beat.sent(later);
        heart_beat.received(later);
        assert_eq!(heart_beat.beat_due(), Some(later + Duration::from_millis(2000)));
        assert_eq!(heart_beat.silence_ends(), Some(later + Duration::from_millis(5000)));
    }

    #[test]
    fn nobody_is_called_silent_while_we_do_not_listen() {
        let start = Instant::now();
        let mut heart_beat = HeartBeat::new(Agreement::of(1000, 1000, Some("1000,1000")), start);
        heart_beat.reading_paused();
        assert_eq!(heart_beat.silence_ends(), None);
        assert!(heart_beat.beat_due().is_some());
        let resumed = start + Duration::from_secs(60);
        heart_beat.received(resumed);
        assert_eq!(heart_beat.silence_ends(), Some(resumed + Duration::from_millis(2500)));
    }

    #[test]
    fn a_broker_that_promises_nothing_is_never_silent() {
        let heart_beat = HeartBeat::new(Agreement::of(1000, 1000, Some("0,1000")), Instant::now());
        assert_eq!(heart_beat.silence_ends(), None);
        assert!(heart_beat.beat_due().is_some());
    }
}
