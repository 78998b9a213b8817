//! Makes the events that are published.

use anyhow::{Result, ensure};

/// Appends one event as JSON on one line, of exactly `event_bytes` bytes.
///
/// Its number is at the end of `eventId` and makes `snapshotId` unique, since a server may drop a second event
/// of one snapshot. Unknown fields are kept by the contract, so `sentNanos` comes back to the clients.
///
/// # Errors
/// When the event does not fit into so few bytes.
pub fn write_event(
    output: &mut Vec<u8>,
    sequence: u64,
    sent_nanos: u64,
    timestamp: jiff::Timestamp,
    event_bytes: usize,
) -> Result<()> {
    let start = format!(
        "{{\"sentNanos\":\"{sent_nanos:020}\",\"eventId\":\"load-{sequence:012}\",\"eventTimestamp\":\"{timestamp:.3}\",\
         \"sourceApplication\":\"freshet-load\",\"tableIdentifier\":\"load.fan_out.orders\",\"eventType\":\"COMMIT_SUCCESS\",\
         \"payload\":{{\"operation\":\"append\",\"snapshotId\":{},\"summary\":{{\"added-data-files\":\"128\",\
         \"added-records\":\"15782093\"}},\"schemaChanged\":false,\"manifestList\":\"s3://warehouse/load/fan_out/orders/metadata/",
        8_000_000_000_000_000_000_u64.wrapping_add(sequence),
    );
    let end = ".avro\"}}";
    let filled = start.len() + end.len();
    ensure!(filled <= event_bytes, "an event takes at least {filled} bytes, {event_bytes} are wanted");
    output.extend_from_slice(start.as_bytes());
    output.resize(output.len() + event_bytes - filled, b'm');
    output.extend_from_slice(end.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_json_of_the_wanted_size_and_keeps_its_numbers() {
        for event_bytes in [600, 10_000] {
            let mut bytes = Vec::new();
            let timestamp = "2023-10-27T10:25:40.1239Z".parse().unwrap();
            write_event(&mut bytes, 42, u64::MAX, timestamp, event_bytes).unwrap();
            assert_eq!(bytes.len(), event_bytes);
            let event: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(event["eventId"], "load-000000000042");
            assert_eq!(event["sentNanos"], "18446744073709551615");
            assert_eq!(event["eventTimestamp"], "2023-10-27T10:25:40.123Z");
            assert_eq!(event["payload"]["snapshotId"], 8_000_000_000_000_000_042_u64);
        }
    }

    #[test]
    fn a_size_that_is_too_small_is_refused() {
        let timestamp = jiff::Timestamp::UNIX_EPOCH;
        assert!(write_event(&mut Vec::new(), 1, 1, timestamp, 100).is_err());
    }
}
