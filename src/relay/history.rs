//! The record of the commands that the session's shells execute, as it is written down.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Write},
    os::unix::fs::FileExt,
    time::{Instant, SystemTime},
};

use crate::{
    relay::output_state::{CommandOf, CommandStep, UNKNOWN},
    session::{
        CommandEntry, HISTORY, InputSource, OUTPUT,
        shell::{Dialect, command_text, fills_row, own_sequences},
    },
    sys::{clock::unix_seconds, files::Folder, processes::Process},
};

/// The file is cut at this size, to its second half: that is about ten thousand commands.
const MOST: u64 = 4 << 20;

/// The start of a longer text is kept.
const LONGEST_TEXT: usize = 8 * 1024;

/// A prompt, and the line that was edited there, take fewer bytes in the log.
const LONGEST_DRAWN: u64 = 64 * 1024;
/// The longest text before a prompt in its row.
const LONGEST_ROW: u64 = 512;

/// Fish's own sequences before a command's output, and the echo of typed lines, have fewer bytes.
const LONGEST_BEFORE: u64 = 16 * 1024;

/// How much of the lines that were typed, and whose shell has not shown them, is kept: more than a
/// terminal holds that nobody has read.
const MOST_TYPED: usize = 32 * 1024;

/// A shorter part of a line does not identify it.
const SHORTEST_PART: usize = 20;

/// Lines that cannot be written are kept up to this size.
const MOST_WAITING: usize = 64 * 1024;

pub(super) struct History {
    folder: Folder,
    child: u32,
    file: Option<File>,
    length: u64,
    log: File,
    // Invariant: lines, the first of which may be incomplete.
    waiting: Vec<u8>,
    next: u64,
    running: Vec<Running>,
    source: InputSource,
    // The input that the terminal echoes, and that of line editors.
    ahead: TypedLines,
    keyed: TypedLines,
    // The last prompt of a shell that does not report that a command begins.
    prompt: Option<SilentPrompt>,
}

struct Running {
    of: CommandOf,
    begun: Instant,
    entry: CommandEntry,
    /// The lines of its command that had been typed.
    typed: Vec<String>,
    /// Its line goes on behind what was taken for the end, which is that of a full row. Where its prompt
    /// was drawn from, and how wide the terminal was.
    goes_on: Option<(u64, u16)>,
    /// The last line of its command, whose echo may be the beginning of its output.
    echo: Option<String>,
}

struct SilentPrompt {
    end: u64,
    seen: (Instant, SystemTime),
    folder: Option<String>,
}

/// Typed lines. If several are typed at once to a shell without a line editor, the terminal shows all where
/// they are typed, and at the next prompt nothing.
#[derive(Default)]
struct TypedLines {
    /// Each line with the length that the log had when it was typed; 0 if lines before it were unread then.
    lines: VecDeque<(String, u64)>,
    /// The bytes of all these lines, with their ends.
    length: usize,
    /// How many of them, the last, have been typed since the last command ended.
    new: usize,
    begun: Vec<u8>,
}

impl TypedLines {
    fn note(&mut self, bytes: &[u8], offset: u64) {
        for byte in bytes {
            match byte {
                b'\r' | b'\n' => {
                    let line = String::from_utf8_lossy(&std::mem::take(&mut self.begun)).into_owned();
                    self.length += line.len() + 1;
                    self.lines.push_back((line, offset));
                    self.new += 1;
                    while self.length > MOST_TYPED {
                        self.take(1);
                    }
                }
                // As a terminal edits lines: a character is a byte and those that continue it.
                0x7f | 0x08 => while self.begun.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {},
                0x15 => self.begun.clear(),
                _ if self.begun.len() < LONGEST_TEXT => self.begun.push(*byte),
                _ => {}
            }
        }
    }

