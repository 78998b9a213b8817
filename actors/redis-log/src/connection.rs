//! Connections: made, shared, and made anew when they break. Each call has its time limit.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::sentinel::{Sentinel, SentinelNodeConnectionInfo};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, RedisError, RedisResult, Script, ServerErrorKind, TlsMode,
    Value,
};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::Config;
use crate::address::Servers;
use crate::error::{Failure, wants_another_connection};

/// After a connection could not be made, callers get the same error for so long without another attempt: a Redis that
/// comes back is not met by a crowd.
const AFTER_FAILED_CONNECT: Duration = Duration::from_millis(100);

/// A connection that many calls may use at once.
#[derive(Clone)]
pub(crate) enum Connection {
    Direct(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Connection {
    pub(crate) async fn query(&mut self, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Direct(connection) => command.query_async(connection).await,
            Self::Cluster(connection) => command.query_async(connection).await,
        }
    }
}

#[derive(Default)]
struct Slot {
    connection: Option<Connection>,
    /// Counts connections, so that a call that failed forgets its own and not the one that took its place.
    generation: u64,
    failed: Option<(Instant, Failure)>,
}

/// A Redis as it is configured. Clones share a connection; it is made by the first call, and anew after it broke.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    servers: Servers,
    connect_timeout: Duration,
    call_timeout: Duration,
    slot: Mutex<Slot>,
}

impl Server {
    /// Takes the configuration without connecting.
    ///
    /// # Errors
    /// `redis_configuration` when the URL is none; [`Config::problems`] says more.
    pub fn new(config: &Config) -> Result<Self, Failure> {
        let servers: Servers = config
            .url
            .expose()
            .parse()
            .map_err(|error| Failure::new("redis_configuration", format!("redis.url {error}")))?;
        if servers.is_tls() {
            // Several providers may be linked, and then none is chosen by itself. One that is chosen already stays.
            let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        }
        Ok(Self {
            inner: Arc::new(Inner {
                servers,
                connect_timeout: Duration::from_millis(config.connect_timeout_millis),
                call_timeout: Duration::from_millis(config.call_timeout_millis),
                slot: Mutex::default(),
            }),
        })
    }

    /// The answer to a command that may be sent twice: when the connection breaks it is sent again on another one, within
    /// the same time limit.
    pub(crate) async fn call(&self, command: &Cmd) -> Result<Value, Failure> {
        self.call_raw(command).await?.map_err(|error| Failure::from(&error))
    }

    /// The answer of a script, whose effect does not change when it runs twice.
    pub(crate) async fn run(
        &self,
        script: &Script,
        text: &str,
        keys: &[String],
        arguments: &[Bytes],
    ) -> Result<Value, Failure> {
        match self.call_raw(&invocation("EVALSHA", script.get_hash(), keys, arguments)).await? {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                self.call(&invocation("EVAL", text, keys, arguments)).await
            }
            answer => answer.map_err(|error| Failure::from(&error)),
        }
    }

    /// The inner error is the server's or the connection's, the outer one that there is no connection, or no time.
    async fn call_raw(&self, command: &Cmd) -> Result<RedisResult<Value>, Failure> {
        let deadline = Instant::now() + self.inner.call_timeout;
        let mut is_repeated = false;
        loop {
            let (mut connection, generation) = timeout_at(deadline, self.connection())
                .await
                .unwrap_or_else(|_| Err(no_answer(self.inner.call_timeout)))?;
            let Ok(answer) = timeout_at(deadline, connection.query(command)).await else {
                self.forget(generation).await;
                return Err(no_answer(self.inner.call_timeout));
            };
            match answer {
                Err(error) if wants_another_connection(&error) => {
                    self.forget(generation).await;
                    if is_repeated {
                        return Ok(Err(error));
                    }
                    is_repeated = true;
                }
                answer => return Ok(answer),
            }
        }
    }

    async fn connection(&self) -> Result<(Connection, u64), Failure> {
        let mut slot = self.inner.slot.lock().await;
        if let Some(connection) = &slot.connection {
            return Ok((connection.clone(), slot.generation));
        }
        if let Some((when, failure)) = &slot.failed
            && when.elapsed() < AFTER_FAILED_CONNECT
        {
            return Err(failure.clone());
        }
        match self.connect(self.inner.call_timeout).await {
            Ok(connection) => {
                slot.generation += 1;
                slot.failed = None;
                slot.connection = Some(connection.clone());
                Ok((connection, slot.generation))
            }
            Err(failure) => {
                slot.failed = Some((Instant::now(), failure.clone()));
                Err(failure)
            }
        }
    }

    async fn forget(&self, generation: u64) {
        let mut slot = self.inner.slot.lock().await;
        if slot.generation == generation {
            slot.connection = None;
        }
    }

    /// How long one call may take.
    pub(crate) fn call_timeout(&self) -> Duration {
        self.inner.call_timeout
    }

    /// A connection of its own. Answers are awaited for `patience`, which callers bound more tightly.
    pub(crate) async fn connect(&self, patience: Duration) -> Result<Connection, Failure> {
        let limit = self.inner.connect_timeout;
        match tokio::time::timeout(limit, self.inner.servers.connect(limit, patience)).await {
            Ok(connected) => connected.map_err(|error| Failure::from(&error)),
            Err(_) => {
                Err(Failure::new("redis_timeout", format!("no connection within {} ms", limit.as_millis())))
            }
        }
    }
}

