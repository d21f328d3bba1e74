//! The restrictions of a session, as its options ask for them.
//!
//! They are kept with the session's settings, so that `restart` applies them again. No value of an
//! environment is among them, only names.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use crate::{
    json::Object,
    numbers::number,
    sys::{
        cgroup::ResourceLimits,
        confinement::{Confinement, Network},
        gate::HiddenVariables,
    },
};

/// All paths are absolute, and without links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JailOptions {
    /// If empty, writing is not restricted, unless reading is.
    pub(crate) write_roots: Vec<Vec<u8>>,
    /// `None`: reading is not restricted.
    pub(crate) read_roots: Option<Vec<Vec<u8>>>,
    pub(crate) no_network: bool,
    /// The only ports to which it may connect by TCP without a network.
    pub(crate) ports: Vec<u16>,
    pub(crate) hidden: HiddenVariables,
    pub(crate) limits: ResourceLimits,
    /// The profile that some of them are from.
    pub(crate) profile: Option<Vec<u8>>,
}

impl JailOptions {
    /// Do they ask the kernel for anything?
    pub(crate) fn confines(&self) -> bool {
        !self.write_roots.is_empty() || self.read_roots.is_some() || self.no_network
    }

    /// Every root that was given.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &Path> {
        let roots = self.write_roots.iter().chain(self.read_roots.iter().flatten());
        roots.map(|root| Path::new(OsStr::from_bytes(root)))
    }

    /// May it read this directory, apart from those of the system?
    pub(crate) fn may_read(&self, folder: &Path) -> bool {
        self.read_roots.is_none() || self.roots().any(|root| folder.starts_with(root))
    }

    /// The restrictions that the kernel enforces. `private` is the directory for temporary files.
    pub(crate) fn confinement(&self, private: PathBuf) -> Option<Confinement> {
        let paths = |roots: &Vec<Vec<u8>>| -> Vec<PathBuf> {
            roots.iter().map(|root| OsStr::from_bytes(root).into()).collect()
        };
        let may_write_anywhere = self.write_roots.is_empty() && self.read_roots.is_none();
        self.confines().then(|| Confinement {
            private,
            writes: (!may_write_anywhere).then(|| paths(&self.write_roots)),
            reads: self.read_roots.as_ref().map(paths),
            network: match self.no_network {
                false => Network::All,
                true => Network::Ports(self.ports.clone()),
            },
        })
    }

    /// Something that the options `there` allow a session, and these do not.
    pub(crate) fn exceeded_by(&self, there: &JailOptions) -> Option<String> {
        let shown = |root: &Vec<u8>| format!("'{}'", OsStr::from_bytes(root).display());
        let writes = |options: &JailOptions| {
            (!options.write_roots.is_empty() || options.read_roots.is_some())
                .then(|| options.write_roots.clone())
        };
        let readable = |options: &JailOptions| {
            options.read_roots.as_ref().map(|roots| [&roots[..], &options.write_roots].concat())
        };
        for (verb, to, wanted, theirs) in [
            ("write", "write to", writes(self), writes(there)),
            ("read", "read", readable(self), readable(there)),
        ] {
            match (wanted, theirs) {
                (None, _) => {}
                (Some(_), None) => return Some(format!("it may {verb} everywhere")),
                (Some(wanted), Some(theirs)) => {
                    if let Some(root) = theirs.iter().find(|root| !wanted.contains(root)) {
                        return Some(format!("it may {to} {}", shown(root)));
                    }
                }
            }
        }
        if self.no_network {
            if !there.no_network {
                return Some("it may use the network".into());
            }
            if let Some(port) = there.ports.iter().find(|port| !self.ports.contains(port)) {
                return Some(format!("it may connect to port {port}"));
            }
        }
        let limits =
            |options: &JailOptions| [options.limits.memory, options.limits.tasks, options.limits.cpu];
        let names = ["memory", "tasks", "processor time"];
        for ((name, wanted), theirs) in names.into_iter().zip(limits(self)).zip(limits(there)) {
            if wanted.is_some_and(|most| theirs.is_none_or(|theirs| theirs > most)) {
                return Some(format!("it may use more {name}"));
            }
        }
        self.hidden.shows_in(&there.hidden).then(|| "it has variables that are to be hidden".into())
    }

    /// The lines that keep them.
    pub(crate) fn lines(&self) -> Vec<(&'static str, Vec<u8>)> {
        let yes = |is_set: bool, key| is_set.then(|| (key, b"yes".to_vec()));
        let write_roots = self.write_roots.iter().map(|root| ("write_root", root.clone()));
        let none = self.read_roots.as_ref().is_some_and(Vec::is_empty);
        let none = none.then(|| ("read_root", NO_ROOT.to_vec()));
        let read_roots = self.read_roots.iter().flatten().map(|root| ("read_root", root.clone()));
        let ports = self.ports.iter().map(|port| ("connect", port.to_string().into_bytes()));
        let hidden = self.hidden.globs.iter().map(|glob| ("hide_env", glob.as_bytes().to_vec()));
        let flags = [yes(self.no_network, "no_network"), yes(self.hidden.clear, "clear_env")];
        let flags = flags.into_iter().flatten();
        let profile = self.profile.iter().map(|name| ("profile", name.clone()));
        let limits = self.limits.set().map(|(name, value)| (name, value.to_string().into_bytes()));
        write_roots
            .chain(limits)
            .chain(none)
            .chain(read_roots)
            .chain(flags)
            .chain(ports)
            .chain(hidden)
            .chain(profile)
            .collect()
    }

    /// Reads a line that keeps one. `None` if its value is invalid; `Some(false)` if it keeps something
    /// else.
    pub(crate) fn read_line(&mut self, key: &[u8], value: &[u8]) -> Option<bool> {
        match key {
            b"write_root" => self.write_roots.push(value.to_vec()),
            b"read_root" => {
                let roots = self.read_roots.get_or_insert_default();
                if value != NO_ROOT {
                    roots.push(value.to_vec());
                }
            }
            b"no_network" => self.no_network = true,
            b"connect" => self.ports.push(number(value)?),
            b"clear_env" => self.hidden.clear = true,
            b"hide_env" => self.hidden.globs.push(OsStr::from_bytes(value).to_owned()),
            b"profile" => self.profile = Some(value.to_vec()),
            b"memory" | b"tasks" | b"cpu" => _ = self.limits.note(key, number(value)?),
            _ => return Some(false),
        }
        Some(true)
    }

    /// As JSON; `None` if nothing is restricted.
    pub(crate) fn describe(&self) -> Option<Object> {
        if *self == JailOptions::default() {
            return None;
        }
        let globs: Vec<Vec<u8>> =
            self.hidden.globs.iter().map(|glob: &OsString| glob.as_bytes().to_vec()).collect();
        let ports: Vec<String> = self.ports.iter().map(u16::to_string).collect();
        let object = Object::new().list("write_roots", &self.write_roots);
        let object = match &self.read_roots {
            Some(roots) => object.list("read_roots", roots),
            None => object.json("read_roots", "null"),
        };
        let object = object
            .truth("no_network", self.no_network)
            .json("connect", &format!("[{}]", ports.join(",")))
            .truth("clear_env", self.hidden.clear)
            .list("hide_env", &globs);
        let object = object
            .number_or_null("memory", self.limits.memory)
            .number_or_null("tasks", self.limits.tasks)
            .number_or_null("cpu", self.limits.cpu);
        Some(object.bytes_or_null("profile", self.profile.as_deref()))
    }
}

