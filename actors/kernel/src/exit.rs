//! Why a child ended.

use serde::Serialize;

/// Why a child or a supervisor ended. Every end has exactly one reason, and one supervisor that decides what follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "message", rename_all = "snake_case")]
pub enum ExitReason {
    /// The child stopped because its work was done.
    Normal,
    /// Its supervisor asked it to stop, and it did so in time.
    Shutdown,
    /// The child stopped itself with an error, or its supervisor gave up (the text says why).
    Error(String),
    /// A panic was caught in its factory, in `started`, in a handler, a future, a stream, `stopping`, `stopped` or its drop.
    Panic(String),
    /// It did not stop in time and was dropped where it stood, or its thread went away.
    Killed,
    /// It made no progress for longer than its `stuck_after`.
    Stuck,
}

impl ExitReason {
    /// A stable word for logs and metrics: `normal`, `shutdown`, `error`, `panic`, `killed`, `stuck`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Shutdown => "shutdown",
            Self::Error(_) => "error",
            Self::Panic(_) => "panic",
            Self::Killed => "killed",
            Self::Stuck => "stuck",
        }
    }

    /// Whether a transient child with this reason stays down.
    pub fn is_orderly(&self) -> bool {
        matches!(self, Self::Normal | Self::Shutdown)
    }
}

impl std::fmt::Display for ExitReason {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Error(message) | Self::Panic(message) => {
                write!(formatter, "{}: {message}", self.code())
            }
            _ => formatter.write_str(self.code()),
        }
    }
}
