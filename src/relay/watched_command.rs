//! The session's shell, for the watch over a command that a call has delivered.

use crate::{
    relay::{
        Relay,
        clients::ClientId,
        command_watch::{CommandShell, CommandWatch},
        foreground,
    },
    session::{
        client::{PromptState, job::Job},
        shell::{CommandDelivery, Dialect},
    },
};

impl Relay {
    /// Watches this call's command, as of the time when the log had this length.
    pub(super) fn watch(&mut self, id: ClientId, job: &Job, seen: u64) {
        // A file of the session that cannot be read says nothing of a key.
        let dialect = self.session.dialect(job.level).unwrap_or(Dialect::Posix);
        let delivery = CommandDelivery::again_by(dialect, job.by, job.beginning);
        let has_begun = self.recorder.jobs().progress(id).is_some_and(|progress| progress.has_begun());
        self.command_watch = Some((id, CommandWatch::new(delivery, job.level, has_begun), seen));
    }

    /// Looks, if it is time to, at the shell of the command that is watched.
    pub(super) fn watch_command(&mut self) {
        let Some((id, mut watch, seen)) = self.command_watch.take() else { return };
        // Its call has left it, or knows its result.
        let Some(progress) = self.recorder.jobs().progress(id) else { return };
        let length = self.recorder.output_bytes();
        self.note_trouble(id, &mut watch);
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
        // The watch may have interrupted the delivery.
        self.note_trouble(id, &mut watch);
        self.command_watch = Some((id, watch, length));
    }

    /// Ends the watch over a command that could not be delivered.
    fn note_trouble(&self, id: ClientId, watch: &mut CommandWatch) {
        if let Some(trouble) = self.recorder.jobs().trouble(id).filter(|_| watch.trouble().is_none()) {
            watch.end(trouble);
        }
        if self.recorder.jobs().is_cut(id) {
            watch.note_cut();
        }
    }
}

impl CommandShell for Relay {
    fn is_stalled(&mut self) -> bool {
        self.recorder.stalled().is_some()
    }

    fn has_passed_over(&mut self, level: usize) -> bool {
        match level {
            // The command may be among the text that is still to be typed.
            _ if self.has_text() => false,
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
