//! What a client asks of the session, and what comes of it.
//!
//! Typing, turns and news are not here: they take more than one answer, and
//! `clients` keeps them.

use std::{io, time::Instant};

use crate::{
    relay::{Relay, clients::ClientId, flow::Flow, foreground},
    session::client::{
        Doing, Prompt,
        protocol::{KeyModes, Request, Response},
    },
    sys::pty::{self, Size},
};

impl Relay {
    pub(super) fn respond(&mut self, id: ClientId, request: Request) -> Response {
        match request {
            Request::State => Response::State { doing: self.doing(), stalled: self.recorder.stalled() },
            Request::Ending { cause } => {
                self.ending.begin(id, &cause);
                Response::Noted
            }
            Request::Done => {
                self.ending.note_done(id);
                Response::Noted
            }
            Request::Keeper => {
                // What it has said by now comes first: who is told a PID may
                // rely on its being the keeper's still.
                self.hear_keeper();
                let there = self.keeper.as_ref().filter(|keeper| !keeper.has_gone());
                Response::Keeper { pid: there.map(|keeper| keeper.pid) }
            }
            Request::Place => {
                let prompt = self.recorder.prompt();
                let (offset, last) = (self.recorder.output_bytes(), self.recorder.last_completion());
                let lines = self.master.modes().is_ok_and(|modes| modes.is_canonical());
                let (level, seq) = self.recorder.level();
                Response::Place { offset, last, prompt, lines, level, seq }
            }
            Request::Shell => {
                let inner = self.recorder.level().0 > 0;
                Response::Shell {
                    waits: match inner {
                        true => foreground::group_waits(&self.master, self.child, self.reporting()),
                        false => foreground::shell_waits(&self.master, self.child),
                    },
                    passes_on: foreground::passes_on(&self.master, self.child),
                    successor: match inner {
                        true => None,
                        false => foreground::successor(self.child, &self.session),
                    },
                }
            }
            Request::Holder => Response::Holder(foreground::holder(&self.master, self.child)),
            Request::Level { secret, dialect } => {
                self.recorder.await_level(secret, dialect);
                Response::Noted
            }
            Request::Hide { secret } => {
                let mark = format!("\x1b]133;H;nbs={secret}.0\x07");
                match self.slave.as_ref().map(|slave| pty::print_some(slave, mark.as_bytes())) {
                    Some(Ok(count)) if count == mark.len() => Response::Noted,
                    _ => Response::Refused { why: "its terminal takes nothing".into() },
                }
            }
            Request::Typing { since } => Response::Typing(self.journal.since(since)),
            Request::Look => {
                // First this: who reads it afterwards may not be seen to wait.
                let unread = self.unread();
                let doing = self.doing();
                // And last of all what it printed before it waited.
                self.read_what_was_printed();
                Response::Look { unread, doing, offset: self.recorder.output_bytes() }
            }
            Request::Signal { key } => {
                // A line that is interrupted before anything of it is executed goes
                // with what the shell, which may be slow, has not read of it.
                if matches!(self.recorder.prompt(), Prompt::Touched | Prompt::Entered) {
                    self.discard_typed();
                }
                match self.recorder.level() {
                    (0, _) => foreground::signal_foreground(&self.master, self.child, &[key.signal()]),
                    // Whom it is for may be another user's, or be on another machine: they get
                    // it from the terminal, as from a keyboard. Where it is full of what nobody
                    // reads, it is asked for again.
                    _ => drop(self.master.write(&[key.byte()])),
                }
                Response::Noted
            }
            Request::Modes => match self.key_modes() {
                Ok(modes) => Response::Modes(modes),
                Err(error) => Response::Refused { why: error.to_string() },
            },
            Request::Press { byte } => self.press(byte),
            Request::Secret { length } => {
                let secret = self.clients.take_secret(id, length);
                let seen = self.seen.take().is_some_and(|seen| seen == (id, self.recorder.output_bytes()));
                self.type_secret(&secret, seen)
            }
            Request::Folder => match foreground::folder(&self.master, self.child) {
                Ok(found) => Response::Folder { path: found.path, removed: found.removed },
                Err(error) => Response::Refused { why: error.to_string() },
            },
            Request::Synced => match self.recorder.sync_failure() {
                Some(why) => Response::Refused { why: why.to_owned() },
                None => Response::Noted,
            },
            Request::Untranslated { since } => {
                Response::Untranslated { ranges: self.recorder.untranslated(since) }
            }
            Request::Size => match self.master.size() {
                Ok(Size { cols, rows }) => Response::Size { cols, rows },
                Err(error) => Response::Refused { why: error.to_string() },
            },
            Request::Resize { cols, rows } => {
                self.views.note_resized(Size { cols, rows });
                self.resize(Size { cols, rows })
            }
            Request::View { cols, rows } => {
                self.views.show(id, Size { cols, rows }, self.master.size().ok());
                self.resize(Size { cols, rows })
            }
            Request::Rest => self.rest(),
            Request::Awaited => Response::Awaited { seq: self.awaited() },
            Request::Seen { offset } => {
                self.seen = Some((id, offset));
                Response::Noted
            }
            Request::Claim { seq } => {
                self.claimant = Some(id);
                self.recorder.claim(Some(seq));
                Response::Noted
            }
            Request::Private => Response::Private { modes: self.recorder.private().encode() },
            // Those they take care of themselves.
            Request::Follow { .. } | Request::Type { .. } | Request::Turn => Response::Unknown,
        }
    }

