//! Replies to the program's queries of its terminal.
//!
//! Each is sent once, in the order of the queries, and typed as if it came from a keyboard, but does not
//! count as input. Only a screen has some replies (the cursor's position, a colour), and the relay has none.
//! A process of its own takes them from the log (`nbs-screen`); the first such query starts it, and it ends
//! when there has been none for a while.
//!
//! A program may send queries without ever reading: we do not answer the excess.

use std::{
    collections::VecDeque,
    io::{self, Read, Write},
    os::unix::net::UnixStream,
};

use crate::{
    sys::pty::Size,
    terminal::queries::{MOST_ASKED, Query},
};

/// How much of answers may wait to be typed before the next question is answered.
const MOST_READY: usize = 16 * 1024;

#[derive(Default)]
pub(crate) struct QueryReplies {
    // In order, each with where in the log it was asked.
    waiting: VecDeque<(u64, Query)>,
    // The weight of those. Invariant: no more than `MOST_ASKED`.
    weight: usize,
    // Invariant: no more than `MOST_READY`, and one answer.
    ready: Vec<u8>,
    // The connection for `Query::Screen`.
    screen_process: Option<UnixStream>,
    // The first waiting query has been sent there.
    is_asked: bool,
    // The received bytes of the answer.
    received: Vec<u8>,
    // The first waiting query has been sent in vain.
    in_vain: bool,
    // The controls of answers are those of 8 bits.
    short_controls: bool,
}

impl QueryReplies {
    /// The connection on which an answer will come, while one is pending.
    pub(crate) fn screen_process(&self) -> Option<&UnixStream> {
        self.screen_process.as_ref()
    }

    pub(crate) fn ready(&self) -> &[u8] {
        &self.ready
    }

    /// Notes that `count` bytes of the replies have been typed.
    pub(crate) fn note_typed(&mut self, count: usize) {
        self.ready.drain(..count);
    }

    pub(crate) fn forget(&mut self) {
        *self = QueryReplies::default();
    }

    /// Whether something that was asked up to this place in the log is not answered.
    pub(crate) fn are_due(&self, offset: u64) -> bool {
        self.waiting.front().is_some_and(|(asked, _)| *asked <= offset)
    }

    /// Makes all possible replies, now that this was queried as well.
    pub(crate) fn answer(
        &mut self,
        asked: Vec<(u64, Query)>,
        size: Size,
        start: impl Fn() -> io::Result<UnixStream>,
    ) {
        for (offset, query) in asked {
            if self.weight + query.weight() <= MOST_ASKED {
                self.weight += query.weight();
                self.waiting.push_back((offset, query));
            }
        }
        while self.ready.len() < MOST_READY {
            let Some((offset, query)) = self.waiting.front() else { return };
            let answer = match query {
                Query::Screen(_) if self.is_asked => return,
                Query::Screen(question) => {
                    let digits = question.iter().map(|byte| format!("{byte:02x}"));
                    let line = format!("{offset} {}\n", digits.collect::<String>());
                    if self.ask(&line, &start).is_ok() {
                        self.is_asked = true;
                        return;
                    }
                    self.screen_process = None;
                    Vec::new()
                }
                Query::Size => format!("\x1b[8;{};{}t", size.rows, size.cols).into_bytes(),
                Query::SizeReport => format!("\x1b[48;{};{};0;0t", size.rows, size.cols).into_bytes(),
                Query::Fixed(answer) => answer.clone(),
                Query::Controls(are_short) => {
                    self.short_controls = *are_short;
                    Vec::new()
                }
                Query::Keyboard | Query::Unanswered => Vec::new(),
            };
            self.give(&answer);
        }
    }

    fn ask(&mut self, question: &str, start: &impl Fn() -> io::Result<UnixStream>) -> io::Result<()> {
        // There is always room for one question; unless the process has just ended.
        if self
            .screen_process
            .as_ref()
            .is_some_and(|mut screen| screen.write_all(question.as_bytes()).is_ok())
        {
            return Ok(());
        }
        self.received.clear();
        self.screen_process.insert(start()?).write_all(question.as_bytes())
    }

    /// The reply to the first waiting query.
    fn give(&mut self, answer: &[u8]) {
        if let Some((_, query)) = self.waiting.pop_front() {
            self.weight -= query.weight();
        }
        (self.is_asked, self.in_vain) = (false, false);
        let mut rest = answer;
        while let [byte, after @ ..] = rest {
            match rest {
                [0x1b, c1 @ 0x40..=0x5f, after @ ..] if self.short_controls => {
                    self.ready.push(c1 + 0x40);
                    rest = after;
                }
                _ => {
                    self.ready.push(*byte);
                    rest = after;
                }
            }
        }
    }

    /// Receives an answer. If the process has gone, the next query starts it again, which is the same one,
    /// but not a third time.
    pub(crate) fn receive(&mut self) {
        let Some(screen) = &mut self.screen_process else { return };
        let mut buffer = [0; 4096];
        match screen.read(&mut buffer) {
            Ok(count @ 1..) => self.received.extend_from_slice(&buffer[..count]),
            Err(error) if super::is_for_later(&error) => return,
            _ => {
                (self.screen_process, self.received) = (None, Vec::new());
                if self.is_asked && self.in_vain {
                    self.give(b"");
                }
                (self.is_asked, self.in_vain) = (false, self.is_asked);
                return;
            }
        }
        if self.received.ends_with(b"\n") {
            let mut answer = std::mem::take(&mut self.received);
            answer.pop();
            if self.is_asked {
                self.give(&answer);
            }
        }
    }
}
