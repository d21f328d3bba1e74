//! Bytes from the kernel's random source (getrandom(2)).

use std::{hint, io};

use rustix::rand::{GetRandomFlags, getrandom};

/// `N` random bytes.
pub(crate) fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0_u8; N];
    let mut filled = 0;
    while filled < N {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

/// The same as lower-case hex digits, two each.
pub(crate) fn hex<const N: usize>() -> io::Result<String> {
    Ok(bytes::<N>()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Is a guess the secret? The time that this takes depends only on the length of the guess.
pub(crate) fn is_same(secret: &str, guess: &str) -> bool {
    let (secret, guess) = (secret.as_bytes(), guess.as_bytes());
    let differences = secret.iter().zip(guess).fold(0, |all, (a, b)| hint::black_box(all | (a ^ b)));
    secret.len() == guess.len() && differences == 0
}
