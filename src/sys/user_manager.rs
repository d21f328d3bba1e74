//! The user's systemd, which has cgroups to delegate: by D-Bus (its specification 0.43) on the manager's
//! own socket, so that no message bus is needed.
//!
//! Only its user can create files in the directory of that socket, `$XDG_RUNTIME_DIR`.

use std::{
    env,
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::PathBuf,
    time::Duration,
};

use super::{deadline::Deadline, files::Folder, socket};
use crate::numbers;

/// The longest time for all that is asked on one connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest part of a message that we accept.
const LONGEST: usize = 1 << 20;

// The types of messages.
const METHOD_CALL: u8 = 1;
const METHOD_RETURN: u8 = 2;
const ERROR: u8 = 3;
const SIGNAL: u8 = 4;

const MANAGER: &str = "org.freedesktop.systemd1.Manager";

/// A connection to it.
pub(crate) struct UserManager {
    stream: UnixStream,
    deadline: Deadline,
}

impl UserManager {
    /// `NotFound` if none is running.
    pub(crate) fn connect() -> io::Result<UserManager> {
        let uid = rustix::process::getuid().as_raw();
        let folder = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_absolute());
        let folder = folder.unwrap_or_else(|| format!("/run/user/{uid}").into());
        let deadline = Deadline::after(PATIENCE);
        let stream = socket::connect(&Folder::open(&folder.join("systemd"))?, "private", deadline)?;
        let mut manager = UserManager { stream, deadline };
        manager.authenticate(uid)?;
        Ok(manager)
    }

    fn authenticate(&mut self, uid: u32) -> io::Result<()> {
        let digits = numbers::hex(uid.to_string().as_bytes());
        self.stream.set_write_timeout(Some(PATIENCE))?;
        self.stream.write_all(format!("\0AUTH EXTERNAL {digits}\r\nBEGIN\r\n").as_bytes())?;
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.read(&mut byte)?;
            line.push(byte[0]);
            if line.len() > 1_000 {
                return Err(nonsense());
            }
        }
        if line.starts_with(b"OK ") { Ok(()) } else { Err(nonsense()) }
    }

    /// Moves processes of ours to a scope of that name, in which we may make cgroups (systemd.scope(5)).
    pub(crate) fn delegate(&mut self, scope: &str, pids: &[u32]) -> io::Result<()> {
        let mut body = Message::default();
        body.string(scope);
        body.string("fail");
        body.array(8, |properties| {
            properties.property("Description", "s", |value| value.string("a session of nbs"));
            properties.property("Delegate", "b", |value| value.number(1));
            properties.property("CollectMode", "s", |value| value.string("inactive-or-failed"));
            properties.property("PIDs", "au", |value| {
                value.array(4, |array| pids.iter().for_each(|pid| array.number(*pid)));
            });
        });
        body.array(8, |_| ());
        self.call(MANAGER, "StartTransientUnit", "ssa(sv)a(sa(sv))", &body)?;
        // It answers when the job begins, and sends a signal when it is done.
        self.answer()?;
        loop {
            let Reply { kind, member, mut body } = self.next()?;
            if kind != SIGNAL || member != "JobRemoved" {
                continue;
            }
            let (_, _, unit, result) = (body.number()?, body.string()?, body.string()?, body.string()?);
            if unit == scope {
                let failed = || io::Error::other(format!("the job of its scope ended as '{result}'"));
                return if result == "done" { Ok(()) } else { Err(failed()) };
            }
        }
    }

    /// The path of its own cgroup below the mount point.
    pub(crate) fn cgroup(&mut self) -> io::Result<String> {
        let mut body = Message::default();
        body.string(MANAGER);
        body.string("ControlGroup");
        self.call("org.freedesktop.DBus.Properties", "Get", "ss", &body)?;
        let mut value = self.answer()?;
        if value.signature()? == "s" { value.string() } else { Err(nonsense()) }
    }

    fn call(&mut self, interface: &str, member: &str, signature: &str, body: &Message) -> io::Result<()> {
        let mut message = Message(vec![b'l', METHOD_CALL, 0, 1]);
        message.number(body.0.len() as u32);
        message.number(1);
        message.array(8, |fields| {
            let texts = [(1, "/org/freedesktop/systemd1"), (2, interface), (3, member)];
            for (code, text) in texts.into_iter().chain([(6, "org.freedesktop.systemd1")]) {
                fields.align(8);
                fields.0.push(code);
                fields.signature(if code == 1 { "o" } else { "s" });
                fields.string(text);
            }
            fields.align(8);
            fields.0.push(8);
            fields.signature("g");
            fields.signature(signature);
        });
        message.align(8);
        message.0.extend(&body.0);
        self.stream.write_all(&message.0)
    }

    /// The next message, whatever it is.
    fn next(&mut self) -> io::Result<Reply> {
        const FIXED: usize = 16;
        let mut start = [0; FIXED];
        self.read(&mut start)?;
        let number = |at: usize| u32::from_le_bytes([start[at], start[at + 1], start[at + 2], start[at + 3]]);
        let (body, fields) = (number(4) as usize, number(12) as usize);
        let header = fields.checked_next_multiple_of(8).filter(|header| header.max(&body) <= &LONGEST);
        let header = header.filter(|_| start[0] == b'l').ok_or_else(nonsense)?;
        let mut rest = vec![0; header + body];
        self.read(&mut rest)?;
        let body = Parts { bytes: rest.split_off(header), at: 0 };
        rest.truncate(fields);
        let mut parts = Parts { bytes: rest, at: 0 };
        let mut member = String::new();
        while parts.at < fields {
            parts.align(8)?;
            let code = parts.take(1)?[0];
            match (code, parts.signature()?.as_str()) {
                (3, "s") => member = parts.string()?,
                (_, "s" | "o") => drop(parts.string()?),
                (_, "g") => drop(parts.signature()?),
                (_, "u") => drop(parts.number()?),
                _ => return Err(nonsense()),
            }
        }
        Ok(Reply { kind: start[1], member, body })
    }

    /// Waits for the answer to our call. If the answer is an error, returns its message as ours.
    fn answer(&mut self) -> io::Result<Parts> {
        loop {
            let mut reply = self.next()?;
            match reply.kind {
                METHOD_RETURN => return Ok(reply.body),
                // Its first argument is a message by convention.
                ERROR => return Err(io::Error::other(reply.body.string()?)),
                _ => {}
            }
        }
    }

    fn read(&mut self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let left = self.deadline.remaining().unwrap_or(PATIENCE);
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => buffer = &mut buffer[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn nonsense() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "systemd's answer cannot be read")
}

