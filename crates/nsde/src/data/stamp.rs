//! Time stamps of RFC 3339, and the calendar they need.

use std::fmt;

/// Nanoseconds in a second.
pub(super) const SECOND: i128 = 1_000_000_000;

/// Seconds in a day; leap seconds do not count.
const DAY: i64 = 86_400;

/// A point in time, as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Nanoseconds since 1970-01-01T00:00:00Z; without an offset, as if the clock showed UTC.
    pub nanos: i128,
    /// Minutes the clock is ahead of UTC, if the stamp says so.
    pub offset: Option<i32>,
}

impl Stamp {
    /// Reads `2014-01-01T00:00:00Z`. The `T` may be a blank; seconds, their fraction, the offset, and the
    /// time of day altogether may be absent. Digits beyond nanoseconds are cut off.
    pub fn read(text: &str) -> Option<Stamp> {
        let mut rest = text.trim();
        let year = digits(&mut rest, 4)?;
        sign(&mut rest, "-")?;
        let month = digits(&mut rest, 2)?;
        sign(&mut rest, "-")?;
        let day = digits(&mut rest, 2)?;
        if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
            return None;
        }
        let mut seconds = days_from_civil(year, month, day) * DAY;
        let (mut fraction, mut offset) = (0, None);
        if !rest.is_empty() {
            sign(&mut rest, "Tt ")?;
            let hour = digits(&mut rest, 2)?;
            sign(&mut rest, ":")?;
            let minute = digits(&mut rest, 2)?;
            let second = if sign(&mut rest, ":").is_some() { digits(&mut rest, 2)? } else { 0 };
            // 60 is a leap second: the first one of the next minute.
            if hour > 23 || minute > 59 || second > 60 {
                return None;
            }
            seconds += hour * 3600 + minute * 60 + second;
            if sign(&mut rest, ".,").is_some() {
                fraction = nanoseconds(&mut rest)?;
            }
            offset = read_offset(rest)?;
        }
        seconds -= i64::from(offset.unwrap_or(0)) * 60;
        Some(Stamp { nanos: i128::from(seconds) * SECOND + fraction, offset })
    }
}

impl fmt::Display for Stamp {
    /// The shortest RFC 3339 form with seconds, at the offset of the stamp.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offset = self.offset.unwrap_or(0);
        let nanos = self.nanos + i128::from(offset) * 60 * SECOND;
        let (seconds, fraction) = (nanos.div_euclid(SECOND) as i64, nanos.rem_euclid(SECOND));
        let (year, month, day) = civil_from_days(seconds.div_euclid(DAY));
        let clock = seconds.rem_euclid(DAY);
        let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if fraction != 0 {
            write!(f, ".{}", format!("{fraction:09}").trim_end_matches('0'))?;
        }
        match self.offset {
            None => Ok(()),
            Some(0) => f.write_str("Z"),
            Some(minutes) => {
                let ahead = if minutes < 0 { '-' } else { '+' };
                write!(f, "{ahead}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
            }
        }
    }
}

/// Takes exactly `count` digits off the front.
fn digits(rest: &mut &str, count: usize) -> Option<i64> {
    let (head, tail) = rest.split_at_checked(count)?;
    *rest = tail;
    head.bytes().all(|b| b.is_ascii_digit()).then(|| head.parse().ok())?
}

/// Takes one character off the front if it is among `allowed`.
fn sign(rest: &mut &str, allowed: &str) -> Option<char> {
    let first = rest.chars().next().filter(|c| allowed.contains(*c))?;
    *rest = &rest[first.len_utf8()..];
    Some(first)
}

/// Takes the digits of a fraction of a second off the front.
fn nanoseconds(rest: &mut &str) -> Option<i128> {
    let count = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (head, tail) = rest.split_at(count);
    *rest = tail;
    let kept = &head[..count.min(9)];
    let scale = 10_i128.pow(9 - kept.len() as u32);
    Some(kept.parse::<i128>().ok()? * scale)
}

