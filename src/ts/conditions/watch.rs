//! Watching sessions until a condition has come true.

use std::time::{Duration, Instant};

use crate::{
    numbers,
    outcome::{Failure, Reason, Result, Trying},
    session::{
        Activity, Because, Completion, OutputLog, Piece, ScreenCache, SessionDir, Verdict,
        client::{
            Diagnosis, RelayClient, TerminalState, WaitOutcome,
            input_history::InputHistory,
            snapshot::{Parts, Reads, Snapshot},
            waiting::{self, HELD, OVER, Waits},
        },
        shell::EchoFilter,
    },
    sys::{deadline::Deadline, poll::PollSet},
    terminal::text::{self, Finder},
    ts::{
        conditions::{Conditions, Met},
        output,
    },
};

/// How much of an unfinished line a regex is matched on.
const LONGEST_LINE: usize = 64 * 1024;

/// How much of the log is searched in one step: some milliseconds' work, or a few hundred for many
/// patterns.
const STEP: u64 = 128 * 1024;

/// More than a prompt is long, with its colours.
const LONGEST_PROMPT: u64 = 4096;

/// We poll: the kernel sends no event when a shell starts to read keys.
const LOOK_AHEAD: Duration = Duration::from_millis(10);

/// Replaces the exit code of a command that belongs to a `run`.
const UNTOLD: i32 = -1;

/// Output triggers a check; this interval is for a program that forwards no input any more.
const LOOK_ELSEWHERE: Duration = Duration::from_secs(1);

/// How often to check whether output can be written again, if there is no other event.
const LOOK_STALLED: Duration = Duration::from_secs(1);

/// A program that forwards input (ssh) counts as waiting after this long without output, even without
/// a prompt.
const STEADY_ELSEWHERE: Duration = Duration::from_secs(3);

/// If text was typed at a prompt, a program that waits without one must have done nothing else for
/// this long; this is also the interval of checks.
const STEADY_WITHOUT_PROMPT: Duration = Duration::from_millis(500);
const LOOK_FOR_PROMPT: Duration = Duration::from_millis(100);

/// How waiting for several ended.
pub(crate) enum WatchEnd {
    Met,
    /// This one ended, and its condition was not met.
    Ended(usize),
    TimedOut,
}

/// The beginning of a search.
#[derive(Clone, Copy, Default)]
pub(crate) struct WatchStart {
    /// The first byte to search; otherwise the output after the last typed input.
    pub(crate) offset: Option<u64>,
    /// The first completion that counts; else that of the last input, or the next.
    pub(crate) completion: Option<u64>,
}

/// Waiting on one session.
pub(crate) struct SessionWatch<'a> {
    session: &'a SessionDir,
    conditions: &'a Conditions,
    log: OutputLog,
    // On the first connection come changes and answers, on the second reports of activity. Each takes a
    // descriptor here and in the session, so there is only the one that the conditions need, or both. Both are
    // `None` once the session has ended.
    client: Option<RelayClient>,
    standing: Option<RelayClient>,
    // The length of the log at the last query for typed input, whose answer is still to come.
    asked: Option<u64>,
    stirred: bool,

    echo: EchoFilter,
    // The offset up to which the log was searched, and the one to reach.
    looked_at: u64,
    goal: u64,
    // How much of the input the echo filter knows, and where the last began.
    known: u64,
    typed_at: Option<u64>,
    patterns: Vec<(Finder, usize)>,
    fails: Vec<(Finder, usize)>,
    // The output as seen by a person: how many bytes precede the current line, and that line.
    before: u64,
    line: Vec<u8>,

    completion: u64,
    // It belongs to this call only.
    is_own: bool,
    // The exit code of a completion, once there is one, and how far the log had come then.
    done: Option<(u64, i32)>,
    // How long the log is, and since when.
    length: u64,
    changed: Instant,
    // The screen after all output, and the time of its last change; only if the wait needs it.
    cache: Option<(ScreenCache, Vec<String>, Instant)>,
    look_again: Deadline,
    // Its output cannot be written, so silence means nothing.
    is_stalled: bool,
    pause: Duration,
    pub(crate) met: Option<Met>,
    /// How many bytes were dropped before they could be searched.
    pub(crate) lost: u64,
}

