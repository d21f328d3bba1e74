//! The time of day, in numbers and as log lines show it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds since 1970, with a fraction; of a moment before that, 0.
pub(crate) fn unix_seconds(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// `2026-03-25T14:30:00Z`. A moment before 1970 is shown as its beginning.
pub(crate) fn utc(time: SystemTime) -> String {
    let seconds = unix_seconds(time).as_secs();
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The same for people: `2026-03-25 14:30:00`.
pub(crate) fn plain(time: SystemTime) -> String {
    utc(time).replace('T', " ").replace('Z', "")
}

/// The moment that [`plain`] shows so.
pub(crate) fn parse_plain(text: &str) -> Option<SystemTime> {
    let (date, time) = text.split_once(' ')?;
    let numbers = |text: &str, between| {
        let numbers: Option<Vec<u64>> = text.split(between).map(|digits| digits.parse().ok()).collect();
        <[u64; 3]>::try_from(numbers?).ok()
    };
    let ([year, month, day], [hour, minute, second]) = (numbers(date, '-')?, numbers(time, ':')?);
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // The days of a year that begins in March, as in `civil`.
    let (year, shifted) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * shifted + 2) / 5 + day - 1;
    let days = era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let seconds =
        days.checked_sub(719_468)? * 86_400 + hour.min(23) * 3_600 + minute.min(59) * 60 + second.min(59);
    Some(UNIX_EPOCH + Duration::from_secs(seconds))
}

/// The date of a day, counted from 1970-01-01.
///
/// Years begin in March here, so that the leap day is the last of its year
/// (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_shown_in_utc() {
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_799, "2000-02-29T23:59:59Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_774_449_000, "2026-03-25T14:30:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ];
        for (seconds, shown) in cases {
            assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(seconds)), shown);
        }
    }

    #[test]
    fn printed_times_can_be_parsed() {
        assert_eq!(plain(UNIX_EPOCH + Duration::from_secs(1_774_449_000)), "2026-03-25 14:30:00");
        for day in 0..146_097 {
            let moment = UNIX_EPOCH + Duration::from_secs(day * 86_400 + day % 86_400);
            assert_eq!(parse_plain(&plain(moment)), Some(moment));
        }
        for text in
            ["", "2026-03-25", "2026-03-25 14:30", "2026-13-01 00:00:00", "1969-12-31 00:00:00", "a b"]
        {
            assert_eq!(parse_plain(text), None, "{text:?}");
        }
    }

    #[test]
    fn every_day_of_four_centuries_follows_the_one_before() {
        let mut before = civil(0);
        for day in 1..146_097 {
            let (y, m, d) = civil(day);
            let next_day = (y, m, d) == (before.0, before.1, before.2 + 1);
            let next_month = d == 1 && before.2 >= 28 && (y, m) == (before.0, before.1 + 1);
            let next_year = (m, d) == (1, 1) && (before.1, before.2) == (12, 31) && y == before.0 + 1;
            assert!(next_day || next_month || next_year, "{before:?} then {:?}", (y, m, d));
            before = (y, m, d);
        }
        assert_eq!(civil(146_097), (2370, 1, 1));
    }
}