    /// The typed form of the command that is shown as this: earlier input was for other programs.
    /// If none of its lines is here, the fate of all others is unknown, so they are dropped.
    fn take_shown(&mut self, shown: &str) -> Option<String> {
        let mut found = false;
        let mut line_of = |line: &str| match self.lines.iter().position(|(typed, _)| is_shown_as(typed, line))
        {
            Some(at) => {
                found = true;
                self.take(at + 1).unwrap_or_default()
            }
            None => line.to_owned(),
        };
        let command = shown.split('\n').map(&mut line_of).collect::<Vec<_>>().join("\n");
        if !found {
            self.clear();
        }
        found.then(|| command.trim_end().to_owned())
    }

    /// Is what is shown behind a prompt the echo of lines that were typed before it? The first of them may
    /// have begun before the prompt.
    fn were_typed_before(&self, prompt: u64, shown: &str) -> bool {
        let place = |line: &str| {
            self.lines.iter().rposition(|(typed, _)| is_shown_as(typed, line) || typed.ends_with(line))
        };
        let Some((line, at)) = shown.split('\n').find_map(|line| Some((line, place(line)?))) else {
            return false;
        };
        let (typed, offset) = &self.lines[at];
        // Alone it is the command.
        *offset < prompt && (at > 0 || !is_shown_as(typed, line))
    }

    /// The command of `count` lines behind whose prompt a terminal has echoed this, or nothing: it echoes all
    /// lines where they are typed.
    fn take_first(&mut self, shown: &str, count: usize, prompt: u64) -> Option<String> {
        let shown: Vec<&str> = if shown.is_empty() { Vec::new() } else { shown.split('\n').collect() };
        let is_line = |at: usize, typed: &str| {
            let line = shown[at];
            is_shown_as(typed, line)
                || at == 0 && typed.ends_with(line)
                || at + 1 == shown.len() && typed.starts_with(line)
        };
        let begins = |first: &usize| {
            let mut typed = self.lines.range(*first..).map(|(typed, _)| typed);
            (0..shown.len()).all(|at| typed.next().is_some_and(|typed| is_line(at, typed)))
        };
        let first = (0..self.lines.len()).find(begins)?;
        // The shell reads those before it first. If it was typed at the prompt, programs have read them, except
        // for the first lines of this command, which the terminal has echoed before the prompt.
        if self.lines[first].1 >= prompt {
            self.take(first.saturating_sub(count.saturating_sub(shown.len())));
        }
        let lines: Vec<String> = (0..count).map_while(|_| self.take(1)).collect();
        Some(lines.join("\n"))
    }

    fn count(&self, shown: &str) -> usize {
        self.lines.iter().filter(|(typed, _)| is_shown_as(typed, shown)).count()
    }

    /// The line that is shown behind its echo.
    fn drawn_again(&self, shown: &str) -> Option<&str> {
        self.lines.iter().map(|(typed, _)| &**typed).find(|typed| is_drawn_again(typed, shown))
    }

    /// Takes so many, and gives the last of them.
    fn take(&mut self, count: usize) -> Option<String> {
        let taken = self.lines.drain(..count.min(self.lines.len()));
        let last = taken.inspect(|(line, _)| self.length -= line.len() + 1).last();
        self.new = self.new.min(self.lines.len());
        last.map(|(line, _)| line)
    }

    /// The length of the terminal's echo of these lines at the start of an ended command's output. An
    /// echo between its output counts as output.
    fn take_echo(&mut self, printed: &[u8]) -> usize {
        let from = self.lines.len() - std::mem::take(&mut self.new);
        let mut rest = printed;
        for (line, _) in self.lines.range(from..) {
            match echo_of(line, rest) {
                0 => break,
                echo => rest = &rest[echo..],
            }
        }
        printed.len() - rest.len()
    }

    fn clear(&mut self) {
        *self = TypedLines::default();
    }
}

