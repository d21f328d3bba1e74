//! settings: the options of a session when it was started, with its directory and boot.
//!
//! Lines `key: value`, only for options that were set. A byte that could be misread (a control
//! character, a backslash) is written `\xHH`, so any value survives. An unknown key belongs to another
//! version of nbs.

use std::{io, time::Duration};

use crate::{
    jail::JailOptions,
    json::Object,
    numbers::{self, number, parse_seconds},
    sys::files::{self, Folder},
};

pub(super) const SETTINGS: &str = "settings";

/// The key of the directory that a session was started in. The file uses the option's name, for
/// compatibility.
const START_FOLDER: &str = "cwd";

/// More than the arguments of any call come to, escaped (execve(2)).
const LONGEST: u64 = 8 * 1024 * 1024;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Settings {
    pub(crate) title: Option<Vec<u8>>,
    pub(crate) description: Option<Vec<u8>>,
    /// The requester of the session.
    pub(crate) parent: Option<Vec<u8>>,
    /// How long it may last, from its start. Never zero.
    pub(crate) timeout: Option<Duration>,
    /// How long it may print nothing and have nothing typed. Never zero.
    pub(crate) idle_timeout: Option<Duration>,
    /// The process whose end ends it: a PID, as it was given.
    pub(crate) owner: Option<u32>,
    /// How many bytes its log may take on disk. Never zero.
    pub(crate) max_log: Option<u64>,
    pub(crate) jail: JailOptions,
    /// The times of the output are recorded.
    pub(crate) record: bool,
    /// Pagers keep waiting for a person.
    pub(crate) pager: bool,
    /// How many lines are kept that have scrolled off its screen. `None`: the usual number.
    pub(crate) history: Option<u64>,
    /// The directory in which it was started: absolute. `None` if it is unknown.
    pub(crate) start_folder: Option<Vec<u8>>,
    /// In which boot of the machine: the kernel's random id of it.
    pub(crate) boot: Option<Vec<u8>>,
}

impl Settings {
    /// Writes the settings that differ from the default; no file if there are none.
    pub(crate) fn write(&self, folder: &Folder) -> io::Result<()> {
        let content = self.content()?;
        if content.is_empty() { Ok(()) } else { folder.create(SETTINGS, &content) }
    }

    /// Fails if it could not be read again.
    fn content(&self) -> io::Result<Vec<u8>> {
        let content = self.encode();
        if content.len() as u64 > LONGEST {
            return Err(io::Error::other("its options take more than 8 MiB"));
        }
        Ok(content)
    }

    pub(crate) fn read(folder: &Folder) -> io::Result<Settings> {
        let Some(content) = files::there(folder.read(SETTINGS, LONGEST))? else {
            return Ok(Settings::default());
        };
        Settings::decode(&content).ok_or_else(|| io::Error::other(format!("'{SETTINGS}' is damaged")))
    }

    /// Adds all settings to an object, `null` for those that are not set.
    pub(crate) fn describe(&self, object: Object) -> Object {
        object
            .bytes_or_null("title", self.title.as_deref())
            .bytes_or_null("description", self.description.as_deref())
            .bytes_or_null("parent", self.parent.as_deref())
            .seconds_or_null("timeout", self.timeout)
            .seconds_or_null("idle_timeout", self.idle_timeout)
            .number_or_null("owner", self.owner)
            .number_or_null("max_log", self.max_log)
            .list("write_roots", &self.jail.write_roots)
            .object_or_null("confinement", self.jail.describe())
            .truth("record", self.record)
            .bytes_or_null("start_folder", self.start_folder.as_deref())
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let written = |number: Option<String>| number.map(String::into_bytes);
        let seconds = |time: Option<Duration>| written(time.map(|time| numbers::seconds(time, 9)));
        let all = [
            ("title", self.title.clone()),
            ("description", self.description.clone()),
            ("parent", self.parent.clone()),
            ("timeout", seconds(self.timeout)),
            ("idle_timeout", seconds(self.idle_timeout)),
            ("owner", written(self.owner.map(|pid| pid.to_string()))),
            ("max_log", written(self.max_log.map(|size| size.to_string()))),
            ("record", self.record.then(|| b"yes".to_vec())),
            ("pager", self.pager.then(|| b"yes".to_vec())),
            ("history", written(self.history.map(|lines| lines.to_string()))),
            (START_FOLDER, self.start_folder.clone()),
            ("boot", self.boot.clone()),
        ];
        let lines = all.into_iter().filter_map(|(key, value)| Some((key, value?))).chain(self.jail.lines());
        lines.flat_map(|(key, value)| [key.as_bytes(), b": ", &escaped(&value), b"\n"].concat()).collect()
    }

