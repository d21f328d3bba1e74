//! A call on another machine that prints without end, and is begun again when it is over.

use std::time::Duration;

use crate::{
    machine::{
        call::{Came, End, RemoteCall},
        name::MachineName,
    },
    sys::{deadline::Deadline, poll::PollSet},
};

/// Longer than any valid line.
const LONGEST_LINE: usize = 4 << 20;

/// How much is kept of what is printed on standard error: it ends with why something failed.
const MOST_WORDS: usize = 4096;

/// A working machine answers sooner; after this long a silent one counts as missing.
const SOON: Duration = Duration::from_secs(2);

/// How long after the end of a call there is another: at first, and at most.
const PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The state of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallState {
    /// There is no call. The next one is at this time.
    Pausing(Deadline),
    /// The call has sent nothing yet. After this time the machine counts as missing.
    Calling(Deadline),
    /// It has sent something valid.
    Heard,
    /// It did, and the connection is lost. After this time the machine counts as missing.
    Silent(Deadline),
}

/// News about the connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CallNews {
    /// The machine answers, or answers again.
    Heard,
    /// It does not answer, for this reason; the call goes on.
    Missing(String),
    /// The call is over, for this reason. If not even a part of it was sent, nothing was done there.
    Over { why: String, was_sent: bool },
}

pub(crate) struct RenewedCall {
    machine: MachineName,
    words: Vec<Vec<u8>>,
    // Invariant: `None` exactly while it is pausing.
    call: Option<RemoteCall>,
    state: CallState,
    /// Something is to be read or sent.
    stirred: bool,
    /// How long it is until the next call when this one is over.
    pause: Duration,
    lines: CallLines,
}

impl RenewedCall {
    /// There is no call before `begin`.
    pub(crate) fn new(machine: MachineName, words: Vec<Vec<u8>>) -> RenewedCall {
        RenewedCall {
            machine,
            words,
            call: None,
            state: CallState::Pausing(Deadline::NEVER),
            stirred: false,
            pause: PAUSE,
            lines: CallLines::default(),
        }
    }

    pub(crate) fn machine(&self) -> &MachineName {
        &self.machine
    }

    /// Calls at once, if there is no call.
    pub(crate) fn begin(&mut self) {
        if self.call.is_none() {
            self.state = CallState::Pausing(Deadline::after(Duration::ZERO));
        }
    }

    /// Hangs up, until `begin`. Returns whether a part of the call was sent.
    pub(crate) fn end(&mut self) -> bool {
        let was_sent = self.was_sent();
        self.hang_up(Deadline::NEVER);
        was_sent
    }

    fn was_sent(&self) -> bool {
        self.call.as_ref().is_some_and(RemoteCall::was_sent)
    }

    fn hang_up(&mut self, until: Deadline) {
        (self.call, self.state, self.lines) = (None, CallState::Pausing(until), CallLines::default());
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.call.is_some()
    }

