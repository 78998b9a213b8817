//! What the scripts of `tests/services` say of a service that does not come up.

use std::path::Path;
use std::process::{Command, Output};

/// Runs commands of the shell after `lib.sh`, with the state of a service that belongs to this test alone.
fn shell(commands: &str) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/services/lib.sh");
    Command::new("bash")
        .args(["-euc", &format!("service=broken; port=1; . \"$0\"; mkdir -p \"$directory\"; {commands}")])
        .arg(library)
        .env("FRESHET_SERVICES", directory.path())
        .env("FRESHET_SERVICES_PATIENCE_SECS", "60")
        .output()
        .unwrap()
}

#[test]
fn a_process_that_died_before_its_start_was_recorded_does_not_run() {
    // No process has a number above the kernel's largest, 4194304.
    let output =
        shell(r#"echo "4194305 " >"$directory/pid"; running "$directory/pid" && echo running || echo ended"#);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ended\n");
}

#[test]
fn a_service_that_ends_at_once_is_reported_with_the_end_of_its_log() {
    let begun = std::time::Instant::now();
    let output = shell(
        r#"launch "$directory/pid" "$directory/log" sh -c "echo it cannot work; exit 1"
        wait_until_ready "$directory/pid" "$directory/log" false"#,
    );
    assert_eq!(output.status.code(), Some(1));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(
        words.starts_with("it cannot work\n") && words.contains("ended before it became ready"),
        "{words}"
    );
    assert!(begun.elapsed().as_secs() < 30, "it did not wait for its patience to end");
}