/// The length of a line's echo at the start of what was printed; 0 if it does not start with it.
fn echo_of(line: &str, printed: &[u8]) -> usize {
    let behind = printed.strip_prefix(line.as_bytes()).and_then(|behind| behind.strip_prefix(b"\r\n"));
    behind.map_or(0, |behind| printed.len() - behind.len())
}

/// The shown command without the terminal's echo of lines that a line editor then drew again: without a
/// typed line as often as it is shown more than it was typed. We cannot know whether the terminal echoed a
/// line, since an editor may release the terminal before the kernel processes the line. `before` are the typed
/// lines by which the command began.
fn without_echo(shown: &str, ahead: &TypedLines, keyed: &TypedLines, before: &[String]) -> String {
    let count = |line: &str| {
        let before = before.iter().filter(|typed| is_shown_as(typed, line)).count();
        before + ahead.count(line) + keyed.count(line)
    };
    let lines: Vec<&str> = shown.split('\n').collect();
    let is_echo = |at: usize| {
        let line = lines[at];
        let drawn = lines[at..].iter().filter(|other| is_shown_as(line, other)).count();
        let typed = count(line);
        typed > 0 && drawn > typed
    };
    // The terminal has echoed the line, or a part of it, before its end was typed.
    let once = |line| {
        if count(line) > 0 {
            return line;
        }
        ahead.drawn_again(line).or_else(|| keyed.drawn_again(line)).unwrap_or(line)
    };
    let kept = (0..lines.len()).filter(|at| !is_echo(*at)).map(|at| once(lines[at]));
    kept.collect::<Vec<_>>().join("\n")
}

/// Is what is shown the typed line behind its echo, which may have what was erased, or lack what was not yet
/// typed?
fn is_drawn_again(typed: &str, shown: &str) -> bool {
    let echo = shown.trim_end().strip_suffix(typed.trim_end()).unwrap_or_default();
    typed.len() > 1
        && !echo.is_empty()
        && !typed.contains(char::is_control)
        && (echo.starts_with(typed) || typed.starts_with(echo))
}

/// Is that how this line is shown? Some editors show the end of a long one, and a sign at the margin.
fn is_shown_as(typed: &str, shown: &str) -> bool {
    let part = shown.strip_suffix(['<', '>', '+', '*']).map_or("", str::trim);
    typed.split_whitespace().eq(shown.split_whitespace())
        || part.len() > SHORTEST_PART && typed.contains(part) && !typed.contains(char::is_control)
}

impl History {
    /// `child` is the session's own shell.
    pub(super) fn open(folder: &Folder, child: u32) -> io::Result<History> {
        Ok(History {
            folder: folder.again()?,
            child,
            file: None,
            length: 0,
            log: folder.open_file(OUTPUT)?,
            waiting: Vec::new(),
            next: 1,
            running: Vec::new(),
            source: InputSource::default(),
            ahead: TypedLines::default(),
            keyed: TypedLines::default(),
            prompt: None,
        })
    }

    /// Sets the source of the input from here on.
    pub(super) fn note_source(&mut self, source: InputSource) {
        self.source = source;
    }

    /// Notes typed bytes that are not a secret, with the length of the log, or 0 if there was unread input; does
    /// the terminal echo them?
    pub(super) fn note_typed(&mut self, bytes: &[u8], offset: u64, is_echoed: bool) {
        let (there, other) = match is_echoed {
            true => (&mut self.ahead, &mut self.keyed),
            false => (&mut self.keyed, &mut self.ahead),
        };
        // A line is one, though the program changes the terminal's modes while it is typed.
        if !other.begun.is_empty() {
            there.begun = std::mem::take(&mut other.begun);
        }
        there.note(bytes, offset);
    }

    /// Unread input has been discarded.
    pub(super) fn note_discarded(&mut self) {
        self.ahead.clear();
        self.keyed.clear();
    }

