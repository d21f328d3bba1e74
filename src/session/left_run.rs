//! A command that a `run` has left while it goes on, for another call to resume.

use std::io;

use crate::{
    outcome::{Result, Trying},
    session::{
        SessionDir,
        dir::{self, RUN_LEFT},
    },
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeftRun {
    /// The number of the completion before the command's.
    pub(crate) last: u64,
    /// Which of the session's shells executes it.
    pub(crate) level: usize,
    /// How far its output has been printed, in the log.
    pub(crate) printed: u64,
    /// How many bytes had been typed by then.
    pub(crate) typed: u64,
    /// The shell can be asked how the command has ended.
    pub(crate) can_look: bool,
    /// Its output has not begun, and fish's own sequences are to come before it.
    pub(crate) begins: bool,
    /// It comes from another terminal.
    pub(crate) is_far: bool,
    /// The shell will mark its end itself, too.
    pub(crate) marks_end: bool,
}

impl LeftRun {
    fn encode(self) -> String {
        let word = |flag, word| if flag { word } else { "-" };
        let (look, begins) = (word(self.can_look, "look"), word(self.begins, "begins"));
        let (far, marks) = (word(self.is_far, "far"), word(self.marks_end, "marks"));
        let LeftRun { last, level, printed, typed, .. } = self;
        format!("{last} {level} {printed} {typed} {look} {begins} {far} {marks}\n")
    }

    fn decode(line: &[u8]) -> Option<LeftRun> {
        let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
        let [last, level, printed, typed, look, begins, far, marks] = line.split(' ').collect::<Vec<_>>()[..]
        else {
            return None;
        };
        let flag = |word, yes| (word == yes || word == "-").then_some(word == yes);
        Some(LeftRun {
            last: last.parse().ok()?,
            level: level.parse().ok()?,
            printed: printed.parse().ok()?,
            typed: typed.parse().ok()?,
            can_look: flag(look, "look")?,
            begins: flag(begins, "begins")?,
            is_far: flag(far, "far")?,
            marks_end: flag(marks, "marks")?,
        })
    }
}

impl SessionDir {
    /// The command that the last `run` has left, if it has.
    pub(crate) fn left_run(&self) -> Result<Option<LeftRun>> {
        let what = format!("read the command that 'run' left in session '{}'", self.handle());
        let line = self.read_if_there(RUN_LEFT, dir::LONGEST_WORD).trying(what)?;
        Ok(LeftRun::decode(&line))
    }

    pub(crate) fn leave_run(&self, left: LeftRun) -> Result<()> {
        let what = format!("record the command that 'run' leaves in session '{}'", self.handle());
        self.folder.exchange(RUN_LEFT, left.encode().as_bytes()).trying(what)
    }

    /// There is nothing to resume any more.
    pub(crate) fn forget_left_run(&self) -> Result<()> {
        match self.folder.remove_file(RUN_LEFT.as_ref()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.trying(format!(
                "remove the record of the command that 'run' left in session \
                '{}'",
                self.handle()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resumable_run_is_read_back_and_invalid_data_ignored() {
        for number in 0..4 {
            let [can_look, begins, is_far, marks_end] = std::array::from_fn(|at| at == number);
            let left =
                LeftRun { last: 3, level: 1, printed: 500, typed: 7, can_look, begins, is_far, marks_end };
            assert_eq!(LeftRun::decode(left.encode().as_bytes()), Some(left));
        }
        for line in [
            "",
            "\n",
            "1 2 3 4 look - - -",
            "1 2 x 4 - - - -\n",
            "1 2 3 4 - - - - -\n",
            "1 2 3 4 yes - - -\n",
        ] {
            assert_eq!(LeftRun::decode(line.as_bytes()), None, "{line:?}");
        }
    }
}
