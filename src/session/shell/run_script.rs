//! How `run` delivers a command to a shell that has a line editor: by a file, and a key.
//!
//! No keyboard has that key. The startup file (`bash.bash`) binds it to the file, which makes the command the
//! editor's line, and the editor accepts it. So the terminal and the history have it as if it had been typed,
//! and it may have any bytes. If the startup file's hooks are gone by then, the file repairs them, and then
//! takes no command, because the present prompt was made without them.
//!
//! The file is executed under the same rules as `bash.bash`.

use std::{os::unix::ffi::OsStrExt, path::Path};

use crate::{
    session::shell::{Beginning, Dialect},
    worded::worded,
};

/// Has the shell take the command, and execute it.
pub(crate) const TAKE: &[u8] = b"\x1b[25;8~";
/// Has it look at the file alone: whether the end of the command that it has taken can be
/// reported now.
pub(crate) const LOOK: &[u8] = b"\x1b[25;9~";
/// Makes the editor accept the line.
pub(crate) const ACCEPT: &[u8] = b"\x1b[25;7~";

/// Has it drop the line that is begun.
pub(crate) const CLEAR: &[u8] = b"\x1b[25;6~";

/// As `TAKE`, after the end of a readline prompt with its own line (a search, which a program's question to its
/// terminal may begin in vi mode: `?` of the answer). If there is none, the key before means nothing, or is a
/// character of the line that `TAKE` replaces.
const ABORT_AND_TAKE: &[u8] = b"\x07\x1b[25;8~";

/// A line that is longer is not worth showing: it is loaded.
const LONGEST_SHOWN: usize = 4 * 1024;

/// The same for a typed line: a terminal in canonical mode accepts 4,095 bytes of it (termios(3)), and line
/// editors of small shells 1,023.
const LONGEST_TYPED: usize = 1_000;

impl Dialect {
    /// The keys that make the line editor drop the present line, and draw its prompt again. Unlike an
    /// interrupt they cannot come too late, and hit text typed behind them. `None`: there are no such keys.
    pub(crate) fn clearing(self) -> Option<&'static [u8]> {
        (self == Dialect::Fish).then_some(CLEAR)
    }
}

/// A command for a shell.
pub(crate) struct Task<'a> {
    pub(crate) secret: &'a str,
    /// The number of the shell's last completion.
    pub(crate) last: u64,
    /// Unlike that of any other command of the session.
    pub(crate) id: &'a str,
    pub(crate) rcfile: &'a Path,
    /// A file for the command.
    pub(crate) text: &'a Path,
    pub(crate) command: &'a [u8],
    /// The text beside the shell's prompt, which must stay there.
    pub(crate) beside: &'a str,
}

worded! {
    /// The way in which the shell gets a command.
    #[derive(Default)]
    pub(crate) enum DeliveredBy {
        /// A key, upon which it reports that it takes the command, which is not typed.
        #[default]
        Key = "key",
        /// A line, typed with its end.
        Line = "line",
        /// A line whose end is typed once its text is drawn.
        DrawnLine = "drawn-line",
        /// A text, in a file of the session, typed once the shell reports that it reads it.
        Text = "text",
    }
}

/// How it is handed over.
pub(crate) struct CommandDelivery {
    pub(crate) dialect: Dialect,
    pub(crate) by: DeliveredBy,
    /// The keys to type.
    pub(crate) keys: Vec<u8>,
    /// How many lines the shell is given.
    pub(crate) lines: usize,
    pub(crate) beginning: Beginning,
    /// The contents of the file with the command, or with what is typed for it, if that is used, and of the script.
    pub(crate) text: Option<Vec<u8>>,
    pub(crate) script: Option<Vec<u8>>,
}

impl CommandDelivery {
    fn of(dialect: Dialect, by: DeliveredBy, beginning: Beginning, keys: &[u8]) -> CommandDelivery {
        CommandDelivery { dialect, by, keys: keys.to_owned(), lines: 1, beginning, text: None, script: None }
    }

    /// For a command that is delivered already.
    pub(crate) fn again_by(dialect: Dialect, by: DeliveredBy, beginning: Beginning) -> CommandDelivery {
        match by {
            DeliveredBy::Key => CommandDelivery::by_key(dialect, beginning),
            by => CommandDelivery::of(dialect, by, beginning, b""),
        }
    }

