//! The scripts that Redis runs. Each is one step that nobody sees half done.

use std::sync::LazyLock;

use redis::Script;

/// A script with the name under which Redis remembers it.
pub(crate) struct ScriptText {
    pub(crate) text: String,
    pub(crate) script: Script,
}

/// What every script begins with: reading the head of the log.
const OPEN: &str = include_str!("lua/open.lua");

fn script(text: &str) -> ScriptText {
    let text = format!("{OPEN}\n{text}");
    ScriptText { script: Script::new(&text), text }
}

pub(crate) static APPEND: LazyLock<ScriptText> = LazyLock::new(|| script(include_str!("lua/append.lua")));
pub(crate) static BOUNDS: LazyLock<ScriptText> = LazyLock::new(|| script(include_str!("lua/bounds.lua")));
pub(crate) static LOCATE: LazyLock<ScriptText> = LazyLock::new(|| script(include_str!("lua/locate.lua")));
pub(crate) static NEWEST: LazyLock<ScriptText> = LazyLock::new(|| script(include_str!("lua/newest.lua")));
pub(crate) static VERIFY: LazyLock<ScriptText> = LazyLock::new(|| script(include_str!("lua/verify.lua")));
pub(crate) static TRIM: LazyLock<ScriptText> = LazyLock::new(|| script(include_str!("lua/trim.lua")));
