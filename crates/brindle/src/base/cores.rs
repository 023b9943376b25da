//! The cores of this machine that this process may use.

/// The cores that this process may use; none where the kernel does not say.
pub(crate) fn allowed() -> Vec<u16> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.map(listed).unwrap_or_default()
}

/// The cores that are online.
pub(crate) fn online() -> Vec<u16> {
    listed(&std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default())
}

/// The numbers of a list as the kernel writes it: 0-3,7.
fn listed(text: &str) -> Vec<u16> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

/// A list as the kernel writes it.
pub(crate) fn text(cores: &[u16]) -> String {
    let mut text = String::new();
    for run in cores.chunk_by(|a, b| a + 1 == *b) {
        let comma = if text.is_empty() { "" } else { "," };
        text += &match run {
            [first, .., last] => format!("{comma}{first}-{last}"),
            _ => format!("{comma}{}", run[0]),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_as_the_kernel_writes_them() {
        for (list, cores) in [("0-3,7", &[0, 1, 2, 3, 7][..]), ("5", &[5]), ("", &[]), ("0-1", &[0, 1])] {
            assert_eq!(listed(list), cores);
            assert_eq!(text(cores), list);
        }
        assert!(!allowed().is_empty() && !online().is_empty());
    }
}
