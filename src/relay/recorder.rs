//! Writes the terminal's output to the log, and parses it.
//!
//! First the bytes, then their meaning: a mark of the shell counts only once it is in output.log itself.
//! Output that cannot be written (disk full, quota, limit of file size) is kept, and as nothing more is read
//! meanwhile, it is little.

use std::{
    fs::File,
    io::{self, Write},
    ops::Range,
    time::{Duration, Instant, SystemTime},
};

use crate::{
    relay::{
        clients::ClientId,
        command_tracker::Stretch,
        flow::Flow,
        history::History,
        job::Jobs,
        log_limit::LogLimit,
        output_state::{DoneCommand, OutputState},
    },
    session::{
        CLAIMS, COMPLETIONS, Completion, EXIT_CODE, EXIT_RECORD, Events, ExitRecord, InputSource, OUTPUT,
        OutputLog, SIZES, SessionSpec, Settings, TIMES,
        client::{PromptState, input_history::Mode, job::Job},
        completion_line,
        shell::{Dialect, ShellCommand},
        size_line,
    },
    sys::{
        child::ExitStatus,
        deadline::Deadline,
        files::{Folder, is_full, may_pass},
        pty::Size,
        syncer::Syncer,
    },
};

pub(crate) struct Recorder {
    folder: Folder,
    log: File,
    // `None`: unlimited.
    log_limit: Option<LogLimit>,
    syncer: Syncer,
    // Stretches of the log, in order.
    untranslated: Vec<Range<u64>>,
    // There is more in the log than a sync was asked for.
    unsynced: bool,
    completions: Later,
    // The completions that belong to the calls that caused them.
    claims: Notes,
    jobs: Jobs,
    history: History,
    // The columns of the terminal.
    cols: u16,
    // When the last command began, and how long it lasted, once it has ended.
    command_begun: Option<Instant>,
    lasted: Option<Duration>,
    sizes: Notes,
    // The size for the first line, if there is no line yet.
    first_size: Option<Size>,
    // For a recorded session.
    times: Option<Notes>,
    begun: Instant,
    // When the last of them was.
    noted: Option<Duration>,
    printed: Flow,
    // The end of a one-shot is among the lines, or was.
    concluded: bool,
    // The rest of the lines for completion.log.
    lines: Vec<u8>,
    // The meaning of the log's contents.
    meaning: OutputState,
    // The secret of the shell that is about to report, and its dialect.
    awaited: Option<(String, Dialect)>,
    changes: u64,
    // Why something cannot be written at the moment, and when to try again.
    stalled: Option<(String, Deadline)>,
}

impl Recorder {
    /// `size` is the terminal's initial size.
    pub(crate) fn open(
        folder: &Folder,
        settings: &Settings,
        interactive: bool,
        size: Size,
        child: u32,
    ) -> io::Result<Recorder> {
        let log = folder.open_appending(OUTPUT)?;
        let is_usual = size == Size::DEFAULT;
        let levels = if interactive { SessionSpec::levels(folder)? } else { Vec::new() };
        let secret = levels.first().map_or("", |level| &level.secret);
        let mut meaning = OutputState::new(secret);
        if let Some(shell) = ShellCommand::parse(&SessionSpec::command(folder)?) {
            meaning.note_dialect(shell.dialect);
        }
        Ok(Recorder {
            syncer: Syncer::new(log.try_clone()?),
            untranslated: Vec::new(),
            unsynced: false,
            completions: Later::open(folder, COMPLETIONS, interactive)?,
            claims: Notes::open(folder, CLAIMS, false)?,
            jobs: Jobs::default(),
            command_begun: None,
            lasted: None,
            sizes: Notes::open(folder, SIZES, !is_usual)?,
            first_size: is_usual.then_some(size),
            times: settings.record.then(|| Notes::open(folder, TIMES, true)).transpose()?,
            begun: Instant::now(),
            noted: None,
            folder: folder.again()?,
            log_limit: settings.max_log.map(|most| LogLimit::new(most, &log)).transpose()?,
            log,
            printed: Flow::new(),
            concluded: false,
            lines: Vec::new(),
            meaning,
            history: History::open(folder, child)?,
            cols: size.cols,
            awaited: None,
            changes: 1,
            stalled: None,
        })
    }

