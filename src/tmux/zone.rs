//! Local time: the time zone of `TZ` or `/etc/localtime`, and its offset from UTC at a given time.
//!
//! A zone is a file (TZif, RFC 9636) or a POSIX rule (`CET-1CEST,M3.5.0,M10.5.0/3`); such a file ends with one, too.
//! Anything else counts as UTC.

use std::{env, fs::File, io::Read, path::Path};

const DAY: i64 = 86_400;

/// A zone's file is smaller; only another file is not.
const LONGEST_FILE: u64 = 1 << 20;

/// A local time: its name, and the seconds that it is ahead of UTC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    pub(crate) ahead: i64,
    pub(crate) name: String,
    is_summer: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Zone {
    /// The times, since 1970, at which another one of the clocks begins to apply.
    changes: Vec<(i64, usize)>,
    clocks: Vec<Clock>,
    /// Applies from the last change on.
    rule: Option<Rule>,
}

#[derive(Debug, PartialEq, Eq)]
struct Rule {
    standard: Clock,
    /// Daylight saving time, and when it begins and ends each year.
    summer: Option<(Clock, Date, Date)>,
}

/// A day of each year, and a time on it, in seconds since midnight.
#[derive(Debug, PartialEq, Eq)]
struct Date {
    /// `M`: month, week and weekday. `J`: the day of a year without a leap day. `0`: the day, from 0.
    kind: u8,
    numbers: [i64; 3],
    seconds: i64,
}

impl Zone {
    /// The zone of this process.
    pub(crate) fn local() -> Zone {
        let name = env::var("TZ").ok();
        let name = name.as_deref().map(|name| name.strip_prefix(':').unwrap_or(name));
        let path = Path::new("/usr/share/zoneinfo").join(name.unwrap_or("/etc/localtime"));
        let mut file = Vec::new();
        let read = File::open(path).and_then(|from| from.take(LONGEST_FILE).read_to_end(&mut file));
        let zone = read.ok().filter(|_| name != Some("")).and_then(|_| Zone::of_file(&file));
        zone.or_else(|| Some(Zone { rule: Some(Rule::parse(name?)?), ..Zone::default() })).unwrap_or_default()
    }

    /// The clock at a moment.
    pub(crate) fn at(&self, moment: i64) -> Clock {
        let before = self.changes.partition_point(|(start, _)| *start <= moment);
        let clock = match (before.checked_sub(1), &self.rule) {
            (_, Some(rule)) if before == self.changes.len() => Some(rule.at(moment)),
            (Some(last), _) => self.clocks.get(self.changes[last].1),
            (None, _) => self.clocks.iter().find(|clock| !clock.is_summer).or(self.clocks.first()),
        };
        clock.cloned().unwrap_or_else(|| Clock { name: "UTC".to_owned(), ..Clock::default() })
    }

    fn of_file(file: &[u8]) -> Option<Zone> {
        let version = *file.strip_prefix(b"TZif")?.first()?;
        // From the second version on, all is there twice: with moments of 4 bytes, and with those of 8.
        let (_, length) = Zone::of_block(file, 4)?;
        if version == 0 {
            return Zone::of_block(file, 4).map(|(zone, _)| zone);
        }
        let file = file.get(length..)?;
        let (mut zone, length) = Zone::of_block(file, 8)?;
        let rule = std::str::from_utf8(file.get(length..)?).ok()?;
        zone.rule = Rule::parse(rule.trim_matches('\n'));
        Some(zone)
    }

    /// A block of a file, and how long that is.
    fn of_block(block: &[u8], width: usize) -> Option<(Zone, usize)> {
        let count = |at: usize| Some(signed(block.get(20 + 4 * at..24 + 4 * at)?) as usize);
        let (utc, standard, leaps) = (count(0)?, count(1)?, count(2)?);
        let (changes, clocks, letters) = (count(3)?, count(4)?, count(5)?);
        let mut rest = block.get(44..)?;
        let mut take = |length: usize| {
            let (part, after) = rest.split_at_checked(length)?;
            rest = after;
            Some(part)
        };
        let starts = take(changes.checked_mul(width)?)?.chunks_exact(width).map(signed);
        let kinds = take(changes)?.iter().map(|kind| usize::from(*kind));
        let records = take(clocks.checked_mul(6)?)?;
        let names = take(letters)?;
        take(leaps.checked_mul(width + 4)?)?;
        take(standard)?;
        take(utc)?;
        let clock = |record: &[u8]| {
            let name = names.get(usize::from(record[5])..).unwrap_or_default();
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            let name = String::from_utf8_lossy(name).into_owned();
            Clock { ahead: signed(&record[..4]), name, is_summer: record[4] != 0 }
        };
        let clocks = records.chunks_exact(6).map(clock).collect();
        let length = block.len() - rest.len();
        Some((Zone { changes: starts.zip(kinds).collect(), clocks, rule: None }, length))
    }
}