    /// How many typed bytes nobody has read.
    fn unread(&self) -> u64 {
        self.slave.as_ref().map_or(0, |slave| pty::unread(slave).unwrap_or(0))
    }

    fn read_what_was_printed(&mut self) {
        if self.recorder.is_idle() && !self.phase.terminal_is_closed() {
            // Where that fails, the loop's own read does and tells why.
            let _ = self.drain();
        }
    }

    /// What was typed ahead of a command that was being executed belongs to one after it.
    fn awaited(&self) -> Option<u64> {
        let awaited = self.awaited?;
        let Some(last) = self.recorder.last_completion() else { return Some(awaited) };
        let goes_on = self.unread() > 0 || matches!(self.recorder.prompt(), Prompt::Entered | Prompt::Left);
        Some(if goes_on { last.saturating_add(1) } else { awaited.max(last) })
    }

    fn rest(&mut self) -> Response {
        // In the order of a look.
        let unread = self.unread();
        let sample = foreground::sample(&self.master, self.child, self.reporting(), self.recorder.prompt());
        let passes_on = foreground::passes_on(&self.master, self.child);
        self.read_what_was_printed();
        let doing = if unread > 0 { Doing::Running } else { sample.doing };
        let has_timer = sample.has_timer();
        let rest = self.rest.note(sample, self.limits.silence(), Instant::now());
        Response::Rest { doing, rest, has_timer, passes_on, offset: self.recorder.output_bytes() }
    }

    fn doing(&self) -> Doing {
        foreground::doing(&self.master, self.child, self.reporting(), self.recorder.prompt())
    }

    /// The group that has the foreground while the prompt of the shell that reports stands.
    fn reporting(&self) -> i32 {
        match self.recorder.level() {
            (0, _) => i32::try_from(self.child).unwrap_or_default(),
            _ => self.inner_group.unwrap_or_default(),
        }
    }

    fn resize(&mut self, size: Size) -> Response {
        match self.master.resize(size) {
            Ok(()) => {
                self.note_size();
                Response::Noted
            }
            Err(error) => Response::Refused { why: error.to_string() },
        }
    }

    fn key_modes(&self) -> io::Result<KeyModes> {
        let (modes, private) = (self.master.modes()?, self.recorder.private());
        Ok(KeyModes {
            application_cursor: private.has(1),
            bracketed_paste: private.has(2004),
            secret: modes.hide_line(),
            end_of_input: modes.end_of_input(),
            signals: modes.signals().into_iter().map(|(byte, _)| byte).collect(),
        })
    }

    /// A key that is a signal acts at once, as on a terminal whose program has
    /// read all before it. What was typed ahead is discarded, as a terminal
    /// does, and so is the rest of what we were typing: half a command must not
    /// come to a shell that has its prompt back. What nobody has begun to type
    /// is not, for it is whole.
    fn press(&mut self, byte: u8) -> Response {
        let Ok(modes) = self.master.modes() else { return Response::Unknown };
        let Some((_, signal)) = modes.signals().into_iter().find(|(each, _)| *each == byte) else {
            return Response::Refused { why: "it is no signal now".into() };
        };
        if modes.discard_at_signal() {
            self.discard_typed();
            self.typed = Flow::new();
            self.keyboard.release();
            self.clients.cut_typist();
        }
        if let (Some(slave), Some(shown)) = (&self.slave, modes.shown(byte)) {
            // Before the signal, so that it stands before what that causes.
            let _ = pty::print_some(slave, &shown);
        }
        foreground::signal_foreground(&self.master, self.child, &[signal]);
        Response::Noted
    }

    /// Discards what has been typed and nobody has read.
    fn discard_typed(&mut self) {
        if let Some(slave) = &self.slave {
            // What cannot be discarded is read after all, as if NOFLSH were set.
            let _ = self.master.discard_typed(slave);
            self.keyboard.note_discarded();
        }
    }

    /// Types a secret if a hidden line is asked for at this moment, or who gives it has `seen`
    /// that somebody asks for it elsewhere, and nothing else is to be typed before it.
    fn type_secret(&mut self, secret: &[u8], seen: bool) -> Response {
        let refused = |why: &str| Response::Refused { why: why.to_owned() };
        let Ok(modes) = self.master.modes() else { return refused("the terminal has gone") };
        let unread = self.slave.as_ref().is_none_or(|slave| pty::unread(slave).unwrap_or(0) > 0);
        let others = unread || self.wants_to_type();
        if let Err(why) = self.keyboard.takes_secret(secret, &modes, others, seen, Instant::now()) {
            return refused(why);
        }
        match self.master.write(secret) {
            Ok(count) => {
                self.keyboard.note_typed(&secret[..count], &modes, Instant::now());
                self.recorder.note_typed(&secret[..count]);
                self.limits.note_activity();
                Response::Typed { count: count as u64, held: false }
            }
            Err(error) => refused(&error.to_string()),
        }
    }
}