pub(crate) fn no_answer(limit: Duration) -> Failure {
    Failure::new("redis_timeout", format!("no answer within {} ms", limit.as_millis()))
}

fn invocation(verb: &str, script: &str, keys: &[String], arguments: &[Bytes]) -> Cmd {
    let mut command = redis::cmd(verb);
    command.arg(script).arg(keys.len()).arg(keys);
    for argument in arguments {
        command.arg(&argument[..]);
    }
    command
}

impl Servers {
    async fn connect(&self, limit: Duration, patience: Duration) -> RedisResult<Connection> {
        // The client's own limits are wider than ours, or it would end a blocking read.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(limit))
            .set_response_timeout(Some(patience));
        let client = match self {
            Self::Single(server) => Client::open((**server).clone())?,
            Self::Sentinels { sentinels, master, servers, is_tls } => {
                let mut login = SentinelNodeConnectionInfo::default()
                    .set_redis_connection_info(servers.redis_settings().clone())
                    .set_tcp_settings(servers.tcp_settings().clone());
                if *is_tls {
                    login = login.set_tls_mode(TlsMode::Secure);
                }
                Sentinel::build(sentinels.clone())?.async_master_for(master, Some(&login)).await?
            }
            Self::Cluster(servers) => {
                let mut builder = ClusterClientBuilder::new(servers.iter().cloned())
                    .connection_timeout(limit)
                    .response_timeout(patience)
                    .overall_response_timeout(Some(patience));
                if let Some(server) = servers.first() {
                    builder = builder.tcp_settings(server.tcp_settings().clone());
                }
                return Ok(Connection::Cluster(builder.build()?.get_async_connection().await?));
            }
        };
        client.get_multiplexed_async_connection_with_config(&config).await.map(Connection::Direct)
    }
}

/// The text of an answer.
pub(crate) fn text(value: Value) -> Result<String, Failure> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).map_err(|_| Failure::unexpected("no UTF-8")),
        Value::SimpleString(text) => Ok(text),
        _ => Err(Failure::unexpected("no text")),
    }
}

/// An answer that counts something.
pub(crate) fn count(value: &Value) -> Result<u64, Failure> {
    match value {
        Value::Int(number) => u64::try_from(*number).map_err(|_| Failure::unexpected("a negative number")),
        _ => Err(Failure::unexpected("no number")),
    }
}

/// The parts of an answer.
pub(crate) fn array(value: Value) -> Result<Vec<Value>, Failure> {
    match value {
        Value::Array(values) => Ok(values),
        Value::Nil => Ok(Vec::new()),
        _ => Err(Failure::unexpected("no array")),
    }
}

impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        Self::from(&error)
    }
}
