//! The hard limits of other processes (prlimit(2)). We need two for each connection to one of our sockets, and
//! reading /proc/PID/limits takes twenty times as long.

use std::ptr;

use rustix::process::{Pid, Resource, getpid};

/// A number, or none (`Some(None)`). `None` if the process has gone, or we may not know it: its real, effective
/// and saved user and group must be ours, and if a filter of system calls confines us, it must be ourselves.
#[expect(unsafe_code, reason = "rustix 1.1 only gets the limit of another process by setting it")]
pub(crate) fn of(pid: u32, resource: Resource) -> Option<Option<u64>> {
    // 0 is a process of a PID namespace that we do not see, but prlimit(2) would take it for us.
    let pid = Pid::from_raw(pid as i32)?;
    let asked_of = if pid == getpid() { 0 } else { pid.as_raw_pid() };
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a null pointer sets no limit; the other is to a value that lives as long as the call.
    let asked = unsafe { libc::prlimit(asked_of, resource as _, ptr::null(), &raw mut limit) };
    (asked == 0).then(|| Some(limit.rlim_max).filter(|most| *most != libc::RLIM_INFINITY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::getrlimit;
    use std::process;

    #[test]
    fn a_limit_is_known_of_a_process_that_exists() {
        for resource in [Resource::Nofile, Resource::Rss] {
            assert_eq!(of(process::id(), resource), Some(getrlimit(resource).maximum));
        }
        assert_eq!(of(0, Resource::Nofile), None);
        // The kernel's highest PID is below that.
        assert_eq!(of(1 << 30, Resource::Nofile), None);
    }
}
