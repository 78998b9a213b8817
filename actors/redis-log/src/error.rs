//! What can go wrong with Redis, by class.

use freshet_feed::port::StoreError;
use redis::{ErrorKind, RedisError, ServerErrorKind};

/// The most of an error's text that is shown, in bytes.
const MAX_REASON_BYTES: usize = 200;

/// A call failed. Its text holds neither keys nor values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{class}: {reason}")]
pub struct Failure {
    /// The class: stable, in snake_case.
    pub class: &'static str,
    /// For people.
    pub reason: String,
}

impl Failure {
    pub(crate) fn new(class: &'static str, reason: impl Into<String>) -> Self {
        Self { class, reason: reason.into() }
    }

    /// The answer is not what the protocol or the script promises.
    pub(crate) fn unexpected(what: &str) -> Self {
        Self::new("redis_protocol", format!("unexpected answer: {what}"))
    }

    /// What is stored is not what was written.
    pub(crate) fn wrong_data(what: impl Into<String>) -> Self {
        Self::new("redis_wrong_data", what)
    }
}

impl From<&RedisError> for Failure {
    fn from(error: &RedisError) -> Self {
        let class = class(error);
        // A text about a value that could not be converted shows the value.
        let mut reason = match error.kind() {
            ErrorKind::Parse | ErrorKind::UnexpectedReturnType => error.category().to_owned(),
            _ => error.to_string(),
        };
        reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
        Self { class, reason }
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        Self::Unavailable(failure.to_string())
    }
}

/// The class of an error, stable and in snake_case.
///
/// | class | what it means |
/// |---|---|
/// | `redis_unreachable` | no connection, or it broke |
/// | `redis_timeout` | no answer in time |
/// | `redis_auth` | user, password or permissions are refused |
/// | `redis_readonly` | the server is a replica |
/// | `redis_no_master` | sentinels or replicas know of no master |
/// | `redis_no_replicas` | too few replicas to write |
/// | `redis_cluster_down` | the cluster does not serve our slot now |
/// | `redis_out_of_memory` | `maxmemory` is reached |
/// | `redis_disk` | Redis cannot write to its disk, and refuses writes |
/// | `redis_loading` | Redis reads its data from disk |
/// | `redis_busy` | a script of somebody runs too long |
/// | `redis_too_many_clients` | `maxclients` is reached |
/// | `redis_wrong_data` | a key holds what we did not write |
/// | `redis_configuration` | these settings cannot work |
/// | `redis_protocol` | no answer of a Redis |
/// | `redis_error` | anything else |
#[must_use]
pub fn class(error: &RedisError) -> &'static str {
    match error.kind() {
        ErrorKind::Io if error.is_timeout() => "redis_timeout",
        ErrorKind::Io => "redis_unreachable",
        ErrorKind::AuthenticationFailed | ErrorKind::Server(ServerErrorKind::NoPerm) => "redis_auth",
        ErrorKind::Server(ServerErrorKind::BusyLoading) => "redis_loading",
        ErrorKind::Server(ServerErrorKind::ReadOnly) => "redis_readonly",
        ErrorKind::Server(ServerErrorKind::MasterDown)
        | ErrorKind::MasterNameNotFoundBySentinel
        | ErrorKind::NoValidReplicasFoundBySentinel
        | ErrorKind::EmptySentinelList => "redis_no_master",
        ErrorKind::Server(
            ServerErrorKind::ClusterDown
            | ServerErrorKind::TryAgain
            | ServerErrorKind::Moved
            | ServerErrorKind::Ask,
        )
        | ErrorKind::ClusterConnectionNotFound => "redis_cluster_down",
        ErrorKind::InvalidClientConfig => "redis_configuration",
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType => "redis_protocol",
        _ => class_of_code(error.code().unwrap_or_default(), error.detail().unwrap_or_default()),
    }
}

/// The client has no kinds for these. Within a script, servers before version 7 say the code in the text.
fn class_of_code(code: &str, detail: &str) -> &'static str {
    let says = |word: &str| code == word || detail.contains(&format!("-{word} "));
    match code {
        "NOAUTH" | "WRONGPASS" => "redis_auth",
        "NOREPLICAS" => "redis_no_replicas",
        "BUSY" => "redis_busy",
        // A blocked read ends so when its server becomes a replica.
        "UNBLOCKED" => "redis_no_master",
        "WRONGTYPE" => "redis_wrong_data",
        _ if says("OOM") => "redis_out_of_memory",
        _ if says("MISCONF") => "redis_disk",
        _ if says("READONLY") => "redis_readonly",
        _ if says("WRONGTYPE") => "redis_wrong_data",
        _ if detail.contains("max number of clients") => "redis_too_many_clients",
        _ => "redis_error",
    }
}

