//! Days of the calendar, as a person writes them: `YYYY-MM-DD`. What day it is, is not known here.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::names::text_type;

/// Why a date was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a date; write it as year, month and day, such as `2027-01-31`")]
pub struct DateError(String);

/// A day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

impl Date {
    /// How many days after another day this is; less than nothing if it is before.
    pub fn days_after(self, earlier: Self) -> i64 {
        self.number() - earlier.number()
    }

    /// Days since some day long ago, in the Gregorian calendar. (The year begins in March, so that a leap day is its last.)
    fn number(self) -> i64 {
        let (year, month, day) = (i64::from(self.year), i64::from(self.month), i64::from(self.day));
        let year = if month <= 2 { year - 1 } else { year };
        let month = (month + 9) % 12;
        365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + (153 * month + 2) / 5 + day
    }
}

fn days_of(year: u16, month: u8) -> u8 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => 0,
    }
}

impl FromStr for Date {
    type Err = DateError;

    fn from_str(text: &str) -> Result<Self, DateError> {
        let refused = || DateError(text.escape_debug().to_string());
        let has_form =
            text.len() == 10 && text.bytes().enumerate().all(|(at, b)| if at == 4 || at == 7 { b == b'-' } else { b.is_ascii_digit() });
        if !has_form {
            return Err(refused());
        }
        let number = |from: usize, to: usize| text[from..to].parse::<u16>().map_err(|_| refused());
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (month, day) = (u8::try_from(month).map_err(|_| refused())?, u8::try_from(day).map_err(|_| refused())?);
        match year > 0 && day >= 1 && day <= days_of(year, month) {
            true => Ok(Self { year, month, day }),
            false => Err(refused()),
        }
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

text_type!(Date: DateError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let date = |text: &str| text.parse::<Date>().unwrap();
        for bad in [
            "",
            "2027-1-31",
            "2027-02-29",
            "2100-02-29",
            "2027-13-01",
            "2027-00-10",
            "2027-01-00",
            "27-01-01",
            "2027/01/01",
            "２027-01-1",
            "0000-01-01",
        ] {
            assert!(bad.parse::<Date>().is_err(), "{bad}");
        }
        assert_eq!(date("2028-02-29").to_string(), "2028-02-29");
        assert!(date("2027-12-31") < date("2028-01-01"));
        for (later, earlier, days) in [
            ("2028-03-01", "2028-02-28", 2),
            ("2027-03-01", "2027-02-28", 1),
            ("2001-01-01", "2000-01-01", 366),
            ("2027-01-01", "2027-01-31", -30),
        ] {
            assert_eq!(date(later).days_after(date(earlier)), days, "{later} {earlier}");
        }
    }
}