/// A message or its body, as it grows.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn align(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    fn number(&mut self, number: u32) {
        self.align(4);
        self.0.extend(number.to_le_bytes());
    }

    fn string(&mut self, text: &str) {
        self.number(text.len() as u32);
        self.0.extend(text.bytes().chain([0]));
    }

    fn signature(&mut self, signature: &str) {
        self.0.push(signature.len() as u8);
        self.0.extend(signature.bytes().chain([0]));
    }

    /// An array; `alignment` is that of its elements.
    fn array(&mut self, alignment: usize, put: impl FnOnce(&mut Message)) {
        self.number(0);
        let length = self.0.len();
        self.align(alignment);
        let start = self.0.len();
        put(self);
        let bytes = (self.0.len() - start) as u32;
        self.0[length - 4..length].copy_from_slice(&bytes.to_le_bytes());
    }

    /// An element `(sv)` of an array.
    fn property(&mut self, name: &str, signature: &str, put: impl FnOnce(&mut Message)) {
        self.align(8);
        self.string(name);
        self.signature(signature);
        put(self);
    }
}

struct Reply {
    kind: u8,
    /// Empty if it has none.
    member: String,
    body: Parts,
}

/// The parts of a message, as they are read.
struct Parts {
    bytes: Vec<u8>,
    at: usize,
}

impl Parts {
    fn align(&mut self, to: usize) -> io::Result<()> {
        self.take(self.at.next_multiple_of(to) - self.at).map(drop)
    }

    fn take(&mut self, count: usize) -> io::Result<&[u8]> {
        let end = self.at.checked_add(count).ok_or_else(nonsense)?;
        let taken = self.bytes.get(self.at..end).ok_or_else(nonsense)?;
        self.at = end;
        Ok(taken)
    }

    fn number(&mut self) -> io::Result<u32> {
        self.align(4)?;
        self.take(4)?.try_into().map(u32::from_le_bytes).map_err(|_| nonsense())
    }

    fn string(&mut self) -> io::Result<String> {
        let length = self.number()? as usize;
        self.text(length)
    }

    fn signature(&mut self) -> io::Result<String> {
        let length = self.take(1)?[0].into();
        self.text(length)
    }

    fn text(&mut self, length: usize) -> io::Result<String> {
        let text = self.take(length)?.to_vec();
        self.take(1)?;
        String::from_utf8(text).map_err(|_| nonsense())
    }
}

#[cfg(test)]
mod tests {
    use std::{net::Shutdown, thread};

