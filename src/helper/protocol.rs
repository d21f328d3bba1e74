//! The protocol between the helper and its clients, encoded and decoded.
//!
//! **Base.** The client sends a command of at most [`LONGEST_COMMAND`] bytes and shuts down its
//! writing side. The answer is `F`, which carries the master of a PTY (SCM_RIGHTS), then the child's
//! PID in decimal, then the end. If the helper refuses, it closes without an `F`.
//!
//! **Extended.** A request that begins with NUL. Its header has [`HEADER`] bytes:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | NUL |
//! | 1 | the version of the protocol, [`VERSION`] |
//! | 1 | `S`: start a session; `V`: what version are you? |
//! | 8 | the session's handle (`S`; of a `V` they mean nothing) |
//! | 4 | how long the order is that follows, big-endian (`S`; 0 of a `V`) |
//!
//! An order is a sequence of fields: a byte for the kind, four bytes of length (big-endian), and the
//! value. `d`: the directory to start in. `s`: columns and rows of the terminal, as `80x24`. `u`: the
//! umask, in octal digits. `c`: the command, as a log may show it. `+`: `NAME=VALUE`, to add to the
//! environment. `-`: a NAME to remove from it. `h`: `-clear`, or a glob: the variables of the helper that
//! the command does not get. `j`: a word of its confinement (`sys/confinement.rs`); without one, it is
//! not confined. `l`: a limit for all its processes together, as `tasks=500`. `w`: a word of the command; the first
//! is the program. `d`, `s`, `u` and a `w` are required.
//!
//! The answer to `S` is `F`, which carries the master and the writing end of a pipe, and then lines:
//! `ready CHILD KEEPER` (PIDs) at once. The child waits until a byte is written to the pipe, and ends
//! if the pipe is closed without one. When it has ended, `code N` or `signal N` follows. The
//! connection ends with the keeper: without such a line, the child's end is unknown. If it fails, the
//! answer is `E` and, up to the end, the reason.
//!
//! The answer to `V`, and to every request of another version, is `V` and, up to
//! the end, the helper's own version.

/// The version of the extended protocol.
pub(crate) const VERSION: u8 = 1;

/// The longest command of the base protocol.
pub(crate) const LONGEST_COMMAND: usize = 4_096;

/// How long the header of an extended request is.
pub(crate) const HEADER: usize = 15;

/// The longest order: more than the kernel takes for arguments and environment
/// together (execve(2): a quarter of the stack's limit, at most 6 MiB).
pub(crate) const LONGEST_ORDER: usize = 8 * 1024 * 1024;

/// The first bytes of answers.
pub(crate) const FILES: u8 = b'F';
pub(crate) const ERROR: u8 = b'E';
pub(crate) const VERSION_IS: u8 = b'V';

/// The kind of an extended request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    Start { handle: [u8; 8], length: usize },
    Version,
}

/// Why a header is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// It is of this version of the protocol, which we do not speak.
    Version(u8),
    Rubbish,
    TooLong,
}

impl Header {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (kind, handle, length) = match self {
            Header::Start { handle, length } => (b'S', *handle, *length),
            Header::Version => (b'V', *b"--------", 0),
        };
        let mut bytes = vec![0, VERSION, kind];
        bytes.extend(handle);
        bytes.extend(length_bytes(length));
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; HEADER]) -> Result<Header, Bad> {
        let [0, version, kind, rest @ ..] = bytes else { return Err(Bad::Rubbish) };
        if *version != VERSION {
            return Err(Bad::Version(*version));
        }
        let (handle, length) = rest.split_first_chunk::<8>().ok_or(Bad::Rubbish)?;
        let length = length_of(length).ok_or(Bad::Rubbish)?;
        match kind {
            b'V' => Ok(Header::Version),
            b'S' if length > LONGEST_ORDER => Err(Bad::TooLong),
            b'S' => Ok(Header::Start { handle: *handle, length }),
            _ => Err(Bad::Rubbish),
        }
    }
}

/// The description of a session's child.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpawnOrder {
    pub(crate) folder: Vec<u8>,
    pub(crate) cols: u16,
    pub(crate) rows: u16,
    pub(crate) umask: u32,
    /// The command, as a log may show it.
    pub(crate) command: Vec<u8>,
    /// Additions, and (`None`) removals.
    pub(crate) environment: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// The helper's variables that it does not get.
    pub(crate) hidden: Vec<Vec<u8>>,
    /// The words of its confinement; if there is none, it is not confined.
    pub(crate) confinement: Vec<Vec<u8>>,
    /// The program and its arguments.
    pub(crate) words: Vec<Vec<u8>>,
}

