//! The session's terminal, for what the relay types to deliver a command, or to take lines back.

use std::{fs::File, io, io::Read};

use crate::{
    relay::{
        Relay,
        clients::ClientId,
        delivery::{self, Delivery},
        job::DeliveryEnd,
        take_back::{ECHO, Next, Seen, TakeBack},
    },
    session::{
        RUN_TEXT,
        client::{
            INTERRUPT, PromptState,
            job::{Handed, Job, STUBBORN, Trouble},
            protocol::Response,
            snapshot::Reads,
        },
        shell::{
            Beginning, DeliveredBy,
            inner::{self, Drawn},
        },
    },
    sys::{deadline::Deadline, pty::Size},
};

/// How much of a text is typed at once.
const PIECE: usize = 4 * 1024;

/// What a shell prints for a line that is typed is shorter.
const LONGEST_ECHO: u64 = 16 * 1024;

impl Relay {
    /// Delivers this call's command, by these keys, from now on also without the call.
    pub(super) fn deliver(&mut self, id: ClientId, keys: Vec<u8>) -> Response {
        let refused = |why: &str| Response::Refused { why: why.to_owned() };
        let Some(job) = self.recorder.jobs().job(id) else { return refused("there is no command") };
        if self.clients.turn() != Some(id) {
            return refused("another call has the session");
        }
        // Others may have typed since its shell was found to be free.
        let is_there = self.recorder.meaning().level() == (job.level, Some(job.last));
        let (was_interrupted, typed) = self.found_free;
        let is_interrupted = self.recorder.meaning().is_interrupted() && !was_interrupted;
        if !is_there || is_interrupted || typed != self.journal.total() {
            return Response::Stale;
        }
        let text = match job.by {
            DeliveredBy::Text => match self.text_of(&job) {
                Ok(text) => Some(text),
                Err(error) => return refused(&format!("its text: {error}")),
            },
            _ => None,
        };
        self.end_delivery(DeliveryEnd::Lost(Trouble::Cut));
        let length = self.recorder.output_bytes();
        let delivery = Delivery::new(job.by, keys, length);
        // Then nothing shows the typed text, nor that it ends.
        let is_hidden =
            job.beginning == Beginning::Line && self.master.modes().is_ok_and(|modes| modes.hide_line());
        let job = Job { handed: delivery.handed(is_hidden), ..job };
        let typed = self.journal.total();
        self.recorder.note_job(id, job, typed);
        self.recorder.jobs_mut().begin_delivery(id);
        self.delivery = Some((delivery, text));
        self.watch(id, &job, length);
        Response::Noted
    }

    /// The text that is typed for this command, which nobody sees.
    fn text_of(&self, job: &Job) -> io::Result<File> {
        let text = self.pending.folder.open_file(RUN_TEXT)?;
        self.pending.folder.remove_file(RUN_TEXT.as_ref())?;
        let secrets = self.session.secrets().unwrap_or_default();
        let secret = secrets.get(job.level).ok_or(io::ErrorKind::NotFound)?;
        match self.hide(secret) {
            Response::Noted => Ok(text),
            _ => Err(io::Error::other("the terminal accepts no input")),
        }
    }

    /// Does what is next to deliver the command.
    pub(super) fn go_on_delivering(&mut self) {
        while let Some((delivery, text)) = &mut self.delivery {
            let length = self.recorder.output_bytes();
            let Some((job, progress)) = self.recorder.jobs().delivered() else {
                // Its call does not want it any more.
                return self.drop_delivery(Trouble::Cut);
            };
            if progress.outer.is_some() || progress.is_done() {
                return self.end_delivery(DeliveryEnd::Cut);
            }
            match delivery.next(length, progress.reads.is_some()) {
                delivery::Next::Wait => return,
                delivery::Next::Look => {
                    let is_drawn = self.is_drawn(&job);
                    let length = self.recorder.output_bytes();
                    let Some((delivery, _)) = &mut self.delivery else { return };
                    let since = delivery.line().1;
                    if delivery.note_drawn(is_drawn, length) {
                        // It fills its row, and the editor has gone on in the next.
                        let is_full = length > since && self.recorder.log(length - 1..length) == b"\n";
                        let handed = if is_full { Handed::Printed } else { Handed::Next };
                        self.recorder.jobs_mut().note_delivered(handed, length);
                    }
                }
                delivery::Next::Piece => {
                    let mut piece = Vec::with_capacity(PIECE);
                    let more = text.as_ref().map(|text| text.take(PIECE as u64).read_to_end(&mut piece));
                    if let Some(Err(_)) = more {
                        return self.drop_delivery(Trouble::Untyped);
                    }
                    if delivery.is_first_piece() {
                        let since = delivery.line().1;
                        piece = [self.clearing(since, progress.reads.unwrap_or(length)), piece].concat();
                        self.recorder.jobs_mut().note_delivered(Handed::Next, job.place);
                    }
                    if let Some((delivery, _)) = &mut self.delivery {
                        delivery.go_on(piece);
                    }
                }
                delivery::Next::Done => return self.end_delivery(DeliveryEnd::Whole),
                delivery::Next::GiveUp => return self.drop_delivery(Trouble::Untyped),
            }
        }
    }

    /// What clears the line that makes the shell read a text, as it was drawn in this part of the log.
    fn clearing(&self, since: u64, reads: u64) -> Vec<u8> {
        let size = self.master.size().unwrap_or(Size { cols: self.size.cols, rows: self.size.rows });
        let echo = self.recorder.log(since..reads.min(since.saturating_add(LONGEST_ECHO)));
        let before = self.recorder.log(since.saturating_sub(Drawn::BEFORE)..since);
        inner::clearing(&Drawn::of(size, &before, &echo))
    }

