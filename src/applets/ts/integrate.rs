//! integrate - make `run` work in a nested shell
//! Task: Do, 4
//!
//! Usage: nbs-ts integrate [options] SESSION
//!
//! Teaches the shell in the foreground (another bash, su, sudo -s, ssh, a
//! container's or a chroot's) to report its commands as the outer shell does.
//! From then on, `run`, `wait --complete`, `wait-complete` and the state
//! `prompt` work in that shell. When it ends, they work in the outer shell
//! again.
//!
//! `integrate` types a line of POSIX sh (or of fish, in a local fish) and then,
//! without echo, the rest. It then clears that line, and keeps it out of the
//! history if the shell allows that (bash and fish; zsh with hist_ignore_space).
//! It types nothing into a secret prompt, or into a program that is visibly not a
//! shell. If it fails or is killed, the shell gets its prompt and its echo back. A
//! shell that already reports is left as it is. Integrate it again after `suspend`
//! and `fg`.
//!
//! Options:
//!   --timeout=TIME    wait this long for the shell's answer (default: 5)
//!   --json            print an object: handle, shell (bash, zsh, fish or posix),
//!                     and new: true if it did not report before
//!
//! Exit codes:
//!   0                 the shell reports
//!   1                 it does not, or did not answer in time
//!   2                 no such session
//!   4                 bad arguments
//!
//! Example:
//!   nbs-ts integrate "$h" && nbs-ts run "$h" 'uname -n'

use std::time::Duration;

use crate::{
    call::CommandLine,
    cli,
    json::Object,
    outcome::{Failure, Result, Trying},
    session::{
        SessionDir, StateDir,
        client::{
            Diagnosis, Looks, Parts, PromptState, RelayClient, Snapshot, TerminalState, WaitOutcome,
            job::{self, Handed, Job},
            sending,
        },
        shell::{
            Dialect,
            inner::{self, Drawn},
        },
    },
    sys::{deadline::Deadline, random},
    terminal::text,
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let (target, timeout) = (call.session()?, call.value("timeout", cli::time)?);

    let deadline = Deadline::after(timeout);
    let session = StateDir::open()?.session(&target)?.within(deadline);
    session.check_input()?;
    let (shell, is_new) = Integration::begin(&session, deadline, timeout)?.finish()?;
    let object = Object::new().text("handle", session.handle().as_str());
    call.print_json(object.text("shell", shell.word()).truth("new", is_new))
}

/// How long a prompt may take to be drawn.
const DRAWING: Duration = Duration::from_secs(2);

struct Integration<'a> {
    session: &'a SessionDir,
    deadline: Deadline,
    timeout: Duration,
    // Has the turn: no run and no other integrate types meanwhile.
    turn: RelayClient,
    nonce: String,
    secret: String,
    // How far the log had come before anything was typed.
    offset: u64,
    // How many shells had reported by then.
    known: usize,
}