impl SpawnOrder {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut field = |tag: u8, content: &[u8]| {
            bytes.push(tag);
            bytes.extend(length_bytes(content.len()));
            bytes.extend(content);
        };
        field(b'd', &self.folder);
        field(b's', format!("{}x{}", self.cols, self.rows).as_bytes());
        field(b'u', format!("{:o}", self.umask).as_bytes());
        field(b'c', &self.command);
        for (name, value) in &self.environment {
            match value {
                Some(value) => field(b'+', &[name, &b"="[..], value].concat()),
                None => field(b'-', name),
            }
        }
        for (tag, words) in [(b'h', &self.hidden), (b'j', &self.confinement), (b'w', &self.words)] {
            words.iter().for_each(|word| field(tag, word));
        }
        bytes
    }

    /// `None` if any part is invalid.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<SpawnOrder> {
        let mut order = SpawnOrder::default();
        let (mut folder, mut size, mut umask) = (false, false, false);
        while let Some((tag, rest)) = bytes.split_first() {
            let (length, rest) = rest.split_first_chunk::<4>()?;
            let length = length_of(length)?;
            let content = rest.get(..length)?;
            bytes = rest.get(length..)?;
            // A NUL would end a word early in the eyes of the kernel.
            if content.contains(&0) {
                return None;
            }
            match tag {
                b'd' => (folder, order.folder) = (true, content.to_vec()),
                b's' => (size, (order.cols, order.rows)) = (true, terminal_size(content)?),
                b'u' => (umask, order.umask) = (true, octal(content)?),
                b'c' => order.command = content.to_vec(),
                b'+' => {
                    let equals = content.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
                    order
                        .environment
                        .push((content[..equals].to_vec(), Some(content[equals + 1..].to_vec())));
                }
                b'-' if content.is_empty() || content.contains(&b'=') => return None,
                b'-' => order.environment.push((content.to_vec(), None)),
                b'h' => order.hidden.push(content.to_vec()),
                b'j' => order.confinement.push(content.to_vec()),
                b'w' => order.words.push(content.to_vec()),
                _ => return None,
            }
        }
        let whole = folder && size && umask && order.words.first().is_some_and(|program| !program.is_empty());
        whole.then_some(order)
    }
}

/// A line from a keeper to its relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeeperMessage {
    Ready { child: u32, keeper: u32 },
    Code(i32),
    Signal(i32),
}

impl KeeperMessage {
    /// How long a line may be, with its end.
    pub(crate) const LONGEST: usize = 64;

    pub(crate) fn encode(self) -> String {
        match self {
            KeeperMessage::Ready { child, keeper } => format!("ready {child} {keeper}\n"),
            KeeperMessage::Code(code) => format!("code {code}\n"),
            KeeperMessage::Signal(signal) => format!("signal {signal}\n"),
        }
    }

    /// `line` comes without its end.
    pub(crate) fn decode(line: &[u8]) -> Option<KeeperMessage> {
        let line = std::str::from_utf8(line).ok()?;
        Some(match line.split(' ').collect::<Vec<_>>()[..] {
            ["ready", child, keeper] => {
                let pid =
                    |digits: &str| digits.parse().ok().filter(|pid| (1..=i32::MAX as u32).contains(pid));
                KeeperMessage::Ready { child: pid(child)?, keeper: pid(keeper)? }
            }
            ["code", code] => KeeperMessage::Code(code.parse().ok().filter(|code| (0..=255).contains(code))?),
            ["signal", signal] => {
                KeeperMessage::Signal(signal.parse().ok().filter(|signal| (1..=64).contains(signal))?)
            }
            _ => return None,
        })
    }
}

fn length_bytes(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes()
}

fn length_of(bytes: &[u8]) -> Option<usize> {
    usize::try_from(u32::from_be_bytes(bytes.try_into().ok()?)).ok()
}

fn terminal_size(content: &[u8]) -> Option<(u16, u16)> {
    let (cols, rows) = std::str::from_utf8(content).ok()?.split_once('x')?;
    let side = |digits: &str| digits.parse().ok().filter(|side| (1..=9_999).contains(side));
    Some((side(cols)?, side(rows)?))
}

