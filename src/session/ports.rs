//! The TCP ports that a session's processes listen on.

use crate::{
    session::{KEEPER, RELAY, SessionDir},
    sys::{
        ports::Listening,
        processes::{self, Process},
    },
};

impl SessionDir {
    /// The ports of its processes, except those of sessions in it; empty if it has ended.
    pub(crate) fn ports(&self, listening: &Listening) -> Vec<u16> {
        let Ok(Some((relay, _held))) = self.hold_relay() else { return Vec::new() };
        // Orphans belong to the keeper, if there is one, or else to the relay.
        let child = self.pid();
        let keeper = child.and_then(Process::read).and_then(|child| Process::read(child.parent));
        let keeper = keeper.filter(|parent| parent.name == KEEPER).map(|parent| parent.pid);
        let roots: Vec<u32> = [Some(relay), child, keeper].into_iter().flatten().collect();
        let is_anothers = |process: &Process| [RELAY, KEEPER].contains(&&*process.name);
        let belongs = |process: &Process| roots.contains(&process.pid) || !is_anothers(process);
        listening.of(processes::family(&roots, belongs))
    }
}