    pub(crate) fn decode(content: &[u8]) -> Option<Settings> {
        let mut settings = Settings::default();
        for line in content.split_inclusive(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\n")?;
            let colon = line.windows(2).position(|pair| pair == b": ")?;
            let value = unescaped(&line[colon + 2..])?;
            match &line[..colon] {
                b"title" => settings.title = Some(value),
                b"description" => settings.description = Some(value),
                b"parent" => settings.parent = Some(value),
                b"timeout" => settings.timeout = Some(parse_seconds(&value)?),
                b"idle_timeout" => settings.idle_timeout = Some(parse_seconds(&value)?),
                b"owner" => settings.owner = Some(number(&value)?),
                b"max_log" => settings.max_log = Some(number(&value)?),
                b"record" => settings.record = true,
                b"pager" => settings.pager = true,
                b"history" => settings.history = Some(number(&value)?),
                key if key == START_FOLDER.as_bytes() => settings.start_folder = Some(value),
                b"boot" => settings.boot = Some(value),
                key => _ = settings.jail.read_line(key, &value)?,
            }
        }
        Some(settings)
    }
}

pub(super) fn escaped(value: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(value.len());
    for byte in value {
        match byte {
            b'\\' | 0..=0x1f | 0x7f => line.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
            _ => line.push(*byte),
        }
    }
    line
}

pub(super) fn unescaped(line: &[u8]) -> Option<Vec<u8>> {
    let mut value = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'\\' {
            value.push(*byte);
            continue;
        }
        let (digits, after) = rest.strip_prefix(b"x")?.split_at_checked(2)?;
        value.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::{rounds, spoiled};

    #[test]
    fn settings_are_read_back() {
        let every_byte: Vec<u8> = (0..=255).collect();
        let all = Settings {
            title: Some(b"a: b\nowner: 5\n\\x41".to_vec()),
            description: Some(every_byte),
            parent: Some(b" ".to_vec()),
            timeout: Some(Duration::from_millis(1)),
            idle_timeout: Some(Duration::from_secs(3_000_000_000)),
            owner: Some(4_194_304),
            max_log: Some(i64::MAX as u64),
            jail: JailOptions {
                write_roots: vec![b"/a\nb".to_vec(), b"/".to_vec()],
                ..JailOptions::default()
            },
            record: true,
            pager: true,
            history: Some(10_000),
            start_folder: Some(b"/a b".to_vec()),
            boot: Some(b"0-1".to_vec()),
        };
        for settings in [all, Settings::default(), Settings { owner: Some(1), ..Settings::default() }] {
            assert_eq!(Settings::decode(&settings.encode()), Some(settings));
        }
    }

    #[test]
    fn what_could_not_be_read_again_is_not_written() {
        let settings = |length| Settings { title: Some(vec![1; length]), ..Settings::default() };
        let around = "title: \n".len();
        let longest = (LONGEST as usize - around) / "\\x01".len();
        assert_eq!(settings(longest).content().unwrap().len(), LONGEST as usize);
        assert!(settings(longest + 1).content().is_err());
    }

    #[test]
    fn a_line_is_a_line_and_what_is_unknown_is_left_alone() {
        let settings = Settings { title: Some(b"x\ny".to_vec()), ..Settings::default() };
        assert_eq!(settings.encode(), b"title: x\\x0ay\n");
        assert_eq!(Settings::decode(b"colour: red\ntitle: x\\x0ay\n"), Some(settings));
        for bad in ["title", "title: \\", "title: \\x4\n", "title: \\y41\n", "owner: -1\n", "timeout: -1\n"] {
            assert_eq!(Settings::decode(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn whatever_is_understood_is_understood_in_full() {
        let right = b"title: a\\x0ab\ntimeout: 1.5\nidle_timeout: 2\nowner: 7\nmax_log: 64\nwrite_root: /a\nread_root: none\nconnect: 1\n";
        for (seed, mut random) in rounds(500) {
            let content = spoiled(right, &mut random);
            if let Some(settings) = Settings::decode(&content) {
                assert_eq!(Settings::decode(&settings.encode()), Some(settings), "seed {seed}");
            }
        }
    }
}