/// Whether another connection, perhaps to another server, may do better.
pub(crate) fn wants_another_connection(error: &RedisError) -> bool {
    matches!(
        class(error),
        "redis_unreachable" | "redis_timeout" | "redis_readonly" | "redis_no_master" | "redis_protocol"
    )
}

#[cfg(test)]
mod tests {
    use std::io;

    use redis::Value;

    use super::*;

    /// The error that a client sees when a server answers this line.
    fn answered(line: &str) -> RedisError {
        match redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).map(Value::extract_error) {
            Ok(Err(error)) | Err(error) => error,
            Ok(Ok(value)) => panic!("{line} is no error but {value:?}"),
        }
    }

    /// The lines are those of redis 7.0.15, `src/server.c` and `src/script.c`.
    #[test]
    fn every_answer_has_a_class() {
        for (line, expected) in [
            ("NOAUTH Authentication required.", "redis_auth"),
            ("WRONGPASS invalid username-password pair or user is disabled.", "redis_auth"),
            ("NOPERM this user has no permissions to run the 'evalsha' command", "redis_auth"),
            ("LOADING Redis is loading the dataset in memory", "redis_loading"),
            ("READONLY You can't write against a read only replica.", "redis_readonly"),
            (
                "ERR Error running script (call to f_1): @user_script:1: -READONLY You can't write",
                "redis_readonly",
            ),
            ("OOM command not allowed when used memory > 'maxmemory'.", "redis_out_of_memory"),
            ("ERR Error running script: @user_script:1: -OOM command not allowed", "redis_out_of_memory"),
            ("MISCONF Errors writing to the AOF file: No space left on device", "redis_disk"),
            ("NOREPLICAS Not enough good replicas to write.", "redis_no_replicas"),
            (
                "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
                "redis_no_master",
            ),
            (
                "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
                "redis_no_master",
            ),
            ("CLUSTERDOWN The cluster is down", "redis_cluster_down"),
            ("TRYAGAIN Multiple keys request during rehashing of slot", "redis_cluster_down"),
            ("MOVED 3999 127.0.0.1:6381", "redis_cluster_down"),
            ("ASK 3999 127.0.0.1:6381", "redis_cluster_down"),
            (
                "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
                "redis_busy",
            ),
            ("ERR max number of clients reached", "redis_too_many_clients"),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", "redis_wrong_data"),
            ("ERR unknown command 'GETDEL'", "redis_error"),
        ] {
            assert_eq!(class(&answered(line)), expected, "{line}");
        }
    }

    #[test]
    fn every_failure_on_our_side_has_a_class() {
        let io = |kind: io::ErrorKind| RedisError::from(io::Error::from(kind));
        let ours = |kind: ErrorKind| RedisError::from((kind, "text"));
        for (error, expected) in [
            (io(io::ErrorKind::ConnectionRefused), "redis_unreachable"),
            (io(io::ErrorKind::BrokenPipe), "redis_unreachable"),
            (io(io::ErrorKind::TimedOut), "redis_timeout"),
            (ours(ErrorKind::AuthenticationFailed), "redis_auth"),
            (ours(ErrorKind::MasterNameNotFoundBySentinel), "redis_no_master"),
            (ours(ErrorKind::ClusterConnectionNotFound), "redis_cluster_down"),
            (ours(ErrorKind::InvalidClientConfig), "redis_configuration"),
            (ours(ErrorKind::Parse), "redis_protocol"),
            (ours(ErrorKind::UnexpectedReturnType), "redis_protocol"),
            (ours(ErrorKind::Client), "redis_error"),
        ] {
            assert_eq!(class(&error), expected, "{error}");
        }
    }

    #[test]
    fn the_store_says_the_class_and_no_value() {
        let parse = RedisError::from((ErrorKind::UnexpectedReturnType, "not a number", "hunter2".to_owned()));
        let failure = StoreError::from(Failure::from(&parse));
        assert_eq!(failure, StoreError::Unavailable("redis_protocol: type error".to_owned()));
        let long = answered(&format!("OOM {}", "é".repeat(500)));
        assert!(Failure::from(&long).reason.len() <= MAX_REASON_BYTES);
    }

    #[test]
    fn a_replica_and_a_broken_connection_are_left() {
        assert!(wants_another_connection(&answered("READONLY You can't write against a read only replica.")));
        assert!(wants_another_connection(&io::Error::from(io::ErrorKind::BrokenPipe).into()));
        assert!(!wants_another_connection(&answered("OOM command not allowed")));
    }
}