    /// Writes the progress of commands. `given` knows the command of a call.
    pub(super) fn note(
        &mut self,
        steps: Vec<CommandStep>,
        given: impl Fn(CommandOf) -> Option<String>,
        cols: u16,
    ) {
        for step in steps {
            match step {
                CommandStep::SilentPrompt { level, end } => {
                    let folder = (level == 0).then(|| Process::read(self.child)?.folder().ok()).flatten();
                    let folder = folder.map(|found| String::from_utf8_lossy(&found.path).into_owned());
                    let seen = (Instant::now(), SystemTime::now());
                    self.prompt = Some(SilentPrompt { end, seen, folder });
                }
                CommandStep::Begun { command, prompt, output, folder, lines } => {
                    let given = given(command);
                    let source = if given.is_some() { InputSource::Run } else { self.source };
                    // A delivered command need not be read from the screen.
                    let is_known = given.is_some() && command.is_told();
                    let shown = if is_known {
                        String::new()
                    } else {
                        self.shown(command.dialect, prompt, output, cols)
                    };
                    let mut typed = Vec::new();
                    let shown = match command.is_told() {
                        true => {
                            let first = match command.dialect {
                                Dialect::Bash if !is_known && lines > 0 => {
                                    self.ahead.take_first(&shown, lines, prompt)
                                }
                                _ => None,
                            };
                            first.unwrap_or_else(|| {
                                self.note_discarded();
                                shown
                            })
                        }
                        // The shell reads those first.
                        false if self.ahead.were_typed_before(prompt, &shown) => continue,
                        false => {
                            // The command goes on from its lines before.
                            let before = self.running.iter_mut().find(|running| running.of == command);
                            typed = before.map_or(Vec::new(), |before| std::mem::take(&mut before.typed));
                            self.typed(shown, &mut typed)
                        }
                    };
                    let folder = folder.map(|folder| String::from_utf8_lossy(&folder).into_owned());
                    let at_prompt = || self.prompt.as_ref().and_then(|prompt| prompt.folder.clone());
                    let folder = if command.is_told() { folder } else { folder.or_else(at_prompt) };
                    let now = (Instant::now(), SystemTime::now());
                    self.begin(command, given.unwrap_or(shown), source, folder, output, now);
                    let goes_on = !command.is_told() && self.goes_on(prompt, output, cols);
                    if let Some(running) = self.running.last_mut().filter(|last| last.of == command) {
                        running.typed = typed;
                        running.goes_on = goes_on.then_some((prompt, cols));
                    }
                }
                CommandStep::Continued { command, output } => {
                    self.begin_unseen(command);
                    let before = self.running.iter().find(|running| running.of == command);
                    let typed_at = self.ahead.lines.front().map_or(0, |(_, offset)| *offset);
                    if let Some(Running { entry, .. }) = before
                        && let Some(line) = self.ahead.take(1)
                    {
                        // The shell may have asked for it before it was typed, though we read the question later.
                        let since = typed_at.max(output.saturating_sub(LONGEST_BEFORE));
                        let echo = memchr::memmem::find(&self.read(since, output), line.as_bytes());
                        let is_behind = typed_at > 0 && echo.is_none();
                        let text = format!("{}\n{line}", entry.command);
                        let (source, folder) = (entry.source, entry.folder.clone());
                        let now = (Instant::now(), SystemTime::now());
                        self.begin(command, text, source, folder, output, now);
                        if let Some(running) = self.running.last_mut() {
                            running.echo = is_behind.then_some(line);
                        }
                        // The others have been echoed before.
                        self.ahead.new = 0;
                    }
                }
                CommandStep::Ended { command, code, end } => self.end(command, code, end),
            }
        }
        self.write();
    }

