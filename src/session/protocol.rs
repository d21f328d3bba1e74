//! What is said between a relay and those who ask it things.
//!
//! Each side sends lines of words; the first says what it is. A request that a
//! relay of another version does not know is answered by `unknown`, so old
//! relays and new clients (and the other way round) get on.

/// How long a line may be, with its end.
pub(crate) const LONGEST_LINE: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Tell me as soon as the session has changed since its `seen`-th change.
    Follow { seen: u64 },
    /// Type the bytes that come after this line.
    Type { length: u64 },
    /// What is the terminal doing?
    State,
    /// Let me have the session to myself, among those who ask this; until I go.
    Turn,
    /// How far has the session come?
    Place,
    /// Send the foreground process group the signal that a key would: `INT`,
    /// `QUIT` or `TSTP`, past whatever is still to be read or typed.
    Signal { name: String },
    /// The session is about to be ended, and this is why.
    Ending { cause: String },
    /// All that was to be ended has ended; you need not stay.
    Done,
    /// Who keeps the child, if you do not?
    Keeper,
}

impl Request {
    pub(crate) fn encode(&self) -> String {
        match self {
            Request::Follow { seen } => format!("follow {seen}\n"),
            Request::Type { length } => format!("type {length}\n"),
            Request::State => "state\n".to_owned(),
            Request::Turn => "turn\n".to_owned(),
            Request::Place => "place\n".to_owned(),
            Request::Signal { name } => format!("signal {name}\n"),
            Request::Ending { cause } => format!("ending {cause}\n"),
            Request::Done => "done\n".to_owned(),
            Request::Keeper => "keeper\n".to_owned(),
        }
    }

    /// `line` comes without its end.
    pub(crate) fn decode(line: &[u8]) -> Option<Request> {
        let line = std::str::from_utf8(line).ok()?;
        Some(match line.split(' ').collect::<Vec<_>>()[..] {
            ["follow", seen] => Request::Follow { seen: seen.parse().ok()? },
            ["type", length] => Request::Type { length: length.parse().ok()? },
            ["state"] => Request::State,
            ["turn"] => Request::Turn,
            ["place"] => Request::Place,
            ["signal", name] => Request::Signal { name: name.to_owned() },
            ["done"] => Request::Done,
            ["keeper"] => Request::Keeper,
            ["ending", cause] => Request::Ending { cause: cause.to_owned() },
            _ => return None,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The session has now changed so many times.
    Changed {
        seen: u64,
    },
    /// So many bytes have been typed. `held`: the rest is a line longer than a
    /// terminal in canonical mode takes.
    Typed {
        count: u64,
        held: bool,
    },
    /// What the terminal is doing, and why output is held back, if it is.
    State {
        doing: String,
        stalled: Option<String>,
    },
    /// The length of the log, and the number of the shell's last completion;
    /// the next that it prints or completes comes after both.
    Place {
        offset: u64,
        last: Option<u64>,
    },
    /// The PID of the child's keeper; `None` where there is none (any more).
    Keeper {
        pid: Option<u32>,
    },
    /// The session has ended, with this exit code if anybody knows it.
    Ended {
        code: Option<i32>,
    },
    Noted,
    Unknown,
}

impl Answer {
    pub(crate) fn encode(&self) -> String {
        match self {
            Answer::Changed { seen } => format!("changed {seen}\n"),
            Answer::Typed { count, held } => {
                format!("typed {count}{}\n", if *held { " held" } else { "" })
            }
            Answer::State { doing, stalled } => match stalled {
                Some(why) => format!("state {doing} {why}\n"),
                None => format!("state {doing}\n"),
            },
            Answer::Place { offset, last } => {
                format!("place {offset} {}\n", last.map_or("-".to_owned(), |last| last.to_string()))
            }
            Answer::Keeper { pid } => {
                format!("keeper {}\n", pid.map_or("-".to_owned(), |pid| pid.to_string()))
            }
            Answer::Ended { code } => {
                format!("ended {}\n", code.map_or("-".to_owned(), |code| code.to_string()))
            }
            Answer::Noted => "noted\n".to_owned(),
            Answer::Unknown => "unknown\n".to_owned(),
        }
    }

    pub(crate) fn decode(line: &[u8]) -> Option<Answer> {
        let line = std::str::from_utf8(line).ok()?;
        Some(match line.splitn(3, ' ').collect::<Vec<_>>()[..] {
            ["changed", seen] => Answer::Changed { seen: seen.parse().ok()? },
            ["typed", count] => Answer::Typed { count: count.parse().ok()?, held: false },
            ["typed", count, "held"] => Answer::Typed { count: count.parse().ok()?, held: true },
            ["state", doing] => Answer::State { doing: doing.to_owned(), stalled: None },
            ["state", doing, why] => Answer::State { doing: doing.to_owned(), stalled: Some(why.to_owned()) },
            ["place", offset, "-"] => Answer::Place { offset: offset.parse().ok()?, last: None },
            ["place", offset, last] => {
                Answer::Place { offset: offset.parse().ok()?, last: Some(last.parse().ok()?) }
            }
            ["keeper", "-"] => Answer::Keeper { pid: None },
            ["keeper", pid] => Answer::Keeper { pid: Some(pid.parse().ok()?) },
            ["ended", "-"] => Answer::Ended { code: None },
            ["ended", code] => Answer::Ended { code: Some(code.parse().ok()?) },
            ["noted"] => Answer::Noted,
            ["unknown"] => Answer::Unknown,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_end(line: &str) -> &[u8] {
        line.strip_suffix('\n').unwrap().as_bytes()
    }

    #[test]
    fn a_request_arrives_as_it_was_sent() {
        let requests = [
            Request::Follow { seen: 0 },
            Request::Follow { seen: u64::MAX },
            Request::Type { length: 5 },
            Request::State,
            Request::Turn,
            Request::Place,
            Request::Signal { name: "INT".into() },
            Request::Ending { cause: "kill".into() },
            Request::Done,
            Request::Keeper,
        ];
        for request in requests {
            assert_eq!(Request::decode(without_end(&request.encode())), Some(request));
        }
    }

    #[test]
    fn an_answer_arrives_as_it_was_sent() {
        let answers = [
            Answer::Changed { seen: 7 },
            Answer::Typed { count: 3, held: false },
            Answer::Typed { count: 3, held: true },
            Answer::State { doing: "prompt".into(), stalled: None },
            Answer::State { doing: "running".into(), stalled: Some("No space left on device".into()) },
            Answer::Keeper { pid: None },
            Answer::Keeper { pid: Some(7) },
            Answer::Place { offset: 12, last: None },
            Answer::Place { offset: 12, last: Some(3) },
            Answer::Ended { code: None },
            Answer::Ended { code: Some(137) },
            Answer::Noted,
            Answer::Unknown,
        ];
        for answer in answers {
            assert_eq!(Answer::decode(without_end(&answer.encode())), Some(answer));
        }
    }

    #[test]
    fn rubbish_is_no_request() {
        for line in ["", " ", "follow", "follow -1", "follow 1 2", "type", "type x", "\u{fffd}", "STATE"] {
            assert_eq!(Request::decode(line.as_bytes()), None, "{line:?}");
        }
        assert_eq!(Request::decode(b"\xff"), None);
    }
}
