//! The time of day, as log lines show it.

use std::time::{SystemTime, UNIX_EPOCH};

/// `2026-03-25T14:30:00Z`. A moment before 1970 is shown as its beginning.
pub(crate) fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
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
    use std::time::Duration;

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