/// Reads nothing, `Z`, `+01:00`, `+0100` or `+01`, in minutes.
fn read_offset(mut rest: &str) -> Option<Option<i32>> {
    if rest.is_empty() {
        return Some(None);
    }
    if rest.eq_ignore_ascii_case("z") {
        return Some(Some(0));
    }
    let ahead = if sign(&mut rest, "+-")? == '-' { -1 } else { 1 };
    let hours = digits(&mut rest, 2)?;
    let minutes = match rest.strip_prefix(':').unwrap_or(rest) {
        "" if !rest.is_empty() => return None,
        "" => 0,
        mut two => digits(&mut two, 2).filter(|_| two.is_empty())?,
    };
    (hours < 24 && minutes < 60).then_some(Some(ahead * (hours * 60 + minutes) as i32))
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 in the Gregorian calendar, counted in years that begin in March and in eras of
/// 400 years (146,097 days).
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The inverse of [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12 + 1;
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str) -> f64 {
        Stamp::read(text).unwrap_or_else(|| panic!("{text:?} is refused")).nanos as f64 / 1e9
    }

    /// Expected values are those of `date -u -d … +%s`.
    #[test]
    fn stamps_count_seconds_since_1970() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0.0),
            ("2014-01-01T00:00:00Z", 1_388_534_400.0),
            ("2014-01-01", 1_388_534_400.0),
            ("2014-01-01 00:00", 1_388_534_400.0),
            ("2014-01-01t01:30:00+01:30", 1_388_534_400.0),
            ("2013-12-31 19:00:00-0500", 1_388_534_400.0),
            ("2014-01-01T02:00:00+02", 1_388_534_400.0),
            ("2000-02-29T23:59:59z", 951_868_799.0),
            ("1999-12-31T23:59:60Z", 946_684_800.0),
            ("1900-03-01T00:00:00Z", -2_203_891_200.0),
            ("1969-12-31T23:59:59.25Z", -0.75),
            ("2014-01-01T00:00:00.5Z", 1_388_534_400.5),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
        assert_eq!(Stamp::read("2014-01-01T00:00:00.1234567899Z").unwrap().nanos % SECOND, 123_456_789);
    }

    #[test]
    fn what_is_no_day_or_hour_is_refused() {
        for text in [
            "2014-02-29",
            "1900-02-29",
            "2014-13-01",
            "2014-00-10",
            "2014-04-31",
            "2014-01-00",
            "14-01-01",
            "2014-1-1",
            "2014-01-01T",
            "2014-01-01T24:00:00Z",
            "2014-01-01T00:60:00Z",
            "2014-01-01T00:00:61Z",
            "2014-01-01T00:00:00.Z",
            "2014-01-01T00:00:00+1",
            "2014-01-01T00:00:00+01:",
            "2014-01-01T00:00:00+01:00x",
            "2014-01-01X00:00:00",
            "2014/01/01",
            "",
            "abc",
            "2014-01-01T00:00:00+25:00",
            "201é-01-01",
            "+014-01-01",
        ] {
            assert_eq!(Stamp::read(text), None, "{text}");
        }
    }

    /// Walks the calendar day by day over two eras, so that every kind of leap year is met.
    #[test]
    fn every_day_follows_the_day_before() {
        let mut expected = days_from_civil(1600, 1, 1);
        assert_eq!(expected, -135_140);
        for year in 1600..2400 {
            for month in 1..=12 {
                for day in 1..=days_in_month(year, month) {
                    assert_eq!(days_from_civil(year, month, day), expected, "{year}-{month}-{day}");
                    assert_eq!(civil_from_days(expected), (year, month, day));
                    expected += 1;
                }
            }
        }
    }

    #[test]
    fn printed_stamps_read_back() {
        for text in [
            "2014-01-01T00:00:00Z",
            "2014-06-30T23:59:59.125+05:30",
            "1969-07-20T20:17:40-04:00",
            "1800-01-01T00:00:00.000000001Z",
            "2024-02-29T12:00:00",
        ] {
            assert_eq!(Stamp::read(text).unwrap().to_string(), text);
        }
    }
}
