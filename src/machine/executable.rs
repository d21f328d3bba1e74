//! Which file this is, by what is in it; so both ends know whether they are the same.

use std::{
    env::consts::ARCH,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use crate::sys::{
    program::Program,
    siblings::{self, ARCHITECTURES, Sibling},
};

/// The running file, whatever its name is now.
const OURSELVES: &str = "/proc/self/exe";

/// A copy of nbs that can be sent to a machine.
pub(crate) struct Executable {
    /// As `uname -m` has it.
    pub(crate) architecture: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) content: String,
    pub(crate) size: u64,
}

impl Executable {
    fn read(architecture: &'static str, path: PathBuf) -> io::Result<Executable> {
        let (content, size) = of(&path)?;
        Ok(Executable { architecture, path, content, size })
    }

    /// The names of these machines in `uname -m`. Without uname, we try our own.
    pub(crate) fn machines(&self) -> Vec<&'static str> {
        let names = ARCHITECTURES.into_iter().filter(|(name, _)| *name == self.architecture);
        let unknown = (self.architecture == ARCH).then_some(UNKNOWN);
        names.flat_map(|(name, alias)| [name, alias]).chain(unknown).collect()
    }
}

/// The name of a machine without uname.
const UNKNOWN: &str = "unknown";

/// The available copies: our own file, and those beside it. If one is unusable, the error comes when
/// it is needed.
pub(crate) fn copies() -> io::Result<Vec<Executable>> {
    let ours = Program::look(Path::new(OURSELVES))?.filter(Program::is_whole);
    let ours = ours.map(|_| Executable::read(ARCH, OURSELVES.into())).transpose()?;
    let (mut copies, ourselves) = (Vec::from_iter(ours), fs::read_link(OURSELVES)?);
    for architecture in siblings::architectures() {
        if let (path, Sibling::Usable) = siblings::look(&ourselves, architecture) {
            copies.extend(Executable::read(architecture, path));
        }
    }
    Ok(copies)
}

/// Why there is no copy for a machine of that name, as `uname -m` has it there, and what to do.
pub(crate) fn missing(machine: &str) -> String {
    let of = |(name, alias): &&(&str, &str)| [*name, *alias].contains(&machine);
    let Some((architecture, _)) = ARCHITECTURES.iter().find(of) else {
        return format!("nbs is not built for its architecture, '{machine}'");
    };
    if *architecture == ARCH {
        return "our own file is incomplete".into();
    }
    let Ok(ourselves) = fs::read_link(OURSELVES) else { return "our own file has no name".into() };
    let (path, sibling) = siblings::look(&ourselves, architecture);
    let (word, is) = match &sibling {
        Sibling::Usable => ("which", "has appeared since"),
        Sibling::Absent => ("where", "there is none"),
        Sibling::Unusable(why) => ("which", &**why),
    };
    format!("it needs nbs for {architecture} from '{}', {word} {is}", path.display())
}

/// The identity of our own file's content; see [`of`].
pub(crate) fn ours() -> io::Result<String> {
    of(Path::new(OURSELVES)).map(|(content, _)| content)
}

/// 32 hexadecimal digits that distinguish files of ours, and the file's length. They protect against
/// damage and mixing up, not against a forger: a user who can write there needs no forged file.
fn of(path: &Path) -> io::Result<(String, u64)> {
    let (mut file, mut digest, mut size) = (File::open(path)?, Digest::new(), 0);
    let mut block = vec![0; 64 * 1024];
    loop {
        // Whole blocks, wherever reads end: the digest goes by words.
        let mut filled = 0;
        while filled < block.len() {
            match file.read(&mut block[filled..])? {
                0 => break,
                count => filled += count,
            }
        }
        size += filled as u64;
        digest.take(&block[..filled]);
        if filled < block.len() {
            return Ok((digest.finish(size), size));
        }
    }
}

/// Two lanes of FNV-1a (draft-eastlake-fnv) over words of 8 bytes, each folded after its product,
/// for else the upper bits of a word would not reach the lower ones of the sum.
struct Digest([u64; 2]);

impl Digest {
    const PRIMES: [u64; 2] = [0x0000_0100_0000_01b3, 0x9e37_79b9_7f4a_7c15];

    fn new() -> Digest {
        Digest([0xcbf2_9ce4_8422_2325, 0x6a09_e667_f3bc_c908])
    }

    fn take(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut padded = [0; 8];
            padded[..rest.len()].copy_from_slice(rest);
            self.word(u64::from_le_bytes(padded));
        }
    }

    fn word(&mut self, word: u64) {
        let [one, two] = Digest::PRIMES;
        let next = |lane: u64, prime| (lane ^ word).wrapping_mul(prime);
        self.0 = [next(self.0[0], one), next(self.0[1], two)];
        self.0 = [self.0[0] ^ (self.0[0] >> 32), self.0[1] ^ (self.0[1] >> 32)];
    }

    fn finish(mut self, size: u64) -> String {
        self.word(size);
        self.word(0);
        format!("{:016x}{:016x}", self.0[0], self.0[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_different_bit_or_length_is_another_file() {
        let digest = |bytes: &[u8]| {
            let mut digest = Digest::new();
            digest.take(bytes);
            digest.finish(bytes.len() as u64)
        };
        let bytes: Vec<u8> = (0..1_000_u32).map(|number| (number * 7) as u8).collect();
        let mut seen = std::collections::BTreeSet::from([digest(&bytes)]);
        for bit in 0..8_000 {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(seen.insert(digest(&other)), "bit {bit}");
        }
        for length in 0..1_000 {
            assert!(seen.insert(digest(&bytes[..length])), "length {length}");
        }
        assert!(seen.insert(digest(&[&bytes[..], &[0]].concat())));
    }
}
