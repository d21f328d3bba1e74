//! The session's shell, for the watch over a command that a call has delivered.

use crate::{
    relay::{
        Relay,
        clients::ClientId,
        command_watch::{CommandShell, CommandWatch},
        foreground,
    },
    session::{
        client::{
            PromptState,
            job::{Handed, Job},
        },
        shell::{Beginning, CommandDelivery, Dialect},
    },
};

impl Relay {
    /// Watches this call's command once it is delivered. Only the text for a nested shell comes later: the shell
    /// asks for it.
    pub(super) fn watch(&mut self, id: ClientId, job: &Job) {
        let is_delivered = match job.handed {
            Handed::Whole | Handed::Next | Handed::Printed => true,
            Handed::InPart => job.beginning == Beginning::Text,
            Handed::Queued | Handed::Asked | Handed::Foreign => false,
        };
        if is_delivered && self.command_watch.as_ref().is_none_or(|(other, ..)| *other != id) {
            self.begin_watch(id, job, self.recorder.output_bytes());
        }
    }

    /// Watches a command that another call has left.
    pub(super) fn watch_again(&mut self, id: ClientId, job: &Job) {
        self.begin_watch(id, job, job.place);
    }

    fn begin_watch(&mut self, id: ClientId, job: &Job, seen: u64) {
        let deliver = if job.by_key { CommandDelivery::by_key } else { CommandDelivery::typed };
        // A file of the session that cannot be read says nothing of a key.
        let delivery = deliver(self.session.dialect(job.level).unwrap_or(Dialect::Posix), job.beginning);
        let has_begun = self.recorder.jobs().progress(id).is_some_and(|progress| progress.has_begun());
        self.command_watch = Some((id, CommandWatch::new(delivery, job.level, has_begun), seen));
    }

    /// Looks, if it is time to, at the shell of the command that is watched.
    pub(super) fn watch_command(&mut self) {
        let Some((id, mut watch, seen)) = self.command_watch.take() else { return };
        // Its call has left it, or knows its result.
        let Some(progress) = self.recorder.jobs().progress(id) else { return };
        let length = self.recorder.output_bytes();
        if length != seen || watch.deadline().has_passed() {
            let mended = self.recorder.jobs().is_mended(id);
            if watch.look(self, &progress, length != seen, mended) {
                self.recorder.jobs_mut().note_again(id);
            }
        }
        if self.recorder.output_bytes() != length {
            self.answer_program();
            self.note_said();
        }
        self.command_watch = Some((id, watch, length));
    }
}

impl CommandShell for Relay {
    fn is_stalled(&mut self) -> bool {
        self.recorder.stalled().is_some()
    }

    fn has_passed_over(&mut self, level: usize) -> bool {
        match level {
            // The command may be among the text that is still to be typed.
            _ if !self.typed.is_empty() || self.clients.typist().is_some() => false,
            0 => self.unread() == 0 && self.shell_waits(),
            // Its time to another machine is unknown: its prompt shows that it arrived.
            _ => self.recorder.prompt() == PromptState::Stands,
        }
    }

    fn is_replaced(&mut self) -> bool {
        foreground::successor(self.child, &self.session).is_some()
    }

    fn edits(&mut self) -> bool {
        self.recorder.meaning().private().has(2004)
    }

    fn interrupt_command(&mut self, level: usize, seq: u64) -> Option<u64> {
        // Its echo comes after all that was printed before.
        self.read_what_was_printed();
        let at = self.recorder.output_bytes();
        (!self.has_ended(level, seq)).then(|| {
            Relay::interrupt(self);
            at
        })
    }
}