    fn begin(
        &mut self,
        of: CommandOf,
        mut command: String,
        source: InputSource,
        folder: Option<String>,
        offset: u64,
        (begun, started): (Instant, SystemTime),
    ) {
        let kept = (0..=LONGEST_TEXT.min(command.len())).rev().find(|at| command.is_char_boundary(*at));
        command.truncate(kept.unwrap_or(0));
        // Its shell has reported more: its second line, or where it begins behind the code that reads it.
        let before = self.running.iter().position(|running| running.of == of);
        let before = before.map(|at| self.running.remove(at));
        self.end_from(of.level, None, offset);
        // fish reports blanks, too.
        if command.is_empty() && (!of.is_told() || of.dialect == Dialect::Fish) {
            return;
        }
        let id = before.map_or(self.next, |running| running.entry.id);
        self.next = self.next.max(id + 1);
        let entry = CommandEntry {
            id,
            command,
            source,
            started: unix_seconds(started),
            duration: None,
            exit_code: None,
            folder,
            offset,
            length: None,
            shell: of.level,
        };
        self.waiting.extend_from_slice(entry.line().as_bytes());
        self.running.push(Running { of, begun, entry, typed: Vec::new(), goes_on: None, echo: None });
    }

    fn end(&mut self, of: CommandOf, code: i32, end: u64) {
        self.begin_unseen(of);
        self.end_from(of.level, (code != UNKNOWN).then_some(code), end);
    }

    /// A line that was typed ahead, of which nothing was shown at its prompt, has been read.
    fn begin_unseen(&mut self, of: CommandOf) {
        let is_running = self.running.iter().any(|running| running.of.level == of.level);
        // The first prompt of a shell ends nothing.
        if !is_running
            && !of.is_told()
            && of.seq > 0
            && let Some(line) = self.ahead.take(1)
            && let Some(SilentPrompt { end: output, seen, folder }) = self.prompt.take()
        {
            self.begin(of, line, self.source, folder, output, seen);
        }
    }

    /// The commands of this shell, and of those nested in it, have ended.
    fn end_from(&mut self, level: usize, code: Option<i32>, end: u64) {
        while let Some(at) = self.running.iter().rposition(|running| running.of.level >= level) {
            let Running { of, begun, mut entry, mut typed, goes_on, echo } = self.running.remove(at);
            entry.duration = Some(begun.elapsed());
            entry.exit_code = code;
            let is_looked_at =
                of.dialect == Dialect::Fish || goes_on.is_some() || echo.is_some() || self.ahead.new > 0;
            let longest = if is_looked_at { LONGEST_BEFORE } else { 0 };
            let start = self.read(entry.offset, end.min(entry.offset + longest));
            let mut own = if of.dialect == Dialect::Fish { own_sequences(&start) } else { 0 };
            if let Some((prompt, cols)) = goes_on {
                let mut ends = memchr::memchr_iter(b'\n', &start).map(|newline| newline + 1);
                own = ends.find(|at| !self.goes_on(prompt, entry.offset + *at as u64, cols)).unwrap_or(0);
                let shown = self.shown(of.dialect, prompt, entry.offset + own as u64, cols);
                entry.command = self.typed(shown, &mut typed);
            }
            own += echo.map_or(0, |line| echo_of(&line, &start[own..]));
            entry.offset += (own + self.ahead.take_echo(&start[own..])) as u64;
            entry.length = Some(end.saturating_sub(entry.offset));
            self.waiting.extend_from_slice(entry.line().as_bytes());
        }
    }

    /// The session has ended: so have all, by the end of their shell.
    pub(super) fn conclude(&mut self, code: Option<i32>, end: u64) {
        self.end_from(0, code, end);
        self.write();
    }

    /// How the command reads on the terminal.
    fn shown(&self, dialect: Dialect, prompt: u64, output: u64, cols: u16) -> String {
        let (row, drawn) = self.drawn(prompt, output);
        command_text(&row, &drawn, cols, dialect)
    }

