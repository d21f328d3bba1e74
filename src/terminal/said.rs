//! All that a program says of itself by what it prints: its status, notices, how far it is.
//!
//! Pure: sequences in, the same for any way of splitting them. It keeps nothing for a
//! program that reports nothing.

use crate::terminal::{
    notices::{Notice, Notices, TaskProgress, Told},
    program_status::StatusRecords,
    queries::Sequence,
};

/// A prompt's tag that is longer is taken for one that has none.
const LONGEST_TAG: usize = 64;

/// As many notices as wait for whoever takes them; the first ones go.
const MOST_NOTICES: usize = 16;

#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    records: StatusRecords,
    progress: Option<TaskProgress>,
    parts: Notices,
    // Invariant: no more than `MOST_NOTICES`.
    notices: Vec<Notice>,
    // That of the prompt which has begun last.
    prompt: Vec<u8>,
    changed: bool,
}

impl Said {
    pub(crate) fn records(&self) -> &StatusRecords {
        &self.records
    }

    pub(crate) fn progress(&self) -> Option<TaskProgress> {
        self.progress
    }

    /// Has any of it changed since this was last called? And the notices that have come.
    pub(crate) fn take_changes(&mut self) -> (bool, Vec<Notice>) {
        (std::mem::take(&mut self.changed), std::mem::take(&mut self.notices))
    }

    /// Takes note of what a sequence says.
    pub(crate) fn handle(&mut self, sequence: Sequence) {
        if let Some(text) = sequence.osc() {
            if let Some(report) = text.strip_prefix(b"7501;") {
                self.changed |= self.records.take(report);
            } else if let Some(prompt) = text.strip_prefix(b"133;A") {
                if self.begins_prompt(prompt) {
                    self.note_over();
                }
            } else if text.first() == Some(&b'9') || text.starts_with(b"777;") {
                match self.parts.take(text) {
                    Some(Told::Progress(progress)) => {
                        self.changed |= progress != self.progress;
                        self.progress = progress;
                    }
                    Some(Told::Notice(notice)) => {
                        self.notices.push(notice);
                        if self.notices.len() > MOST_NOTICES {
                            self.notices.remove(0);
                        }
                        self.changed = true;
                    }
                    None => {}
                }
            }
        } else if sequence.resets() {
            self.changed |= self.records.clear() | self.progress.take().is_some();
        }
    }

    /// The program that was running has ended.
    pub(crate) fn note_over(&mut self) {
        self.changed |= self.records.note_over() | self.progress.take().is_some();
    }

    /// Is it a new prompt that these words of a mark begin: none that goes on with a line or
    /// stands at the right, and none of our shells' that is drawn again?
    fn begins_prompt(&mut self, words: &[u8]) -> bool {
        let mut tag = &b""[..];
        for word in words.split(|byte| *byte == b';') {
            match word {
                b"k=c" | b"k=s" | b"k=r" => return false,
                _ => tag = word.strip_prefix(b"nbs=").unwrap_or(tag),
            }
        }
        let is_again = !tag.is_empty() && tag == self.prompt;
        self.prompt = if tag.len() <= LONGEST_TAG { tag.to_vec() } else { Vec::new() };
        !is_again && words.first().is_none_or(|byte| *byte == b';')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        rounds::{pieces, rounds, spoiled},
        terminal::queries::{Part, Sequences},
    };

    fn received(pieces: &[&[u8]]) -> Said {
        let (mut sequences, mut said) = (Sequences::default(), Said::default());
        for piece in pieces {
            sequences.feed(piece, &mut |part, _| {
                if let Part::Sequence(sequence) = part {
                    said.handle(sequence);
                }
            });
        }
        said
    }

    fn words(said: &Said) -> String {
        let records = said.records.by_urgency();
        let words: Vec<&str> = records.iter().map(|record| record.state.word()).collect();
        words.join(" ")
    }

    const ALL: &str = "\x1b]7501;state=working\x07\x1b]7501;state=blocked:id=a\x1b\\\x1b]7501;state=done:id=b\x1b\\\
                       \x1b]7501;state=idle:id=c\u{9c}\x1b]9;4;3\x07";

    #[test]
    fn a_prompt_or_a_reset_ends_a_record() {
        for (printed, kept) in [
            ("", "blocked done working idle"),
            ("\x1b]133;A\x07", "done"),
            ("\x1b]133;A;k=i;aid=5\x1b\\", "done"),
            ("\x1b]133;A;nbs=secret.1\x07", "done"),
            ("\x1b]133;A;k=s\x07\x1b]133;A;k=c\x07\x1b]133;A;k=r\x07", "blocked done working idle"),
            ("\x1b]133;B\x07\x1b]133;C\x07\x1b]133;D;0\x07\x1b]133;AB\x07", "blocked done working idle"),
            ("\x1b[!p\x1b[?1049h\x1b[?1049l\x1b[2J", "blocked done working idle"),
            ("\x1bc", ""),
        ] {
            let said = received(&[ALL.as_bytes(), printed.as_bytes()]);
            assert_eq!(words(&said), kept, "{printed:?}");
            let lasts = kept.contains("working").then_some(TaskProgress::Busy);
            assert_eq!(said.progress(), lasts, "{printed:?}");
        }
        // A prompt that is drawn again is no new one.
        let prompt = "\x1b]133;A;nbs=secret.1\x07";
        assert_eq!(
            words(&received(&[prompt.as_bytes(), ALL.as_bytes(), prompt.as_bytes()])),
            "blocked done working idle"
        );
        let next = prompt.replace(".1", ".2");
        assert_eq!(words(&received(&[prompt.as_bytes(), ALL.as_bytes(), next.as_bytes()])), "done");
    }

    #[test]
    fn a_report_counts_up_to_the_longest_sequence() {
        let report = |length: usize| {
            let begin = "\x1b]7501;state=done:x=";
            format!("{begin}{}\x1b\\", "y".repeat(length - begin.len() - 2))
        };
        for (length, kept) in [(4096, "done"), (4097, "")] {
            assert_eq!(words(&received(&[report(length).as_bytes()])), kept, "{length}");
        }
    }

    #[test]
    fn changes_are_told_once() {
        let mut said = received(&[b"\x1b]9;one\x07\x1b]777;notify;two;three\x07"]);
        let (changed, notices) = said.take_changes();
        assert!(changed);
        assert_eq!(notices.iter().map(|notice| notice.text.as_str()).collect::<Vec<_>>(), ["one", "three"]);
        assert_eq!(said.take_changes(), (false, vec![]));
        let many: String = (0..40).map(|number| format!("\x1b]9;{number} x\x07")).collect();
        let notices = received(&[many.as_bytes()]).take_changes().1;
        assert_eq!((notices.len(), &*notices[0].text), (MOST_NOTICES, "24 x"));
    }

    #[test]
    fn any_split_says_the_same() {
        let right =
            format!("{ALL}\x1b]133;A;nbs=s.1\x07\x1b]99;i=1:d=0;a\x1b\\\x1b]99;i=1;b\x07{ALL}\x1b]9;x\x07");
        for (seed, mut random) in rounds(1_000) {
            let printed = spoiled(right.as_bytes(), &mut random);
            let (mut whole, mut split) = (received(&[&printed]), received(&pieces(&printed, 9, &mut random)));
            assert_eq!(whole.records, split.records, "seed {seed}");
            assert_eq!(whole.progress, split.progress, "seed {seed}");
            assert_eq!(whole.take_changes(), split.take_changes(), "seed {seed}");
        }
    }
}
