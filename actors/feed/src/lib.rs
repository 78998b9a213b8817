//! The words that all rooms share: event, position, filter, dead letter, ports. No I/O.
