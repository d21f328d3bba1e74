//! The user that this process runs as.

use std::{env, fs};

/// Its real number.
pub(crate) fn id() -> u32 {
    rustix::process::getuid().as_raw()
}

/// Its name in passwd(5), or in the environment if it has none there; empty if it is unknown.
pub(crate) fn name() -> String {
    let users = fs::read("/etc/passwd").unwrap_or_default();
    let id = id().to_string();
    let mut lines = users.split(|byte| *byte == b'\n').map(String::from_utf8_lossy);
    let line = lines.find(|line| line.split(':').nth(2) == Some(&id));
    let name = line.and_then(|line| line.split(':').next().map(str::to_owned));
    name.unwrap_or_else(|| env::var("USER").unwrap_or_default())
}
