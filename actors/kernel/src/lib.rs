//! Supervision on actix: child specifications, restart policies, backoff, bounded mailboxes, shutdown order, statistics.
