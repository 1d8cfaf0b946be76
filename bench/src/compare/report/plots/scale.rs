//! Axes: from values to pixels, and the values that are written at them. Pure.

/// An axis.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scale {
    low: f64,
    high: f64,
    kind: Kind,
    pixels: (i32, i32),
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Linear {
        step: f64,
    },
    Log,
    /// Logarithmic above 1, and all that is at most 1 at its beginning: for losses, which may be 0.
    Loss,
}

impl Scale {
    /// From 0 to a bit more than the largest value.
    pub fn linear(values: impl Iterator<Item = f64>, pixels: (i32, i32)) -> Scale {
        let most = values.fold(0.0, f64::max);
        let step = step(most);
        let high = ((most / step).floor() + 1.0) * step;
        Scale {
            low: 0.0,
            high,
            kind: Kind::Linear { step },
            pixels,
        }
    }

    /// Whole powers of ten around the values; linear when not all are above 0.
    pub fn log(values: impl Iterator<Item = f64> + Clone, pixels: (i32, i32)) -> Scale {
        let least = values.clone().fold(f64::INFINITY, f64::min);
        let most = values.clone().fold(0.0, f64::max);
        if least <= 0.0 || !least.is_finite() {
            return Scale::linear(values, pixels);
        }
        let low = least.log10().floor();
        let high = most.log10().ceil().max(low + 1.0);
        Scale {
            low,
            high,
            kind: Kind::Log,
            pixels,
        }
    }

    /// For values from 0 on whose largest may be huge.
    pub fn loss(values: impl Iterator<Item = f64>, pixels: (i32, i32)) -> Scale {
        let most = values.fold(10.0, f64::max);
        Scale {
            low: 0.0,
            high: most.log10().ceil(),
            kind: Kind::Loss,
            pixels,
        }
    }

    /// The place of a value between the ends, 0 to 1.
    pub fn part(&self, value: f64) -> f64 {
        let along = match self.kind {
            Kind::Linear { .. } => value,
            Kind::Log => value.log10(),
            Kind::Loss => value.max(1.0).log10(),
        };
        (along - self.low) / (self.high - self.low)
    }

    /// Its pixel.
    pub fn pixel(&self, value: f64) -> i32 {
        let (from, to) = self.pixels;
        from + (f64::from(to - from) * self.part(value)).round() as i32
    }

    /// The pixels of both ends.
    pub fn ends(&self) -> (i32, i32) {
        self.pixels
    }

    /// The values to write at the axis, and what is written.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let powers = || (self.low as i32..=self.high as i32).map(|power| 10f64.powi(power));
        match self.kind {
            Kind::Linear { step } => {
                let count = (self.high / step).round() as u32;
                (0..=count)
                    .map(|i| f64::from(i) * step)
                    .map(|value| (value, label(value)))
                    .collect()
            }
            Kind::Log => powers().map(|value| (value, label(value))).collect(),
            Kind::Loss => powers()
                .map(|value| {
                    (
                        value,
                        if value == 1.0 {
                            "≤ 1".to_owned()
                        } else {
                            label(value)
                        },
                    )
                })
                .collect(),
        }
    }
}

/// A step of 1, 2 or 5 times a power of ten, four to nine of which make up `most`.
fn step(most: f64) -> f64 {
    if most <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf((most / 4.0).log10().floor());
    let times = [5.0, 2.0, 1.0]
        .into_iter()
        .find(|times| times * power * 4.0 <= most);
    power * times.unwrap_or(1.0)
}

/// Short: with k, M and G for thousands.
fn label(value: f64) -> String {
    let (scaled, sign) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, " G"),
        size if size >= 1e6 => (value / 1e6, " M"),
        size if size >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    // Sums of steps are not exact.
    let rounded = (scaled * 1e6).round() / 1e6;
    format!("{rounded}{sign}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(scale: &Scale) -> String {
        let labels: Vec<String> = scale.ticks().into_iter().map(|(_, label)| label).collect();
        labels.join(" ")
    }

    #[test]
    fn axes_have_round_numbers() {
        let values = [3.0, 97.0];
        let linear = Scale::linear(values.into_iter(), (0, 100));
        assert_eq!(labels(&linear), "0 20 40 60 80 100");
        assert_eq!((linear.pixel(0.0), linear.pixel(50.0)), (0, 50));
        let log = Scale::log(values.into_iter(), (100, 0));
        assert_eq!(labels(&log), "1 10 100");
        assert_eq!((log.pixel(1.0), log.pixel(10.0)), (100, 50));
        let loss = Scale::loss([0.0, 20_000.0].into_iter(), (0, 5));
        assert_eq!(labels(&loss), "≤ 1 10 100 1000 10 k 100 k");
        assert_eq!(
            (loss.pixel(0.0), loss.pixel(1.0), loss.pixel(10.0)),
            (0, 0, 1)
        );
    }

    #[test]
    fn zero_has_no_logarithm() {
        assert_eq!(
            labels(&Scale::log([0.0, 4.0].into_iter(), (0, 9))),
            "0 1 2 3 4 5"
        );
        assert_eq!(labels(&Scale::linear(std::iter::empty(), (0, 9))), "0 1");
    }

    proptest! {
        #[test]
        fn every_value_is_on_its_axis(values in prop::collection::vec(1e-9f64..1e12, 1..9)) {
            let all = || values.iter().copied();
            for scale in [Scale::linear(all(), (0, 500)), Scale::log(all(), (0, 500)), Scale::loss(all(), (0, 500))] {
                for value in all() {
                    prop_assert!((0.0..=1.0).contains(&scale.part(value)), "{scale:?} {value}");
                }
                prop_assert!((2..=25).contains(&scale.ticks().len()));
            }
        }
    }
}
