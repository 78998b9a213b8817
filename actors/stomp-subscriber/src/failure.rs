//! Why a connection ended, by class. Each class has a stable code and is a state that is left by trying again.

use std::io;

use crate::frame::FrameError;

/// Why there is no session with the broker.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Failure {
    /// The class.
    pub class: FailureClass,
    /// The reason in a sentence: what the broker or the operating system said. No secrets, no message contents.
    pub reason: String,
}

/// The classes of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureClass {
    /// Nothing listens at the address.
    ConnectionRefused,
    /// The connection did not open in time.
    ConnectTimedOut,
    /// The host's name has no address.
    HostUnknown,
    /// Another error of the network.
    NetworkFailed,
    /// TLS could not be agreed: an unknown authority, another name, no TLS at all.
    TlsFailed,
    /// The broker did not answer the handshake in time.
    HandshakeTimedOut,
    /// Wrong user, password, right or virtual host.
    LoginRefused,
    /// Another connection has our client id.
    ClientIdInUse,
    /// The broker does not speak STOMP 1.2.
    VersionUnsupported,
    /// The broker does not accept the destination.
    DestinationRefused,
    /// The broker says that a frame was too large.
    FrameTooLarge,
    /// The broker said ERROR for another reason.
    BrokerError,
    /// The broker closed the connection.
    ConnectionClosed,
    /// Nothing came for longer than the broker promised: the connection is dead at its other end.
    HeartBeatMissed,
    /// The broker does not take what we send.
    WriteStalled,
    /// What came is no STOMP.
    FrameMalformed,
}

impl FailureClass {
    /// The stable machine code of the class.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::ConnectionRefused => "connection_refused",
            Self::ConnectTimedOut => "connect_timed_out",
            Self::HostUnknown => "host_unknown",
            Self::NetworkFailed => "network_failed",
            Self::TlsFailed => "tls_failed",
            Self::HandshakeTimedOut => "handshake_timed_out",
            Self::LoginRefused => "login_refused",
            Self::ClientIdInUse => "client_id_in_use",
            Self::VersionUnsupported => "version_unsupported",
            Self::DestinationRefused => "destination_refused",
            Self::FrameTooLarge => "frame_too_large",
            Self::BrokerError => "broker_error",
            Self::ConnectionClosed => "connection_closed",
            Self::HeartBeatMissed => "heart_beat_missed",
            Self::WriteStalled => "write_stalled",
            Self::FrameMalformed => "frame_malformed",
        }
    }
}

/// How much of a broker's words is kept, in characters. ActiveMQ adds a stack trace.
const MAX_REASON_CHARACTERS: usize = 300;

impl Failure {
    /// A failure of this class.
    #[must_use]
    pub fn new(class: FailureClass, reason: impl Into<String>) -> Self {
        Self { class, reason: reason.into() }
    }

    /// Classifies an ERROR frame by the words of ActiveMQ Classic, Artemis and RabbitMQ: STOMP has no codes.
    #[must_use]
    pub fn from_error_frame(message: &str, detail: &str) -> Self {
        let words = format!("{message}\n{detail}").to_lowercase();
        let has = |parts: &[&str]| parts.iter().any(|part| words.contains(part));
        let class =
            if has(&["already connected", "invalidclientid", "client id is already", "clientid already"]) {
                FailureClass::ClientIdInUse
            } else if has(&["protocol version", "version mismatch", "supported versions"]) {
                FailureClass::VersionUnsupported
            } else if has(&["maximum frame size", "frame size limit", "frame is too large"]) {
                FailureClass::FrameTooLarge
            } else if has(&[
                "password is invalid",
                "bad connect",
                "access refused",
                "access denied",
                "not authorized",
                "securityexception",
                "security error",
                "unable to validate user",
            ]) {
                FailureClass::LoginRefused
            } else if has(&["unknown destination", "not a valid destination", "destination does not exist"]) {
                FailureClass::DestinationRefused
            } else {
                FailureClass::BrokerError
            };
        let first_line = detail.lines().next().unwrap_or_default();
        let said = match message {
            "" => first_line.to_owned(),
            _ if first_line.is_empty() || first_line.contains(message) => message.to_owned(),
            _ => format!("{message}: {first_line}"),
        };
        let said: String = said
            .chars()
            .map(|character| if character.is_control() { ' ' } else { character })
            .take(MAX_REASON_CHARACTERS)
            .collect();
        Self::new(class, format!("the broker says: {said}"))
    }

    /// Classifies an error of the operating system.
    #[must_use]
    pub fn from_io(error: &io::Error) -> Self {
        let class = match error.kind() {
            io::ErrorKind::ConnectionRefused => FailureClass::ConnectionRefused,
            io::ErrorKind::TimedOut => FailureClass::HeartBeatMissed,
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof => FailureClass::ConnectionClosed,
            io::ErrorKind::InvalidData => FailureClass::TlsFailed,
            _ => FailureClass::NetworkFailed,
        };
        Self::new(class, error.to_string())
    }
}

impl From<FrameError> for Failure {
    fn from(error: FrameError) -> Self {
        Self::new(FailureClass::FrameMalformed, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_operating_system_have_a_class() {
        let cases = [
            (io::ErrorKind::ConnectionRefused, "connection_refused"),
            (io::ErrorKind::ConnectionReset, "connection_closed"),
            (io::ErrorKind::BrokenPipe, "connection_closed"),
            (io::ErrorKind::UnexpectedEof, "connection_closed"),
            // What TCP_USER_TIMEOUT gives.
            (io::ErrorKind::TimedOut, "heart_beat_missed"),
            // What rustls gives.
            (io::ErrorKind::InvalidData, "tls_failed"),
            (io::ErrorKind::HostUnreachable, "network_failed"),
        ];
        for (kind, code) in cases {
            assert_eq!(Failure::from_io(&kind.into()).class.code(), code);
        }
    }

    #[test]
    fn words_of_artemis_have_a_class() {
        let cases = [
            ("Security Error occurred: User name [a] or password is invalid", FailureClass::LoginRefused),
            ("AMQ229031: Unable to validate user from /127.0.0.1:5", FailureClass::LoginRefused),
        ];
        for (message, class) in cases {
            assert_eq!(Failure::from_error_frame(message, "").class, class, "{message}");
        }
    }

    #[test]
    fn a_long_reason_is_cut_and_stays_on_one_line() {
        let failure = Failure::from_error_frame(&"x\u{7}".repeat(1000), "\tat java.lang.Thread\nsecond line");
        assert!(failure.reason.chars().count() < MAX_REASON_CHARACTERS + 30);
        assert!(!failure.reason.chars().any(char::is_control));
    }

    #[test]
    fn an_empty_error_still_has_a_reason() {
        let failure = Failure::from_error_frame("", "");
        assert_eq!(failure.class, FailureClass::BrokerError);
        assert!(!failure.reason.is_empty());
    }
}