    /// Is everything written that was read?
    pub(crate) fn is_idle(&self) -> bool {
        self.printed.is_empty() && self.lines.is_empty() && self.sizes.waiting.is_empty()
    }

    /// When to try again, if something could not be written.
    pub(crate) fn deadline(&self) -> Deadline {
        self.stalled.as_ref().map_or(Deadline::NEVER, |(_, retry)| *retry)
    }

    pub(crate) fn stalled(&self) -> Option<String> {
        self.stalled.as_ref().map(|(why, _)| why.clone())
    }

    /// Why some of the output may not be on the disk, though it was written.
    pub(crate) fn sync_failure(&self) -> Option<&str> {
        self.syncer.failure()
    }

    /// The shell's state, according to its marks.
    pub(crate) fn prompt(&self) -> PromptState {
        self.meaning.prompt()
    }

    pub(crate) fn meaning(&self) -> &OutputState {
        &self.meaning
    }

    pub(crate) fn meaning_mut(&mut self) -> &mut OutputState {
        &mut self.meaning
    }

    /// As [`OutputState::note_interrupted`].
    pub(crate) fn note_interrupted(&mut self) {
        self.meaning.note_interrupted();
        self.history.note_discarded();
    }

    /// Unread input has been discarded.
    pub(crate) fn note_discarded(&mut self) {
        self.meaning.note_discarded();
        self.history.note_discarded();
    }

    /// Records typed bytes and their source; `mode` is the terminal's, if they are not a secret. Was there
    /// unread input before them?
    pub(crate) fn note_input(
        &mut self,
        source: InputSource,
        mode: Option<Mode>,
        bytes: &[u8],
        has_unread: bool,
    ) {
        let is_echoed = mode == Some(Mode::Lines);
        self.history.note_source(source);
        self.meaning.note_editor(!is_echoed);
        if mode.is_some() {
            let offset = if has_unread { 0 } else { self.meaning.length() };
            self.history.note_typed(bytes, offset, is_echoed);
        }
    }

    /// One more shell is about to report, with this secret.
    pub(crate) fn await_level(&mut self, secret: String, dialect: Dialect) {
        self.meaning.await_level(&secret, dialect);
        self.awaited = Some((secret, dialect));
    }

    pub(crate) fn output_bytes(&self) -> u64 {
        self.meaning.length()
    }

    /// How many times something has changed that a follower may want to see.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// The terminal's size is another one, before anything more is printed.
    pub(crate) fn note_size(&mut self, size: Size) {
        self.changes += 1;
        self.cols = size.cols;
        self.meaning.note_resized();
        if let Some(first) = self.first_size.take() {
            self.sizes.add(size_line(0, first));
        }
        self.sizes.add(size_line(self.output_bytes(), size));
        self.noted = None;
        self.note_time();
        self.write_down();
    }

    /// Appends the result of one read.
    pub(crate) fn record(&mut self, read: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
        let count = self.printed.fill(read)?;
        if count > 0 {
            self.note_time();
            self.write_down();
        }
        Ok(count)
    }

