//! Limits for the clients of an array, as flags give them and reports show them.

use std::num::NonZeroU64;

use brindle_export::Rates;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::written::{self, Written, WrittenTime};

/// Limits of an export; without a number there is no such limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RateLimits {
    /// Requests a second.
    #[serde(default)]
    pub iops: Option<NonZeroU64>,
    /// Bytes a second: a number, or text such as "100M".
    #[serde(default, deserialize_with = "written::limit")]
    #[schemars(with = "Option<Written>")]
    pub bandwidth: Option<NonZeroU64>,
    /// Milliseconds: requests come at once that would be due within so long.
    #[serde(default = "burst")]
    pub burst: u64,
}

impl RateLimits {
    /// The burst that is borne where none is said. Milliseconds.
    pub const BURST: u64 = 100;
}

fn burst() -> u64 {
    RateLimits::BURST
}

impl From<RateLimits> for Rates {
    fn from(limits: RateLimits) -> Self {
        let burst = brindle_io::Duration::from_millis(limits.burst);
        Self { requests: limits.iops, bytes: limits.bandwidth, burst }
    }
}

impl From<Rates> for RateLimits {
    fn from(rates: Rates) -> Self {
        let burst = u64::try_from(rates.burst.as_millis()).unwrap_or(u64::MAX);
        Self { iops: rates.requests, bandwidth: rates.bytes, burst }
    }
}

/// Limits as files of settings have them.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "RateLimits", deny_unknown_fields)]
pub(crate) struct WrittenLimits {
    /// Requests a second.
    #[serde(default)]
    iops: Option<NonZeroU64>,
    /// Bytes a second: a number, or text such as "100M".
    #[serde(default, deserialize_with = "written::limit")]
    #[schemars(with = "Option<Written>")]
    bandwidth: Option<NonZeroU64>,
    /// Requests come at once that would be due within so long. With its unit: "100ms".
    #[serde(default = "burst", with = "written::span")]
    #[schemars(with = "WrittenTime")]
    burst: u64,
}

/// [`WrittenLimits`] where there may be none.
pub(crate) mod written_limits {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{RateLimits, WrittenLimits};

    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    struct Said(#[serde(with = "WrittenLimits")] RateLimits);

    // The signature is serde's.
    pub(crate) fn serialize<S: Serializer>(limits: &Option<RateLimits>, to: S) -> Result<S::Ok, S::Error> {
        limits.map(Said).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<RateLimits>, D::Error> {
        Ok(Option::<Said>::deserialize(from)?.map(|limits| limits.0))
    }
}