/// The first queries to the relay of a session.
struct Beginning<'a> {
    session: &'a SessionDir,
    log: OutputLog,
    client: Option<RelayClient>,
    standing: Option<RelayClient>,
}

impl<'a> Beginning<'a> {
    fn ask(session: &'a SessionDir, conditions: &Conditions) -> Result<Beginning<'a>> {
        let log = session.log()?;
        let open = |is_needed| if is_needed { RelayClient::open(session) } else { Ok(None) };
        let mut client = open(!conditions.are_at_a_glance())?;
        let mut standing = open(conditions.is_of_standing())?.map(|standing| standing.of_standing(true));
        // If the session has ended, the answers show it.
        if let Some(client) = &mut client {
            client.ask_typing(Parts::NONE, 0)?;
        }
        if let Some(standing) = &mut standing {
            standing.follow()?;
        }
        Ok(Beginning { session, log, client: client.map(RelayClient::waiting), standing })
    }
}

/// Begins to wait on all of these. All relays are asked side by side.
pub(crate) fn begin_all<'a>(
    sessions: &'a [SessionDir],
    conditions: &'a Conditions,
    from: WatchStart,
) -> Result<Vec<SessionWatch<'a>>> {
    let asked: Vec<_> =
        sessions.iter().map(|session| Beginning::ask(session, conditions)).collect::<Result<_>>()?;
    asked.into_iter().map(|beginning| SessionWatch::receive(beginning, conditions, from)).collect()
}

