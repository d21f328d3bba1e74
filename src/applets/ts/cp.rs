//! cp - copy files to, from or between other machines
//! Task: On machines, 2
//!
//! Usage: nbs-ts cp [options] SOURCE... DEST
//!
//! A file on another machine is MACHINE:PATH; a relative PATH starts at the home
//! directory there. For a local file with a colon in its name, write ./a:b. As
//! with cp(1), DEST is a directory to copy into, or the new name of a single
//! SOURCE. No two SOURCEs may have the same name. Modes and times are kept, and
//! links in a directory remain links.
//!
//! A file appears as a whole or not at all, and replaces a link of the same name,
//! but never a device, a FIFO or a socket. If a process of cp is killed, part of a
//! file can remain, named .nbs-*. If the connection is lost, the copy waits, then
//! continues where it stopped. Data between two other machines passes through this
//! one. On a terminal, a line shows the progress.
//!
//! Options:
//!   --recursive       copy directories with their contents; also -r
//!
//! Exit codes:
//!   1                 something was not copied
//!   4                 bad arguments
//!   255               a machine is unreachable, or the call could not continue
//!                     within 60 seconds
//!
//! Example:
//!   nbs-ts cp -r devbox:project/logs pod7:/etc/app.conf .

use std::{
    ffi::{OsStr, OsString},
    io::{self, IsTerminal, Write},
    iter,
    os::unix::ffi::OsStrExt,
    path::Path,
    time::{Duration, Instant},
};

use crate::{
    call::CommandLine,
    machine::{
        call::RemoteCall,
        call_stream::CallStream,
        copy::{self, INTO, RECURSIVE},
        name::{self, MachineName},
        pump::pump,
    },
    outcome::{Failure, Result},
    terminal::text,
};

/// Between two drawings of the line.
const INTERVAL: Duration = Duration::from_millis(200);

struct Place {
    machine: Option<MachineName>,
    path: OsString,
}

impl Place {
    fn parse(word: &OsStr) -> Result<Place> {
        let bytes = word.as_bytes();
        let colon = bytes.iter().position(|byte| *byte == b':').filter(|at| !bytes[..*at].contains(&b'/'));
        let Some(at) = colon.filter(|at| *at > 0) else {
            return Ok(Place { machine: None, path: word.to_owned() });
        };
        let path = match &bytes[at + 1..] {
            b"" | b"~" | b"~/" => b".",
            [b'~', b'/', rest @ ..] => rest,
            path => path,
        };
        Ok(Place { machine: Some(name::parse(&bytes[..at])?), path: OsStr::from_bytes(path).to_owned() })
    }
}

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let is_recursive = call.has("recursive");
    let sources =
        call.operands("SOURCE").iter().map(|word| Place::parse(word)).collect::<Result<Vec<Place>>>()?;
    let target = Place::parse(call.operand("DEST").unwrap_or_default())?;
    if target.machine.is_none() && sources.iter().any(|source| source.machine.is_none()) {
        return Err(Failure::bad_args("neither file is on another machine; use cp(1)".into()));
    }
    let names = sources.iter().filter_map(|source| copy::sent_name(Path::new(&source.path)));
    let mut names: Vec<OsString> = names.map(OsStr::to_owned).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|two| two[0] == two[1]) {
        let shown = text::escaped(twice[0].as_bytes());
        return Err(Failure::bad_args(format!("two SOURCEs are named '{shown}'")));
    }
    let into = if sources.len() > 1 { INTO } else { "-" };
    let mut progress = Progress::new();
    let mut is_whole = true;
    for sources in sources.chunk_by(|one, other| one.machine == other.machine) {
        let mut passed = |count| progress.pass(count);
        is_whole &= copy(sources, &target, into, is_recursive, &mut passed)?;
    }
    progress.end();
    if is_whole { Ok(()) } else { Err(Failure::quiet()) }
}

/// Copies files of one machine. Returns whether all has been copied.
fn copy(
    sources: &[Place],
    target: &Place,
    into: &str,
    is_recursive: bool,
    passed: &mut dyn FnMut(usize),
) -> Result<bool> {
    let how = if is_recursive { RECURSIVE } else { "-" };
    let paths = sources.iter().map(|source| source.path.clone());
    let names = sources.iter().map(|source| copy::sent_name(Path::new(&source.path)).unwrap_or_default());
    let here = [into.into(), how.into(), target.path.clone()].into_iter();
    let to_receive: Vec<OsString> = here.chain(names.map(OsStr::to_owned)).collect();
    let part = |kind: &str, words: &[OsString]| {
        iter::once(kind.as_bytes().to_vec())
            .chain(words.iter().map(|word| word.as_bytes().to_vec()))
            .collect()
    };
    let send = |machine| {
        let words: Vec<OsString> = iter::once(how.into()).chain(paths.clone()).collect();
        RemoteCall::exec(machine, part("send", &words))
    };
    let receive = |machine| RemoteCall::exec(machine, part("receive", &to_receive));
    match (&sources[0].machine, &target.machine) {
        (Some(from), Some(to)) => pump(send(from)?, receive(to)?, passed),
        (Some(from), None) => {
            let mut stream = CallStream::new(send(from)?, passed)?;
            let received = copy::receive_from(&mut stream, &to_receive)?;
            stream.finish(received, "receive files")
        }
        (None, Some(to)) => {
            let mut stream = CallStream::new(receive(to)?, passed)?;
            let sent = copy::send_onto(&mut stream, is_recursive, &paths.collect::<Vec<_>>());
            stream.end_input();
            stream.finish(sent, "send files")
        }
        // That was rejected before.
        (None, None) => Ok(false),
    }
}

/// A line on the terminal that shows how far it is.
struct Progress {
    is_shown: bool,
    begun: Instant,
    drawn: Option<Instant>,
    passed: u64,
}

impl Progress {
    fn new() -> Progress {
        Progress { is_shown: io::stderr().is_terminal(), begun: Instant::now(), drawn: None, passed: 0 }
    }

    fn pass(&mut self, count: usize) {
        self.passed += count as u64;
        let is_due = |last: Instant| last.elapsed() >= INTERVAL;
        if self.is_shown && count > 0 && is_due(self.drawn.unwrap_or(self.begun)) {
            self.drawn = Some(Instant::now());
            self.draw();
        }
    }

    fn draw(&self) {
        let time = self.begun.elapsed();
        let rate = self.passed as u128 * 1_000 / time.as_millis().max(1);
        let seconds = time.as_secs();
        let line = format!(
            "\r{:>9}  {:>9}/s  {}:{:02}:{:02}\x1b[K",
            size(self.passed.into()),
            size(rate),
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60
        );
        // A terminal that has gone needs no line.
        let _ = io::stderr().write_all(line.as_bytes());
    }

    fn end(&self) {
        if self.drawn.is_some() {
            self.draw();
            let _ = io::stderr().write_all(b"\n");
        }
    }
}

/// A number of bytes for people.
fn size(bytes: u128) -> String {
    let (mut tenths, mut unit) = (bytes * 10, "B");
    for larger in ["kB", "MB", "GB", "TB"] {
        if tenths < 10_000 {
            break;
        }
        (tenths, unit) = (tenths / 1_000, larger);
    }
    match unit {
        "B" => format!("{bytes} B"),
        _ => format!("{}.{} {unit}", tenths / 10, tenths % 10),
    }
}
