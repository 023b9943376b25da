//! Models that ship with the program.

/// Name and text of each.
pub const SHIPPED: [(&str, &str); 10] = [
    ("evo850", include_str!("../../models/evo850.toml")),
    ("p3700", include_str!("../../models/p3700.toml")),
    ("nvme", include_str!("../../models/nvme.toml")),
    ("nvme-consumer", include_str!("../../models/nvme-consumer.toml")),
    ("nvme-qlc", include_str!("../../models/nvme-qlc.toml")),
    ("nvme-tlc", include_str!("../../models/nvme-tlc.toml")),
    ("sata-ssd", include_str!("../../models/sata-ssd.toml")),
    ("sata-dc", include_str!("../../models/sata-dc.toml")),
    ("hdd-7200", include_str!("../../models/hdd-7200.toml")),
    ("hdd-24tb", include_str!("../../models/hdd-24tb.toml")),
];

/// The text of the model of this name.
pub fn shipped(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(own, _)| *own == name).map(|(_, text)| *text)
}