impl<'a> SessionWatch<'a> {
    pub(crate) fn begin(
        session: &'a SessionDir,
        conditions: &'a Conditions,
        from: WatchStart,
    ) -> Result<SessionWatch<'a>> {
        SessionWatch::receive(Beginning::ask(session, conditions)?, conditions, from)
    }

    fn receive(
        beginning: Beginning<'a>,
        conditions: &'a Conditions,
        from: WatchStart,
    ) -> Result<SessionWatch<'a>> {
        let Beginning { session, log, mut client, mut standing } = beginning;
        let mut now = None;
        if let Some(client) = &mut client {
            now = client.receive_snapshot()?;
        } else if let Some(news) = &mut standing
            && news.news(Deadline::after(Duration::ZERO))? == WaitOutcome::Ended
        {
            standing = None;
        }
        let typing = now.as_mut().and_then(|now| now.typing.take());
        let awaited = now.as_ref().and_then(|now| now.awaited);
        let completion = from.completion.or(awaited).unwrap_or(match now {
            Some(Snapshot { last: Some(last), .. }) => last.saturating_add(1),
            Some(_) => session.first_completion()?,
            None => match session.begun_last() {
                Some(begun) => begun,
                None if session.is_interactive()? => u64::MAX,
                None => 0,
            },
        });
        let typing = typing.or_else(|| InputHistory::last_of(session));
        let cache = match conditions.stable {
            // The cached screen; the steps add the output since then.
            Some(_) => Some((ScreenCache::look_at(session, &log, 0)?, Vec::new(), Instant::now())),
            None => None,
        };
        let typed_at = typing.as_ref().filter(|typing| typing.total > 0).map(|typing| typing.anchor);
        let anchor = from.offset.or(typing.as_ref().map(|typing| typing.anchor)).unwrap_or(0);
        let (echo, start) = session.echo_from(&log, typing.as_ref(), anchor)?;
        let find = |patterns: &[Vec<u8>]| {
            patterns.iter().map(|pattern| (Finder::new(pattern, 0), pattern.len())).collect::<Vec<_>>()
        };
        Ok(SessionWatch {
            session,
            conditions,
            log,
            stirred: true,
            client,
            standing,
            asked: None,
            echo,
            looked_at: start,
            goal: start,
            known: typing.map_or(0, |typing| typing.total),
            typed_at,
            patterns: find(&conditions.patterns),
            fails: find(&conditions.fails),
            before: 0,
            line: Vec::new(),
            completion,
            is_own: from.completion.is_some(),
            done: None,
            length: 0,
            changed: Instant::now(),
            cache,
            look_again: Deadline::NEVER,
            is_stalled: false,
            pause: Duration::ZERO,
            met: None,
            lost: 0,
        })
    }

    fn what(&self) -> String {
        format!("wait in session '{}'", self.session.handle())
    }

    fn has_ended(&self) -> bool {
        self.client.is_none() && self.standing.is_none()
    }

    /// When to look again without an event.
    fn deadline(&self) -> Deadline {
        if self.is_stalled {
            return self.look_again;
        }
        let since =
            |changed: Instant, time: Duration| Deadline::after(time.saturating_sub(changed.elapsed()));
        let silent = self.conditions.idle.map(|idle| since(self.changed, idle));
        let cache = self.cache.as_ref().zip(self.conditions.stable);
        let stable = cache.map(|((_, _, changed), stable)| since(*changed, stable));
        self.look_again.min(silent.unwrap_or(Deadline::NEVER)).min(stable.unwrap_or(Deadline::NEVER))
    }

    fn follow(&mut self) -> Result<()> {
        if let Some(standing) = &mut self.standing
            && !standing.follow()?
        {
            self.renew_standing()?;
        }
        if let Some(client) = &mut self.client
            && !client.follow()?
        {
            self.note_end();
        }
        Ok(())
    }

    fn receive_news(&mut self) -> Result<()> {
        let news = |client: &mut Option<RelayClient>| match client {
            Some(client) => client.receive_news(Deadline::after(Duration::ZERO), None),
            None => Ok(WaitOutcome::TimedOut),
        };
        let (changes, activity) = (news(&mut self.client)?, news(&mut self.standing)?);
        self.stirred |= [changes, activity].contains(&WaitOutcome::Changed);
        if changes == WaitOutcome::Ended {
            self.note_end();
        } else if activity == WaitOutcome::Ended {
            self.renew_standing()?;
        }
        Ok(())
    }

    /// The end of the second connection is not that of the session if there is the first: a relay may also
    /// dismiss a call that was stopped.
    fn renew_standing(&mut self) -> Result<()> {
        match self.client {
            Some(_) => {
                self.standing = RelayClient::open(self.session)?.map(|standing| standing.of_standing(true));
                // So that the new connection is followed before we wait.
                self.stirred = true;
            }
            None => self.note_end(),
        }
        Ok(())
    }

    fn note_end(&mut self) {
        self.client = None;
        self.standing = None;
        self.stirred = true;
    }

    /// Is there more to search already?
    fn is_behind(&self) -> bool {
        self.looked_at < self.goal
    }

    /// Asks for one view of all that the conditions need, with the typed input; [`SessionWatch::look`] receives
    /// it. We read the length of the log first, so that we search no echo of input that we do not know.
    fn ask(&mut self) -> Result<()> {
        self.asked = Some(self.log.length().trying(self.what())?);
        if let Some(client) = &mut self.client {
            // If the session has ended, the answer shows it.
            client.ask_typing(self.conditions.parts(), self.known)?;
        }
        Ok(())
    }

    /// To be called after [`SessionWatch::ask`].
    fn look(&mut self) -> Result<()> {
        (self.stirred, self.is_stalled) = (false, false);
        let (length, ended) = (self.asked.take().unwrap_or(self.length), self.has_ended());
        let mut now = None;
        if let Some(client) = &mut self.client {
            now = client.receive_snapshot()?;
            if now.is_none() {
                // It has ended since we looked how long the log is.
                self.note_end();
                return Ok(());
            }
        }
        let typing = now.as_mut().and_then(|now| now.typing.take());
        let found = self.look_at_output(length, typing, ended)?;
        self.stirred |= self.is_behind();
        self.met = match found {
            // A match in the output counts before what follows it.
            None if !self.is_behind() => self.look_at_rest(now.as_ref())?,
            found => found,
        };
        Ok(())
    }

    fn met(&self, condition: &'static str, detail: impl Into<String>) -> Option<Met> {
        Some(Met { condition, detail: detail.into(), offset: self.looked_at })
    }

    /// Looks at the next step of it.
    fn look_at_output(
        &mut self,
        length: u64,
        typing: Option<InputHistory>,
        ended: bool,
    ) -> Result<Option<Met>> {
        if let Some(typing) = typing.or_else(|| known_after(InputHistory::last_of(self.session), self.known))
        {
            if typing.total > self.known {
                self.typed_at = Some(typing.anchor);
            }
            self.known = typing.total;
            self.echo.note_typed(typing.keys);
        }
        if length != self.length {
            self.length = length;
            self.changed = Instant::now();
            self.pause = Duration::ZERO;
        }
        // Once the command is done, the output after that does not count.
        self.goal = self.done.map_or(length, |(offset, _)| offset);
        if !self.conditions.seek_text() {
            self.looked_at = self.goal.max(self.looked_at);
            return Ok(None);
        }
        let mut seen = Vec::new();
        let end = self.goal.min(self.looked_at.saturating_add(STEP));
        let mut pieces = self.log.pieces(self.looked_at, end);
        while let Some(piece) = pieces.next().trying(self.what())? {
            match piece {
                Piece::Gap(gone) => {
                    self.echo.skip(gone, &mut seen);
                    self.lost += gone;
                }
                Piece::Bytes(block) => self.echo.feed(block, &mut seen),
            }
        }
        // The log may have been cut.
        self.looked_at = pieces.offset().max(end);
        if ended && !self.is_behind() {
            self.echo.finish(&mut seen);
        }
        Ok(self.find(&seen))
    }

    /// Has the output up to there been searched?
    fn has_seen(&mut self, offset: u64) -> bool {
        if !self.conditions.seek_text() {
            self.looked_at = offset.max(self.looked_at);
        }
        self.stirred |= self.looked_at < offset;
        self.looked_at >= offset
    }

    /// The match that ends first in these bytes and all before. If two end at the same place, the
    /// failure wins.
    fn find(&mut self, seen: &[u8]) -> Option<Met> {
        let mut first: Option<(u64, &'static str, Vec<u8>)> = None;
        let mut note = |end: u64, condition, text: &[u8]| {
            if first.as_ref().is_none_or(|(other, ..)| end < *other) {
                first = Some((end, condition, text.to_vec()));
            }
        };
        let kinds = [
            ("fail", &mut self.fails, &self.conditions.fails),
            ("pattern", &mut self.patterns, &self.conditions.patterns),
        ];
        for (condition, finders, texts) in kinds {
            for ((finder, length), text) in finders.iter_mut().zip(texts) {
                if let Some(start) = finder.feed(seen) {
                    note(start + *length as u64, condition, text);
                }
            }
        }
        if !self.conditions.regexes.is_empty() {
            for part in seen.split_inclusive(|byte| *byte == b'\n') {
                self.line.extend_from_slice(part);
                let ended = part.ends_with(b"\n");
                // We search an unfinished line as it is at the end.
                let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
                let line = String::from_utf8_lossy(line);
                for regex in &self.conditions.regexes {
                    if let Some(found) = regex.find(&line) {
                        note(self.before + found.end() as u64, "regex", found.as_str().as_bytes());
                    }
                }
                let surplus =
                    if ended { self.line.len() } else { self.line.len().saturating_sub(LONGEST_LINE) };
                self.line.drain(..surplus);
                self.before += surplus as u64;
            }
        }
        let (_, condition, text) = first?;
        self.met(condition, text::escaped(&text))
    }

    fn is_running(&mut self) -> Result<bool> {
        let doing = self.client.as_mut().map_or(Ok(None), RelayClient::doing)?;
        Ok(doing == Some(TerminalState::Running))
    }

    /// Was it a `run` or an `ask` that caused this completion?
    fn is_of_call(&self, seq: u64) -> bool {
        self.session.claims().is_ok_and(|claims| claims.contains(&seq))
    }

    /// `now` is `None` if the session has ended, or the relay reports the activity.
    fn look_at_rest(&mut self, now: Option<&Snapshot>) -> Result<Option<Met>> {
        if self.conditions.complete && self.done.is_none() {
            let (offset, may_be, awaited) = match now {
                Some(now) => (now.offset, now.last >= Some(self.completion), now.awaited),
                None => (self.length, true, None),
            };
            // All output of the command comes before that.
            let mut done = if may_be { self.session.completion_from(self.completion)? } else { None };
            if let Some(of_call) = done.filter(|done| !self.is_own && self.is_of_call(done.seq)) {
                done = match awaited.filter(|awaited| *awaited > of_call.seq) {
                    // The input typed behind it comes next.
                    Some(awaited) => {
                        self.completion = awaited;
                        self.session.completion_from(awaited)?
                    }
                    // The shell may be about to execute what it has read by now.
                    None if self.is_running()? => {
                        self.look_again = self.look_again.min(Deadline::after(LOOK_AHEAD));
                        None
                    }
                    // The input was for that command, whose exit code `run` reports.
                    None => Some(Completion { code: UNTOLD, ..of_call }),
                };
            }
            self.done = done.map(|done| (offset, done.code));
        }
        if let Some((offset, code)) = self.done {
            return Ok(if self.has_seen(offset) { self.met("complete", code.to_string()) } else { None });
        }
        if self.has_ended() {
            let code = self.session.exit_code()?;
            let code = code.map_or("unknown".to_owned(), |code| code.to_string());
            return Ok(if self.conditions.exit { self.met("exit", code) } else { None });
        }
        let met = self.look_at_stillness(now)?;
        if met.is_some() && now.is_some_and(|now| now.stalled.is_some()) {
            // More has been printed than there is room for.
            self.is_stalled = true;
            self.look_again = Deadline::after(LOOK_STALLED);
            return Ok(None);
        }
        Ok(met)
    }

    /// Conditions that can be met without output.
    fn look_at_stillness(&mut self, now: Option<&Snapshot>) -> Result<Option<Met>> {
        if self.conditions.is_of_standing()
            && let Some(met) = self.look_at_standing()?
        {
            return Ok(Some(met));
        }
        if self.conditions.look_for_input()
            && let Some(now) = now
            && let Some(doing) = self.look_for_input(now)?
        {
            return Ok(self.met("input", doing.word()));
        }
        if let Some(time) = self.conditions.stable
            && let Some(since) = self.look_at_screen()?
            && since.elapsed() >= time
        {
            return Ok(self.met("stable", numbers::seconds(since.elapsed(), 3)));
        }
        match self.conditions.idle {
            Some(idle) if self.changed.elapsed() >= idle => {
                let silence = self.changed.elapsed();
                // To look has taken its time, too.
                let is_longer = self.log.length().trying(self.what())? != self.length;
                self.stirred |= is_longer;
                Ok(if is_longer { None } else { self.met("idle", numbers::seconds(silence, 3)) })
            }
            _ => Ok(None),
        }
    }

    /// Does it wait for input, or has a turn of it ended? Returns what it waits for (a line, a secret,
    /// keys, or its own report), and how the turn ended.
    fn look_at_standing(&mut self) -> Result<Option<Met>> {
        let standing = self.standing.as_ref().and_then(RelayClient::last_standing);
        let Some((standing, came)) = standing else { return Ok(None) };
        let verdict = Verdict::of(self.session, standing, came.elapsed())?;
        if self.conditions.done
            && let Some(state) = verdict.turn
        {
            return Ok(self.met("done", state.word()));
        }
        if self.conditions.waiting && verdict.activity == Some(Activity::Waiting) {
            let detail = match verdict.because {
                Some(Because::Kernel | Because::Quiet) | None => standing.doing.word(),
                Some(because) => because.word(),
            };
            let is_guess = matches!(verdict.because, Some(Because::Kernel | Because::Quiet) | None);
            let asks = standing.input.reads != Some(Reads::Far)
                || !is_guess
                || waiting::asks(self.session, self.log.length().trying(self.what())?)?;
            if asks {
                return Ok(self.met("waiting", detail));
            }
        }
        if self.conditions.done
            && let Some(time) = verdict.again
        {
            self.look_again = self.look_again.min(Deadline::after(time + OVER));
        }
        Ok(None)
    }

    /// The time since which the screen is unchanged; `None` if there is more output to add.
    fn look_at_screen(&mut self) -> Result<Option<Instant>> {
        let what = self.what();
        let Some((cache, lines, changed)) = &mut self.cache else { return Ok(None) };
        let length = self.log.length().trying(what)?;
        let seen = cache.seen_length(self.session, &self.log, length)?;
        let end = seen.min(cache.offset().saturating_add(STEP));
        cache.follow(self.session, &self.log, end)?;
        if end < seen {
            self.stirred = true;
            return Ok(None);
        }
        let now = cache.screen.coloured_lines(0);
        if now != *lines {
            (*lines, *changed) = (now, Instant::now());
        }
        Ok(Some(*changed))
    }

    /// We poll: the kernel sends no event when a process goes to sleep in a read. So we check after
    /// each change, and again at growing intervals.
    fn look_for_input(&mut self, now: &Snapshot) -> Result<Option<TerminalState>> {
        let Some(remaining) = now.input.remaining(HELD) else {
            self.look_later(Duration::ZERO);
            return Ok(None);
        };
        if !now.input.is_waiting(HELD) {
            self.look_later(remaining + OVER);
            return Ok(None);
        }
        let asks = self.conditions.asks && matches!(now.asks(self.session, HELD)?, Some(Waits::Now));
        let waits = asks
            || (self.conditions.input || self.conditions.passed_over && self.wants_rest()?)
                && self.is_ready(now)?;
        if waits && self.has_seen(now.offset) {
            return Ok(Some(now.doing));
        }
        self.look_later(HELD);
        Ok(None)
    }

    /// Is the program ready for our input, or has it answered it?
    fn is_ready(&mut self, now: &Snapshot) -> Result<bool> {
        if now.input.reads == Some(Reads::Far) && self.is_busy_elsewhere(now)? {
            self.look_again = Deadline::after(LOOK_ELSEWHERE);
            return Ok(false);
        }
        let has_come = self.has_come_to_prompt(now)?;
        if !has_come {
            self.look_again = Deadline::after(LOOK_FOR_PROMPT);
        }
        Ok(has_come)
    }

    /// Is the session back at a prompt, if the text was typed at one? Any other text before the cursor is a
    /// question if nothing else can come: the waiting program has done nothing for a while, and nothing but
    /// input wakes it.
    fn has_come_to_prompt(&self, now: &Snapshot) -> Result<bool> {
        let Some(prompts) = &self.conditions.prompts else { return Ok(true) };
        let screen = ScreenCache::look_at(self.session, &self.log, now.offset)?.screen;
        let line = screen.before_cursor();
        if screen.is_alternate() || prompts.place(&line).is_some() || text::asks(&line) {
            return Ok(true);
        }
        Ok(!now.input.has_timer && now.input.held >= STEADY_WITHOUT_PROMPT)
    }

    /// No program waits for input, or not for long enough: `missing` is left. We check a program that
    /// keeps working less often.
    fn look_later(&mut self, missing: Duration) {
        self.pause = (self.pause * 2).clamp(Duration::from_millis(5), Duration::from_millis(50));
        let pause = if missing > HELD { missing } else { self.pause.max(missing) };
        self.look_again = self.look_again.min(Deadline::after(pause));
    }

    /// ssh and the like always wait for input, whatever happens at the other end. There we require
    /// that a line has ended since text was typed, and that the current line looks like a prompt or a
    /// question. It may take long only if the line at which the text was typed did.
    fn is_busy_elsewhere(&self, now: &Snapshot) -> Result<bool> {
        let offset = now.offset;
        // We use the cursor's row, because text may follow below it, as in prompt_toolkit.
        let screen = ScreenCache::look_at(self.session, &self.log, offset)?.screen;
        let stands = text::asks(&screen.before_cursor());
        let asked = if let Some(typed_at) = self.typed_at { self.line_before(typed_at)?.1 } else { false };
        let answered = match self.typed_at {
            // tmux draws its rows, and ends none.
            Some(typed_at) if screen.is_alternate() => offset > typed_at,
            Some(typed_at) => self.line_before(offset)?.0 > typed_at,
            None => true,
        };
        // For unusual prompts, if the caller is to type, or has typed.
        let is_typing = self.conditions.is_lenient || self.conditions.prompts.is_some() && !asked;
        let patient = is_typing && now.input.held >= STEADY_ELSEWHERE;
        Ok(!(patient || answered && stands))
    }

    /// The offset of the line before a position in the log, and whether it looks like a prompt or a
    /// question.
    fn line_before(&self, offset: u64) -> Result<(u64, bool)> {
        let tail = self.log.bytes(offset.saturating_sub(LONGEST_PROMPT), offset).trying(self.what())?;
        let from = offset.saturating_sub(tail.len() as u64);
        let start = memchr::memrchr(b'\n', &tail).map_or(0, |at| at + 1);
        let line = text::stripped(&tail[start..]);
        Ok((from + start as u64, text::asks(&String::from_utf8_lossy(&line))))
    }

    fn wants_rest(&mut self) -> Result<bool> {
        let Some(client) = &mut self.client else { return Ok(false) };
        Ok(client.snapshot(Parts::SHELL)?.is_some_and(|now| now.wants_rest()))
    }

    /// The error if the condition was not met.
    pub(crate) fn in_vain(&self, over: &WatchEnd, timeout: Duration) -> Failure {
        let what = self.conditions.described() + &output::lost_in_words(self.lost);
        let handle = self.session.handle();
        match over {
            WatchEnd::TimedOut => {
                let diagnosis = Diagnosis::gather(self.session, timeout);
                diagnosis.timed_out(format!("session '{handle}' did not {what}: timed out {diagnosis}"))
            }
            _ => match self.session.ended() {
                ended if ended.is(Reason::Failed) => {
                    let it = |reason: &str| reason.replacen(&format!("session '{handle}'"), "it", 1);
                    let reword = |reason: &str| format!("session '{handle}' did not {what}: {}", it(reason));
                    Diagnosis::add_last_line(self.session, ended.reworded(reword))
                }
                other => other,
            },
        }
    }
}

