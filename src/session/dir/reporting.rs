//! The files in a session's directory about its shell, which reports by marks in the output.

use std::{ffi::OsString, io, os::unix::ffi::OsStrExt, path::Path};

use memchr::memmem;

use crate::{
    outcome::Result,
    session::{
        OutputLog,
        client::{Snapshot, input_history::InputHistory},
        dir::{LONGEST_WORD, RUN, RUN_TEXT, ReportingShell, SessionDir, SessionSpec},
        screen_cache,
        shell::{CommandDelivery, DeliveredBy, Dialect, EchoFilter, ShellCommand, Task, inner},
    },
    sys::random,
};

/// How much before a place an echo that comes after it may have been typed.
const BEFORE: u64 = 64 * 1024;

impl SessionDir {
    /// Its shells that report: its own, which may be none, and those inside it.
    pub(crate) fn levels(&self) -> Result<Vec<ReportingShell>> {
        self.trying(SessionSpec::levels(&self.folder), "read the secret")
    }

    /// The secrets that their marks carry.
    pub(crate) fn secrets(&self) -> Result<Vec<String>> {
        Ok(self.levels()?.into_iter().map(|level| level.secret).collect())
    }

    /// Stores a command for the shell with this index, and returns how it is delivered. `sessions` is
    /// where the shell finds this directory.
    pub(crate) fn hand_over(
        &self,
        sessions: &Path,
        log: &OutputLog,
        command: &[u8],
        place: &Snapshot,
        levels: &[ReportingShell],
    ) -> Result<CommandDelivery> {
        let (last, lines) = (place.seq.unwrap_or_default(), place.lines);
        let folder = sessions.join(self.handle.as_str());
        let text = folder.join(RUN_TEXT);
        let store_text = |delivery: &CommandDelivery| match &delivery.text {
            Some(text) => self.folder.exchange(RUN_TEXT, text),
            None => Ok(()),
        };
        if let Some((dialect, secret)) =
            levels.get(place.level).and_then(|level| Some((level.dialect?, &level.secret)))
        {
            let mut delivery = CommandDelivery::inner(dialect, command);
            if delivery.by == DeliveredBy::Text {
                delivery.text = Some(inner::text(secret, last.saturating_add(1), command));
                self.trying(store_text(&delivery), "record a command")?;
            }
            return Ok(delivery);
        }
        let shell = ShellCommand::parse(&self.command()?).ok_or_else(|| self.ended())?;
        // readline clears the row of its prompt, and the shell does not know the other text in it. To run the
        // command is worth more than that text.
        let beside = match shell.dialect {
            Dialect::Bash if !lines => {
                screen_cache::beside_prompt(self, log, place.offset).unwrap_or_default()
            }
            _ => String::new(),
        };
        let prepared = || {
            let secret = &levels.first().ok_or(io::ErrorKind::NotFound)?.secret;
            let id = random::hex::<8>()?;
            let rcfile = folder.join(shell.dialect.startup_file());
            let task = Task { secret, last, id: &id, rcfile: &rcfile, text: &text, command, beside: &beside };
            let handover = CommandDelivery::new(shell.dialect, &task, lines);
            store_text(&handover)?;
            if let Some(script) = &handover.script {
                self.folder.exchange_over(RUN, script)?;
            }
            Ok(handover)
        };
        self.trying(prepared(), "record a command")
    }

    /// Does a prompt of its shell end at this offset of the log? A prompt that the shell has drawn without
    /// reporting it, with the mark of an older one (and in capital letters under `stty olcuc`), counts, too.
    pub(crate) fn ends_with_prompt(&self, offset: u64) -> Result<bool> {
        let what = "read the end of the output";
        let tail = self.trying(self.log()?.bytes(offset.saturating_sub(LONGEST_WORD), offset), what)?;
        let start = memchr::memrchr(0x1b, &tail).unwrap_or(tail.len());
        let mut last = tail[start..].to_ascii_lowercase();
        let closed = last.pop() == Some(0x07);
        let is_of = |secret: &String| {
            let mark = format!("\x1b]133;b;nbs={secret}.");
            last.strip_prefix(mark.as_bytes()).is_some_and(|number| number.iter().all(u8::is_ascii_digit))
        };
        Ok(closed && self.secrets()?.iter().any(is_of))
    }

    /// Has readline been interrupted before this offset of the log, and begun to read again without drawing a
    /// prompt? bash processes this interrupt at the next key, which it loses.
    pub(crate) fn ends_with_lost_interrupt(&self, offset: u64) -> Result<bool> {
        const LOST: &[u8] = b"^C\x1b[?2004l\r\x1b[?2004h";
        // Back to the column where the cursor was.
        const RIGHT: &[u8] = b"\x1b[C";
        const LONGEST: u64 = 4096;
        let what = "read the end of the output";
        let tail = self.trying(self.log()?.bytes(offset.saturating_sub(LONGEST), offset), what)?;
        let mut tail = &tail[..];
        while let Some(before) = tail.strip_suffix(RIGHT) {
            tail = before;
        }
        Ok(tail.ends_with(LOST))
    }

    /// A filter that distinguishes the output from `anchor` on from the echo of typed text, and the
    /// offset in the log at which it must begin.
    pub(crate) fn echo_from(
        &self,
        log: &OutputLog,
        typing: Option<&InputHistory>,
        anchor: u64,
    ) -> Result<(EchoFilter, u64)> {
        let keys = typing.map(|typing| typing.keys.as_slice()).unwrap_or_default();
        let recent = |offset: u64| offset.saturating_add(BEFORE) >= anchor;
        let keys: Vec<_> = keys.iter().filter(|keys| recent(keys.offset)).cloned().collect();
        let first = keys.first().map_or(anchor, |keys| keys.offset.min(anchor));
        let line = self.trying(log.bytes(first.saturating_sub(4096), first), "read the output")?;
        let length = memchr::memrchr(b'\n', &line).map_or(line.len(), |at| line.len() - at - 1);
        let start = first - length as u64;
        let mut echo = EchoFilter::new(self.secrets()?, start, anchor);
        echo.note_typed(keys);
        Ok((echo, start))
    }

    /// Are these the arguments of its shell, as it was started?
    pub(crate) fn is_shell(&self, mut arguments: &[Vec<u8>]) -> bool {
        while let Some((_, rest)) = arguments.split_last().filter(|(last, _)| last.is_empty()) {
            arguments = rest;
        }
        let Some(shell) = self.command().ok().and_then(|command| ShellCommand::parse(&command)) else {
            return true;
        };
        let folder = Path::new(self.handle.as_str());
        let file = folder.join(shell.dialect.startup_file());
        let start = shell.start(folder);
        let expected = &start.words[start.words.len() - start.arguments..];
        let is_expected = |(argument, expected): (&Vec<u8>, &OsString)| {
            argument == expected.as_bytes() || memmem::find(argument, file.as_os_str().as_bytes()).is_some()
        };
        arguments.len() == expected.len() && arguments.iter().zip(expected).all(is_expected)
    }
}