    /// By its key, so that it can be delivered again.
    pub(crate) fn by_key(dialect: Dialect, beginning: Beginning) -> CommandDelivery {
        let key = if dialect == Dialect::Fish { LOOK } else { TAKE };
        CommandDelivery::of(dialect, DeliveredBy::Key, beginning, key)
    }

    /// `lines`: the shell has no line editor, and is typed to as by people.
    pub(crate) fn new(dialect: Dialect, task: &Task, lines: bool) -> CommandDelivery {
        let line = trimmed(task.command);
        let beginning = match dialect {
            Dialect::Bash | Dialect::Zsh => Beginning::Mark,
            Dialect::Fish => Beginning::MarkAndSequences,
            Dialect::Posix => Beginning::Line,
        };
        if lines || dialect == Dialect::Posix {
            let is_typed = is_typed(dialect, line);
            let mut keys = if is_typed { line.to_owned() } else { task.loading() };
            if lines {
                keys.push(b'\r');
            }
            let by = if lines { DeliveredBy::Line } else { DeliveredBy::DrawnLine };
            let text = (!is_typed).then(|| task.command.to_owned());
            return CommandDelivery { text, ..CommandDelivery::of(dialect, by, beginning, &keys) };
        }
        let by_file = dialect == Dialect::Fish || line.len() > LONGEST_SHOWN || line.contains(&b'\n');
        let script = match dialect {
            Dialect::Bash => Some(task.bash()),
            Dialect::Zsh => Some(task.zsh()),
            Dialect::Fish | Dialect::Posix => None,
        };
        CommandDelivery {
            lines: memchr::memchr_iter(b'\n', line).count() + 1,
            text: by_file.then(|| task.command.to_owned()),
            script: script.map(String::into_bytes),
            ..CommandDelivery::by_key(dialect, beginning)
        }
    }

    /// To a shell inside the session's own, which finds no file of ours. A text is still to be made.
    pub(crate) fn inner(dialect: Dialect, command: &[u8]) -> CommandDelivery {
        let line = trimmed(command);
        // fish keeps an unfinished command in its editor, and reports neither that nor an empty line.
        if !is_typed(dialect, line) || !line.is_ascii() || dialect == Dialect::Fish {
            return CommandDelivery::of(dialect, DeliveredBy::Text, Beginning::Text, reading(dialect));
        }
        let beginning = if dialect == Dialect::Posix { Beginning::Line } else { Beginning::Mark };
        CommandDelivery::of(dialect, DeliveredBy::DrawnLine, beginning, line)
    }

    /// The keys to type if the key was lost; `None`: it is not delivered by one.
    pub(crate) fn again(&self) -> Option<&'static [u8]> {
        let keys = match self.dialect {
            Dialect::Bash => ABORT_AND_TAKE,
            Dialect::Fish => LOOK,
            Dialect::Zsh | Dialect::Posix => TAKE,
        };
        (self.by == DeliveredBy::Key).then_some(keys)
    }

    /// The shell can be asked how the command has ended.
    pub(crate) fn can_look(&self) -> bool {
        self.by == DeliveredBy::Key && self.dialect != Dialect::Fish
    }

    /// The shell itself goes back to its prompt if it wants more of the command.
    pub(crate) fn leaves_unfinished(&self) -> bool {
        self.by == DeliveredBy::Key && self.dialect == Dialect::Fish
    }
}

/// The kernel does not accept a longer line; and we do not type text that the shell would expand or complete.
fn is_typed(dialect: Dialect, line: &[u8]) -> bool {
    let is_plain = |byte: &u8| *byte >= b' ' && *byte != 0x7f;
    line.len() <= LONGEST_TYPED
        && line.iter().all(is_plain)
        && !(dialect != Dialect::Posix && line.contains(&b'!'))
}

impl Task<'_> {
    /// The loading of its file. The space keeps it out of the history of users who want that.
    fn loading(&self) -> Vec<u8> {
        [b" . ", posix_quoted(self.text).as_slice()].concat()
    }

    /// The code that bash sources.
    fn bash(&self) -> String {
        // A ^C at the prompt counts it up by one, and may not have been seen yet.
        let numbers: Vec<String> =
            (self.last..self.last.saturating_add(8)).map(|seq| seq.to_string()).collect();
        let line = self.line();
        let loading = if line.contains("\\012") { self.loading() } else { Vec::new() };
        include_str!(concat!(env!("OUT_DIR"), "/run.bash"))
            .replace("@SECRET@", self.secret)
            .replace("@NUMBERS@", &numbers.join("|"))
            .replace("@LAST@", &self.last.to_string())
            .replace("@ID@", self.id)
            .replace("@RCFILE@", &quoted(self.rcfile))
            .replace("@LOADING@", &quoted_bytes(&loading))
            .replace("@UNUSED@", &unused(self.command))
            .replace("@BESIDE@", &quoted_bytes(self.beside.as_bytes()))
            .replace("@LINE@", &line)
    }

    /// The code that zsh sources.
    fn zsh(&self) -> String {
        format!("__nbs_id={} __nbs_text={}\n", self.id, self.line())
    }

    fn line(&self) -> String {
        let line = trimmed(self.command);
        if line.len() > LONGEST_SHOWN { quoted_bytes(&self.loading()) } else { quoted_bytes(line) }
    }
}