    /// The terminal has not translated the newlines in the last `count` recorded bytes.
    pub(crate) fn note_untranslated(&mut self, count: u64) {
        let end = self.output_bytes() + self.printed.waiting().len() as u64;
        let start = end.saturating_sub(count);
        match self.untranslated.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => self.untranslated.push(start..end),
        }
        if self.untranslated.len() > MOST_UNTRANSLATED {
            self.untranslated.remove(0);
        }
    }

    /// The end of the last output whose newlines were untranslated; 0 if there is none.
    pub(crate) fn last_untranslated(&self) -> u64 {
        self.untranslated.last().map_or(0, |range| range.end)
    }

    /// The ranges, from this offset on, in which that was so, as far as they are remembered.
    pub(crate) fn untranslated(&self, since: u64) -> Vec<Range<u64>> {
        self.untranslated.iter().filter(|range| range.end > since).cloned().collect()
    }

    /// Records the time of the next output, unless it is close to the last.
    fn note_time(&mut self) {
        let Some(times) = &mut self.times else { return };
        let now = self.begun.elapsed();
        if self.noted.is_none_or(|noted| now - noted >= AT_ONCE) {
            times.add(format!("{} {}\n", self.meaning.length(), now.as_micros()));
            self.noted = Some(now);
        }
    }

    /// Tries again what could not be written, if it is time to.
    pub(crate) fn retry(&mut self) {
        if self.deadline().has_passed() {
            self.write_down();
        }
    }

    /// Syncs the log, if there is more in it. To be called after calls that wait for output have been
    /// notified.
    pub(crate) fn sync(&mut self) {
        // If no thread can be started now, the next call retries.
        self.unsynced = self.unsynced && self.syncer.request().is_err();
    }

    fn write_down(&mut self) {
        self.stalled = self.write_all().err().map(stalled);
    }

    /// A bounded log frees some of its space on a full disk.
    fn write_all(&mut self) -> io::Result<()> {
        match self.write_some() {
            Err(error) if is_full(&error) => {
                let Some(log_limit) = &mut self.log_limit else { return Err(error) };
                if log_limit.spare(&self.folder, &self.log, self.meaning.length())? {
                    self.write_some()
                } else {
                    Err(error)
                }
            }
            other => other,
        }
    }

    fn write_some(&mut self) -> io::Result<()> {
        self.sizes.write(&self.folder)?;
        if let Some(times) = &mut self.times {
            times.write(&self.folder)?;
        }
        while !self.printed.is_empty() {
            if let Some(log_limit) = &mut self.log_limit {
                let count = self.printed.waiting().len() as u64;
                log_limit.make_room(&self.folder, &self.log, self.meaning.length(), count)?;
            }
            let (log, meaning, mut done) = (&mut self.log, &mut self.meaning, Vec::new());
            let (folder, jobs) = (&self.folder, &mut self.jobs);
            self.printed.drain(|bytes| {
                let count = written(log.write(bytes))?;
                let (bytes, begin) = (&bytes[..count], meaning.length());
                done = meaning.feed(bytes);
                let (found, settled) = (meaning.found(), meaning.settled());
                let log = &|range: Range<u64>| log_bytes(folder, range);
                jobs.note_printed(&Stretch { bytes, begin, found, settled, log });
                Ok(count)
            })?;
            self.changes += 1;
            self.unsynced = true;
            if !self.meaning.take_joined().is_empty()
                && let Some((secret, dialect)) = self.awaited.take()
            {
                // If the disk is full, the call that waits for it does not see it.
                let _ = SessionSpec::add_level(&self.folder, &secret, dialect);
            }
            self.note_edges();
            let (steps, jobs) = (self.meaning.take_steps(), &self.jobs);
            if !steps.is_empty() {
                self.history.note(steps, |command| jobs.text(command.level, command.seq), self.cols);
            }
            for DoneCommand { level, seq, completion } in done {
                if self.jobs.note_done(level, seq) {
                    self.claims.add(format!("{}\n", completion.seq));
                }
                self.lines.extend_from_slice(completion_line(completion).as_bytes());
            }
        }
        self.write_lines()
    }

    /// If a stretch has a start and an end, the command that ends began in it, or before.
    fn note_edges(&mut self) {
        let (edges, runs) = (self.meaning.take_edges(), self.meaning.prompt() == PromptState::Left);
        if edges.begun {
            (self.command_begun, self.lasted) = (Some(Instant::now()), None);
        }
        if edges.ended && !(edges.begun && runs) {
            self.lasted = self.command_begun.as_ref().map(Instant::elapsed);
        }
    }

    /// How long the shell that reports has executed its last command, or has executed this one by now.
    pub(crate) fn lasted(&self) -> Option<Duration> {
        self.lasted.or(self.command_begun.as_ref().map(Instant::elapsed))
    }

    /// Updates the command of this call, when so many bytes have been typed.
    pub(crate) fn note_job(&mut self, owner: ClientId, job: Job, typed: u64) {
        self.jobs.note(owner, job, typed, self.meaning.length(), self.meaning.is_fish(job.level));
    }

    /// This part of the log; less, where it cannot be read.
    pub(crate) fn log(&self, range: Range<u64>) -> Vec<u8> {
        log_bytes(&self.folder, range)
    }

    /// The commands that calls have handed over.
    pub(crate) fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    pub(crate) fn jobs_mut(&mut self) -> &mut Jobs {
        &mut self.jobs
    }

    /// Claims are written before the completions that calls wait for.
    fn write_lines(&mut self) -> io::Result<()> {
        self.claims.write(&self.folder)?;
        while !self.lines.is_empty() {
            let Some(file) = self.completions.file(&self.folder)? else {
                self.lines.clear();
                break;
            };
            let count = written(file.write(&self.lines))?;
            self.lines.drain(..count);
            self.changes += 1;
        }
        Ok(())
    }

    /// Writes the end of the session. `false` if the disk is full: the caller must retry at the deadline, and
    /// nothing is written twice. Any other error, such as a removed directory, is returned once and is final.
    pub(crate) fn conclude(
        &mut self,
        exit_record: ExitRecord,
        interactive: bool,
        events: &Events,
    ) -> io::Result<bool> {
        match self.write_end(exit_record, interactive, events) {
            Err(error) if may_pass(&error) => {
                self.stalled = Some(stalled(error));
                Ok(false)
            }
            other => other.map(|()| true),
        }
    }

    /// The files that calls wait for come last. The time of the exit code's file is the reported end.
    fn write_end(
        &mut self,
        mut exit_record: ExitRecord,
        interactive: bool,
        events: &Events,
    ) -> io::Result<()> {
        let code = exit_record.status.map(ExitStatus::number);
        self.history.conclude(code, self.meaning.length());
        let ended = exit_record.ended.unwrap_or_else(SystemTime::now);
        if let Some(code) = code {
            let digits = code.to_string();
            exit_record.ended = Some(self.folder.replace_as_of(EXIT_CODE, digits.as_bytes(), ended)?);
        }
        self.folder.replace_as_of(EXIT_RECORD, exit_record.json().as_bytes(), ended)?;
        match events.record(&exit_record.handle, &self.folder) {
            Err(error) if may_pass(&error) => return Err(error),
            // The next reader of the events, or the removal of the session, publishes it.
            _ => {}
        }
        if let Some(code) = code.filter(|_| !interactive && !self.concluded) {
            // Unless a shell inside it has reported, it is the first.
            let seq = self.meaning.last_completion().map_or(0, |last| last.saturating_add(1));
            self.lines.extend_from_slice(completion_line(Completion { seq, code }).as_bytes());
        }
        self.concluded = true;
        self.write_lines()
    }
}