/// The typed input after its first `known` bytes.
fn known_after(typing: Option<InputHistory>, known: u64) -> Option<InputHistory> {
    let mut typing = typing?;
    let length: u64 = typing.keys.iter().map(|keys| keys.bytes.len() as u64).sum();
    let mut at = typing.total.saturating_sub(length);
    typing.keys.retain_mut(|keys| {
        let start = at;
        at += keys.bytes.len() as u64;
        let surplus = usize::try_from(known.saturating_sub(start)).unwrap_or(usize::MAX);
        keys.bytes.drain(..surplus.min(keys.bytes.len()));
        at > known
    });
    Some(typing)
}

/// Waits until all have met a condition, or with `any`, one has; a watch that has met a failure ends it for
/// all.
pub(crate) fn until(watches: &mut [SessionWatch], any: bool, deadline: Deadline) -> Result<WatchEnd> {
    let mut last = None;
    loop {
        let is_due = |watch: &&mut SessionWatch| {
            watch.met.is_none() && (watch.stirred || watch.deadline().has_passed())
        };
        // All side by side, and then one after the other.
        for watch in watches.iter_mut().filter(is_due) {
            watch.ask()?;
        }
        for watch in watches.iter_mut().filter(|watch| watch.asked.is_some()) {
            watch.look_again = Deadline::NEVER;
            match watch.look() {
                // The error includes the reason why the relay does not respond.
                Err(_) if deadline.has_passed() => return Ok(WatchEnd::TimedOut),
                other => other?,
            }
            // There may be many.
            if watch.session.patience().last().has_passed() {
                return Ok(WatchEnd::TimedOut);
            }
        }
        let met = |watch: &SessionWatch| watch.met.is_some();
        let failed = watches.iter().any(|watch| watch.met.as_ref().is_some_and(Met::is_failure));
        if failed || watches.iter().all(met) || (any && watches.iter().any(met)) {
            return Ok(WatchEnd::Met);
        }
        let is_over = |watch: &SessionWatch| !met(watch) && watch.has_ended() && !watch.stirred;
        let mut over = watches.iter().enumerate().filter(|(_, watch)| is_over(watch));
        let (ended, count) = (over.next().map(|(index, _)| index), over.count() + 1);
        if let Some(ended) = ended
            && (!any || count == watches.len())
        {
            return Ok(WatchEnd::Ended(ended));
        }
        if deadline.has_passed() {
            // Output that has already arrived may take longer to search.
            let last =
                *last.get_or_insert_with(|| watches.first().map(|watch| watch.session.patience().last()));
            let behind = watches.iter().any(|watch| !met(watch) && watch.is_behind());
            if !behind || last.is_none_or(Deadline::has_passed) {
                return Ok(WatchEnd::TimedOut);
            }
        }
        wait_for_news(watches, deadline)?;
    }
}

