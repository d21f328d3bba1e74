//! The parts of command lines: options, times, sizes, names, free text; and the one way to print an answer.
//!
//! Everything here turns a word into a type once, at the edge, or prints in one line what would have been
//! right.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Read, Write},
    os::{
        fd::AsFd,
        unix::{ffi::OsStrExt, net::UnixStream, process::parent_id},
    },
    path::Path,
    time::Duration,
};

use regex_lite::Regex;

use crate::{
    outcome::{Failure, Result, Trying},
    session::{Handle, Name, SessionDir, StateDir, Target},
    sys::{deadline::Deadline, files::Folder, inherited, poll, processes::Process, pty::Size, socket},
    terminal,
};

/// The words of a call, read one by one.
///
/// `--json` and `--help` work everywhere and are taken out here.
pub(crate) struct Args {
    parser: lexopt::Parser,
    json: bool,
    // A `--` has been seen: what follows are operands.
    options_over: bool,
    /// Our caller's umask; our own is 077.
    pub(crate) umask: u32,
}

impl Args {
    pub(crate) fn new(words: Vec<OsString>, umask: u32) -> Args {
        Args { parser: lexopt::Parser::from_args(words), json: false, options_over: false, umask }
    }

    /// The next option or operand; see [`lexopt::Parser::next`].
    pub(crate) fn next(&mut self) -> Result<Option<lexopt::Arg<'_>>> {
        self.take_common_options()?;
        Ok(self.parser.next()?)
    }

    fn take_common_options(&mut self) -> Result<()> {
        if self.options_over {
            return Ok(());
        }
        let Some(mut words) = self.parser.try_raw_args() else {
            return Ok(());
        };
        while let Some(word) = words.peek() {
            match word.as_bytes() {
                b"--json" => {
                    words.next();
                    self.json = true;
                }
                b"--help" | b"-h" => return Err(Failure::help_asked()),
                b"--" => {
                    self.options_over = true;
                    break;
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// The next word as it is, if it begins with a dash but is not an option, nor one that works everywhere.
    pub(crate) fn text_but_for(&mut self, is_option: impl Fn(&str) -> bool) -> Option<OsString> {
        let mut words = self.parser.try_raw_args()?;
        let word = words.peek().filter(|word| word.as_bytes().starts_with(b"-") && *word != "-h")?;
        let name = word.as_bytes().strip_prefix(b"--").and_then(|word| str::from_utf8(word).ok());
        let name = name.and_then(|name| name.split('=').next());
        if name.is_some_and(|name| ["json", "help", ""].contains(&name) || is_option(name)) {
            return None;
        }
        words.next()
    }

    /// The value of the option that [`Args::next`] just gave.
    pub(crate) fn value(&mut self) -> Result<OsString> {
        Ok(self.parser.value()?)
    }

    /// All words that are left, as they are.
    pub(crate) fn words(&mut self) -> Result<Vec<OsString>> {
        Ok(self.parser.raw_args()?.collect())
    }

    /// Does the caller want JSON?
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// The same after a failure, when options may not have been read to the end.
    pub(crate) fn json_asked(&mut self) -> bool {
        let rest = self.parser.try_raw_args();
        self.json |= rest.is_some_and(|mut rest| rest.any(|word| word == "--json"));
        self.json
    }
}

/// The session that our parent must be the relay of, for a role that only a relay
/// starts.
pub(crate) fn session_of_parent(handle: &OsStr, sessions: &OsStr) -> Result<SessionDir> {
    let handle = Handle::parse(handle.as_encoded_bytes()).ok_or_else(by_hand)?;
    let folder = Folder::open(Path::new(sessions))
        .and_then(|sessions| sessions.open_folder(OsStr::new(handle.as_str())))
        .map_err(|_| by_hand())?;
    let session = SessionDir::new(handle, folder);
    if session.is_served_by(parent_id()) { Ok(session) } else { Err(by_hand()) }
}

/// For a role that only we start: our parent must run the same file.
pub(crate) fn started_by_us() -> Result<()> {
    let ours = Process::read(parent_id()).is_some_and(|parent| parent.runs_our_file());
    if ours { Ok(()) } else { Err(by_hand()) }
}

/// Standard input of a role that is started with a socket there, which must lead to a process of our user.
pub(crate) fn socket_on_stdin() -> Result<UnixStream> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned().map_err(|_| by_hand())?);
    if socket::leads_to_us(&socket).unwrap_or(false) { Ok(socket) } else { Err(by_hand()) }
}

/// An internal role has not been called as nbs calls it.
pub(crate) fn by_hand() -> Failure {
    Failure::bad_args("this is an internal role of nbs, not to be run by hand".into())
}

/// The umask that nbs hands to an internal role, in octal digits.
pub(crate) fn umask(word: &OsStr) -> Result<u32> {
    word.to_str().and_then(|digits| u32::from_str_radix(digits, 8).ok()).ok_or_else(by_hand)
}

pub(crate) fn missing_handle() -> Failure {
    Failure::bad_args("missing SESSION: a handle or @NAME".into())
}

pub(crate) fn parse_target(word: &OsStr) -> Result<Target> {
    Target::parse(word.as_bytes()).ok_or_else(|| {
        let is_name = || StateDir::open().ok()?.newest(&Name::parse(word.as_bytes())?).ok();
        let meant = is_name().map(|_| format!("; did you mean '@{}'?", word.display())).unwrap_or_default();
        let shown = word.display();
        Failure::bad_args(format!("'{shown}' is not a handle (8 of 0-9 and a-f) or @NAME{meant}"))
    })
}

/// The kinds of option values: each parses one, or describes its fault.
///
/// An empty value is a fault, because it would mean nothing: as of a variable that is not set.
pub(crate) fn some(option: &str, value: &OsStr) -> Result<OsString> {
    if value.is_empty() { Err(bad_value(option, value, "is empty")) } else { Ok(value.to_owned()) }
}

pub(crate) fn text(option: &str, value: &OsStr) -> Result<String> {
    some(option, value)?.into_string().map_err(|value| bad_value(option, &value, "is not UTF-8 text"))
}

pub(crate) fn time(option: &str, value: &OsStr) -> Result<Duration> {
    parse_time(value).ok_or_else(|| bad_value(option, value, "is not a time like 5, 500ms, 1.5, 2m or 1h"))
}

/// A time that is not nothing.
pub(crate) fn some_time(option: &str, value: &OsStr) -> Result<Duration> {
    let time = time(option, value)?;
    if time.is_zero() { Err(Failure::bad_args(format!("--{option} is zero"))) } else { Ok(time) }
}

pub(crate) fn size(option: &str, value: &OsStr) -> Result<u64> {
    parse_size(value).ok_or_else(|| bad_value(option, value, "is not a size like 512, 64K, 1M or 2G"))
}

/// The number of a process.
pub(crate) fn pid(option: &str, value: &OsStr) -> Result<u32> {
    whole_number(value.as_bytes())
        .and_then(|number| i32::try_from(number).ok()?.try_into().ok())
        .filter(|pid| *pid > 0)
        .ok_or_else(|| bad_value(option, value, "is not the PID of a process"))
}

/// A whole number from 0 up.
pub(crate) fn number(option: &str, value: &OsStr) -> Result<u64> {
    whole_number(value.as_bytes()).ok_or_else(|| bad_value(option, value, "is not a whole number from 0 up"))
}

pub(crate) fn name(option: &str, value: &OsStr) -> Result<Name> {
    let why = "is not a name: 1 to 64 of a-z, A-Z, 0-9, '_', '.' and '-', and not '-' alone";
    Name::parse(value.as_bytes()).ok_or_else(|| bad_value(option, value, why))
}

/// The columns and rows of a terminal, as in `80x24`.
pub(crate) fn terminal_size(option: &str, value: &OsStr) -> Result<Size> {
    parse_terminal_size(value).ok_or_else(|| bad_value(option, value, NO_TERMINAL_SIZE))
}

pub(crate) fn regex(option: &str, value: &OsStr) -> Result<Regex> {
    Regex::new(&text(option, value)?)
        .map_err(|error| bad_value(option, value, &format!("is not a regex: {error}")))
}

pub(crate) fn bad_value(option: &str, value: &OsStr, why: &str) -> Failure {
    Failure::bad_args(format!("'{}', given for --{option}, {why}", value.display()))
}

/// The fault of a word that should be a terminal's size.
pub(crate) const NO_TERMINAL_SIZE: &str = "is not a size like 80x24 (1 to 9999 each)";

/// The longest time that is taken for meant: a hundred years.
const LONGEST_TIME: Duration = Duration::from_secs(100 * 366 * 86_400);

pub(crate) fn parse_time(value: &OsStr) -> Option<Duration> {
    let value = value.to_str()?;
    let digits = value.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let unit = match &value[digits.len()..] {
        "ms" => Duration::from_millis(1),
        "" | "s" => Duration::from_secs(1),
        "m" => Duration::from_secs(60),
        "h" => Duration::from_secs(3_600),
        "d" => Duration::from_secs(86_400),
        _ => return None,
    };
    let (whole, fraction) = match digits.split_once('.') {
        Some(("", fraction)) if !fraction.is_empty() => ("0", fraction),
        Some(parts) => parts,
        None => (digits, "0"),
    };
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Digits after the ninth are less than a nanosecond of a second.
    let fraction = &fraction[..fraction.len().min(9)];
    let nanoseconds = unit.as_nanos() * u128::from(whole_number(fraction.as_bytes())?);
    let nanoseconds = u64::try_from(nanoseconds / 10_u128.pow(fraction.len() as u32)).ok()?;
    let whole = unit.checked_mul(whole_number(whole.as_bytes())?.try_into().ok()?)?;
    Some(whole + Duration::from_nanos(nanoseconds)).filter(|time| *time <= LONGEST_TIME)
}

fn parse_size(value: &OsStr) -> Option<u64> {
    let value = value.as_bytes();
    let (digits, unit) = match value.split_last()? {
        (b'K' | b'k', digits) => (digits, 1 << 10),
        (b'M' | b'm', digits) => (digits, 1 << 20),
        (b'G' | b'g', digits) => (digits, 1 << 30),
        _ => (value, 1),
    };
    whole_number(digits)?.checked_mul(unit)
}

fn whole_number(digits: &[u8]) -> Option<u64> {
    let all_digits = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let digits = std::str::from_utf8(digits).ok()?;
    digits.parse().ok().filter(|number| all_digits && *number <= i64::MAX as u64)
}

pub(crate) fn parse_terminal_size(value: &OsStr) -> Option<Size> {
    let (cols, rows) = value.to_str()?.split_once('x')?;
    let side = |digits: &str| {
        let side = whole_number(digits.as_bytes())?;
        (1..=9_999).contains(&side).then_some(side as u16)
    };
    Some(Size { cols: side(cols)?, rows: side(rows)? })
}

/// Fails if our caller left us no standard output: to be called before anything is done whose answer
/// would be lost.
pub(crate) fn check_stdout() -> Result<()> {
    written(inherited::check_stdout())
}

/// Writes an answer to standard output.
pub(crate) fn print(answer: impl AsRef<[u8]>) -> Result<()> {
    print_bytes(answer.as_ref())
}

/// For all kinds of texts.
fn print_bytes(answer: &[u8]) -> Result<()> {
    check_stdout()?;
    let mut stdout = io::stdout().lock();
    written(stdout.write_all(answer).and_then(|()| stdout.flush()))
}

/// All that comes on standard input, if its end has come by then.
pub(crate) fn whole_stdin(deadline: Deadline) -> Result<Vec<u8>> {
    let what = "read standard input";
    let (mut stdin, mut all) = (io::stdin().lock(), Vec::new());
    // Larger than std's own buffer, which so stays empty: poll(2) would not know of it.
    let mut buffer = vec![0; 64 * 1024];
    while poll::wait_readable(&stdin, deadline).trying(what)? {
        match stdin.read(&mut buffer) {
            Ok(0) => return Ok(all),
            Ok(count) => all.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).trying(what),
        }
    }
    Err(Failure::timed_out(format!("cannot {what}: timed out before its end")))
}