/// These bytes of the log; none if it cannot be read.
fn log_bytes(folder: &Folder, range: Range<u64>) -> Vec<u8> {
    let file = folder.open_file(OUTPUT).ok();
    let bytes = file.map(|file| OutputLog::new(file, None).bytes(range.start, range.end));
    bytes.and_then(io::Result::ok).unwrap_or_default()
}

/// The pause before output that could not be written is written again. The kernel sends no event when a disk
/// has space again.
pub(super) const RETRY: Duration = Duration::from_millis(250);

fn stalled(error: io::Error) -> (String, Deadline) {
    (error.to_string(), Deadline::after(RETRY))
}

/// A file of the session's that is made when there is something to write, if it is not
/// there before.
struct Later {
    name: &'static str,
    file: Option<File>,
}

impl Later {
    fn open(folder: &Folder, name: &'static str, is_there: bool) -> io::Result<Later> {
        Ok(Later { name, file: is_there.then(|| folder.open_appending(name)).transpose()? })
    }

    /// `None` if the file cannot be made: the directory has gone, and with it every reader, or another
    /// program has put something else there.
    fn file(&mut self, folder: &Folder) -> io::Result<Option<&mut File>> {
        if self.file.is_none() {
            self.file = match folder.open_or_make_appending(self.name) {
                Err(error) if !may_pass(&error) => return Ok(None),
                file => Some(file?),
            };
        }
        Ok(self.file.as_mut())
    }
}