    pub(crate) fn watch<'a, Event: Copy>(&'a self, poll_set: &mut PollSet<'a, Event>, event: Event) {
        if let Some(call) = &self.call {
            call.watch(poll_set, event);
        }
    }

    /// When to drive it at the latest.
    pub(crate) fn deadline(&self) -> Deadline {
        let call = self.call.as_ref().map_or(Deadline::NEVER, RemoteCall::deadline);
        match self.state {
            _ if self.stirred => Deadline::after(Duration::ZERO),
            CallState::Pausing(due) | CallState::Calling(due) | CallState::Silent(due) => due.min(call),
            CallState::Heard => call,
        }
    }

    /// Something can be read; to be called before `drive`.
    pub(crate) fn note(&mut self) {
        self.stirred = true;
    }

    /// Writes to its standard input. Without a call, nobody reads that.
    pub(crate) fn give(&mut self, bytes: &[u8]) {
        if let Some(call) = &mut self.call {
            call.stdin().push(bytes);
            call.send();
            self.stirred = true;
        }
    }

    /// Receives what there is, and calls if it is time. `take` gets each line with its newline, and returns whether
    /// it is valid: a connection alone is not enough, because a call may end at once, again and again.
    /// `why` finds the reason of the end in the last of what was printed on standard error.
    pub(crate) fn drive(
        &mut self,
        take: &mut dyn FnMut(Vec<u8>) -> bool,
        why: fn(&[u8]) -> Option<String>,
    ) -> Vec<CallNews> {
        let mut news = Vec::new();
        if !std::mem::take(&mut self.stirred) && !self.deadline().has_passed() {
            return news;
        }
        if let CallState::Pausing(until) = self.state
            && until.has_passed()
        {
            match RemoteCall::begin(&self.machine, self.words.clone(), None, None) {
                Ok(call) => self.call = Some(call),
                Err(failure) => {
                    self.lose(failure.message().unwrap_or_default(), &mut news);
                    return news;
                }
            }
            self.state = CallState::Calling(Deadline::after(SOON));
        }
        let Some(call) = &mut self.call else { return news };
        let came = call.drive();
        let trouble = call.trouble().map(str::to_owned);
        for came in came {
            match came {
                Came::Stdout(bytes) => self.take(&bytes, take, &mut news),
                Came::Stderr(bytes) => keep_last(&mut self.lines.words, &bytes),
                Came::Ended(end) => {
                    let reason = match &end {
                        End::Lost(failure) => failure.message().unwrap_or_default().to_owned(),
                        End::Exit(_) => {
                            why(&self.lines.words).unwrap_or_else(|| "its updates have stopped".into())
                        }
                    };
                    self.lose(&reason, &mut news);
                    return news;
                }
            }
        }
        self.look_at_the_clock(trouble.as_deref(), &mut news);
        news
    }

    /// Ends a call that sends more than its caller keeps. The next one would send as much.
    pub(crate) fn refuse(&mut self, why: &str) -> CallNews {
        self.pause = LONGEST_PAUSE;
        let mut news = Vec::new();
        self.lose(why, &mut news);
        news.remove(0)
    }

    fn take(&mut self, bytes: &[u8], take: &mut dyn FnMut(Vec<u8>) -> bool, news: &mut Vec<CallNews>) {
        for line in self.lines.take(bytes) {
            if take(line) {
                self.pause = PAUSE;
                if self.state != CallState::Heard {
                    self.state = CallState::Heard;
                    news.push(CallNews::Heard);
                }
            }
        }
    }

    /// Call this when all that has come is processed; `trouble` is the reason why there is no connection.
    fn look_at_the_clock(&mut self, trouble: Option<&str>, news: &mut Vec<CallNews>) {
        match (self.state, trouble) {
            (CallState::Heard, Some(_)) => self.state = CallState::Silent(Deadline::after(SOON)),
            (CallState::Silent(_), None) => {
                self.state = CallState::Heard;
                news.push(CallNews::Heard);
            }
            (CallState::Calling(due) | CallState::Silent(due), why) if due.has_passed() => {
                news.push(CallNews::Missing(self.shown(why.unwrap_or("it has sent nothing yet"))));
                // It may be another reason by then.
                let next = Deadline::after(LONGEST_PAUSE);
                self.state = match self.state {
                    CallState::Calling(_) => CallState::Calling(next),
                    _ => CallState::Silent(next),
                };
            }
            _ => {}
        }
    }

    fn lose(&mut self, why: &str, news: &mut Vec<CallNews>) {
        news.push(CallNews::Over { why: self.shown(why), was_sent: self.was_sent() });
        self.hang_up(Deadline::after(self.pause));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// A reason as it is shown beside the machine's name.
    fn shown(&self, why: &str) -> String {
        self.machine.left_out_of(why).to_owned()
    }
}

/// Output of a call: the incomplete line, and the last of standard error.
#[derive(Default)]
struct CallLines {
    line: Vec<u8>,
    words: Vec<u8>,
}

