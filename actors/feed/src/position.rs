//! Where an event stands in the log.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Names one life of an event log. A log that was lost and created anew has another epoch, so a position of
/// the old one is never taken for a position of the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

/// An epoch and an offset in it. Offsets start at 1 and rise by one for each event; offset 0 is the position
/// before the first event.
///
/// Its text form is the epoch in 16 hexadecimal digits, a hyphen and the offset: `00c0ffee00c0ffee-42`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// The life of the log in which the offset counts.
    pub epoch: Epoch,
    /// The number of events up to and with this one.
    pub offset: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.epoch, self.offset)
    }
}

/// The text is not an epoch of 16 hexadecimal digits, a hyphen and a decimal offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a position: expected 16 hexadecimal digits, a hyphen and a decimal offset")]
pub struct NotAPosition;

impl FromStr for Position {
    type Err = NotAPosition;

    fn from_str(text: &str) -> Result<Self, NotAPosition> {
        let (epoch, offset) = text.split_once('-').ok_or(NotAPosition)?;
        let lower_hexadecimal = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        let canonical_offset = offset == "0" || !offset.starts_with('0');
        if epoch.len() != 16
            || !epoch.bytes().all(lower_hexadecimal)
            || !canonical_offset
            || !offset.bytes().all(|digit| digit.is_ascii_digit())
        {
            return Err(NotAPosition);
        }
        Ok(Self {
            epoch: Epoch(u64::from_str_radix(epoch, 16).map_err(|_| NotAPosition)?),
            offset: offset.parse().map_err(|_| NotAPosition)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_round_trips_at_the_limits() {
        for (epoch, offset) in [(0, 0), (0x00c0_ffee, 42), (u64::MAX, u64::MAX)] {
            let position = Position { epoch: Epoch(epoch), offset };
            assert_eq!(position.to_string().parse(), Ok(position));
        }
        let position = Position { epoch: Epoch(0x00c0_ffee_00c0_ffee), offset: 42 };
        assert_eq!(position.to_string(), "00c0ffee00c0ffee-42");
    }

    #[test]
    fn other_texts_are_no_position() {
        for text in [
            "",
            "-",
            "1-2",
            "00c0ffee00c0ffee",
            "00c0ffee00c0ffee-",
            "00c0ffee00c0ffee-+1",
            "00C0FFEE00C0FFEE-1",
            "00c0ffee00c0ffee-01",
            "00c0ffee00c0ffee-18446744073709551616",
            "9b2f1c1e-2f33-4b52-9d5e-0a1b2c3d4e5f",
        ] {
            assert_eq!(text.parse::<Position>(), Err(NotAPosition), "{text}");
        }
    }
}