fn octal(content: &[u8]) -> Option<u32> {
    u32::from_str_radix(std::str::from_utf8(content).ok()?, 8).ok().filter(|umask| *umask <= 0o777)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::rounds;

    fn order() -> SpawnOrder {
        SpawnOrder {
            folder: b"/tmp/\xff".to_vec(),
            cols: 80,
            rows: 24,
            umask: 0o22,
            command: b"echo hi".to_vec(),
            environment: vec![
                (b"TERM".to_vec(), Some(b"xterm".to_vec())),
                (b"EMPTY".to_vec(), Some(Vec::new())),
                (b"EQUALS".to_vec(), Some(b"a=b".to_vec())),
                (b"TMUX".to_vec(), None),
            ],
            hidden: vec![b"-clear".to_vec(), b"A_*".to_vec()],
            confinement: vec![b"t/private".to_vec(), b"w/root".to_vec(), b"n".to_vec()],
            words: vec![b"bash".to_vec(), b"-c".to_vec(), Vec::new(), b"echo hi\n".to_vec()],
        }
    }

    fn header(bytes: &[u8]) -> Result<Header, Bad> {
        Header::decode(bytes.try_into().unwrap())
    }

    #[test]
    fn a_header_arrives_as_it_was_sent() {
        for sent in [
            Header::Version,
            Header::Start { handle: *b"0123abcd", length: 0 },
            Header::Start { handle: *b"ffffffff", length: LONGEST_ORDER },
        ] {
            assert_eq!(header(&sent.encode()), Ok(sent));
        }
    }

    #[test]
    fn a_header_of_another_kind_is_refused_for_what_it_is() {
        let good = Header::Start { handle: *b"0123abcd", length: 7 }.encode();
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            header(&bytes)
        };
        assert_eq!(with(0, b'e'), Err(Bad::Rubbish));
        assert_eq!(with(1, 2), Err(Bad::Version(2)));
        assert_eq!(with(1, 0), Err(Bad::Version(0)));
        assert_eq!(with(2, b'X'), Err(Bad::Rubbish));
        assert_eq!(with(11, 0xff), Err(Bad::TooLong));
    }

    #[test]
    fn an_order_arrives_as_it_was_sent() {
        assert_eq!(SpawnOrder::decode(&order().encode()), Some(order()));
        let long = SpawnOrder { words: vec![vec![b'x'; 3 << 20]], ..order() };
        assert_eq!(SpawnOrder::decode(&long.encode()), Some(long));
    }

    #[test]
    fn an_order_that_lacks_something_is_none() {
        let cases = [
            SpawnOrder { words: Vec::new(), ..order() },
            SpawnOrder { words: vec![Vec::new()], ..order() },
            SpawnOrder { cols: 0, ..order() },
            SpawnOrder { rows: 10_000, ..order() },
            SpawnOrder { umask: 0o1000, ..order() },
            SpawnOrder { folder: b"a\0b".to_vec(), ..order() },
            SpawnOrder { environment: vec![(Vec::new(), Some(Vec::new()))], ..order() },
            SpawnOrder { environment: vec![(b"A=B".to_vec(), None)], ..order() },
        ];
        for case in cases {
            assert_eq!(SpawnOrder::decode(&case.encode()), None, "{case:?}");
        }
        assert_eq!(SpawnOrder::decode(b""), None);
        assert_eq!(SpawnOrder::decode(&[order().encode(), b"?\0\0\0\0".to_vec()].concat()), None);
    }

    #[test]
    fn an_order_cut_off_anywhere_is_never_taken_for_whole_fields() {
        let whole = order().encode();
        for end in 0..whole.len() {
            if let Some(taken) = SpawnOrder::decode(&whole[..end]) {
                assert!(taken.words.len() < order().words.len(), "cut at {end}");
            }
        }
    }

    #[test]
    fn lines_arrive_as_they_were_sent_and_rubbish_does_not() {
        for line in [
            KeeperMessage::Ready { child: 1, keeper: 4_194_304 },
            KeeperMessage::Code(0),
            KeeperMessage::Code(255),
            KeeperMessage::Signal(9),
        ] {
            let sent = line.encode();
            assert!(sent.len() <= KeeperMessage::LONGEST);
            assert_eq!(KeeperMessage::decode(sent.trim_end().as_bytes()), Some(line));
        }
        for rubbish in [
            "",
            "code",
            "code -1",
            "code 256",
            "signal 0",
            "signal 65",
            "ready 1",
            "ready 0 1",
            "ready -1 1",
            "code 1 2",
        ] {
            assert_eq!(KeeperMessage::decode(rubbish.as_bytes()), None, "{rubbish:?}");
        }
    }

    #[test]
    fn random_orders_arrive_and_random_changes_do_no_harm() {
        for (seed, mut random) in rounds(300) {
            let mut bytes = |longest: usize| -> Vec<u8> {
                (0..random.usize(1..=longest))
                    .map(|_| random.u8(1..))
                    .filter(|byte| *byte != b'=')
                    .chain([b'z'])
                    .collect()
            };
            let sent = SpawnOrder {
                folder: bytes(50),
                cols: 1,
                rows: 9_999,
                umask: 0,
                command: bytes(100),
                environment: vec![(bytes(9), Some(bytes(300))), (bytes(9), None)],
                hidden: Vec::new(),
                confinement: vec![bytes(9); seed as usize % 3],
                words: vec![bytes(9), bytes(5_000), bytes(1)],
            };
            let mut wire = sent.encode();
            assert_eq!(SpawnOrder::decode(&wire), Some(sent), "seed {seed}");
            for _ in 0..50 {
                let at = random.usize(..wire.len());
                wire[at] = random.u8(..);
                // Whatever the bytes are now, decoding returns and does not panic; and an accepted order is
                // decoded in full.
                if let Some(taken) = SpawnOrder::decode(&wire[..random.usize(..=wire.len())]) {
                    assert_eq!(SpawnOrder::decode(&taken.encode()), Some(taken), "seed {seed}");
                }
                let _ = KeeperMessage::decode(&wire[..at.min(KeeperMessage::LONGEST)]);
                if let Some(first) = wire.first_chunk() {
                    let _ = Header::decode(first);
                }
            }
        }
    }
}
