//! What the operating system knows: the clock, limits, and the CPU time and memory of a process.

use std::fs;

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{SysconfVar, sysconf};

/// The system's monotonic clock, in nanoseconds. All processes read the same one, unlike [`std::time::Instant`],
/// whose value cannot be passed on.
///
/// # Errors
/// When the system has no such clock.
pub fn monotonic_nanos() -> Result<u64> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).context("the monotonic clock cannot be read")?;
    let seconds = u64::try_from(now.tv_sec())?;
    let nanos = u64::try_from(now.tv_nsec())?;
    Ok(seconds * 1_000_000_000 + nanos)
}

/// Raises this process's limit of open files as far as it may, for itself and the processes that it starts, and
/// returns it.
///
/// # Errors
/// When fewer than `wanted` files may be open.
pub fn raise_open_files(wanted: usize) -> Result<u64> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    ensure!(hard >= wanted as u64, "{wanted} open files are needed, {hard} are allowed");
    Ok(hard)
}

/// Memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident set, in KiB.
    pub resident_kib: u64,
    /// Its proportional share of what it shares with others, in KiB.
    pub proportional_kib: u64,
}

/// Memory of a running process, exact (`/proc/PID/status` may lag behind).
///
/// # Errors
/// When the process has ended or belongs to another user.
pub fn memory(process_id: u32) -> Result<Memory> {
    let path = format!("/proc/{process_id}/smaps_rollup");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    read_memory(&text).with_context(|| format!("{path} has no sizes"))
}

fn read_memory(smaps_rollup: &str) -> Option<Memory> {
    let size = |name: &str| {
        let line = smaps_rollup.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    Some(Memory { resident_kib: size("Rss:")?, proportional_kib: size("Pss:")? })
}

fn clock_ticks_per_second() -> Result<f64> {
    Ok(sysconf(SysconfVar::CLK_TCK)?.context("the length of a clock tick is unknown")? as f64)
}

/// CPU seconds that all processes of the machine have used so far, and those that other machines on the same
/// hardware took. Work in interrupts is left out, since it belongs to no process.
///
/// # Errors
/// When the system does not say.
pub fn machine_cpu_seconds() -> Result<f64> {
    let text = fs::read_to_string("/proc/stat").context("/proc/stat")?;
    let ticks = read_machine_ticks(&text).context("/proc/stat has no times")?;
    Ok(ticks as f64 / clock_ticks_per_second()?)
}

fn read_machine_ticks(stat: &str) -> Option<u64> {
    // user, nice, system, idle, iowait, irq, softirq, steal (proc_stat(5)).
    let all_cores = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = all_cores.split_whitespace().map_while(|field| field.parse().ok()).collect();
    Some(ticks.get(..3)?.iter().sum::<u64>() + ticks.get(7)?)
}

/// CPU seconds that a running process has used so far, in user and kernel mode, all threads, also those that
/// have ended. Its steps are clock ticks, usually 0.01 s.
///
/// # Errors
/// When the process has ended.
pub fn cpu_seconds(process_id: u32) -> Result<f64> {
    let path = format!("/proc/{process_id}/stat");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    let ticks = read_cpu_ticks(&text).with_context(|| format!("{path} has no times"))?;
    Ok(ticks as f64 / clock_ticks_per_second()?)
}

fn read_cpu_ticks(stat: &str) -> Option<u64> {
    // The second field is the name in parentheses and may hold anything, so count from its end: `utime` and
    // `stime` are fields 14 and 15 (proc_pid_stat(5)).
    let (_, after_name) = stat.rsplit_once(") ")?;
    let mut times = after_name.split(' ').skip(11);
    let user: u64 = times.next()?.parse().ok()?;
    let kernel: u64 = times.next()?.parse().ok()?;
    Some(user + kernel)
}

/// The machine in a line: cores, kernel, load average of the last minute, time.
#[must_use]
pub fn describe_machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let first_word = |path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace().next().unwrap_or("unknown").to_owned()
    };
    format!(
        "{cores} cores, Linux {}, load average {} at the start, {:.0}",
        first_word("/proc/sys/kernel/osrelease"),
        first_word("/proc/loadavg"),
        jiff::Timestamp::now()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_a_name_full_of_traps() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194304 100 0 0 0 250 75 9 9 20 0 3 0 1000 1 2";
        assert_eq!(read_cpu_ticks(stat), Some(325));
        assert_eq!(read_cpu_ticks("42 (a) S 1"), None);
    }

    #[test]
    fn time_of_processes_and_other_machines_is_time_of_the_machine() {
        let stat = "cpu  100 20 3 9000 800 70 60 5 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(read_machine_ticks(stat), Some(128));
        assert_eq!(read_machine_ticks("cpu  1 2 3\n"), None);
    }

    #[test]
    fn sizes_are_found_by_their_names() {
        let text = "5500-7ffc ---p 00000000 00:00 0 [rollup]\nRss:                1932 kB\nPss:                 240 kB\nPss_Dirty:            88 kB\n";
        assert_eq!(read_memory(text), Some(Memory { resident_kib: 1932, proportional_kib: 240 }));
        assert_eq!(read_memory(""), None);
    }

    #[test]
    fn this_process_has_memory_and_a_clock_that_does_not_go_back() {
        let before = monotonic_nanos().unwrap();
        assert!(memory(std::process::id()).unwrap().resident_kib > 0);
        assert!(cpu_seconds(std::process::id()).unwrap() >= 0.0);
        assert!(monotonic_nanos().unwrap() >= before);
    }
}
