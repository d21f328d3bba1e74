//! The sessions of another machine, received from a call there that stays open.

use std::ffi::OsString;

use crate::{
    machine::{
        call::{Came, End},
        far_lines::FarLines,
        name::MachineName,
    },
    outcome::Result,
    session::{Address, Overview, removed_of},
    sys::poll::PollSet,
    ts::{call_process::CallProcess, elsewhere::said_in_json},
};

pub(super) struct Far {
    pub(super) machine: MachineName,
    // `None`: it has ended.
    call: Option<CallProcess>,
    lines: FarLines,
}

/// A change of its sessions.
pub(super) enum FarNews {
    Told(Box<Overview>),
    Removed(Address),
    /// There will be no more, and why.
    Lost(String),
}

impl Far {
    /// Begins to follow the sessions with this in their name, if it is given.
    pub(super) fn begin(machine: MachineName, pattern: Option<&str>) -> Result<Far> {
        let mut words: Vec<OsString> =
            vec!["--json".into(), "--follow".into(), format!("--on={machine}").into()];
        words.extend(pattern.map(|pattern| format!("--name={pattern}").into()));
        let call = CallProcess::start("list", words)?;
        Ok(Far { machine, call: Some(call), lines: FarLines::default() })
    }

    pub(super) fn watch<'a, Event: Copy>(&'a self, poll_set: &mut PollSet<'a, Event>, event: Event) {
        if let Some(call) = &self.call {
            call.watch(poll_set, event);
        }
    }

    pub(super) fn hear(&mut self) -> Result<Vec<FarNews>> {
        let (mut came, mut news) = (Vec::new(), Vec::new());
        if let Some(call) = &mut self.call {
            call.tend(&mut came)?;
        }
        for came in came {
            match came {
                Came::Stdout(bytes) => self.take(&bytes, &mut news),
                Came::Stderr(bytes) => self.lines.take_words(&bytes),
                Came::Ended(End::Exit(_) | End::Lost(_)) => {
                    self.call = None;
                    let why = self
                        .lines
                        .why(|words| String::from_utf8_lossy(words).lines().last().and_then(said_in_json));
                    let machine = &self.machine;
                    news.push(FarNews::Lost(format!("{machine}: {}", machine.left_out_of(&why))));
                }
            }
        }
        Ok(news)
    }

    fn take(&mut self, bytes: &[u8], news: &mut Vec<FarNews>) {
        let machine = Some(self.machine.as_str());
        for line in self.lines.take(bytes) {
            if let Some(address) = removed_of(&line, machine) {
                news.push(FarNews::Removed(address));
            } else if let Some(overview) = Overview::parse(&line, machine) {
                news.push(FarNews::Told(Box::new(overview)));
            }
        }
    }
}
