//! What the operating system knows: the clock, limits, and the CPU time and memory of a process.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, SysconfVar, sysconf};

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

/// Memory of the running processes of a group, exact (`/proc/PID/status` may lag behind).
///
/// # Errors
/// When a process ends meanwhile or belongs to another user.
pub fn group_memory(group_id: u32) -> Result<Memory> {
    let mut sum = Memory::default();
    for process_id in processes_of_group(group_id)? {
        let path = format!("/proc/{process_id}/smaps_rollup");
        let text = fs::read_to_string(&path).with_context(|| path.clone())?;
        let memory = read_memory(&text).with_context(|| format!("{path} has no sizes"))?;
        sum.resident_kib += memory.resident_kib;
        sum.proportional_kib += memory.proportional_kib;
    }
    Ok(sum)
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

/// CPU seconds that the running processes of a group have used so far, in user and kernel mode, all threads, also
/// those that have ended. Exact to the nanosecond, unlike the clock ticks of `/proc/PID/stat`.
///
/// # Errors
/// When the group has no process.
pub fn group_cpu_seconds(group_id: u32) -> Result<f64> {
    processes_of_group(group_id)?.into_iter().map(cpu_seconds).sum()
}

/// The same of one process.
///
/// # Errors
/// When the process has ended.
pub fn cpu_seconds(process_id: u32) -> Result<f64> {
    let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(i32::try_from(process_id)?))
        .with_context(|| format!("process {process_id} has no clock"))?;
    Ok(Duration::from(clock_gettime(clock)?).as_secs_f64())
}

/// The running processes whose group this is: a server that was started as the leader of a group, and its workers.
fn processes_of_group(group_id: u32) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").context("/proc")? {
        let name = entry?.file_name();
        let Some(process_id) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        // One that has ended since the folder was read is none of ours: ours run.
        let Ok(stat) = fs::read_to_string(format!("/proc/{process_id}/stat")) else { continue };
        if read_group(&stat) == Some(group_id) {
            found.push(process_id);
        }
    }
    ensure!(!found.is_empty(), "the server has ended");
    Ok(found)
}

fn read_group(stat: &str) -> Option<u32> {
    // The second field is the name in parentheses and may hold anything, so count from its end: state, parent, group
    // (proc_pid_stat(5)).
    let (_, after_name) = stat.rsplit_once(") ")?;
    after_name.split(' ').nth(2)?.parse().ok()
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
    fn a_group_is_found_behind_a_name_full_of_traps() {
        assert_eq!(read_group("42 (a) b (c) S 1 41 40 0 -1"), Some(41));
        assert_eq!(read_group("42 (a) S 1"), None);
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
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        let group_id = read_group(&stat).unwrap();
        assert!(group_memory(group_id).unwrap().resident_kib > 0);
        assert!(group_cpu_seconds(group_id).unwrap() >= cpu_seconds(std::process::id()).unwrap() / 2.0);
        assert!(cpu_seconds(std::process::id()).unwrap() >= 0.0);
        assert!(monotonic_nanos().unwrap() >= before);
    }
}
