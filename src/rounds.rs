//! Randomised tests, from fixed seeds, and what tests wait for.
//!
//! `NBS_SEED=17` repeats one round, `NBS_ROUNDS=20000` asks for more of them.

use fastrand::Rng;

/// Seeds and their generators.
pub(crate) fn rounds(usual: u64) -> impl Iterator<Item = (u64, Rng)> {
    let number = |name| std::env::var(name).ok().map(|value| value.parse::<u64>().unwrap());
    let seeds = match number("NBS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("NBS_ROUNDS").unwrap_or(usual),
    };
    seeds.map(|seed| (seed, Rng::with_seed(seed)))
}

/// Waits for a fact that another test may keep from being so for a moment: what it starts has all
/// our descriptors until it executes something.
pub(crate) fn eventually(what: &str, fact: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !fact() {
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{what}");
        std::thread::yield_now();
    }
}

/// Valid bytes, with some of them changed, removed, doubled or cut off.
pub(crate) fn spoiled(right: &[u8], random: &mut Rng) -> Vec<u8> {
    const BYTES: &[u8] = b"\0\n\r\x1b\xff\xc3 ;:,.=-+%@/\\\"'x0189azAZ";
    let mut bytes = right.to_vec();
    for _ in 0..random.usize(1..6) {
        let at = random.usize(..=bytes.len());
        match random.u8(..6) {
            0 => bytes.insert(at, *random.choice(BYTES).unwrap()),
            1 => bytes.insert(at, random.u8(..)),
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..bytes.len().min(at + random.usize(..5)))),
            4 => bytes.extend_from_within(at..bytes.len().min(at + random.usize(..20))),
            _ => bytes.splice(at..at, random.choice(NUMBERS).unwrap().bytes()).for_each(drop),
        }
    }
    bytes
}

/// Numbers at the ends of ranges.
const NUMBERS: [&str; 9] = [
    "0",
    "-1",
    "65536",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
];

/// The same in pieces, some of them empty.
pub(crate) fn pieces<'a>(bytes: &'a [u8], longest: usize, random: &mut Rng) -> Vec<&'a [u8]> {
    let (mut pieces, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(random.usize(..=rest.len().min(longest)));
        pieces.push(piece);
        rest = after;
    }
    pieces
}
