//! The user that this process runs as.

use std::{
    env,
    ffi::OsString,
    fs,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

/// Its real number.
pub(crate) fn id() -> u32 {
    rustix::process::getuid().as_raw()
}

/// Its name, or the variable USER if it has none; empty if it is unknown.
pub(crate) fn name() -> String {
    let name = field(0).or_else(|| env::var_os("USER"));
    name.map_or(String::new(), |name| name.to_string_lossy().into_owned())
}

/// Its home directory: the variable HOME, or the one in passwd(5).
pub(crate) fn home() -> Option<PathBuf> {
    env::var_os("HOME").filter(|home| !home.is_empty()).or_else(|| field(5)).map(PathBuf::from)
}

/// The same, or the root directory if it does not exist.
pub(crate) fn home_or_root() -> PathBuf {
    home().filter(|home| home.is_dir()).unwrap_or_else(|| Path::new("/").to_owned())
}

/// A field of its line in /etc/passwd (passwd(5)). In a static file, getpwuid(3) reads that, too, and then asks
/// nscd(8), which few machines have: for 6,600 bytes more.
fn field(at: usize) -> Option<OsString> {
    let users = fs::read("/etc/passwd").ok()?;
    let id = id().to_string();
    let mut lines = users.split(|byte| *byte == b'\n').map(|line| line.split(|byte| *byte == b':'));
    let mut line = lines.find(|line| line.clone().nth(2) == Some(id.as_bytes()))?;
    line.nth(at).map(|field| OsString::from_vec(field.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_the_one_that_other_programs_know() {
        let line = std::process::Command::new("getent").args(["passwd", &id().to_string()]).output().unwrap();
        let line = String::from_utf8(line.stdout).unwrap();
        let fields: Vec<&str> = line.trim_end().split(':').collect();
        assert_eq!(field(0).unwrap(), fields[0]);
        assert_eq!(field(5).unwrap(), fields[5]);
    }
}
