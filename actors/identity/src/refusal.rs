//! What a client is told when it is refused.

/// What a client is told when its token or ticket is refused: its texts are for it, and say no more than what it should
/// do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// It was good and is over.
    #[error("the token or ticket has expired; come back with another")]
    Expired,
    /// It is not accepted.
    #[error("the token or ticket is not accepted")]
    Invalid,
    /// Nobody can be checked now.
    #[error("tokens and tickets cannot be checked now; try again later")]
    Unavailable,
    /// Its subject asked for too many tickets.
    #[error("too many tickets in a short time; try again later")]
    TooManyTickets,
}

impl Refusal {
    /// The stable machine code.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Expired => "token_expired",
            Self::Invalid => "token_invalid",
            Self::Unavailable => "identity_unavailable",
            Self::TooManyTickets => "too_many_tickets",
        }
    }

    /// The status of an HTTP answer (RFC 9110, section 15; RFC 6585, section 4).
    #[must_use]
    pub fn http_status(self) -> u16 {
        match self {
            Self::Expired | Self::Invalid => 401,
            Self::Unavailable => 503,
            Self::TooManyTickets => 429,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_what_to_do_and_not_what_was_wrong() {
        let all = [Refusal::Expired, Refusal::Invalid, Refusal::Unavailable, Refusal::TooManyTickets];
        let told = all.map(|refusal| (refusal.http_status(), refusal.code()));
        let expected = [
            (401, "token_expired"),
            (401, "token_invalid"),
            (503, "identity_unavailable"),
            (429, "too_many_tickets"),
        ];
        assert_eq!(told, expected);
    }
}
