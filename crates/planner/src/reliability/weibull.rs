//! Weibull distributions of times, in hours: `SHAPE/SCALE+LOCATION`.

use core::fmt;
use core::str::FromStr;

use super::random::Chance;

/// Times in hours: nothing happens before `location`, then the integrated hazard is ((t - location) / scale)^shape.
///
/// Shape 1 is exponential. A scale of 0 is the constant `location`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weibull {
    /// The location: hours before which there are no failures.
    pub location: f64,
    /// Below 1 things get better with age, above 1 worse.
    pub shape: f64,
    /// Hours after the location by which 63 % have happened.
    pub scale: f64,
}

/// Why a text is no distribution.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} {why}; write SHAPE/SCALE or SHAPE/SCALE+LOCATION in hours, as in 2/12+6, or a mean in hours"
)]
pub struct NoWeibull {
    text: String,
    why: String,
}

/// No time of interest is longer: a million years in hours, about.
const LONGEST: f64 = 1e10;

impl Weibull {
    /// Always the same time.
    #[must_use]
    pub const fn constant(hours: f64) -> Self {
        Self { location: hours, shape: 1.0, scale: 0.0 }
    }

    /// Without memory.
    #[must_use]
    pub const fn exponential(mean: f64) -> Self {
        Self { location: 0.0, shape: 1.0, scale: mean }
    }

    /// The reason why its parameters are impossible, for a message that begins with its name.
    pub(super) fn trouble(&self) -> Option<String> {
        let Self { location, shape, scale } = *self;
        if !(0.1..=20.0).contains(&shape) {
            return Some(format!("has a shape of {shape}, which must be from 0.1 to 20"));
        }
        let wrong =
            |name: &str, value: f64| format!("has a {name} of {value} hours, which must be from 0 to 1e10");
        if !(0.0..=LONGEST).contains(&scale) {
            return Some(wrong("scale", scale));
        }
        (!(0.0..=LONGEST).contains(&location)).then(|| wrong("location", location))
    }

    /// Whether the distribution is exponential, as closed forms need.
    #[must_use]
    pub fn is_exponential(&self) -> bool {
        self.location == 0.0 && self.shape == 1.0 && self.scale > 0.0
    }

    /// The mean, in hours.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.location + self.scale * gamma(1.0 + 1.0 / self.shape)
    }

    /// Integrated hazard at an age.
    pub(super) fn hazard(&self, age: f64) -> f64 {
        let past = age - self.location;
        if past <= 0.0 {
            0.0
        } else if self.shape == 1.0 {
            past / self.scale
        } else {
            (past / self.scale).powf(self.shape)
        }
    }

    /// The age at which the integrated hazard is this.
    pub(super) fn age_at(&self, hazard: f64) -> f64 {
        let past = if self.shape == 1.0 { hazard } else { hazard.powf(1.0 / self.shape) };
        self.location + self.scale * past
    }

    /// The share of drives that survive to this age.
    #[must_use]
    pub fn survival(&self, age: f64) -> f64 {
        (-self.hazard(age)).exp()
    }

    pub(super) fn sample(&self, chance: &mut Chance) -> f64 {
        self.age_at(chance.exponential())
    }
}

impl fmt::Display for Weibull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.shape, self.scale)?;
        if self.location > 0.0 { write!(f, "+{}", self.location) } else { Ok(()) }
    }
}

impl FromStr for Weibull {
    type Err = NoWeibull;

    fn from_str(text: &str) -> Result<Self, NoWeibull> {
        let wrong = |why: String| NoWeibull { text: text.to_owned(), why };
        let number = |part: &str| {
            part.trim().parse::<f64>().map_err(|_| wrong(format!("has {part:?} in place of a number")))
        };
        let read = match text.split_once('/') {
            None => Self::exponential(number(text)?),
            Some((shape, rest)) => {
                // Not the sign of an exponent: 1e+5.
                let plus =
                    rest.char_indices().find(|(at, c)| *c == '+' && !rest[..*at].ends_with(['e', 'E']));
                let (scale, location) = match plus {
                    Some((at, _)) => (&rest[..at], number(&rest[at + 1..])?),
                    None => (rest, 0.0),
                };
                Self { location, shape: number(shape)?, scale: number(scale)? }
            }
        };
        read.trouble().map_or(Ok(read), |why| Err(wrong(why)))
    }
}

/// The gamma function for arguments of at least 0.5: Lanczos' approximation (g = 7, nine terms), good to 15 digits.
fn gamma(x: f64) -> f64 {
    const TERMS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let t = x + 7.5;
    let series: f64 = TERMS[1..].iter().zip(1..).map(|(term, i)| term / (x + f64::from(i))).sum();
    (2.0 * core::f64::consts::PI).sqrt() * t.powf(x + 0.5) * (-t).exp() * (TERMS[0] + series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_they_are_written() {
        for text in ["1.12/461386", "2/12+6", "1/1e-3+0.5"] {
            let read: Weibull = text.parse().unwrap();
            assert_eq!(read.to_string().parse::<Weibull>(), Ok(read), "{text}");
        }
        assert_eq!("2/12+6".parse(), Ok(Weibull { location: 6.0, shape: 2.0, scale: 12.0 }));
        assert_eq!("1/1e+5+2".parse(), Ok(Weibull { location: 2.0, shape: 1.0, scale: 1e5 }));
        assert_eq!("300".parse(), Ok(Weibull::exponential(300.0)));
        for text in [
            "", "2/", "/12", "0/12", "-1/12", "2/-12", "2/12+-6", "NaN/12", "2/inf", "2/12+6+1", "1/1e99",
            "inf",
        ] {
            let why = text.parse::<Weibull>().unwrap_err().to_string();
            assert!(why.contains("SHAPE/SCALE"), "{why}");
        }
    }

    #[test]
    fn means_are_those_of_tables() {
        assert!((gamma(0.5) - core::f64::consts::PI.sqrt()).abs() < 1e-13);
        assert!((gamma(5.0) - 24.0).abs() < 1e-11);
        let mean = "2/12+6".parse::<Weibull>().unwrap().mean();
        assert!((mean - (6.0 + 12.0 * 0.886_226_925_452_758)).abs() < 1e-12, "{mean}");
        assert_eq!(Weibull::constant(5.0).mean(), 5.0);
    }

    #[test]
    fn samples_have_the_mean_and_the_hazard_is_undone() {
        let mut chance = Chance::of_batch(1, 0, 0);
        for weibull in ["2/12+6", "0.8/100", "1/5"].map(|text| text.parse::<Weibull>().unwrap()) {
            let sum: f64 = (0..40_000).map(|_| weibull.sample(&mut chance)).sum();
            assert!((sum / 40_000.0 / weibull.mean() - 1.0).abs() < 0.03, "{weibull}");
            let age = weibull.location + 3.0;
            assert!((weibull.age_at(weibull.hazard(age)) - age).abs() < 1e-9);
            assert!((weibull.survival(age) - (-weibull.hazard(age)).exp()).abs() < 1e-12);
        }
        assert_eq!(Weibull::constant(7.0).sample(&mut chance), 7.0);
        assert_eq!((Weibull::constant(7.0).survival(7.0), Weibull::constant(7.0).survival(7.1)), (1.0, 0.0));
    }
}
