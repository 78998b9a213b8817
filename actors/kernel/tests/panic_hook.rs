//! The panic hook belongs to the whole process, so it has a test process of its own.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use freshet_kernel::{
    install_panic_hook,
    task::{self, TaskLost},
};

#[test]
fn caught_panics_are_silent_and_know_their_place_and_others_reach_the_earlier_hook() {
    let printed = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&printed);
    std::panic::set_hook(Box::new(move |_| {
        counter.fetch_add(1, SeqCst);
    }));
    install_panic_hook();

    let lost = actix_rt::System::new().block_on(async {
        task::spawn("hook", async {
            let broken = 7;
            panic!("broke {broken}");
        })
        .await
    });
    let Err::<(), _>(TaskLost::Panicked(text)) = lost else { panic!("{lost:?}") };
    assert!(text.starts_with("broke 7 at ") && text.contains("panic_hook.rs:"), "{text}");
    assert_eq!(printed.load(SeqCst), 0);

    assert!(std::panic::catch_unwind(|| panic!("nobody's")).is_err());
    assert_eq!(printed.load(SeqCst), 1);
}
