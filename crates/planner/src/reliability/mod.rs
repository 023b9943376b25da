//! How likely an array loses data.
