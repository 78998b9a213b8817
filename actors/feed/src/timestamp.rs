//! RFC 3339 times.

use jiff::Timestamp;

/// Reads an RFC 3339 `date-time`: `T` in either case or one space between date and time, any number of digits of
/// a fraction (kept to the nanosecond, cut and not rounded), and `Z` in either case or an offset.
///
/// A time without an offset is refused, since it means another instant for each reader. A leap second counts as
/// the second before it.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    // 0123456789012345678
    // 2023-10-27T10:25:40
    let (date_and_time, rest) = text.split_at_checked(19)?;
    let shape = date_and_time.bytes().zip(*b"dddd-dd-ddTdd:dd:dd").all(|(found, wanted)| match wanted {
        b'd' => found.is_ascii_digit(),
        b'T' => matches!(found, b'T' | b't' | b' '),
        _ => found == wanted,
    });
    if !shape || (bytes[17], bytes[18]) > (b'6', b'0') {
        return None;
    }
    let (fraction, offset) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count()),
        None => ("0", rest),
    };
    if fraction.is_empty() || !is_offset(offset) {
        return None;
    }
    let nanoseconds = &fraction[..fraction.len().min(9)];
    let (date, time) = (&date_and_time[..10], &date_and_time[11..]);
    let offset = if matches!(offset, "Z" | "z" | "-00:00") { "+00:00" } else { offset };
    format!("{date}T{time}.{nanoseconds}{offset}").parse().ok()
}

fn is_offset(text: &str) -> bool {
    let [sign, hour_tens, hour_ones, colon, minute_tens, minute_ones] = text.as_bytes() else {
        return matches!(text, "Z" | "z");
    };
    matches!(sign, b'+' | b'-')
        && matches!((hour_tens, hour_ones), (b'0' | b'1', b'0'..=b'9') | (b'2', b'0'..=b'3'))
        && *colon == b':'
        && matches!((minute_tens, minute_ones), (b'0'..=b'5', b'0'..=b'9'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_rfc_3339_section_5_8() {
        // Milliseconds since 1970, computed from the calendar and not by this code.
        for (text, expected) in [
            ("1985-04-12T23:20:50.52Z", 482_196_050_520),
            ("1996-12-19T16:39:57-08:00", 851_042_397_000),
            ("1937-01-01T12:00:27.87+00:20", -1_041_337_172_130),
            ("1990-12-31T23:59:60Z", 662_687_999_000),
            ("1990-12-31T15:59:60-08:00", 662_687_999_000),
        ] {
            assert_eq!(parse(text).map(Timestamp::as_millisecond), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_spellings_of_one_instant() {
        let expected = "2023-10-27T10:25:40.123456789Z".parse().ok();
        for text in [
            "2023-10-27t10:25:40.123456789z",
            "2023-10-27 10:25:40.123456789Z",
            "2023-10-27T12:25:40.1234567899999+02:00",
            "2023-10-27T10:25:40.123456789-00:00",
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_instant() {
        for text in [
            "",
            "2023-10-27",
            "2023-10-27T10:25:40",
            "2023-10-27T10:25Z",
            "2023-10-27T10:25:40.Z",
            "2023-10-27T10:25:40,5Z",
            "2023-10-27T10:25:61Z",
            "2023-10-27T24:00:00Z",
            "2023-02-29T10:25:40Z",
            "2023-13-01T10:25:40Z",
            "2023-10-27T10:25:40+24:00",
            "2023-10-27T10:25:40+02",
            "2023-10-27T10:25:40+0200",
            "2023-10-27T10:25:40Z[UTC]",
            "+002023-10-27T10:25:40Z",
            " 2023-10-27T10:25:40Z",
            "1698402340123",
            "2023-10-27T10:25:4é0Z",
            "9999-12-31T23:59:59-23:59",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