    /// The typed form of a shown command, if it is known. `lines` are those of its lines that were typed: so
    /// far, and then all of them.
    fn typed(&mut self, shown: String, lines: &mut Vec<String>) -> String {
        let shown = without_echo(&shown, &self.ahead, &self.keyed, lines);
        let was_typed = |line: &&str| self.ahead.count(line) + self.keyed.count(line) > 0;
        lines.extend(shown.split('\n').filter(was_typed).map(str::to_owned));
        let keyed = self.keyed.take_shown(&shown);
        self.ahead.take_shown(&shown).or(keyed).unwrap_or(shown)
    }

    /// Does the drawing up to there end in a full row, at which some editors continue in the next one?
    fn goes_on(&self, prompt: u64, output: u64, cols: u16) -> bool {
        let (row, drawn) = self.drawn(prompt, output);
        fills_row(&row, &drawn, cols)
    }

    /// The text in the row before a prompt, and the bytes drawn from the prompt on.
    fn drawn(&self, prompt: u64, output: u64) -> (Vec<u8>, Vec<u8>) {
        let prompt = prompt.max(output.saturating_sub(LONGEST_DRAWN));
        let mut before = self.read(prompt.saturating_sub(LONGEST_ROW), prompt);
        before.drain(..memchr::memrchr(b'\n', &before).map_or(0, |newline| newline + 1));
        (before, self.read(prompt, output))
    }

