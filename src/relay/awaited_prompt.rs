//! The session's shell, for a call that waits until it can hand a command over, or type a text.

use crate::{
    relay::{
        Relay, foreground,
        prompt_wait::{Place, PromptShell, PromptWait, Shell, Verdict},
        requests::LOOKS_AGAIN,
    },
    session::{
        client::{
            PromptState, TerminalState,
            protocol::Response,
            snapshot::{Parts, Snapshot},
        },
        shell::Dialect,
    },
};

impl Relay {
    /// Looks at the shell, if it is time to, for the call that waits for it, and answers the call if it can.
    pub(super) fn await_shell(&mut self) {
        // What is taken back is not for the next call's command.
        if self.take_back.is_some() {
            return;
        }
        let before = self.prompt_wait.take();
        let Some((id, until)) = self.clients.awaits_shell() else { return };
        let (mut wait, seen) = match before {
            Some((client, wait, seen)) if client == id => (wait, Some(seen)),
            _ => (PromptWait::new(until), None),
        };
        let mut changes = self.recorder.changes();
        let has_changed = seen != Some(changes);
        if !wait.deadline(has_changed).has_passed() {
            self.prompt_wait = Some((id, wait, seen.unwrap_or(changes)));
            return;
        }
        let mut verdict = wait.look(self, has_changed);
        // A look takes time, in which the shell may have gone on.
        for _ in 0..LOOKS_AGAIN {
            self.read_what_was_printed();
            if self.recorder.changes() == changes {
                break;
            }
            self.answer_program();
            self.note_said();
            changes = self.recorder.changes();
            verdict = wait.look(self, true);
        }
        match verdict {
            None => self.prompt_wait = Some((id, wait, changes)),
            Some(verdict) => {
                self.found_free = (self.recorder.meaning().is_interrupted(), self.journal.total());
                let now = self.snapshot_of(verdict);
                self.clients.respond(id, &Response::Snapshot(Box::new(now)));
            }
        }
    }

    fn snapshot_of(&mut self, verdict: Verdict) -> Snapshot {
        let doing = match verdict {
            Verdict::Free { lines } => {
                return Snapshot { free: true, lines, ..self.snapshot(Parts::NONE) };
            }
            Verdict::Awake { had_lost } => {
                return Snapshot { free: !had_lost, ..self.snapshot(Parts::NONE) };
            }
            Verdict::Busy(doing) => doing,
        };
        let now = self.snapshot(Parts::SHELL.and(Parts::PROGRAM).and(Parts::KEYS));
        // The modes may have changed since it was seen to read keys.
        let lines = now.lines && doing != TerminalState::Raw;
        let now = Snapshot { doing, lines, ..now };
        // It may be at its prompt, while something keeps it from reporting that: the hooks are part of what
        // is handed over, and repair what is gone.
        let free = now.stalled.is_none()
            && now.seq.is_some()
            && now.shell_waits
            && now.successor.is_none()
            && (self.shows_prompt() || self.edits_unreported(&now));
        Snapshot { free, ..now }
    }

    /// Is it at a prompt that it has not marked? Its last command is over, and its editor is on; if it reads a
    /// line for a command all the same, zsh and fish know that, and take nothing. fish draws no prompt if that
    /// has been interrupted twice.
    fn edits_unreported(&self, now: &Snapshot) -> bool {
        now.level == 0
            && now.prompt == PromptState::Coming
            && match self.session.dialect(0) {
                Ok(Dialect::Zsh) => now.keys.as_ref().is_some_and(|modes| modes.bracketed_paste),
                Ok(Dialect::Fish) => now.doing == TerminalState::Raw,
                _ => false,
            }
    }
}

impl Shell for Relay {
    fn doing(&mut self) -> TerminalState {
        Relay::doing(self)
    }

    fn waits(&mut self) -> bool {
        self.shell_waits()
    }

    fn shows_prompt(&mut self) -> bool {
        self.session.ends_with_prompt(self.recorder.output_bytes()).unwrap_or(false)
    }

    fn interrupt(&mut self) {
        let length = self.recorder.output_bytes();
        self.read_what_was_printed();
        // Else it is not lost.
        if self.recorder.output_bytes() == length {
            Relay::interrupt(self);
        }
    }

    fn press(&mut self, keys: &'static [u8]) -> bool {
        let is_free = !self.has_text();
        if is_free {
            self.journal.begin();
            self.typed.put(keys);
        }
        is_free
    }
}

impl PromptShell for Relay {
    fn place(&mut self) -> Place {
        let (level, seq) = self.recorder.meaning().level();
        Place {
            prompt: self.recorder.prompt(),
            lines: Relay::takes_lines(self),
            level,
            // A file of the session that cannot be read says nothing of a key.
            dialect: self.session.dialect(level).unwrap_or(Dialect::Posix),
            counts: seq.is_some(),
            interrupted: self.recorder.meaning().is_interrupted(),
            queued: self.is_queued(),
            left_unbegun: self.has_left_unbegun(),
        }
    }

    fn takes_lines(&mut self) -> bool {
        Relay::takes_lines(self)
    }

    fn has_lost_interrupt(&mut self) -> bool {
        self.session.ends_with_lost_interrupt(self.recorder.output_bytes()).unwrap_or(false)
    }

    fn is_another(&mut self, doing: TerminalState) -> bool {
        let program = foreground::holder(&self.master, self.child, self.reporting());
        program.is_some_and(|program| {
            !program.is_shell && (doing == TerminalState::Running || program.shell.is_none())
        })
    }

    fn drop_line(&mut self) -> bool {
        let place = self.recorder.meaning().level();
        self.read_what_was_printed();
        let is_there = matches!(self.recorder.prompt(), PromptState::Touched | PromptState::Entered);
        let is_there = is_there && self.recorder.meaning().level() == place;
        if is_there {
            Relay::interrupt(self);
        }
        is_there
    }
}
