//! The probability that an array loses data: Monte Carlo over drives that age, fail, have latent defects, and are
//! replaced by people who err. `docs/reliability.md` describes the model, its sources, and its checks.

mod answer;
mod case;
mod classes;
mod defects;
mod estimate;
mod forced;
mod interval;
mod markov;
mod random;
mod stripe;
mod tally;
mod unweighted;
mod weibull;
mod world;

pub use answer::Estimate;
pub use case::{Batch, Case, Group, HOURS_PER_YEAR, MOST_DRIVES, Redundancy, Unsound};
pub use classes::{CLASSES, Class, Published};
pub use estimate::{Effort, Method, estimate};
pub use interval::Interval;
pub use markov::Chain;
pub use weibull::{NoWeibull, Weibull};
