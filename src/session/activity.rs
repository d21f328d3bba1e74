//! The activity of a session: it waits for input, works, is done, or is idle.
//!
//! Its relay determines it (`relay/activity_tracker.rs`), from the kernel and from the session's own reports.
//! These are the words for it.

use std::time::Duration;

use crate::{
    numbers::{parse_seconds, seconds},
    session::settings::{escaped, unescaped},
    worded::worded,
};

/// The file with a session's report, while it holds: the state, the time, and the text, on one line.
pub(crate) const REPORT: &str = "report";

worded! {
    /// A session's activity in one word. The order is that of a listing.
    #[derive(PartialOrd, Ord)]
    pub(crate) enum Activity {
        /// It waits for input.
        Waiting = "waiting",
        /// It has reported that its work has failed, or is done.
        Failed = "failed",
        Done = "done",
        Working = "working",
        /// Its shell is at its prompt.
        Idle = "idle",
        Dead = "dead",
    }
}

impl Activity {
    /// Its work has ended, and the user may want to know.
    pub(crate) fn is_over(self) -> bool {
        matches!(self, Activity::Done | Activity::Failed)
    }
}

worded! {
    /// The source of a verdict.
    pub(crate) enum Because {
        /// A `report`.
        Report = "report",
        /// The program's report by the program status protocol.
        ProgramStatus = "program-status",
        /// For a program with rules: by its notice, by its title, or by its screen.
        Notice = "notice",
        Title = "title",
        Rule = "rule",
        /// The shell's marks: it is at its prompt.
        Shell = "shell",
        /// The program reads a line or a secret, or does not read.
        Kernel = "kernel",
        /// The program has the keyboard, and has done nothing else for a while.
        Quiet = "quiet",
    }
}

impl Because {
    /// Does it take precedence over the screen?
    pub(crate) fn is_stated(self) -> bool {
        matches!(self, Because::Report | Because::ProgramStatus)
    }
}

worded! {
    /// The activity that a session reports.
    pub(crate) enum ReportState {
        Working = "working",
        Waiting = "waiting",
        Done = "done",
        Failed = "failed",
        Idle = "idle",
    }
}

impl ReportState {
    /// Its work has ended.
    pub(crate) fn is_over(self) -> bool {
        self.activity().is_over()
    }

    pub(crate) fn activity(self) -> Activity {
        match self {
            ReportState::Working => Activity::Working,
            ReportState::Waiting => Activity::Waiting,
            ReportState::Done => Activity::Done,
            ReportState::Failed => Activity::Failed,
            ReportState::Idle => Activity::Idle,
        }
    }
}

/// The last `report` of a session. It is valid until input, or until the next report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) state: ReportState,
    /// Any bytes, no more than [`Report::LONGEST`]; often none.
    pub(crate) text: Vec<u8>,
    /// Since 1970, to the microsecond.
    pub(crate) since: Duration,
}

impl Report {
    /// The longest text: a screenful, and some more.
    pub(crate) const LONGEST: usize = 4_000;

    /// Longer than any file of one: each byte may be escaped.
    pub(crate) const LONGEST_FILE: u64 = 20_000;

    pub(crate) fn encode(&self) -> Vec<u8> {
        let since = seconds(self.since, 6);
        [self.state.word().as_bytes(), b" ", since.as_bytes(), b" ", &escaped(&self.text), b"\n"].concat()
    }

    /// `None` if the line was changed: other programs may have written the file.
    pub(crate) fn decode(line: &[u8]) -> Option<Report> {
        let mut words = line.strip_suffix(b"\n")?.splitn(3, |byte| *byte == b' ');
        let (state, since, text) = (words.next()?, words.next()?, words.next()?);
        let text =
            unescaped(text).filter(|text| text.len() <= Report::LONGEST && !line_has_controls(line))?;
        let since = parse_seconds(since).filter(|since| since.subsec_nanos() % 1_000 == 0)?;
        Some(Report { state: ReportState::parse(state)?, text, since })
    }
}

fn line_has_controls(line: &[u8]) -> bool {
    line[..line.len() - 1].iter().any(|byte| matches!(byte, 0..=0x1f | 0x7f))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::{rounds, spoiled};

    #[test]
    fn a_report_is_read_as_it_was_written_or_not_at_all() {
        let every_byte: Vec<u8> = (0..=255).collect();
        for text in [b"may I delete build/?".to_vec(), Vec::new(), b" a  b ".to_vec(), every_byte] {
            for &state in ReportState::ALL {
                let report = Report { state, text: text.clone(), since: Duration::from_micros(1_500_001) };
                assert_eq!(Report::decode(&report.encode()), Some(report));
            }
        }
        let long = "x".repeat(Report::LONGEST + 1);
        for bad in [
            "",
            "\n",
            "waiting 1.5\n",
            "waiting 1.5 x",
            "clear 1.5 x\n",
            "waiting -1 x\n",
            "waiting 1.5 \u{1b}[2J\n",
            "waiting 1.5 a\nb\n",
            "waiting 1.5 \\x4\n",
            &format!("waiting 1.5 {long}\n"),
        ] {
            assert_eq!(Report::decode(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn whatever_is_understood_is_understood_in_full() {
        for (seed, mut random) in rounds(500) {
            let line = spoiled(b"waiting 1790000000.123456 may I \\x1b?\n", &mut random);
            if let Some(report) = Report::decode(&line) {
                assert_eq!(Report::decode(&report.encode()), Some(report), "seed {seed}");
            }
        }
    }
}