impl<'a> Integration<'a> {
    fn begin(session: &'a SessionDir, deadline: Deadline, timeout: Duration) -> Result<Integration<'a>> {
        let mut turn = RelayClient::open(session)?.ok_or_else(|| session.ended())?;
        if turn.take_turn(session, deadline, None)?.is_none() {
            return Err(refused(session, "timed out while other calls use it; nothing was typed"));
        }
        let what = "draw a secret";
        Ok(Integration {
            session,
            deadline,
            timeout,
            turn,
            nonce: random::hex::<4>().trying(what)?,
            secret: random::hex::<16>().trying(what)?,
            offset: 0,
            known: 0,
        })
    }

    /// The shell, and whether it did not report before.
    fn finish(mut self) -> Result<(Dialect, bool)> {
        let Some(dialect) = self.await_shell()? else { return Ok((self.reporting()?, false)) };
        if let Some(dialect) = self.teach(dialect)? {
            self.turn.note_told();
            return Ok((dialect, true));
        }
        let diagnosis = Diagnosis::gather(self.session, self.timeout);
        let failure = refused(self.session, &format!("no shell answered {diagnosis}"));
        // The relay takes back what was typed, and then gives the turn.
        drop(self.turn);
        if let Ok(Some(mut next)) = RelayClient::open(self.session) {
            // What can go wrong is not worse than why this has failed.
            let _ = next.take_turn(self.session, Deadline::after(job::STUBBORN), None);
        }
        Err(failure)
    }

    fn ended(&self) -> Failure {
        self.session.ended()
    }

    /// The dialect of the shell that has reported last.
    fn reporting(&mut self) -> Result<Dialect> {
        let level = self.turn.snapshot(Parts::NONE)?.ok_or_else(|| self.ended())?.level;
        self.session.dialect(level)
    }

    /// Waits until a program waits for input that is, or may be, a shell, or passes on input to one, and
    /// returns its dialect; `None`: it reports already. An error if that is not to be expected.
    fn await_shell(&mut self) -> Result<Option<Dialect>> {
        let mut looks = Looks::new();
        loop {
            let parts = Parts::TERMINAL.and(Parts::PROGRAM).and(Parts::SHELL);
            let mut now = self.turn.snapshot(parts)?.ok_or_else(|| self.ended())?;
            // A program that has replaced the shell (`exec`) has its process, and does not report.
            if let Some(program) = now.program.as_mut().filter(|_| now.successor.is_some()) {
                program.is_shell = false;
            }
            let why = match &now.program {
                _ if now.doing == TerminalState::Prompt && now.prompt == PromptState::Stands => {
                    return Ok(None);
                }
                _ if now.doing == TerminalState::Secret => {
                    return Err(self.asks_for_secret());
                }
                // It reads nothing yet, or the typed text is still on its way; or it reports already, and
                // will be seen to wait.
                Some(holder) if now.prompt == PromptState::Stands && holder.is_shell => {
                    format!("'{}' is in the foreground and does not read", holder.name)
                }
                Some(holder) if !holder.waits || holder.is_shell && !holder.leads_elsewhere => {
                    format!("'{}' is in the foreground, and no nested shell shows a prompt", holder.name)
                }
                Some(holder) if holder.leads_elsewhere => match self.prompt_elsewhere(&now)? {
                    true => return Ok(Some(Dialect::Posix)),
                    false => format!("'{}' is in the foreground and shows no prompt", holder.name),
                },
                Some(holder) => match holder.shell {
                    Some(dialect) => return Ok(Some(dialect)),
                    None => {
                        let why = format!(
                            "'{}' is in the foreground and is not a known shell; nothing was typed; try \
                             'nbs-ts ask'",
                            holder.name
                        );
                        return Err(refused(self.session, &why));
                    }
                },
                None => "no foreground program is known".to_owned(),
            };
            if self.deadline.has_passed() {
                let diagnosis = Diagnosis::of_output(self.session, 0, self.timeout);
                return Err(refused(self.session, &format!("{why}, {diagnosis}; nothing was typed")));
            }
            if !looks.wait(&mut self.turn, self.deadline)? {
                return Err(self.ended());
            }
        }
    }

    fn asks_for_secret(&self) -> Failure {
        refused(self.session, "it is at a secret prompt; nothing was typed; try 'nbs-ts send --secret-stdin'")
    }

    /// A program that passes on its input does not show what waits at the other end: does the last line look
    /// as if that could be a shell? A question for a password does not.
    fn prompt_elsewhere(&self, now: &Snapshot) -> Result<bool> {
        const LONGEST: u64 = 4096;
        let offset = now.offset;
        if now.modes.alternate() {
            return Err(refused(self.session, "a full-screen program uses the terminal; nothing was typed"));
        }
        let log = self.session.log()?;
        let tail = log.bytes(offset.saturating_sub(LONGEST), offset).trying("read the output")?;
        let line = tail.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        let shown = text::last_line_shown(line).unwrap_or_default().to_ascii_lowercase();
        let asks = ["password", "passphrase", "passcode", "pin", "code", "(yes/no", "[y/n", "(y/n"];
        let is_question = shown.trim_end().ends_with([':', '?', ')', ']']);
        if is_question && asks.iter().any(|word| shown.contains(word)) {
            return Err(self.asks_for_secret());
        }
        Ok(!shown.trim().is_empty())
    }

    /// `None` if it has not answered in time.
    fn teach(&mut self, dialect: Dialect) -> Result<Option<Dialect>> {
        self.known = self.session.levels()?.len().max(1);
        self.offset = self.turn.snapshot(Parts::NONE)?.ok_or_else(|| self.ended())?.offset;
        if !self.turn.hide(&self.secret)? {
            return Err(self.ended());
        }
        let job = Job { handed: Handed::Integration, place: self.offset, ..Job::default() };
        self.turn.note_job_with_next(&job);
        self.teach_in(dialect)
    }

    fn teach_in(&mut self, dialect: Dialect) -> Result<Option<Dialect>> {
        self.type_in(&inner::first_line(dialect, &self.nonce))?;
        let answer = inner::first_answer(&self.nonce);
        let Some(drawn) = self.await_output(|output| memchr::memmem::find(output, &answer))? else {
            return Ok(None);
        };
        let end = self.offset + drawn as u64;
        let drawn: Drawn = sending::drawn(self.session, &mut self.turn, self.offset, end)?;
        self.type_in(&inner::second_line(dialect, &self.nonce))?;
        let nonce = self.nonce.clone();
        let is_fish = |output: &[u8]| dialect != Dialect::Fish && inner::is_fish(output, &nonce);
        let told = self.await_output(|output| match inner::told(output, &nonce) {
            Some(told) => Some(Some(told)),
            None => is_fish(output).then_some(None),
        })?;
        let dialect = match told {
            Some(Some(dialect)) => dialect,
            Some(None) => {
                // Its `read` gets an empty line, if it has none yet.
                self.type_in(b"\r")?;
                self.nonce = random::hex::<4>().trying("draw a number")?;
                return self.teach_in(Dialect::Fish);
            }
            None => return Ok(None),
        };
        if !self.turn.announce(&self.secret, dialect)? {
            return Err(self.ended());
        }
        self.type_in(&inner::script(dialect, &self.secret, &self.nonce, &drawn))?;
        loop {
            let place = self.turn.snapshot(Parts::NONE)?.ok_or_else(|| self.ended())?;
            if place.level >= self.known && place.prompt == PromptState::Stands {
                self.await_drawn_prompt()?;
                // If its secret could not be written for lack of space, its marks would not be recognised.
                return Ok((self.session.levels()?.len() > place.level).then_some(dialect));
            }
            if !self.receive_more()? {
                return Ok(None);
            }
        }
    }

    /// The mark comes before the prompt: waits until the prompt is drawn completely, and its shell waits. It
    /// has answered, so a longer time is not a failure.
    fn await_drawn_prompt(&mut self) -> Result<()> {
        let until = self.deadline.min(Deadline::after(DRAWING));
        let log = self.session.log()?;
        let end = format!("\x1b]133;B;nbs={}.", self.secret);
        let offset = self.offset;
        let is_drawn = |now: &Snapshot| {
            let drawn = log.bytes(offset, now.offset).trying("read the output")?;
            let is_drawn = memchr::memmem::find(&drawn, end.as_bytes()).is_some();
            Ok(is_drawn && now.doing == TerminalState::Prompt)
        };
        let drawn = self.turn.await_view(Parts::INPUT, until, is_drawn)?;
        drawn.map(drop).ok_or_else(|| self.ended())
    }

    fn type_in(&mut self, bytes: &[u8]) -> Result<()> {
        self.turn.type_in(bytes, self.deadline)?.ok_or_else(|| self.ended())?;
        Ok(())
    }

    /// The text found in the output since the beginning; `None`: not in time.
    fn await_output<T>(&mut self, find: impl Fn(&[u8]) -> Option<T>) -> Result<Option<T>> {
        let log = self.session.log()?;
        loop {
            let length = log.length().trying("read the output")?;
            if let Some(found) = find(&log.bytes(self.offset, length).trying("read the output")?) {
                return Ok(Some(found));
            }
            if !self.receive_more()? {
                return Ok(None);
            }
        }
    }

    /// `false` if there was nothing in time; an error where the shell has ended.
    fn receive_more(&mut self) -> Result<bool> {
        let place = self.turn.snapshot(Parts::NONE)?.ok_or_else(|| self.ended())?;
        if place.level < self.known && place.prompt == PromptState::Stands {
            return Err(refused(self.session, "it has ended, and the outer shell is at its prompt"));
        }
        match self.turn.news_or(self.deadline, None)? {
            WaitOutcome::Changed => Ok(!self.deadline.has_passed()),
            WaitOutcome::Ended => Err(self.ended()),
            WaitOutcome::TimedOut => Ok(false),
        }
    }
}

fn refused(session: &SessionDir, why: &str) -> Failure {
    Failure::failed(format!("cannot integrate the shell in session '{}': {why}", session.handle()))
}
