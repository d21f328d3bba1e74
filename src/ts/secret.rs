//! A secret, from a descriptor of the caller's.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    os::fd::AsFd,
};

use crate::{
    outcome::{Failure, Result, Trying},
    session::client::sending,
};

/// Reads a secret from a descriptor of the caller's, which stays the caller's.
pub(crate) fn read(descriptor: u64) -> Result<Vec<u8>> {
    // One byte more than fits, to see that it does not.
    let most = sending::LONGEST_SECRET + 2;
    // All at once: a buffer that grows leaves copies behind.
    let mut secret = Vec::with_capacity(most + 32);
    let what = || match descriptor {
        0 => "read the secret from standard input".to_owned(),
        _ => format!("read the secret from descriptor {descriptor}"),
    };
    let opened = match open(descriptor) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(io::Error::other("it is not open")),
        opened => opened,
    };
    opened.and_then(|file| file.take(most as u64).read_to_end(&mut secret)).trying(what())?;
    // An empty line is an empty secret; nothing at all is most likely a secret
    // that could not be had.
    match secret.pop() {
        None => {
            return Err(Failure::failed(format!("cannot {}: it is empty", what())));
        }
        Some(b'\n') => {}
        Some(last) => secret.push(last),
    }
    Ok(secret)
}

/// Opened by the kernel's name for it, it is a new opening of the same file; so a file with a position is
/// read from the caller's position.
fn open(descriptor: u64) -> io::Result<File> {
    // Node passes its children sockets, which cannot be opened by such a name.
    if descriptor == 0 {
        return io::stdin().as_fd().try_clone_to_owned().map(File::from);
    }
    let mut file = File::open(format!("/proc/self/fd/{descriptor}"))?;
    if file.metadata()?.is_file() {
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}"))?;
        let position = info.lines().find_map(|line| line.strip_prefix("pos:")?.trim().parse().ok());
        file.seek(SeekFrom::Start(position.unwrap_or(0)))?;
    }
    Ok(file)
}