/// A number of 4 or 8 bytes.
fn signed(bytes: &[u8]) -> i64 {
    let number = bytes.iter().fold(0_i64, |number, byte| number << 8 | i64::from(*byte));
    if bytes.len() == 4 { i64::from(number as i32) } else { number }
}

impl Rule {
    fn parse(text: &str) -> Option<Rule> {
        let mut rest = text;
        let standard = Clock { name: name(&mut rest)?, ahead: -time(&mut rest)?, is_summer: false };
        if rest.is_empty() {
            return Some(Rule { standard, summer: None });
        }
        let mut clock = Clock { name: name(&mut rest)?, ahead: standard.ahead + 3600, is_summer: true };
        if !rest.starts_with(',') && !rest.is_empty() {
            clock.ahead = -time(&mut rest)?;
        }
        let (start, end) = match rest {
            "" => ("M3.2.0", "M11.1.0"),
            _ => rest.strip_prefix(',')?.split_once(',')?,
        };
        Some(Rule { standard, summer: Some((clock, Date::parse(start)?, Date::parse(end)?)) })
    }

    fn at(&self, moment: i64) -> &Clock {
        let Some((clock, start, end)) = &self.summer else { return &self.standard };
        let day = (moment + self.standard.ahead).div_euclid(DAY);
        // By the mean length of a year: it may be the next one or the one before.
        let mut year = 1970 + day * 400 / 146_097;
        year += i64::from(day >= new_year(year + 1)) - i64::from(day < new_year(year));
        let start = start.moment(year) - self.standard.ahead;
        let end = end.moment(year) - clock.ahead;
        let is_summer = match start < end {
            true => (start..end).contains(&moment),
            false => !(end..start).contains(&moment),
        };
        if is_summer { clock } else { &self.standard }
    }
}

/// The day on which a year begins, counted from 1970-01-01.
fn new_year(year: i64) -> i64 {
    let past = year - 1;
    365 * (year - 1970) + past / 4 - past / 100 + past / 400 - 477
}

impl Date {
    fn parse(text: &str) -> Option<Date> {
        let (date, mut at) = text.split_once('/').unwrap_or((text, "2"));
        let (kind, digits) = match date.as_bytes().first()? {
            kind @ (b'M' | b'J') => (*kind, &date[1..]),
            _ => (b'0', date),
        };
        let mut numbers = [0; 3];
        for (place, digits) in digits.split('.').enumerate() {
            *numbers.get_mut(place)? = digits.parse().ok().filter(|number| (0..366).contains(number))?;
        }
        if kind == b'M' && !(1..=12).contains(&numbers[0]) {
            return None;
        }
        Some(Date { kind, numbers, seconds: time(&mut at)? })
    }

    fn moment(&self, year: i64) -> i64 {
        let first = new_year(year);
        let leap = new_year(year + 1) - first - 365;
        let [number, week, weekday] = self.numbers;
        let day = match self.kind {
            b'0' => number,
            b'J' => number - 1 + if number >= 60 { leap } else { 0 },
            _ => {
                let before = |months: i64| (367 * months + 5) / 12 - if months > 1 { 2 - leap } else { 0 };
                let (start, next) = (before(number - 1), before(number));
                // 1970 began on a Thursday.
                let distance = (weekday - (first + start + 4)).rem_euclid(7);
                let day = start + distance + 7 * (week - 1);
                if day < next { day } else { day - 7 }
            }
        };
        (first + day) * DAY + self.seconds
    }
}

/// The name of a clock: letters, or anything in angle brackets.
fn name(rest: &mut &str) -> Option<String> {
    let (name, after) = match rest.strip_prefix('<') {
        Some(text) => text.split_once('>')?,
        None => {
            let end = rest.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(rest.len());
            rest.split_at(end)
        }
    };
    *rest = after;
    (name.len() >= 3).then(|| name.to_owned())
}

