//! Models that ship with the program.

/// Name and text of each.
pub const SHIPPED: [(&str, &str); 5] = [
    ("evo850", include_str!("../../models/evo850.toml")),
    ("p3700", include_str!("../../models/p3700.toml")),
    ("nvme", include_str!("../../models/nvme.toml")),
    ("sata-ssd", include_str!("../../models/sata-ssd.toml")),
    ("hdd-7200", include_str!("../../models/hdd-7200.toml")),
];

/// The text of the model of this name.
pub fn shipped(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(own, _)| *own == name).map(|(_, text)| *text)
}