impl CallLines {
    /// Takes bytes of standard output; returns the lines that are complete, each with its newline. A
    /// line that is too long is truncated, and so invalid.
    fn take(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            match piece.ends_with(b"\n") {
                true => lines.push(std::mem::take(&mut self.line)),
                false => self.line.truncate(LONGEST_LINE),
            }
        }
        lines
    }
}

/// Adds what is printed on standard error to what was printed before; of both, the last is kept.
pub(crate) fn keep_last(words: &mut Vec<u8>, more: &[u8]) {
    words.extend_from_slice(more);
    words.drain(..words.len().saturating_sub(MOST_WORDS));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> RenewedCall {
        RenewedCall::new(MachineName::parse(b"box").unwrap(), Vec::new())
    }

    fn take(call: &mut RenewedCall, bytes: &[u8]) -> Vec<CallNews> {
        let mut news = Vec::new();
        call.take(bytes, &mut |line| line != b"nonsense\n", &mut news);
        news
    }

    fn look(call: &mut RenewedCall, trouble: Option<&str>) -> Vec<CallNews> {
        let mut news = Vec::new();
        call.look_at_the_clock(trouble, &mut news);
        news
    }

    fn missing(why: &str) -> [CallNews; 1] {
        [CallNews::Missing(why.into())]
    }

    #[test]
    fn a_silent_machine_is_called_less_and_less_often() {
        let mut call = call();
        let passed = Deadline::after(Duration::ZERO);
        for pause in [2, 4, 8, 16, 32, 60, 60] {
            // There is a connection, but the call ends at once.
            call.state = CallState::Calling(Deadline::NEVER);
            assert!(look(&mut call, None).is_empty() && take(&mut call, b"nonsense\n").is_empty());
            assert_eq!((call.state, call.pause.as_secs()), (CallState::Calling(Deadline::NEVER), pause));
            let mut news = Vec::new();
            call.lose("box: it burns", &mut news);
            assert_eq!(news, [CallNews::Over { why: "it burns".into(), was_sent: false }]);
            assert!(matches!(call.state, CallState::Pausing(_)));
        }
        call.state = CallState::Calling(passed);
        assert_eq!(look(&mut call, None), missing("it has sent nothing yet"));
        assert_eq!(take(&mut call, b"a\n"), [CallNews::Heard]);
        assert_eq!((call.state, call.pause), (CallState::Heard, PAUSE));
        assert!(look(&mut call, Some("a cable")).is_empty());
        assert!(matches!(call.state, CallState::Silent(_)));
        call.state = CallState::Silent(passed);
        assert_eq!(look(&mut call, Some("a cable")), missing("a cable"));
        // A running call need not have sent anything.
        assert_eq!((look(&mut call, None), call.state), (vec![CallNews::Heard], CallState::Heard));
    }

    #[test]
    fn a_call_that_sends_too_much_is_begun_again_late() {
        let mut call = call();
        assert_eq!(call.refuse("too much"), CallNews::Over { why: "too much".into(), was_sent: false });
        assert_eq!(call.pause, LONGEST_PAUSE);
    }

    #[test]
    fn lines_come_whole_and_an_endless_one_takes_no_more_room_than_one() {
        let mut lines = CallLines::default();
        assert_eq!(lines.take(b"a\n\nb"), [&b"a\n"[..], b"\n"]);
        assert_eq!(lines.take(b"c\n"), [b"bc\n"]);
        for _ in 0..5 {
            assert!(lines.take(&[b'x'; 1 << 20]).is_empty() && lines.line.len() <= LONGEST_LINE);
        }
        assert_eq!(lines.take(b"\nd\n")[1], b"d\n");
    }

    #[test]
    fn of_standard_error_the_last_is_kept() {
        let mut words = Vec::new();
        keep_last(&mut words, &[b'x'; MOST_WORDS]);
        keep_last(&mut words, b"it burns");
        assert!(words.len() == MOST_WORDS && words.ends_with(b"xit burns"));
    }
}