/// A program sets the modes once or twice.
const MOST_UNTRANSLATED: usize = 64;

/// Lines for a file of the session's, each about a place in the log.
struct Notes {
    file: Later,
    // Invariant: the unwritten rest of lines.
    waiting: Vec<u8>,
    // The last line that came meanwhile. If a line cannot be written the log does not grow: so it is about
    // the same offset, and those before it do not count any more.
    last: Option<String>,
}

impl Notes {
    fn open(folder: &Folder, name: &'static str, is_there: bool) -> io::Result<Notes> {
        Ok(Notes { file: Later::open(folder, name, is_there)?, waiting: Vec::new(), last: None })
    }

    fn add(&mut self, line: String) {
        if self.waiting.is_empty() { self.waiting = line.into_bytes() } else { self.last = Some(line) }
    }

    fn write(&mut self, folder: &Folder) -> io::Result<()> {
        while !self.waiting.is_empty() {
            let Some(file) = self.file.file(folder)? else {
                self.waiting.clear();
                break;
            };
            let count = written(file.write(&self.waiting))?;
            self.waiting.drain(..count);
            if self.waiting.is_empty() {
                self.waiting = self.last.take().unwrap_or_default().into_bytes();
            }
        }
        Ok(())
    }
}

/// Output within this time is recorded as simultaneous: no eye is quicker, and a recording takes a few
/// thousand bytes a second at most.
const AT_ONCE: Duration = Duration::from_millis(10);

