//! The resources that a live session has used so far.

use super::{Members, Root, keeper_of};
use crate::{
    session::{SCREEN, SessionDir, TERMINATOR, Usage, client::RelayClient},
    sys::{
        cgroup::Cgroup,
        processes::{PidFd, Process},
    },
};

impl SessionDir {
    /// If the session has a cgroup, the kernel counts. Otherwise we add up what its processes have taken. That
    /// tells no memory: pages that several processes share would count more than once.
    pub(crate) fn usage(&self) -> Usage {
        let child = self.pid();
        if let Some(cgroup) = child.and_then(|child| Cgroup::of(self.handle().number(), child)) {
            let usage = Usage::of_cgroup(&cgroup);
            // Older kernels do not keep the peak.
            return Usage { processes: usage.processes.or_else(|| cgroup.number("pids.current")), ..usage };
        }
        self.usage_of_processes().unwrap_or_default()
    }

    /// `None` if we cannot find its processes.
    fn usage_of_processes(&self) -> Option<Usage> {
        let (pid, pidfd) = self.hold_relay().ok()??;
        let keeper = match self.was_made_by_helper() {
            true => Some(keeper_of(&mut RelayClient::open(self).ok()??, self.handle()).ok()??),
            false => None,
        };
        let members = Members {
            handle: self.handle().clone(),
            child: self.pid(),
            interactive: false,
            above: keeper.is_none(),
            relay: Some(Root { pid, pidfd }),
            keeper,
        };
        let is_ours = |process: &Process| [SCREEN, TERMINATOR].contains(&&*process.name);
        let mut usage = Usage { cpu: Some(0), memory_peak: None, processes: Some(0) };
        for process in members.now().ok()?.iter().filter(|process| !is_ours(process)) {
            usage.cpu = usage.cpu.map(|sum| sum + process.cpu_ms + process.collected_cpu_ms);
            usage.processes = usage.processes.map(|sum| sum + i64::from(process.threads));
        }
        // And those of its processes that have ended.
        let Root { pid, pidfd } = members.root()?;
        let root = Process::read(*pid)?;
        let is_there = PidFd::has_ended(pidfd).is_ok_and(|ended| !ended);
        usage.cpu = usage.cpu.map(|sum| sum + root.collected_cpu_ms);
        is_there.then_some(usage)
    }
}
