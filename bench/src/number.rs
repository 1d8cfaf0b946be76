//! Numbers for people.

/// Three digits that say something; whole numbers whole up to a million, a comma per thousand.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if value.fract() == 0.0 && size < 1e15 || size >= 1000.0 {
        return with_commas(&format!("{value:.0}"));
    }
    let digits = match size {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.001 => 3,
        _ => return format!("{value:.2e}"),
    };
    format!("{value:.digits$}")
}

/// `[low, high]`.
pub fn range([low, high]: [f64; 2]) -> String {
    format!("[{}, {}]", number(low), number(high))
}

fn with_commas(plain: &str) -> String {
    let (sign, digits) = plain
        .strip_prefix('-')
        .map_or(("", plain), |digits| ("-", digits));
    let mut text = sign.to_owned();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (100.0, "100"),
            (20_000.0, "20,000"),
            (1_234_567.0, "1,234,567"),
            (-1234.0, "-1,234"),
            (0.2, "0.200"),
            (5.678, "5.68"),
            (12.34, "12.3"),
            (999.7, "1000"),
            (8_123_456.5, "8,123,456"),
            (0.000_12, "1.20e-4"),
        ] {
            assert_eq!(number(value), text);
        }
        assert_eq!(range([0.45, 2.0]), "[0.450, 2]");
    }
}
