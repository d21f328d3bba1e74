//! The sessions of another machine: told by a call there that goes on.

use std::ffi::OsString;

use crate::{
    machine::{
        call::{Came, End},
        name::MachineName,
    },
    outcome::Result,
    session::{Address, Overview, removed_of},
    sys::poll::PollSet,
    ts::{
        call_process::{CallProcess, keep_last},
        elsewhere::said_in_json,
    },
};

/// Longer than any line that is told.
const LONGEST_LINE: usize = 4 << 20;

pub(super) struct Far {
    pub(super) machine: MachineName,
    // `None`: it has ended.
    call: Option<CallProcess>,
    // What has come of a line, and of what it says to a person.
    line: Vec<u8>,
    words: Vec<u8>,
}

/// What has become known of its sessions.
pub(super) enum FarNews {
    Told(Box<Overview>),
    Removed(Address),
    /// There will be no more, and why.
    Lost(String),
}

impl Far {
    /// Begins to be told of those with this in their name, if it is given.
    pub(super) fn begin(machine: MachineName, pattern: Option<&str>) -> Result<Far> {
        let mut words: Vec<OsString> =
            vec!["--json".into(), "--follow".into(), format!("--on={machine}").into()];
        words.extend(pattern.map(|pattern| format!("--name={pattern}").into()));
        let call = CallProcess::start("list", words)?;
        Ok(Far { machine, call: Some(call), line: Vec::new(), words: Vec::new() })
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
                Came::Stderr(bytes) => keep_last(&mut self.words, &bytes),
                Came::Ended(End::Exit(_) | End::Lost(_)) => {
                    self.call = None;
                    let words = String::from_utf8_lossy(&self.words);
                    let said = words.lines().last().and_then(said_in_json);
                    let said = said.unwrap_or_else(|| "there is no news from there any more".into());
                    let machine = format!("{}: ", self.machine);
                    let why = said.strip_prefix(&machine).unwrap_or(&said);
                    news.push(FarNews::Lost(machine.clone() + why));
                }
            }
        }
        Ok(news)
    }

    fn take(&mut self, bytes: &[u8], news: &mut Vec<FarNews>) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if !piece.ends_with(b"\n") {
                // What is none is passed over.
                self.line.truncate(LONGEST_LINE);
                continue;
            }
            let machine = Some(self.machine.as_str());
            if let Some(address) = removed_of(&self.line, machine) {
                news.push(FarNews::Removed(address));
            } else if let Some(overview) = Overview::parse(&self.line, machine) {
                news.push(FarNews::Told(Box::new(overview)));
            }
            self.line.clear();
        }
    }
}