    use super::*;

    /// The bytes that a manager with these answers receives, and the result of asking it.
    fn asked<T>(
        answers: &[Vec<u8>],
        ask: impl FnOnce(&mut UserManager) -> io::Result<T>,
    ) -> io::Result<(Vec<u8>, io::Result<T>)> {
        let (ours, mut theirs) = UnixStream::pair()?;
        let said = [&b"OK 0123456789abcdef\r\n"[..], &answers.concat()].concat();
        let server = thread::spawn(move || {
            theirs.write_all(&said)?;
            theirs.shutdown(Shutdown::Write)?;
            let mut asked = Vec::new();
            match theirs.read_to_end(&mut asked) {
                // We have gone before we read all that was said.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(asked),
                read => read.map(|_| asked),
            }
        });
        let mut manager = UserManager { stream: ours, deadline: Deadline::after(PATIENCE) };
        let come = manager.authenticate(1000).and_then(|()| ask(&mut manager));
        drop(manager);
        let asked = server.join().expect("it does not panic")?;
        Ok((asked, come))
    }

    fn answer(kind: u8, member: &str, signature: &str, put: impl FnOnce(&mut Message)) -> Vec<u8> {
        let mut body = Message::default();
        put(&mut body);
        let mut message = Message(vec![b'l', kind, 0, 1]);
        message.number(body.0.len() as u32);
        message.number(7);
        message.array(8, |fields| {
            for (code, of, text) in [(3, "s", member), (8, "g", signature)] {
                fields.align(8);
                fields.0.push(code);
                fields.signature(of);
                if code == 3 { fields.string(text) } else { fields.signature(text) }
            }
        });
        message.align(8);
        [message.0, body.0].concat()
    }

    fn removed(unit: &str, result: &str) -> Vec<u8> {
        answer(SIGNAL, "JobRemoved", "uoss", |body| {
            body.number(5);
            ["/job/5", unit, result].iter().for_each(|text| body.string(text));
        })
    }

    #[test]
    fn a_scope_is_there_when_its_job_is_done() -> io::Result<()> {
        let begun = || answer(METHOD_RETURN, "", "o", |body| body.string("/job/5"));
        let other = || answer(SIGNAL, "UnitNew", "so", |body| body.string("x.scope"));
        let done = [begun(), other(), removed("x.scope", "done"), removed("a.scope", "done")];
        let (asked_for, come) = asked(&done, |manager| manager.delegate("a.scope", &[3, 4]))?;
        come?;
        let begin = b"\0AUTH EXTERNAL 31303030\r\nBEGIN\r\n";
        let message = asked_for.strip_prefix(begin).expect("it begins so");
        // Lengths that were counted by hand, by the specification.
        assert_eq!(message[..16], [b'l', 1, 0, 1, 184, 0, 0, 0, 1, 0, 0, 0, 182, 0, 0, 0]);
        assert_eq!(message.len(), 16 + 184 + 184);
        let pids = b"PIDs\0\x02au\0\0\0\0\x08\0\0\0\x03\0\0\0\x04\0\0\0";
        assert!(message.windows(pids.len()).any(|part| part == pids), "{message:?}");
        let failed =
            asked(&[begun(), removed("a.scope", "failed")], |manager| manager.delegate("a.scope", &[3]))?.1;
        assert_eq!(failed.unwrap_err().to_string(), "the job of its scope ended as 'failed'");
        let refused = answer(ERROR, "", "s", |body| body.string("Unit a.scope was already loaded"));
        let failed = asked(&[refused], |manager| manager.delegate("a.scope", &[3]))?.1;
        assert_eq!(failed.unwrap_err().to_string(), "Unit a.scope was already loaded");
        Ok(())
    }

    #[test]
    fn an_answer_that_is_cut_or_spoiled_is_an_error() -> io::Result<()> {
        let value = answer(METHOD_RETURN, "", "v", |body| {
            body.signature("s");
            body.string("/user.slice");
        });
        assert_eq!(asked(std::slice::from_ref(&value), UserManager::cgroup)?.1?, "/user.slice");
        for end in 0..value.len() {
            assert!(asked(&[value[..end].to_vec()], UserManager::cgroup)?.1.is_err(), "{end}");
        }
        for at in 0..value.len() {
            for bits in [0xff, 0x80, 1] {
                let mut spoiled = value.clone();
                spoiled[at] ^= bits;
                // An answer or an error, and in time.
                let _ = asked(&[spoiled], UserManager::cgroup)?.1;
            }
        }
        Ok(())
    }
}
