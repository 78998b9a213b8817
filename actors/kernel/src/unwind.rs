//! Panics become values here.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook},
};

thread_local! {
    /// How many kernel catches are on this thread's stack.
    static CATCHING: Cell<u32> = const { Cell::new(0) };
    /// What the hook saw of the panic that is being unwound.
    static SEEN: RefCell<Option<String>> = const { RefCell::new(None) };
}

struct Catching;

impl Catching {
    fn enter() -> Self {
        CATCHING.with(|depth| depth.set(depth.get() + 1));
        Self
    }
}

impl Drop for Catching {
    fn drop(&mut self) {
        CATCHING.with(|depth| depth.set(depth.get() - 1));
    }
}

/// Runs `step`; a panic in it comes back as its message.
///
/// The caller promises not to use again what `step` may have left half-changed.
pub(crate) fn catch<T>(step: impl FnOnce() -> T) -> Result<T, String> {
    let catching = Catching::enter();
    let result = catch_unwind(AssertUnwindSafe(step));
    drop(catching);
    result.map_err(|payload| {
        let seen = SEEN.with(|seen| seen.borrow_mut().take());
        let text = seen.unwrap_or_else(|| message(payload.as_ref()));
        // A payload may have a drop of its own that panics.
        let _ = catch_unwind(AssertUnwindSafe(move || drop(payload)));
        text
    })
}

fn message(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "panic with a payload that is no text".to_owned()
    }
}

/// Makes panics that the kernel catches silent on standard error and adds their place in the source to the exit
/// reason, so that each is reported once, in the log of its supervisor. All other panics go to the hook that was
/// there before. Call it once, when the process starts.
pub fn install_panic_hook() {
    let previous = take_hook();
    set_hook(Box::new(move |info| {
        let caught = CATCHING.try_with(Cell::get).is_ok_and(|depth| depth > 0);
        if !caught {
            previous(info);
            return;
        }
        let place = info
            .location()
            .map(|location| format!(" at {}:{}", location.file(), location.line()))
            .unwrap_or_default();
        let text = info.payload_as_str().unwrap_or("panic with a payload that is no text");
        let _ = SEEN.try_with(|seen| *seen.borrow_mut() = Some(format!("{text}{place}")));
    }));
}