fn wait_for_news(watches: &mut [SessionWatch], deadline: Deadline) -> Result<()> {
    for watch in watches.iter_mut().filter(|watch| watch.met.is_none()) {
        watch.follow()?;
    }
    let mut poll_set = PollSet::new();
    let mut until = deadline;
    for (index, watch) in watches.iter().enumerate().filter(|(_, watch)| watch.met.is_none()) {
        if watch.stirred {
            until = Deadline::after(Duration::ZERO);
        }
        for client in [&watch.client, &watch.standing].into_iter().flatten() {
            until = until.min(watch.deadline());
            poll_set.readable(client, index);
        }
    }
    let stirred = poll_set.wait(until).trying("wait for an event")?;
    for index in stirred {
        watches[index].receive_news()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::client::input_history::{Keys, Mode};

    #[test]
    fn a_watch_gets_the_typed_text_once() {
        let keys = |offset, bytes: &[u8]| Keys { offset, mode: Mode::Lines, bytes: bytes.into() };
        // The first two bytes are not remembered any more.
        let typing = InputHistory { anchor: 9, total: 9, keys: vec![keys(3, b"abc"), keys(9, b"defg")] };
        let after = |known| known_after(Some(typing.clone()), known).unwrap().keys;
        for known in 0..=2 {
            assert_eq!(after(known), typing.keys);
        }
        assert_eq!(after(4), [keys(3, b"c"), keys(9, b"defg")]);
        assert_eq!(after(5), [keys(9, b"defg")]);
        assert_eq!(after(8), [keys(9, b"g")]);
        assert_eq!(after(9), []);
        assert_eq!(known_after(None, 0), None);
    }
}
