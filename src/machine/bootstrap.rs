//! Starting our own file on another machine by a POSIX `sh`.
//!
//! `bootstrap.sh` does it on the other side. This file makes its input and parses its output. It skips
//! anything that a login prints before. Pure.

use crate::{help::texts::Text, machine::executable::Executable, terminal::text};

const SCRIPT: Text = Text::of("machine/bootstrap.sh");

/// The most bytes of other output before the script's first line, or between two of its lines.
const MOST_NOISE: usize = 1 << 20;

/// Longer than any line: a directory's path, and why it was skipped.
const LONGEST_LINE: usize = 8 * 1024;

pub(crate) struct Bootstrap {
    mark: Vec<u8>,
    // Received bytes that are not parsed yet.
    bytes: Vec<u8>,
    noise: usize,
    /// As `uname` has it: the system and its architecture.
    machine: String,
    /// The directories that were unsuitable, each with the reason.
    passed: Vec<String>,
    /// The directory of the file.
    folder: String,
    copied: bool,
}

/// The next action.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Send the whole file for that architecture.
    Send(String),
    /// We have no file for that architecture.
    Missing(String),
    /// Our own file speaks from here on; this is the first that it has said.
    Gone(Vec<u8>),
    /// It cannot be done.
    Failed(String),
}

impl Bootstrap {
    /// `mark` is 32 digits that cannot be guessed; `id` identifies the far side. Returns the script as
    /// well.
    pub(crate) fn new(mark: &str, id: &str, copies: &[Executable]) -> (Bootstrap, Vec<u8>) {
        let mut choices = String::new();
        for copy in copies {
            let machines = copy.machines().join(" | ");
            choices += &format!("    {machines}) content={} size={} ;;\n", copy.content, copy.size);
        }
        let (first, second) = mark.split_at(mark.len() / 2);
        let script = SCRIPT
            .get()
            .replace("@MARK1@", first)
            .replace("@MARK2@", second)
            .replace("# @CHOICES@\n", &choices)
            .replace("@ID@", id);
        let bootstrap = Bootstrap {
            mark: mark.as_bytes().to_vec(),
            bytes: Vec::new(),
            noise: 0,
            machine: String::new(),
            passed: Vec::new(),
            folder: String::new(),
            copied: false,
        };
        (bootstrap, script.into_bytes())
    }

    pub(crate) fn machine(&self) -> &str {
        &self.machine
    }

    pub(crate) fn folder(&self) -> &str {
        &self.folder
    }

    pub(crate) fn has_copied(&self) -> bool {
        self.copied
    }

    pub(crate) fn passed(&self) -> &[String] {
        &self.passed
    }

    /// Output that is not from our script. It may explain a failure.
    pub(crate) fn noise(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes what has come on the other side's standard output.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Option<Step> {
        self.bytes.extend_from_slice(bytes);
        loop {
            let Some(at) = memchr::memmem::find(&self.bytes, &self.mark) else {
                // Its beginning may be at the end.
                let keep = self.bytes.len().min(LONGEST_LINE);
                self.noise += self.bytes.len() - keep;
                self.bytes.drain(..self.bytes.len() - keep);
                return (self.noise > MOST_NOISE)
                    .then(|| Step::Failed("its output does not end, and it ignores commands".into()));
            };
            let after = at + self.mark.len();
            let Some(length) = memchr::memchr(b'\n', &self.bytes[after..]) else {
                let too_long = self.bytes.len() - after > LONGEST_LINE;
                return too_long.then(|| Step::Failed("it sent text that is not from our script".into()));
            };
            let line = String::from_utf8_lossy(&self.bytes[after..after + length]).into_owned();
            self.bytes.drain(..after + length + 1);
            self.noise = 0;
            if let Some(step) = self.handle(text::escaped(line.trim().as_bytes())) {
                return Some(step);
            }
        }
    }

    fn handle(&mut self, line: impl AsRef<str>) -> Option<Step> {
        let (word, rest) = line.as_ref().split_once(' ').unwrap_or((line.as_ref(), ""));
        match word {
            "machine" => {
                self.machine = rest.to_owned();
                None
            }
            "passed" => {
                self.passed.push(rest.to_owned());
                (self.passed.len() > 8).then(|| {
                    Step::Failed(
                        "it sent text that is not from our \
                    script"
                            .into(),
                    )
                })
            }
            "send" => {
                self.copied = true;
                Some(Step::Send(rest.split(' ').next().unwrap_or(rest).to_owned()))
            }
            "go" => {
                self.folder = rest.to_owned();
                Some(Step::Gone(std::mem::take(&mut self.bytes)))
            }
            "terminal" => {
                Some(Step::Failed("its command gives a terminal, but must give pipes; leave out -t".into()))
            }
            "no-file" => Some(Step::Missing(rest.to_owned())),
            "no-folder" => {
                Some(Step::Failed(format!("there is no directory for our file: {}", self.passed.join("; "))))
            }
            _ => Some(Step::Failed("it sent text that is not from our script".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::{pieces, rounds, spoiled};

    const MARK: &str = "0123456789abcdef0123456789abcdef";

    fn bootstrap() -> (Bootstrap, String) {
        let copy = Executable {
            architecture: "x86_64",
            path: "/proc/self/exe".into(),
            content: "c0ffee".into(),
            size: 12,
        };
        let (bootstrap, script) = Bootstrap::new(MARK, "id1", &[copy]);
        (bootstrap, String::from_utf8(script).unwrap())
    }

    #[test]
    fn the_script_has_all_that_it_needs_and_not_its_mark_in_one_piece() {
        let (_, script) = bootstrap();
        assert!(!script.contains('@'), "{script}");
        assert!(script.contains("x86_64 | amd64") && script.contains("content=c0ffee size=12"));
        assert!(!script.contains(MARK) && script.ends_with("\nnbs_bootstrap\n"));
    }

    #[test]
    fn output_of_a_login_is_skipped_in_any_pieces() {
        for (seed, mut random) in rounds(200) {
            let (mut bootstrap, script) = bootstrap();
            let noise: Vec<u8> = (0..random.usize(..65_536)).map(|_| random.u8(..)).collect();
            let said = format!(
                "{MARK} machine Linux x86_64\n{MARK} passed /home/a b full\n{MARK} go /tmp/nbs-0\n\x0f"
            );
            let all = [&noise[..], script.as_bytes(), said.as_bytes()].concat();
            let (mut last, mut first) = (None, Vec::new());
            for piece in pieces(&all, 9_000, &mut random) {
                match &last {
                    None => last = bootstrap.feed(piece),
                    Some(_) => first.extend_from_slice(piece),
                }
            }
            let Some(Step::Gone(begun)) = last else { panic!("seed {seed}: {last:?}") };
            assert_eq!([begun, first].concat(), b"\x0f", "seed {seed}");
            assert_eq!((bootstrap.machine(), bootstrap.folder()), ("Linux x86_64", "/tmp/nbs-0"));
        }
    }

    #[test]
    fn whatever_it_says_is_a_step_or_nothing_and_is_not_kept_for_ever() {
        for (seed, mut random) in rounds(300) {
            let (mut bootstrap, _) = bootstrap();
            let right = format!("{MARK} machine Linux x86_64\n{MARK} send x86_64 /tmp\n{MARK} no-folder\n");
            for _ in 0..20 {
                let _ = bootstrap.feed(&spoiled(right.repeat(20).as_bytes(), &mut random));
            }
            assert!(bootstrap.bytes.len() < 100_000, "seed {seed}");
        }
    }
}
