//! The text functions of a format's modifiers.
//!
//! Pure.

use std::{
    cmp::Ordering,
    time::{Duration, UNIX_EPOCH},
};

use regex_lite::Regex;

use crate::{sys::clock, terminal::cells, tmux::zone::Zone};

/// The position of the first of these characters that stands in no braces and is not escaped.
pub(super) fn skip(text: &str, ends: &str) -> Option<usize> {
    skip_in(text, ends, 0)
}

/// The position of the brace that closes the one before this text.
pub(super) fn closing(text: &str) -> Option<usize> {
    skip_in(text, "}", 1)
}

fn skip_in(text: &str, ends: &str, mut depth: i32) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if let (b'#', Some(next @ (b',' | b'#' | b'{' | b'}' | b':'))) = (byte, bytes.get(at + 1)) {
            depth += i32::from(*next == b'{');
            at += 2;
            continue;
        }
        depth -= i32::from(*byte == b'}');
        if depth == 0 && ends.as_bytes().contains(byte) {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// Replaces each match by the rules of tmux; `\1` is the text of the first group.
pub(super) fn substituted(pattern: &str, ignores_case: bool, text: &str, with: &str) -> String {
    let flags = if ignores_case { "(?i)" } else { "" };
    let Ok(regex) = Regex::new(&format!("{flags}{pattern}")) else { return text.to_owned() };
    let (mut out, mut from, mut last, mut was_empty) = (String::new(), 0, 0, false);
    while let Some(rest) = text.get(from..).filter(|_| !text.is_empty()) {
        let Some(captures) = regex.captures(rest) else { return out + rest };
        let Some(found) = captures.get(0) else { break };
        let (start, end) = (from + found.start(), from + found.end());
        out += text.get(last..start).unwrap_or_default();
        if was_empty || start != last || start != end {
            expand(&mut out, &captures, with);
            (from, was_empty) = (end, false);
        } else {
            // An empty match where the last one ended is none.
            let next = text[end..].chars().next().map_or(1, char::len_utf8);
            (from, was_empty) = (end + next, true);
        }
        last = end;
        if pattern.starts_with('^') {
            return out + text.get(from..).unwrap_or_default();
        }
    }
    out
}

fn expand(out: &mut String, captures: &regex_lite::Captures<'_>, with: &str) {
    let mut characters = with.chars();
    while let Some(character) = characters.next() {
        let escaped = if character == '\\' { characters.next() } else { None };
        let group =
            escaped.and_then(|digit| digit.to_digit(10)).and_then(|group| captures.get(group as usize));
        match group.filter(|group| !group.is_empty()) {
            Some(group) => *out += group.as_str(),
            None => out.push(escaped.unwrap_or(character)),
        }
    }
}

/// The first characters of a text, or, where the limit is negative, the last ones, that are no wider.
pub(super) fn trimmed(text: &str, limit: i64, marker: &str) -> String {
    let most = limit.unsigned_abs() as usize;
    let mut kept = text;
    while limit != 0 && cells::width(kept) > most {
        let mut characters = kept.chars();
        let _ = if limit > 0 { characters.next_back() } else { characters.next() };
        kept = characters.as_str();
    }
    match kept.len() == text.len() {
        true => text.to_owned(),
        false if limit > 0 => [kept, marker].concat(),
        false => [marker, kept].concat(),
    }
}

pub(super) fn escaped(text: &str, for_formats: bool) -> String {
    let mut out = String::new();
    for character in text.chars() {
        if for_formats {
            if character == '#' {
                out.push('#');
            }
        } else if "|&;<>()$`\\\"'*?[# =%".contains(character) {
            out.push('\\');
        }
        out.push(character);
    }
    out
}

/// Does a comparison by this operator hold? `None`: there is none of that name.
pub(super) fn compared(operator: &str, order: Ordering) -> Option<bool> {
    Some(match operator {
        "==" => order.is_eq(),
        "!=" => order.is_ne(),
        "<" => order.is_lt(),
        ">" => order.is_gt(),
        "<=" => order.is_le(),
        ">=" => order.is_ge(),
        _ => return None,
    })
}

pub(super) fn calculated(arguments: &[String], one: &str, other: &str) -> String {
    let argument = |at: usize| arguments.get(at).map_or("", String::as_str);
    let float = argument(1).contains('f');
    let places: usize = argument(2).parse().unwrap_or(if float { 2 } else { 0 });
    let (Some(one), Some(other)) = (billionths(one), billionths(other)) else { return String::new() };
    let whole = |value: i128| if float { value } else { value / BILLION * BILLION };
    let (one, other) = (whole(one), whole(other));
    // It is infinite, which a whole number cannot be.
    if matches!(argument(0), "/" | "m" | "%") && other == 0 {
        return if float { String::new() } else { i64::MIN.to_string() };
    }
    let result = match (argument(0), one.cmp(&other)) {
        ("+", _) => Some(one + other),
        ("-", _) => Some(one - other),
        ("*", _) => one.checked_mul(other).map(|product| product / BILLION),
        ("/", _) => (one * BILLION).checked_div(other),
        ("%" | "m", _) => one.checked_rem(other),
        (operator, order) => compared(operator, order).map(|holds| i128::from(holds) * BILLION),
    };
    result.map_or(String::new(), |result| decimal(whole(result), places))
}

/// Numbers are counted in this part of 1, so that their fractions need no floating point.
const BILLION: i128 = 1_000_000_000;

/// A decimal number.
fn billionths(text: &str) -> Option<i128> {
    let text = text.trim();
    let (digits, sign) = match text.strip_prefix('-') {
        Some(digits) => (digits, -1),
        None => (text.strip_prefix('+').unwrap_or(text), 1),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let digits = whole.bytes().chain(fraction.bytes().chain(std::iter::repeat(b'0')).take(9));
    let mut value: i128 = 0;
    for digit in digits {
        value = value * 10 + i128::from(char::from(digit).to_digit(10)?);
    }
    // So neither a sum nor a quotient overflows.
    let is_number = !(whole.is_empty() && fraction.is_empty()) && whole.len() <= 18;
    is_number.then_some(value * sign)
}

/// A count of billionths, rounded to so many digits of a fraction.
fn decimal(value: i128, places: usize) -> String {
    let places = places.min(9);
    let unit = 10_i128.pow(9 - places as u32);
    let rounded = (value.abs() + unit / 2) / unit * unit;
    let sign = if value < 0 { "-" } else { "" };
    let text = format!("{sign}{}.{:09}", rounded / BILLION, rounded % BILLION);
    let end = text.len() - if places == 0 { 10 } else { 9 - places };
    text[..end].to_owned()
}

const MONTHS: &str = "JanuaryFebruaryMarchAprilMayJuneJulyAugustSeptemberOctoberNovemberDecember";
const DAYS: &str = "SundayMondayTuesdayWednesdayThursdayFridaySaturday";

/// The word of that number among words that each begin with a capital.
fn word(words: &'static str, number: usize) -> &'static str {
    let mut starts = words.match_indices(|letter: char| letter.is_ascii_uppercase()).map(|(at, _)| at);
    let start = starts.nth(number).unwrap_or(0);
    &words[start..starts.next().unwrap_or(words.len())]
}

/// Text for a time as strftime(3) makes it.
pub(super) fn strftime(format: &str, seconds: u64, zone: &Zone) -> String {
    let here = zone.at(seconds as i64);
    let local = seconds.saturating_add_signed(here.ahead);
    // As `2026-03-25 14:30:00`.
    let shown = clock::plain(UNIX_EPOCH + Duration::from_secs(local));
    let part = |from: usize, to: usize| shown.get(from..to).unwrap_or_default();
    let number = |from: usize, to: usize| part(from, to).parse::<usize>().unwrap_or(1);
    let weekday = ((local / 86_400 + 4) % 7) as usize;
    let (year, month, hour) = (number(0, 4), number(5, 7), number(11, 13));
    let (day_name, month_name) = (word(DAYS, weekday), word(MONTHS, month - 1));
    let half = (hour + 11) % 12 + 1;
    let mut out = String::new();
    let mut rest = format.chars();
    while let Some(character) = rest.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        let letter = rest.next();
        let again = |format: &str| strftime(format, seconds, zone);
        out += &match letter {
            Some('a') => day_name[..3].to_owned(),
            Some('A') => day_name.to_owned(),
            Some('b' | 'h') => month_name[..3].to_owned(),
            Some('B') => month_name.to_owned(),
            Some('c') => again("%a %b %e %T %Y"),
            Some('C') => part(0, 2).to_owned(),
            Some('d') => part(8, 10).to_owned(),
            Some('D' | 'x') => again("%m/%d/%y"),
            Some('e') => format!("{:>2}", number(8, 10)),
            Some('F') => part(0, 10).to_owned(),
            Some('H') => part(11, 13).to_owned(),
            Some('I') => format!("{half:02}"),
            Some('j') => {
                let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334][month - 1];
                let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
                format!("{:03}", before + number(8, 10) + usize::from(is_leap && month > 2))
            }
            Some('k') => format!("{hour:>2}"),
            Some('l') => format!("{half:>2}"),
            Some('m') => part(5, 7).to_owned(),
            Some('M') => part(14, 16).to_owned(),
            Some('n') => "\n".to_owned(),
            Some('p') => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            Some('r') => again("%I:%M:%S %p"),
            Some('R') => part(11, 16).to_owned(),
            Some('s') => seconds.to_string(),
            Some('S') => part(17, 19).to_owned(),
            Some('t') => "\t".to_owned(),
            Some('T' | 'X') => part(11, 19).to_owned(),
            Some('u') => ((weekday + 6) % 7 + 1).to_string(),
            Some('w') => weekday.to_string(),
            Some('y') => part(2, 4).to_owned(),
            Some('Y') => part(0, 4).to_owned(),
            Some('z') => {
                let sign = if here.ahead < 0 { '-' } else { '+' };
                let minutes = here.ahead.abs() / 60;
                format!("{sign}{:02}{:02}", minutes / 60, minutes % 60)
            }
            Some('Z') => here.name.clone(),
            Some('%') | None => "%".to_owned(),
            Some(other) => format!("%{other}"),
        };
    }
    out
}

/// A time as short as its age allows.
pub(super) fn pretty(seconds: u64, now: u64, zone: &Zone) -> String {
    let now = now.max(seconds);
    let months = |seconds: u64| {
        let shown = strftime("%Y %m", seconds, zone);
        let (year, month) = shown.split_once(' ').unwrap_or_default();
        (year.parse().unwrap_or(0_u32), month.parse().unwrap_or(0_u32))
    };
    let (age, (year, month), (now_year, now_month)) = (now - seconds, months(seconds), months(now));
    let format = if age < 24 * 3600 {
        "%H:%M"
    } else if (year, month) == (now_year, now_month) || age < 28 * 24 * 3600 {
        "%a%d"
    } else if (year == now_year && month < now_month) || (year + 1 == now_year && month > now_month) {
        "%d%b"
    } else {
        "%h%y"
    };
    strftime(format, seconds, zone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_calculated_without_floating_point() {
        for (arguments, one, other, expected) in [
            ("+", "1", "2", "3"),
            ("-", "1.9", "2.9", "-1"),
            ("*", "-3", "4", "-12"),
            ("/", "7", "2", "3"),
            ("/", "-7", "2", "-3"),
            ("m", "-7", "2", "-1"),
            ("/|f", "7", "3", "2.33"),
            ("/|f|4", "2", "3", "0.6667"),
            ("*|f|1", "1.5", "-.5", "-0.8"),
            ("+|f|0", "0.5", "1", "2"),
            ("+||2", " 1 ", "+1", "2.00"),
            ("*", "9000000000", "9000000000", "81000000000000000000"),
            ("==", "2", "2.0", "1"),
            (">|f", "2", "3", "0.00"),
            ("/", "1", "0", "-9223372036854775808"),
            ("+", "1", "x", ""),
            ("+", ".", "1", ""),
            ("?", "1", "1", ""),
        ] {
            let words: Vec<String> = arguments.split('|').map(str::to_owned).collect();
            assert_eq!(calculated(&words, one, other), expected, "{arguments} {one} {other}");
        }
    }

    #[test]
    fn times_are_shown_as_asked_for() {
        let all = "%a %A %b %B %C %d %D %e %F %H %I %j %k %l %m %M %p %R %S %T %u %w %y %Y %z %Z %% %Q %";
        let shown = "Sun Sunday Sep September 20 09 09/09/01  9 2001-09-09 01 01 252  1  1 09 46 AM 01:46 40 \
                     01:46:40 7 0 01 2001 +0000 UTC % %Q %";
        let utc = Zone::default();
        assert_eq!(strftime(all, 1_000_000_000, &utc), shown);
        assert_eq!(strftime("%c", 1_000_000_000, &utc), "Sun Sep  9 01:46:40 2001");
        for (age, expected) in
            [(60, "01:45"), (3 * 86_400, "Thu06"), (90 * 86_400, "11Jun"), (400 * 86_400, "Aug00")]
        {
            assert_eq!(pretty(1_000_000_000 - age, 1_000_000_000, &utc), expected, "{age}");
        }
    }

    #[test]
    fn matches_are_replaced_by_the_rules_of_tmux() {
        for (pattern, with, expected) in [
            ("a", "b", "b/b c"),
            ("(.)/(.)", "\\2\\1", "ba c"),
            ("^", ">", "/b c"),
            ("$", "<", "a/b c<"),
            ("b*", "X", "aX/X XcX"),
            ("[", "x", "a/b c"),
        ] {
            assert_eq!(substituted(pattern, false, "a/b c", with), expected, "{pattern}");
        }
    }
}