/// A write that takes nothing would be tried for ever.
fn written(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Ok(0) => Err(io::ErrorKind::WriteZero.into()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        relay::tests::Rig,
        session::{COMPLETIONS, EXIT_CODE, EXIT_RECORD, EndedBy, OUTPUT, SIZES, Settings, TIMES},
    };

    fn full() -> File {
        File::options().append(true).open("/dev/full").unwrap()
    }

    fn there(file: File) -> Later {
        Later { name: "there", file: Some(file) }
    }

    fn print(recorder: &mut Recorder, printed: &str) {
        let read = |buffer: &mut [u8]| {
            buffer[..printed.len()].copy_from_slice(printed.as_bytes());
            Ok(printed.len())
        };
        recorder.record(read).unwrap();
    }

    /// As if the time for it had come.
    fn retry(recorder: &mut Recorder) {
        recorder.stalled.as_mut().expect("there is nothing to try again").1 = Deadline::after(Duration::ZERO);
        recorder.retry();
    }

    #[test]
    fn unwritten_output_is_kept_and_not_parsed() {
        let mut rig = Rig::new(Settings::default());
        let secret = rig.file("secret");
        let recorder = &mut rig.relay.recorder;
        let log = std::mem::replace(&mut recorder.log, full());
        let printed = format!("x\x1b[6n\x1b]133;D;0;nbs={secret}.0\x07");
        print(recorder, &printed);
        assert!(!recorder.is_idle() && recorder.stalled().unwrap().contains("No space"));
        assert_eq!((recorder.output_bytes(), recorder.meaning.last_completion()), (0, None));
        recorder.log = log;
        // A mark that counts, and cannot be reported.
        let completions = std::mem::replace(&mut recorder.completions, there(full()));
        retry(recorder);
        assert!(!recorder.is_idle() && recorder.stalled().is_some());
        assert_eq!(
            (recorder.output_bytes(), recorder.meaning.last_completion()),
            (printed.len() as u64, Some(0))
        );
        recorder.completions = completions;
        let before = recorder.changes();
        retry(recorder);
        assert!(recorder.is_idle() && recorder.stalled().is_none() && recorder.changes() > before);
        // Nor is more read while an earlier size cannot be written.
        let sizes = std::mem::replace(&mut recorder.sizes.file, there(full()));
        recorder.note_size(Size { cols: 100, rows: 50 });
        assert!(!recorder.is_idle());
        recorder.sizes.file = sizes;
        retry(recorder);
        assert!(recorder.is_idle());
        assert_eq!((rig.file(OUTPUT), rig.file(COMPLETIONS)), (printed.clone(), "0 0\n".into()));
        assert_eq!(rig.file(SIZES), format!("0 80 24\n{} 100 50\n", printed.len()));
    }

    #[test]
    fn the_end_is_told_once_and_last_of_all_to_who_waits_for_it() {
        let mut rig = Rig::new(Settings::default());
        let relay = &mut rig.relay;
        let exit_record = || ExitRecord {
            handle: relay.pending.handle.clone(),
            name: None,
            settings: Settings::default(),
            status: Some(ExitStatus::Code(3)),
            ended_by: EndedBy::Itself,
            last_lines: Vec::new(),
            started: None,
            ended: None,
            output_bytes: 0,
            drained: true,
            usage: crate::session::Usage::default(),
        };
        let completions = std::mem::replace(&mut relay.recorder.completions, there(full()));
        for _ in 0..2 {
            assert!(!relay.recorder.conclude(exit_record(), false, &relay.events).unwrap());
            assert!(relay.recorder.stalled().unwrap().contains("No space"));
            assert!([EXIT_CODE, EXIT_RECORD].iter().all(|name| relay.pending.folder.has(name)));
            assert!(relay.events.has(&exit_record().handle));
        }
        relay.recorder.completions = completions;
        assert!(relay.recorder.conclude(exit_record(), false, &relay.events).unwrap());
        assert_eq!((rig.file(EXIT_CODE), rig.file(COMPLETIONS)), ("3".into(), "0 3\n".into()));
    }

    #[test]
    fn a_size_has_a_time_of_its_own_however_soon_it_comes() {
        let mut rig = Rig::new(Settings { record: true, ..Settings::default() });
        print(&mut rig.relay.recorder, "before");
        rig.relay.recorder.note_size(Size { cols: 100, rows: 50 });
        print(&mut rig.relay.recorder, "after");
        let times = rig.file(TIMES);
        let offsets: Vec<&str> = times.lines().map(|line| line.split(' ').next().unwrap()).collect();
        assert!(offsets.starts_with(&["0", "6"]), "{times}");
    }

    #[test]
    fn written_output_is_synced() {
        let mut rig = Rig::new(Settings::default());
        let recorder = &mut rig.relay.recorder;
        // A file that cannot be synced proves that it was tried.
        let (_reader, writer) = io::pipe().unwrap();
        recorder.syncer = Syncer::new(File::from(std::os::fd::OwnedFd::from(writer)));
        assert_eq!(recorder.sync_failure(), None);
        print(recorder, "x");
        recorder.sync();
        let begun = Instant::now();
        while recorder.sync_failure().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(120), "it is not synced");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn without_a_log_only_the_last_line_is_kept() {
        let folder = Folder::open("/".as_ref()).unwrap();
        let mut notes = Notes { file: there(full()), waiting: Vec::new(), last: None };
        for cols in 1..=10_000 {
            notes.add(format!("7 {cols} 24\n"));
            assert!(is_full(&notes.write(&folder).unwrap_err()));
        }
        assert_eq!(notes.waiting, b"7 1 24\n");
        let (mut written, file) = io::pipe().unwrap();
        notes.file = there(File::from(std::os::fd::OwnedFd::from(file)));
        notes.write(&folder).unwrap();
        drop(notes);
        let mut lines = String::new();
        io::Read::read_to_string(&mut written, &mut lines).unwrap();
        assert_eq!(lines, "7 1 24\n7 10000 24\n");
    }
}
