//! CRC-32, as IEEE 802.3 has it: what a line changed is found out by it.
//!
//! Pure. Eight bytes are taken at a time, so that it costs a fast line less than its copying.

/// The polynomial, its lowest power first.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// What each byte adds that is followed by so many others of its eight.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let (mut remainder, mut bit) = (byte as u32, 0);
        while bit < 8 {
            remainder = (remainder >> 1) ^ if remainder & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        tables[0][byte] = remainder;
        byte += 1;
    }
    let mut after = 1;
    while after < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before: u32 = tables[after - 1][byte];
            tables[after][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        after += 1;
    }
    tables
}

/// The checksum of these pieces, one behind the other.
pub(crate) fn crc32(pieces: &[&[u8]]) -> u32 {
    !pieces.iter().fold(!0, |checksum, piece| continued(checksum, piece))
}

fn continued(mut checksum: u32, bytes: &[u8]) -> u32 {
    let mut eights = bytes.chunks_exact(8);
    for eight in &mut eights {
        let low = checksum ^ u32::from_le_bytes([eight[0], eight[1], eight[2], eight[3]]);
        let [a, b, c, d] = low.to_le_bytes().map(usize::from);
        let [e, f, g, h] = [eight[4], eight[5], eight[6], eight[7]].map(usize::from);
        checksum = TABLES[7][a]
            ^ TABLES[6][b]
            ^ TABLES[5][c]
            ^ TABLES[4][d]
            ^ TABLES[3][e]
            ^ TABLES[2][f]
            ^ TABLES[1][g]
            ^ TABLES[0][h];
    }
    for byte in eights.remainder() {
        checksum = (checksum >> 8) ^ TABLES[0][usize::from(checksum as u8 ^ byte)];
    }
    checksum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::{pieces, rounds};

    #[test]
    fn it_is_the_checksum_that_others_call_so() {
        // The check value of the Rocksoft model, and what zlib's crc32 gives.
        assert_eq!(crc32(&[b"123456789"]), 0xcbf4_3926);
        assert_eq!(crc32(&[]), 0);
        assert_eq!(crc32(&[b"The quick brown fox jumps over the lazy dog"]), 0x414f_a339);
    }

    #[test]
    fn it_does_not_matter_how_the_bytes_are_cut() {
        for (seed, mut random) in rounds(300) {
            let bytes: Vec<u8> = (0..random.usize(..200)).map(|_| random.u8(..)).collect();
            let cut = pieces(&bytes, 30, &mut random);
            assert_eq!(crc32(&cut), crc32(&[&bytes]), "seed {seed}");
        }
    }
}
