//! Why a session was ended by the daemon: one catalogue for all transports.

/// Codes below 4500 mean "reconnect, and resume where you stood"; from 4500 on, "do not reconnect". 1012
/// and 1013 are the WebSocket registry's codes for a service restart and for "try again later"; 4000 to 4999 is its range
/// for applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseCode {
    /// 1012 `shutting_down`: this instance is stopping; reconnect after the `retry` time.
    ShuttingDown,
    /// 1013 `too_many_sessions`: as many clients are connected as may be; reconnect later.
    TooManySessions,
    /// 4001 `outbox_full`: the client read slower than events came; reconnect and resume.
    OutboxFull,
    /// 4002 `store_unavailable`: what the client missed cannot be read now; reconnect later.
    StoreUnavailable,
    /// 4003 `internal_error`: the session failed by a fault of the daemon; reconnect and resume.
    InternalError,
    /// 4004 `rate_exceeded`: the client sent too many messages; reconnect later, and send fewer.
    RateExceeded,
    /// 4501 `token_expired`: the client's token has ended; connect with a new one.
    TokenExpired,
    /// 4502 `disconnected_by_administrator`: an administrator ended the session.
    Disconnected,
}

impl CloseCode {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::ShuttingDown,
        Self::TooManySessions,
        Self::OutboxFull,
        Self::StoreUnavailable,
        Self::InternalError,
        Self::RateExceeded,
        Self::TokenExpired,
        Self::Disconnected,
    ];

    /// Its number on the wire.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Self::ShuttingDown => 1012,
            Self::TooManySessions => 1013,
            Self::OutboxFull => 4001,
            Self::StoreUnavailable => 4002,
            Self::InternalError => 4003,
            Self::RateExceeded => 4004,
            Self::TokenExpired => 4501,
            Self::Disconnected => 4502,
        }
    }

    /// Its stable name, the `reason` on the wire and the label of metrics.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::ShuttingDown => "shutting_down",
            Self::TooManySessions => "too_many_sessions",
            Self::OutboxFull => "outbox_full",
            Self::StoreUnavailable => "store_unavailable",
            Self::InternalError => "internal_error",
            Self::RateExceeded => "rate_exceeded",
            Self::TokenExpired => "token_expired",
            Self::Disconnected => "disconnected_by_administrator",
        }
    }

    /// Whether the client should come back.
    #[must_use]
    pub fn reconnects(self) -> bool {
        self.number() < 4500
    }

    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_unique_and_indexes_follow_the_list() {
        for (index, code) in CloseCode::ALL.into_iter().enumerate() {
            assert_eq!(code.index(), index);
            for other in &CloseCode::ALL[..index] {
                assert!(other.number() < code.number());
                assert_ne!(other.reason(), code.reason());
            }
            assert_eq!(code.reconnects(), !matches!(code, CloseCode::TokenExpired | CloseCode::Disconnected));
        }
    }
}