    /// Has the shell drawn the line that is typed, so that it waits for the end of it?
    fn is_drawn(&mut self, job: &Job) -> bool {
        let Some((delivery, _)) = &self.delivery else { return false };
        let (length, (line, since)) = (self.recorder.output_bytes(), delivery.line());
        if job.level > 0 {
            let echo = self.recorder.log(since..length.min(since.saturating_add(LONGEST_ECHO)));
            if inner::shows(&echo, line) {
                return true;
            }
            // An editor may show only a part of it: then the kernel shows that it was read.
            if job.is_remote || length == since {
                return false;
            }
        }
        self.reads_input().is_some()
    }

    /// An interrupt has discarded what was typed and not read.
    pub(super) fn cut_delivery(&mut self) {
        if self.delivery.as_ref().is_some_and(|(delivery, _)| delivery.has_begun()) {
            self.interrupt_delivery(Trouble::Cut);
        }
        let level = self.recorder.meaning().level().0;
        if self.recorder.jobs_mut().note_discarded(level) {
            self.strays = Deadline::after(STUBBORN);
            let length = self.recorder.output_bytes();
            self.take_back.get_or_insert_with(|| TakeBack::after_interrupt(length));
        }
    }

    /// It is interrupted. A shell that reads the text, or is about to, mostly reports how that has ended.
    fn interrupt_delivery(&mut self, trouble: Trouble) {
        let is_read = self.delivery.as_ref().is_some_and(|(delivery, _)| delivery.is_read());
        self.end_delivery(if is_read { DeliveryEnd::Cut } else { DeliveryEnd::Lost(trouble) });
    }

    /// The call whose command may be being delivered has it interrupted.
    pub(super) fn interrupt_delivery_of(&mut self, id: ClientId) {
        if self.recorder.jobs().deliverer() != Some(id) {
            return;
        }
        match self.delivery.as_ref().is_some_and(|(delivery, _)| delivery.is_read()) {
            true => self.cut_delivery(),
            false => self.drop_delivery(Trouble::Interrupted),
        }
    }

    /// It will not be executed, and the shell must not keep what it has of it.
    fn drop_delivery(&mut self, trouble: Trouble) {
        let has_begun = self.delivery.as_ref().is_some_and(|(delivery, _)| delivery.has_begun());
        self.end_delivery(DeliveryEnd::Lost(trouble));
        if has_begun {
            self.interrupt();
        }
    }

    /// Nothing more of it is typed.
    pub(super) fn end_delivery(&mut self, end: DeliveryEnd) {
        if self.delivery.take().is_some() {
            let typed = self.journal.total();
            self.recorder.jobs_mut().end_delivery(end, typed);
        }
    }

    /// A shell may read a text that is not typed any more: the interrupt came too early for it.
    pub(super) fn end_stray_reading(&mut self) {
        let Some(since) = self.recorder.meaning_mut().take_reading() else { return };
        let is_stray = self.delivery.as_ref().is_none_or(|(delivery, _)| !delivery.is_read());
        if is_stray && !self.strays.has_passed() {
            self.take_back.get_or_insert_with(|| TakeBack::new(since, false));
        }
    }

    /// Leaves the commands of calls that have gone for others to resume, and takes back what one has typed to
    /// integrate a shell. Meanwhile nobody is given the turn.
    pub(super) fn leave_jobs(&mut self) {
        let typed = self.journal.total();
        let left = self.recorder.jobs_mut().note_left(|id| self.clients.is_there(id), typed);
        if let Some(job) = left.filter(|job| job.typed != typed) {
            self.take_back = Some(TakeBack::new(job.place, job.handed == Handed::Integrated));
        }
        if self.take_back.is_none() {
            self.clients.release_turn();
        }
    }

    /// Does what is next to take the lines of an `integrate` back that has left.
    pub(super) fn take_lines_back(&mut self) {
        let Some(mut take_back) = self.take_back.take_if(|take_back| take_back.deadline().has_passed())
        else {
            return;
        };
        let reads = self.reads_input().is_some_and(|reads| reads != Reads::Far);
        let since = take_back.since();
        let answers = take_back.has_answered() || {
            let typed = self.recorder.log(since..self.recorder.output_bytes().min(since + LONGEST_ECHO));
            memchr::memmem::find(&typed, inner::ANSWER).is_some()
        };
        let seen = Seen {
            answers,
            is_hidden: self.master.modes().is_ok_and(|modes| modes.hide_line()),
            reads,
            is_at_prompt: self.recorder.prompt() == PromptState::Stands,
            is_busy: self.has_text(),
        };
        match take_back.next(seen) {
            _ if !self.phase.command_runs() => {}
            Next::Done => {}
            Next::Wait => self.take_back = Some(take_back),
            Next::Interrupt { echo } => {
                let is_signal = matches!(self.press(INTERRUPT), Response::Noted);
                // On another machine, the terminal there makes a signal of it.
                let key: &[u8] = if is_signal { b"" } else { &[INTERRUPT] };
                self.journal.begin();
                self.typed.put(&[key, if echo { ECHO } else { b"" }].concat());
                self.take_back = Some(take_back);
            }
        }
        if self.take_back.is_none() {
            self.clients.release_turn();
        }
    }
}
