//! What restarts cost the process. Its memory belongs to all tests of a binary, so this one is alone in its own.

#[allow(dead_code, reason = "this binary uses its own part of the stage")]
#[path = "stories/stage.rs"]
mod stage;

use freshet_kernel::{Backoff, SendError, SupervisorSpec, install_panic_hook, start};

use stage::*;

/// What this process holds in memory, in KiB (exact, unlike `VmRSS`), and its open files, where the system tells.
fn usage() -> Option<(u64, usize)> {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = rollup.lines().find(|line| line.starts_with("Rss:"))?;
    let resident_kib = line.split_whitespace().nth(1)?.parse().ok()?;
    Some((resident_kib, std::fs::read_dir("/proc/self/fd").ok()?.count()))
}

#[test]
fn ten_thousand_restarts_leave_no_memory_and_no_file_behind() {
    // The test runner would keep what ten thousand panics print.
    install_panic_hook();
    play(async {
        let diary = Diary::default();
        let child = Player::spec("clerk", "memory-restarts", &diary, Nature::QUIET).backoff(Backoff::NONE);
        let clerk = child.address();
        let _tree = start(SupervisorSpec::new("root").intensity(1_000_000, seconds(1)).child(child));
        let mut before = None;
        for round in 0..11_000 {
            if round == 1_000 {
                before = usage();
            }
            assert_eq!(clerk.send(Break).await, Err(SendError::Restarting));
            diary.read();
            // Restarts that are older than the period are forgotten.
            pass(seconds(1)).await;
        }
        assert_eq!(clerk.send(Add(1)).await, Ok(1));
        settle().await;
        if let (Some((memory_before, files_before)), Some((memory_after, files_after))) = (before, usage()) {
            // 52 bytes a restart; the value of the actor alone has more.
            assert!(memory_after < memory_before + 512, "{memory_before} KiB, then {memory_after} KiB");
            assert_eq!(files_after, files_before);
        }
    });
}