/// Prints a warning on standard error for a caller that got its answer.
pub(crate) fn warn(who: &str, warning: &str) {
    let line = format!("{who}: {}\n", terminal::text::escaped(warning.as_bytes()));
    // If standard error is closed, no one reads this.
    let _ = io::stderr().write_all(line.as_bytes());
}

/// The result of writing an answer.
pub(crate) fn written(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::reader_gone()),
        other => other.trying("write to standard output"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::{rounds, spoiled};
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn times_have_units_and_no_signs() {
        let cases = [
            ("5", Some(5_000)),
            ("1.5", Some(1_500)),
            ("500ms", Some(500)),
            ("2m", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("0", Some(0)),
            ("0.25", Some(250)),
            ("0.0019999999999999999999999999999999999999s", Some(1)),
            ("2.500", Some(2_500)),
            ("36500d", Some(3_153_600_000_000)),
            ("36601d", None),
            ("3s", Some(3_000)),
            ("1.5h", Some(5_400_000)),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1e3", None),
            ("inf", None),
            ("nan", None),
            (".5", Some(500)),
            (".1h", Some(360_000)),
            (".", None),
            (".s", None),
            ("-.5", None),
            ("5.", None),
            ("1 s", None),
            ("s", None),
            ("1x", None),
            ("1.2.3", None),
            ("99999999999999999999", None),
            ("0x10", None),
        ];
        for (word, milliseconds) in cases {
            let parsed = parse_time(OsStr::new(word)).map(|time| time.as_millis());
            assert_eq!(parsed, milliseconds, "{word:?}");
        }
    }

    #[test]
    fn sizes_count_in_1024() {
        let cases = [
            ("512", Some(512)),
            ("64K", Some(65_536)),
            ("1M", Some(1 << 20)),
            ("2G", Some(2 << 30)),
            ("", None),
            ("K", None),
            ("-1", None),
            ("1.5M", None),
            ("1T", None),
            ("99999999999G", None),
        ];
        for (word, bytes) in cases {
            assert_eq!(parse_size(OsStr::new(word)), bytes, "{word:?}");
        }
    }

    #[test]
    fn a_terminal_has_columns_and_rows() {
        assert_eq!(parse_terminal_size(OsStr::new("80x24")), Some(Size { cols: 80, rows: 24 }));
        for word in ["", "80", "x", "0x24", "80x0", "80x24x1", "-1x5", "80X24", "10000x1", "1e1x2"] {
            assert_eq!(parse_terminal_size(OsStr::new(word)), None, "{word:?}");
        }
    }

    #[test]
    fn any_text_is_a_value_within_bounds_or_none() {
        for (seed, mut random) in rounds(500) {
            for right in ["1.5", "500ms", "100d", "64K", "8G", "80x24", "9999x1"] {
                let text = OsString::from_vec(spoiled(right.as_bytes(), &mut random));
                let time = parse_time(&text).is_none_or(|time| time <= LONGEST_TIME);
                let size = parse_terminal_size(&text)
                    .is_none_or(|size| (1..=9_999).contains(&size.cols) && (1..=9_999).contains(&size.rows));
                assert!(time && size, "seed {seed}: {text:?}");
                let number = text.to_str().and_then(|text| text.parse::<u64>().ok());
                if let (Some(size), Some(number)) = (parse_size(&text), number) {
                    assert_eq!(size, number, "seed {seed}: {text:?}");
                }
            }
        }
    }
}