    /// These bytes of the log; none if they are gone.
    fn read(&self, start: u64, end: u64) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(end.saturating_sub(start)).unwrap_or(0)];
        let read = self.log.read_exact_at(&mut bytes, start);
        if read.is_ok() { bytes } else { Vec::new() }
    }

    /// Writes line by line: if we are killed, the file has whole lines. If the disk is full, the next
    /// command's lines may come with these.
    fn write(&mut self) {
        while !self.waiting.is_empty() {
            let end = memchr::memchr(b'\n', &self.waiting).map_or(self.waiting.len(), |end| end + 1);
            if self.file.is_none() {
                self.file = self.folder.open_or_make_appending(HISTORY).ok();
            }
            let Some(file) = &mut self.file else { break };
            let Ok(count @ 1..) = file.write(&self.waiting[..end]) else { break };
            self.waiting.drain(..count);
            self.length += count as u64;
        }
        if self.waiting.len() > MOST_WAITING {
            // A part of a line, which would join two halves.
            let kept = memchr::memchr(b'\n', &self.waiting).map_or(0, |end| end + 1);
            self.waiting.truncate(kept);
        }
        if self.length > MOST && self.waiting.is_empty() {
            let _ = self.cut();
        }
    }

    /// Keeps the second half.
    fn cut(&mut self) -> io::Result<()> {
        let file = self.folder.open_file(HISTORY)?;
        let length = file.metadata()?.len();
        let start = length.saturating_sub(MOST / 2);
        let mut kept = vec![0; usize::try_from(length - start).unwrap_or(0)];
        file.read_exact_at(&mut kept, start)?;
        let whole = memchr::memchr(b'\n', &kept).map_or(0, |newline| newline + 1);
        self.folder.replace(HISTORY, &kept[whole..])?;
        self.file = Some(self.folder.open_appending(HISTORY)?);
        self.length = (kept.len() - whole) as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{relay::tests::Rig, session::Settings};

    #[test]
    fn the_history_is_bounded_and_counted_and_read_from_its_end() {
        const COUNT: u64 = 20_000;
        let rig = Rig::new(Settings::default());
        let relay = &rig.relay;
        let mut history = History::open(&relay.pending.folder, 1).unwrap();
        let given = |command: CommandOf| Some(format!("echo {}", command.seq));
        let of = |level, seq| CommandOf { level, seq, dialect: Dialect::Bash };
        let begun = |command| CommandStep::Begun {
            command,
            prompt: 0,
            output: 0,
            folder: Some(b"/a/directory".into()),
            lines: 1,
        };
        // One goes on all the time.
        history.note(vec![begun(of(0, 0))], given, 80);
        for seq in 1..COUNT {
            let ended = CommandStep::Ended { command: of(1, seq), code: 0, end: 0 };
            history.note(vec![begun(of(1, seq)), ended], given, 80);
            assert!(history.length <= MOST + 1_000);
        }
        history.conclude(Some(7), 0);
        let mut last = Vec::new();
        let read = relay.session.commands_newest_first(|entry| {
            last.push((entry.id, entry.command, entry.exit_code));
            last.len() < 3
        });
        read.unwrap();
        let command = |id: u64| (id, format!("echo {}", id - 1), Some(0));
        assert_eq!(last, [command(COUNT), command(COUNT - 1), command(COUNT - 2)]);
        let mut all = Vec::new();
        let read = relay.session.commands_newest_first(|entry| {
            all.push(entry.id);
            true
        });
        read.unwrap();
        // The command that began first is recognised by its end.
        assert_eq!(all.pop(), Some(1));
        assert!(all.iter().rev().zip(all.iter().rev().skip(1)).all(|(one, next)| one + 1 == *next));
        assert!((2_000..COUNT as usize / 2).contains(&all.len()), "{}", all.len());
    }

    #[test]
    fn the_echo_of_a_line_is_no_output_on_either_side_of_the_question_for_it() {
        let of = CommandOf { level: 0, seq: 1, dialect: Dialect::Posix };
        for (printed, question) in
            [("cat <<end\r\n> end\r\nlast\r\n", 13), ("cat <<end\r\nend\r\n> last\r\n", 18)]
        {
            let rig = Rig::new(Settings::default());
            let relay = &rig.relay;
            let mut history = History::open(&relay.pending.folder, 1).unwrap();
            let mut log = relay.pending.folder.open_appending(OUTPUT).unwrap();
            log.write_all(printed.as_bytes()).unwrap();
            history.note_typed(b"cat <<end\r", 0, true);
            let begun = CommandStep::Begun { command: of, prompt: 0, output: 11, folder: None, lines: 1 };
            history.note(vec![begun], |_| None, 80);
            history.note_typed(b"end\r", 11, true);
            let continued = CommandStep::Continued { command: of, output: question };
            let ended = CommandStep::Ended { command: of, code: 0, end: printed.len() as u64 };
            history.note(vec![continued, ended], |_| None, 80);
            let mut last = None;
            let read = relay.session.commands_newest_first(|entry| {
                last = Some((entry.command, entry.offset, entry.length));
                false
            });
            read.unwrap();
            assert_eq!(last, Some(("cat <<end\nend".to_owned(), 18, Some(6))), "{printed}");
        }
    }

    #[test]
    fn typed_lines_are_edited_as_a_terminal_does() {
        let mut typed = TypedLines::default();
        typed.note("for a program\rab\u{e9}\x7fc\nall of it\x15none\r".as_bytes(), 0);
        typed.note(b"half", 0);
        assert_eq!(
            typed.lines.iter().map(|(line, _)| line).collect::<Vec<_>>(),
            ["for a program", "abc", "none"]
        );
        assert_eq!(typed.take_shown("abc"), Some("abc".into()));
        assert_eq!(typed.lines.len(), 1);
        typed.note(b"\rmore\r", 0);
        for (printed, echo) in [("none\r\nhalf\r\nof this", 12), ("none\r\n", 0)] {
            assert_eq!(typed.take_echo(printed.as_bytes()), echo);
        }
        typed.note(b"x\r", 0);
        assert_eq!(typed.take_shown("y"), None);
        assert_eq!(typed.take_echo(b"x\r\n"), 0);
        typed.note(b"a\tb  c\rend\r", 0);
        assert_eq!(typed.take_shown("begun\na       b  c\nend"), Some("begun\na\tb  c\nend".into()));
        // Lines that were typed at different times.
        typed.note(b"one\rtwo\r", 100);
        typed.note(b"three\r", 300);
        for (shown, is_it) in
            [("one", false), ("ne", true), ("o\ntwo", true), ("wo\nthree", true), ("three", false)]
        {
            assert_eq!(typed.were_typed_before(200, shown), is_it, "{shown}");
        }
    }

    #[test]
    fn of_lines_that_are_echoed_at_once_the_first_command_has_its_own() {
        let typed = |lines: &[(&'static str, u64)]| {
            let mut typed = TypedLines::default();
            lines.iter().for_each(|(line, offset)| typed.note(format!("{line}\r").as_bytes(), *offset));
            typed
        };
        // One was for a program; of the others two are a command.
        let mut lines = typed(&[("y", 50), ("cat <<E", 100), ("E", 100), ("b", 100), ("c", 0)]);
        assert_eq!(lines.take_first("cat <<E\nE\nb", 2, 90), Some("cat <<E\nE".into()));
        assert_eq!(lines.take_first("", 1, 110), Some("b".into()));
        assert_eq!(lines.take_first("x", 1, 120), None);
        // The shell has read the first line of the command before the others were typed.
        let mut lines = typed(&[("y", 50), ("cat <<E", 80), ("b", 100), ("E", 100)]);
        assert_eq!(lines.take_first("b\nE", 3, 90), Some("cat <<E\nb\nE".into()));
        // The terminal has echoed lines behind those that are still unread; the last one in part.
        for shown in ["b\nlong", "b", "ong"] {
            let mut lines = typed(&[("a", 100), ("b", 0), ("longer", 0), ("along", 100)]);
            assert_eq!(lines.take_first(shown, 1, 110), Some("a".into()), "{shown}");
        }
        // At a prompt before which it was typed.
        assert!(typed(&[("a", 100), ("b", 0)]).were_typed_before(50, "b"));
        assert!(!typed(&[("a", 100), ("b", 100)]).were_typed_before(50, "b"));
    }

    #[test]
    fn an_echo_that_a_line_editor_repeats_is_left_out() {
        let (mut ahead, mut keyed) = (TypedLines::default(), TypedLines::default());
        ahead.note(b"b\r", 0);
        keyed.note(b"a\r", 0);
        for (shown, expected) in [
            ("a\nb", "a\nb"),
            ("a\nb\nb", "a\nb"),
            ("b\na\nb", "a\nb"),
            ("b \na\nb", "a\nb"),
            ("c\nc\nb", "c\nc\nb"),
        ] {
            assert_eq!(without_echo(shown, &ahead, &keyed, &[]), expected);
        }
        // It was typed twice, once each way.
        keyed.note(b"b\r", 0);
        assert_eq!(without_echo("a\nb\nb", &ahead, &keyed, &[]), "a\nb\nb");
        // The command began with the echo, and took the line.
        let before = ["and more".to_owned()];
        let (ahead, mut keyed) = (TypedLines::default(), TypedLines::default());
        keyed.note(b"echo t7\r", 0);
        assert_eq!(without_echo("and more\necho t7\nand more", &ahead, &keyed, &before), "echo t7\nand more");
        // The echo has no end of its own.
        for (shown, expected) in [
            ("echo t7xyzecho t7", "echo t7"),
            ("ececho t7", "echo t7"),
            ("echo t7", "echo t7"),
            ("true; echo t7", "true; echo t7"),
        ] {
            assert_eq!(without_echo(shown, &ahead, &keyed, &[]), expected);
        }
    }

    #[test]
    fn a_line_is_known_by_the_part_that_is_shown() {
        let long = format!("echo {}", "0123456789 ".repeat(9));
        for (typed, shown, is_it) in [
            (&*long, "3456789 0123456789 0123456789    <", true),
            (&long, "3456789 0123456789 0123456789    x", false),
            (&long, "9 012 <", false),
            (&format!("\x01{long}"), "3456789 0123456789 0123456789    <", false),
            ("cat <", "cat <", true),
        ] {
            assert_eq!(is_shown_as(typed, shown), is_it, "{shown}");
        }
    }
}
