//! Moments as GitHub writes them.

/// Year, month, day, hour, minute, second and weekday (0 is Thursday) of Unix milliseconds.
fn parts(ms: i64) -> (i64, i64, i64, i64, i64, i64, usize) {
    let seconds = ms.div_euclid(1000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days since 1 March of year 0, in eras of 400 years.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day, second / 3600, second / 60 % 60, second % 60, days.rem_euclid(7) as usize)
}

/// `2026-09-21T13:33:20Z`.
pub(crate) fn rfc3339(ms: i64) -> String {
    let (year, month, day, hour, minute, second, _) = parts(ms);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// `Mon, 21 Sep 2026 13:33:20 GMT`.
pub(crate) fn http_date(ms: i64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (year, month, day, hour, minute, second, weekday) = parts(ms);
    let month = MONTHS[month as usize - 1];
    format!("{}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT", DAYS[weekday])
}