/// The value of `--read-root` for no directory. A root is absolute, so it is none.
pub(crate) const NO_ROOT: &[u8] = b"none";

/// The profile of sessions for which none is named. A worker's launcher gets it.
pub(crate) const PROFILE_ENV: &str = "NBS_TS_PROFILE";

#[cfg(test)]
mod tests {
    use super::*;

    fn options(roots: &[&str], reads: Option<&[&str]>) -> JailOptions {
        let bytes =
            |roots: &[&str]| -> Vec<Vec<u8>> { roots.iter().map(|root| root.as_bytes().to_vec()).collect() };
        JailOptions { write_roots: bytes(roots), read_roots: reads.map(bytes), ..JailOptions::default() }
    }

    #[test]
    fn options_are_read_back_from_their_lines() {
        let all = JailOptions {
            no_network: true,
            ports: vec![443, 80],
            hidden: HiddenVariables { clear: true, globs: vec!["A_*".into()] },
            limits: ResourceLimits { memory: Some(1 << 30), tasks: Some(5), cpu: None },
            profile: Some(b"agent".to_vec()),
            ..options(&["/w"], Some(&["/r", "/none"]))
        };
        for options in [all, options(&[], Some(&[])), JailOptions::default()] {
            let mut read = JailOptions::default();
            for (key, value) in options.lines() {
                assert_eq!(read.read_line(key.as_bytes(), &value), Some(true));
            }
            assert_eq!(read, options);
        }
        assert_eq!(JailOptions::default().read_line(b"connect", b"70000"), None);
        assert_eq!(JailOptions::default().read_line(b"title", b"x"), Some(false));
    }

    #[test]
    fn a_session_that_may_do_more_is_told_by_what() {
        let network = |no_network, ports: &[u16]| JailOptions {
            no_network,
            ports: ports.to_vec(),
            ..JailOptions::default()
        };
        let hidden = |clear, glob: &str| JailOptions {
            hidden: HiddenVariables { clear, globs: vec![glob.into()] },
            ..JailOptions::default()
        };
        let memory = |memory| JailOptions {
            limits: ResourceLimits { memory, ..ResourceLimits::default() },
            ..JailOptions::default()
        };
        for (wanted, there, expected) in [
            (memory(Some(2)), memory(Some(1)), None),
            (memory(Some(2)), memory(Some(3)), Some("it may use more memory")),
            (memory(Some(2)), memory(None), Some("it may use more memory")),
            (options(&[], None), options(&[], None), None),
            (options(&["/a"], None), options(&["/a"], None), None),
            (options(&["/a", "/b"], None), options(&["/a"], None), None),
            (options(&["/a"], None), options(&[], None), Some("it may write everywhere")),
            (options(&["/a"], None), options(&["/b"], None), Some("it may write to '/b'")),
            (options(&["/a"], None), options(&[], Some(&[])), None),
            (options(&[], Some(&[])), options(&["/a"], None), Some("it may write to '/a'")),
            (options(&["/a"], Some(&[])), options(&["/a"], None), Some("it may read everywhere")),
            (options(&[], Some(&[])), options(&[], Some(&["/r"])), Some("it may read '/r'")),
            (options(&[], Some(&["/r"])), options(&[], Some(&[])), None),
            (network(true, &[]), network(false, &[]), Some("it may use the network")),
            (network(true, &[1]), network(true, &[1, 2]), Some("it may connect to port 2")),
            (network(false, &[]), network(true, &[]), None),
            (hidden(false, "A*"), hidden(false, "A*"), None),
            (hidden(false, "A*"), hidden(false, "B*"), Some("it has variables that are to be hidden")),
            (hidden(false, "A*"), hidden(true, "B*"), None),
            (hidden(true, "A*"), hidden(false, "A*"), Some("it has variables that are to be hidden")),
        ] {
            assert_eq!(wanted.exceeded_by(&there).as_deref(), expected, "{wanted:?} {there:?}");
        }
    }
}