/// A time, in seconds: hours, minutes and seconds, with a sign.
fn time(rest: &mut &str) -> Option<i64> {
    let end = rest.find(|letter: char| !(letter.is_ascii_digit() || "+-:".contains(letter)));
    let (text, after) = rest.split_at(end.unwrap_or(rest.len()));
    *rest = after;
    let (digits, sign) = match text.strip_prefix('-') {
        Some(digits) => (digits, -1),
        None => (text.strip_prefix('+').unwrap_or(text), 1),
    };
    let (mut seconds, mut unit) = (0, 3600);
    for part in digits.split(':') {
        seconds += unit * part.parse::<i64>().ok().filter(|part| (0..168).contains(part))?;
        unit /= 60;
    }
    Some(sign * seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_rule(rule: &str) -> Zone {
        Zone { rule: Some(Rule::parse(rule).unwrap()), ..Zone::default() }
    }

    /// As glibc's date(1) has them.
    #[test]
    fn a_rule_has_the_clock_of_each_moment() {
        for (rule, moment, ahead, name) in [
            ("UTC0", 0, 0, "UTC"),
            ("<+0530>-5:30", 1_000_000_000, 19_800, "+0530"),
            ("CET-1CEST,M3.5.0,M10.5.0/3", 1_774_745_999, 3_600, "CET"),
            ("CET-1CEST,M3.5.0,M10.5.0/3", 1_774_746_000, 7_200, "CEST"),
            ("CET-1CEST,M3.5.0,M10.5.0/3", 1_792_889_999, 7_200, "CEST"),
            ("CET-1CEST,M3.5.0,M10.5.0/3", 1_792_890_000, 3_600, "CET"),
            ("EST5EDT", 1_772_953_199, -18_000, "EST"),
            ("EST5EDT", 1_772_953_200, -14_400, "EDT"),
            // Summer at the turn of the year.
            ("AEST-10AEDT,M10.1.0,M4.1.0/3", 1_767_225_600, 39_600, "AEDT"),
            ("AEST-10AEDT,M10.1.0,M4.1.0/3", 1_780_000_000, 36_000, "AEST"),
            // Greenland's begins on the day before the one that is named.
            ("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", 1_774_745_999, -7_200, "-02"),
            ("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", 1_774_746_000, -3_600, "-01"),
            ("IST-1GMT0,J60,0", 1_709_254_799, 3_600, "IST"),
            ("IST-1GMT0,J60,300", 1_709_254_800, 0, "GMT"),
        ] {
            let clock = of_rule(rule).at(moment);
            assert_eq!((clock.ahead, &*clock.name), (ahead, name), "{rule} at {moment}");
        }
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for text in [
            "",
            "C",
            "CET",
            "CE1",
            "CET-1CEST,M3.5.0",
            "CET-1CEST,M13.1.0,M1.1.0",
            "CET-x",
            "<CET-1",
            "A/B",
            "CET-1CEST-2\u{e9},M3.5.0,M10.5.0",
        ] {
            assert_eq!(Rule::parse(text), None, "{text}");
        }
    }

    fn block(width: usize, changes: &[(i64, u8)], clocks: &[(i32, u8, u8)], names: &[u8]) -> Vec<u8> {
        let mut block = b"TZif2".to_vec();
        block.resize(20, 0);
        for count in [0, 0, 0, changes.len(), clocks.len(), names.len()] {
            block.extend((count as u32).to_be_bytes());
        }
        changes.iter().for_each(|(start, _)| block.extend(&start.to_be_bytes()[8 - width..]));
        changes.iter().for_each(|(_, kind)| block.push(*kind));
        for (ahead, is_summer, name) in clocks {
            block.extend(ahead.to_be_bytes());
            block.extend([*is_summer, *name]);
        }
        block.extend(names);
        block
    }

    #[test]
    fn a_file_has_changes_and_a_rule_for_later() {
        let clocks = [(7_200, 1, 4), (-1_800, 0, 0)];
        let mut file = block(4, &[(5, 0)], &clocks, b"LMT\0SUM\0");
        let end = file.len();
        file.extend(block(8, &[(-5_000_000_000, 0), (100, 1)], &clocks, b"LMT\0SUM\0"));
        file.extend(b"\nXYZ-3\n");
        let zone = Zone::of_file(&file).unwrap();
        for (moment, ahead, name) in [
            (-6_000_000_000, -1_800, "LMT"),
            (-5_000_000_000, 7_200, "SUM"),
            (99, 7_200, "SUM"),
            (100, 10_800, "XYZ"),
        ] {
            let clock = zone.at(moment);
            assert_eq!((clock.ahead, &*clock.name), (ahead, name), "{moment}");
        }
        file[4] = 0;
        assert_eq!(Zone::of_file(&file[..end]).unwrap().at(7).name, "SUM");
        file[4] = b'2';
        for length in 0..file.len() {
            if let Some(zone) = Zone::of_file(&file[..length]) {
                zone.at(0);
            }
        }
        assert_eq!(Zone::default().at(0).name, "UTC");
    }
}
