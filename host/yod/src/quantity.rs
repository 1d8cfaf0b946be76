//! Sizes and times as users write them.

use std::time::Duration;

/// Longest time limit: 100 years. More is a mistake, and would not fit behind the clock's present value.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A number of ranks or cores. Whether it makes sense is the plan's to say.
pub fn count(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| {
        let all_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match all_digits {
            true => "too large".into(),
            false => "write a whole number, as in 4".into(),
        }
    })
}

/// `512M` or `1.5G` in bytes. A number without a suffix could mean bytes or megabytes: it is refused.
pub fn memory(text: &str) -> Result<u64, String> {
    let text = text
        .strip_suffix("iB")
        .or(text.strip_suffix('B'))
        .unwrap_or(text);
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[number.len()..] {
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return Err("write a number with K, M or G, as in 512M".into()),
    };
    // f64 parses exponents, signs and "inf" as well.
    let plain = number
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = number
        .parse()
        .ok()
        .filter(|_| plain)
        .ok_or("not a number before its suffix")?;
    let bytes = number * (1u64 << shift) as f64;
    if bytes < u64::MAX as f64 {
        Ok(bytes as u64)
    } else {
        Err("too large".into())
    }
}

/// As [`memory`], or plain `0`.
pub fn memory_or_none(text: &str) -> Result<u64, String> {
    match text {
        "0" => Ok(0),
        _ => memory(text),
    }
}

/// `90`, `1.5`, `5m` or `2h` (the suffixes of timeout(1)) as a time limit: more than 0, at most 100 years.
pub fn time(text: &str) -> Result<Duration, String> {
    let units = [("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86400.0)];
    let (number, unit) = units
        .iter()
        .find_map(|(suffix, seconds)| Some((text.strip_suffix(suffix)?, *seconds)))
        .unwrap_or((text, 1.0));
    let seconds: f64 = number
        .parse()
        .map_err(|_| "not a number of seconds, nor one with s, m, h or d".to_owned())?;
    match Duration::try_from_secs_f64(seconds * unit) {
        Ok(duration) if duration.is_zero() => Err("must be more than 0".into()),
        Ok(duration) if duration <= LONGEST => Ok(duration),
        _ if seconds > 0.0 => Err("at most 36500d; without it there is no limit".into()),
        _ => Err("must be more than 0".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn counts_are_whole_numbers() {
        assert_eq!(count("12"), Ok(12));
        for wrong in ["", "two", "-1", "1.5", "0x4", "99999999999999999999"] {
            let why = count(wrong).expect_err(wrong);
            assert!(["too large", "write a whole number, as in 4"].contains(&&*why));
        }
    }

    #[test]
    fn memory_has_a_suffix() {
        assert_eq!(
            (memory_or_none("0"), memory_or_none("2M")),
            (Ok(0), Ok(2 << 20))
        );
        assert!(memory("0").is_err() && memory_or_none("1").is_err());
        assert_eq!(memory("3K"), Ok(3 << 10));
        assert_eq!(memory("3g"), Ok(3 << 30));
        assert_eq!(memory("3MiB"), Ok(3 << 20));
        assert_eq!(memory("3MB"), Ok(3 << 20));
        assert_eq!(memory("1.5G"), Ok(3 << 29));
        assert_eq!(memory(".5M"), Ok(1 << 19));
        for wrong in [
            "",
            "-3M",
            "3X",
            "1e3M",
            "infK",
            "1.2.3G",
            ".G",
            "99999999999T",
        ] {
            assert!(memory(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_have_units() {
        assert_eq!(time("90"), Ok(Duration::from_secs(90)));
        assert_eq!(time("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(time("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(time("1.5h"), Ok(Duration::from_secs(5400)));
        assert_eq!(time("1d"), Ok(Duration::from_secs(86400)));
    }

    /// 1e19 seconds were taken, and adding them to the time of day panicked.
    #[test]
    fn a_time_that_does_not_fit_is_a_mistake() {
        for wrong in [
            "1e19", "1e300", "inf", "36501d", "-1", "0", "1e-300", "nan", "", "m", "5x",
        ] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn every_time_that_is_taken_fits_behind_now(text in "[0-9.e+-]{1,8}[smhd]?") {
            if let Ok(limit) = time(&text) {
                prop_assert!(std::time::Instant::now().checked_add(limit).is_some());
            }
        }
    }
}
