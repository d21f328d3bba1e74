//! A connection to the page's server: its requests and its answers.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    time::Duration,
};

use crate::{
    page::{
        http::{self, HttpError, HttpRequest, UNREACHED},
        stream::{Entry, Stream},
    },
    sys::deadline::Deadline,
};

/// The time to receive a request, and for the client to read an answer. A slower client is faulty, and
/// must not block others.
const PATIENCE: Duration = Duration::from_secs(10);

/// The same of what is done on another machine: it is late where a process there is stopped, since
/// what keeps the connection to it is another one.
pub(super) const ELSEWHERE: Duration = Duration::from_secs(90);

/// How long a connection is kept for the next request.
const IDLE: Duration = Duration::from_secs(60);

/// How long, and how far, one is read that we have done with: what is closed with something
/// unread is reset, and then the last answer may be lost (RFC 9112, 9.6).
const FAREWELL: Duration = Duration::from_secs(2);
const UNWANTED: usize = 256 * 1024;

/// The state of a connection.
pub(super) enum Phase {
    /// A request is to come, or to come to its end.
    Asked,
    /// It is being answered.
    Answering,
    /// Another machine processes the request of that number.
    Elsewhere(u64),
    Stream(Stream),
    /// The last answer has been sent; this much that arrived since was ignored.
    Leaving(usize),
    Over,
}

pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) phase: Phase,
    /// Received bytes that are not processed.
    pub(super) inbox: Vec<u8>,
    /// Bytes to send, and how many were sent.
    pub(super) outbox: Vec<u8>,
    pub(super) sent: usize,
    pub(super) closes: bool,
    pub(super) deadline: Deadline,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Connection {
        Connection {
            stream,
            phase: Phase::Asked,
            inbox: Vec::new(),
            outbox: Vec::new(),
            sent: 0,
            closes: false,
            deadline: Deadline::after(PATIENCE),
        }
    }

    /// Does it wait for the result of that request to another machine?
    pub(super) fn awaits(&self, number: u64) -> bool {
        matches!(self.phase, Phase::Elsewhere(of) if of == number)
    }

    /// Is there an update for it that could be sent now?
    pub(super) fn owes(&self, entries: &[&Entry]) -> bool {
        let Phase::Stream(stream) = &self.phase else { return false };
        self.outbox.is_empty() && stream.lacks(entries)
    }

    /// We read no more while a request is answered; from an open page we only read its end.
    pub(super) fn reads(&self) -> bool {
        !matches!(self.phase, Phase::Answering | Phase::Elsewhere(_))
    }

    pub(super) fn read(&mut self) {
        let mut buffer = [0; 16 * 1024];
        while self.reads() {
            let count = match self.stream.read(&mut buffer) {
                Ok(0) => {
                    self.phase = Phase::Over;
                    return;
                }
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => {
                    self.phase = Phase::Over;
                    return;
                }
            };
            match &mut self.phase {
                Phase::Asked => {
                    if self.inbox.is_empty() {
                        self.deadline = Deadline::after(PATIENCE);
                    }
                    self.inbox.extend_from_slice(&buffer[..count]);
                    if self.inbox.len() >= http::LONGEST_HEAD + http::LONGEST_BODY {
                        return;
                    }
                }
                Phase::Leaving(unwanted) => {
                    *unwanted += count;
                    if *unwanted > UNWANTED {
                        self.phase = Phase::Over;
                        return;
                    }
                }
                // An open page has nothing more to ask here.
                Phase::Stream(_) | Phase::Answering | Phase::Elsewhere(_) | Phase::Over => {
                    self.phase = Phase::Over;
                    return;
                }
            }
        }
    }

    /// The next request, if it is complete with its body. An invalid one is answered at once.
    pub(super) fn request(&mut self) -> Option<(HttpRequest, Vec<u8>)> {
        if !matches!(self.phase, Phase::Asked) {
            return None;
        }
        match http::parse(&self.inbox) {
            Ok(Some((request, head))) if self.inbox.len() >= head + request.length => {
                let rest = self.inbox.split_off(head + request.length);
                let body = std::mem::replace(&mut self.inbox, rest).split_off(head);
                Some((request, body))
            }
            Ok(_) => None,
            Err(refusal) => {
                self.turn_away(refusal);
                None
            }
        }
    }

    /// Answers before anything is asked, and serves nothing.
    pub(super) fn turn_away(&mut self, refusal: HttpError) {
        self.closes = true;
        self.answer(http::refused(refusal, true));
        self.write();
    }

    pub(super) fn answer(&mut self, bytes: Vec<u8>) {
        (self.outbox, self.sent) = (bytes, 0);
        self.phase = Phase::Answering;
        self.deadline = Deadline::after(PATIENCE);
    }

    pub(super) fn stream_from(&mut self, stream: Stream) {
        (self.outbox, self.sent) = (http::stream(), 0);
        self.phase = Phase::Stream(stream);
        // It may sleep.
        self.deadline = Deadline::NEVER;
    }

    /// Sends what the client takes at once.
    pub(super) fn write(&mut self) {
        while self.sent < self.outbox.len() {
            match self.stream.write(&self.outbox[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.phase = Phase::Over;
                    return;
                }
            }
        }
        (self.outbox, self.sent) = (Vec::new(), 0);
        if matches!(self.phase, Phase::Answering) {
            if self.closes {
                self.phase = match self.stream.shutdown(Shutdown::Write) {
                    Ok(()) => Phase::Leaving(0),
                    Err(_) => Phase::Over,
                };
                self.deadline = Deadline::after(FAREWELL);
            } else {
                self.phase = Phase::Asked;
                self.deadline = Deadline::after(if self.inbox.is_empty() { IDLE } else { PATIENCE });
            }
        }
    }

    /// Ends it if its time has passed. A connection that waits for another machine gets an answer
    /// instead, which is `true`: a browser may repeat a request without an answer, and then the text
    /// is typed twice.
    pub(super) fn expire(&mut self) -> bool {
        if !self.deadline.has_passed() {
            return false;
        }
        let waits = matches!(self.phase, Phase::Elsewhere(_));
        match waits {
            true => self.answer(http::refused(UNREACHED, self.closes)),
            false => self.phase = Phase::Over,
        }
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_page_answers_for_an_unresponsive_machine() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut connection = Connection::new(listener.accept().unwrap().0);
        connection.closes = true;
        (connection.phase, connection.deadline) = (Phase::Elsewhere(7), Deadline::after(Duration::ZERO));
        assert!(connection.expire());
        connection.write();
        drop(connection);
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("it is unknown whether"), "{answer}");
    }
}