/// As a word of any shell.
fn posix_quoted(path: &Path) -> Vec<u8> {
    let bytes = path.as_os_str().as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(byte);
    if bytes.iter().all(is_plain) {
        return bytes.to_owned();
    }
    let mut word = vec![b'\''];
    for byte in bytes {
        match byte {
            b'\'' => word.extend(b"'\\''"),
            _ => word.push(*byte),
        }
    }
    word.push(b'\'');
    word
}

/// Without the ends of lines behind it; an escaped one does not count.
fn trimmed(command: &[u8]) -> &[u8] {
    let length = command.iter().rposition(|byte| *byte != b'\n').map_or(0, |last| last + 1);
    let is_escaped = command[..length].ends_with(b"\\");
    &command[..length + usize::from(is_escaped && length < command.len())]
}

/// Two characters that are not in it, for printf.
fn unused(command: &[u8]) -> String {
    let unused =
        (1..0x20).chain(b'!'..0x7f).filter(|byte| !command.contains(byte) && !b"\t\n\r".contains(byte));
    unused.take(2).map(|byte| format!("\\{byte:03o}")).collect()
}

/// Blank lines and comments: commands that have no status of their own. Not for
/// bash to answer with the status of the command before.
pub(crate) fn is_nothing(command: &[u8]) -> bool {
    command
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .all(|line| line.is_empty() || line[0] == b'#')
}

/// As a word of bash, in ASCII.
pub(super) fn quoted(path: &Path) -> String {
    quoted_bytes(path.as_os_str().as_bytes())
}

fn quoted_bytes(bytes: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(byte);
    if !bytes.is_empty() && bytes.iter().all(is_plain) {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let mut word = String::from("$'");
    for byte in bytes {
        match byte {
            b'\'' | b'\\' => word.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => word.push(char::from(*byte)),
            _ => word.push_str(&format!("\\{byte:03o}")),
        }
    }
    word.push('\'');
    word
}

/// The keys that make the shell read a text; they end the line, too.
fn reading(dialect: Dialect) -> &'static [u8] {
    match dialect {
        // Fish may draw some text typed before an interrupt only behind the next prompt.
        Dialect::Fish => b"\x1b[25;6~ eval (__nbs_read)\r",
        _ => b" eval \"$(__nbs_read)\"\r",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_of_ascii() {
        assert_eq!(quoted(Path::new("/home/a-b/.nbs-ts")), "/home/a-b/.nbs-ts");
        assert_eq!(quoted(Path::new("/a b/it's\u{e9}!")), "$'/a b/it\\'s\\303\\251!'");
    }

    #[test]
    fn the_ends_of_lines_behind_a_command_are_not_part_of_it() {
        for (command, line) in [
            ("", ""),
            ("\n\n", ""),
            ("a\nb\n\n", "a\nb"),
            ("a\\\n", "a\\\n"),
            ("a\\", "a\\"),
            ("\\\n\n", "\\\n"),
        ] {
            assert_eq!(trimmed(command.as_bytes()), line.as_bytes(), "{command:?}");
        }
    }

    #[test]
    fn two_characters_are_found_that_a_command_has_not() {
        assert_eq!(unused(b"echo"), "\\001\\002");
        assert_eq!(unused(&(1..=0x40).collect::<Vec<u8>>()), "\\101\\102");
    }

    #[test]
    fn blank_lines_and_comments_are_nothing() {
        for nothing in ["", " ", "\n\n", "# x", " \t# x\n\n#y"] {
            assert!(is_nothing(nothing.as_bytes()), "{nothing:?}");
        }
        for something in ["a", "# x\na", ":", "a # x"] {
            assert!(!is_nothing(something.as_bytes()), "{something:?}");
        }
    }
}
