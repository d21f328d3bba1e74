//! Numbers, times and bytes in the format of our own files, lines and JSON: written, and parsed strictly.
//!
//! Pure. Anything in another format (a sign, a blank, nothing) is not a number.

use std::{str::FromStr, time::Duration};

/// A decimal number.
pub(crate) fn number<N: FromStr>(digits: &[u8]) -> Option<N> {
    std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?.parse().ok()
}

/// Seconds with so many digits of a fraction, at most nine; what is left of it is
/// cut off. Like all of nbs without floating point, whose code in std would be a
/// fiftieth of the file.
pub(crate) fn seconds(time: Duration, places: usize) -> String {
    let fraction = format!("{:09}", time.subsec_nanos());
    format!("{}.{}", time.as_secs(), &fraction[..places])
}

/// The same for people, as short as it is: `1.5 s`.
pub(crate) fn shown_seconds(time: Duration) -> String {
    let seconds = seconds(time, 3);
    format!("{} s", seconds.trim_end_matches('0').trim_end_matches('.'))
}

/// The time that [`seconds`] has written, or one without a fraction.
pub(crate) fn parse_seconds(digits: &[u8]) -> Option<Duration> {
    let digits = std::str::from_utf8(digits).ok()?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let places = u32::try_from(fraction.len()).ok().filter(|places| *places <= 9)?;
    let nanoseconds = number::<u32>(fraction.as_bytes())? * 10_u32.pow(9 - places);
    Some(Duration::new(number(whole.as_bytes())?, nanoseconds))
}

/// A hash (FNV-1a, draft-eastlake-fnv). It detects accidents, not forgery.
pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    let mix = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// Bytes as lower-case hexadecimal digits, two each.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or_default();
    // Without an allocation for each byte: this may be all that was typed.
    let mut digits = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        digits.push(digit(byte >> 4));
        digits.push(digit(byte & 0xf));
    }
    digits
}

/// The bytes that [`hex`] has written.
pub(crate) fn parse_hex(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8]| match *pair {
        [high, low] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
        _ => None,
    };
    digits.as_bytes().chunks(2).map(byte).collect()
}

/// The bytes of a text in base64 (RFC 4648, section 4), whose padding may lack.
pub(crate) fn parse_base64(text: &[u8]) -> Option<Vec<u8>> {
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    let digits = &text[..text.len() - padding];
    if padding > 2 || digits.len() % 4 == 1 || (padding > 0 && !text.len().is_multiple_of(4)) {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        let mut bits = 0_u32;
        for digit in group {
            let value = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            bits = bits << 6 | u32::from(value);
        }
        let bits = (bits << (6 * (4 - group.len()))).to_be_bytes();
        bytes.extend_from_slice(&bits[1..group.len()]);
    }
    Some(bytes)
}

/// Bytes in base64: RFC 4648, section 4.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let mut bits = [0; 4];
        bits[1..=group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes(bits);
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place > group.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_short_as_they_are() {
        assert_eq!(shown_seconds(Duration::from_secs(60)), "60 s");
        assert_eq!(shown_seconds(Duration::from_millis(1_500)), "1.5 s");
        assert_eq!(shown_seconds(Duration::ZERO), "0 s");
    }

    #[test]
    fn only_our_own_form_of_numbers_is_parsed() {
        for time in [Duration::ZERO, Duration::new(60, 1), Duration::new(u64::MAX, 999_999_999)] {
            assert_eq!(parse_seconds(seconds(time, 9).as_bytes()), Some(time));
        }
        assert_eq!(seconds(Duration::from_micros(1_500_999), 3), "1.500");
        assert_eq!(parse_seconds(b"7"), Some(Duration::from_secs(7)));
        for bad in ["", ".", "1.", ".5", "-1", "+1", "1.+5", "1.0000000000", "1 ", "x"] {
            assert_eq!(parse_seconds(bad.as_bytes()), None, "{bad:?}");
        }
        let every_byte: Vec<u8> = (0..=255).collect();
        assert_eq!(parse_hex(&hex(&every_byte)), Some(every_byte));
        for bad in ["0", "+f", "0g", "é"] {
            assert_eq!(parse_hex(bad), None, "{bad:?}");
        }
        assert_eq!(number::<i32>(b"-7"), Some(-7));
        assert_eq!([number::<u8>(b""), number(b"+7"), number(b"7\n"), number(b"256")], [None; 4]);
    }

    #[test]
    fn base64_is_read_as_it_was_written() {
        for (bytes, encoded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("\u{fb}\u{ff}", "w7vDvw=="),
        ] {
            assert_eq!(base64(bytes.as_bytes()), encoded);
            for encoded in [encoded, encoded.trim_end_matches('=')] {
                assert_eq!(parse_base64(encoded.as_bytes()).as_deref(), Some(bytes.as_bytes()));
            }
        }
    }
}
