//! How the reader wants it: width, order, what is scrolled away.

/// The order of members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    #[default]
    Role,
    /// The worst first.
    State,
    /// The busiest first.
    Requests,
    /// The busiest first.
    Bytes,
    /// The slowest first.
    Latency,
}

impl Sort {
    const fn next(self) -> Self {
        match self {
            Self::Role => Self::State,
            Self::State => Self::Requests,
            Self::Requests => Self::Bytes,
            Self::Bytes => Self::Latency,
            Self::Latency => Self::Role,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Role => "role",
            Self::State => "state",
            Self::Requests => "requests/s",
            Self::Bytes => "bytes/s",
            Self::Latency => "latency",
        }
    }
}

/// How a frame is drawn.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    /// Characters of a line.
    pub(super) width: usize,
    pub(super) sort: Sort,
    /// The terminal knows letters of ASCII only.
    pub(super) ascii: bool,
    /// Keys are explained in place of arrays.
    pub(super) help: bool,
    /// Lines that are scrolled away.
    pub(super) above: usize,
}

/// The action of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    Sort,
    Help,
    Up,
    Down,
    PageUp,
    PageDown,
}

impl Key {
    /// Keys in what a terminal sent.
    pub(super) fn all(sent: &[u8]) -> Vec<Self> {
        let mut rest = sent;
        let mut keys = Vec::new();
        while let [first, ..] = rest {
            let (key, len) = match rest {
                [0x1b, b'[', b'A', ..] => (Some(Self::Up), 3),
                [0x1b, b'[', b'B', ..] => (Some(Self::Down), 3),
                [0x1b, b'[', b'5', b'~', ..] => (Some(Self::PageUp), 4),
                [0x1b, b'[', b'6', b'~', ..] => (Some(Self::PageDown), 4),
                // A key that means nothing here: what follows is its, too.
                [0x1b, b'[', ..] => (None, rest.len()),
                _ => (Self::of(*first), 1),
            };
            keys.extend(key);
            rest = &rest[len..];
        }
        keys
    }

    const fn of(byte: u8) -> Option<Self> {
        match byte {
            b'q' | b'Q' | 0x03 => Some(Self::Quit),
            b's' | b'S' => Some(Self::Sort),
            b'?' | b'h' => Some(Self::Help),
            b'k' => Some(Self::Up),
            b'j' => Some(Self::Down),
            b'b' => Some(Self::PageUp),
            b' ' => Some(Self::PageDown),
            _ => None,
        }
    }
}

impl View {
    /// Carries out the command of a key, on a screen of this many rows; whether that is the end.
    pub(super) fn press(&mut self, key: Key, rows: usize) -> bool {
        let page = rows.saturating_sub(2).max(1);
        match key {
            Key::Quit => return true,
            Key::Sort => self.sort = self.sort.next(),
            Key::Help => (self.help, self.above) = (!self.help, 0),
            Key::Up => self.above = self.above.saturating_sub(1),
            Key::Down => self.above += 1,
            Key::PageUp => self.above = self.above.saturating_sub(page),
            Key::PageDown => self.above += page,
        }
        false
    }

    /// The last row: the keys, and how many lines are out of sight.
    pub(super) fn footer(&self, below: usize) -> String {
        let mut text = format!("q quit  s sort: {}  ? help", self.sort.name());
        if below > 0 || self.above > 0 {
            text = format!("{below} more lines  {text}");
        }
        text.chars().take(self.width).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_from_what_means_nothing() {
        assert_eq!(
            Key::all(b"s\x1b[B?\x1b[6~q"),
            [Key::Sort, Key::Down, Key::Help, Key::PageDown, Key::Quit]
        );
        assert_eq!(Key::all(b"x\x1b[1;5Cq"), []);
        assert_eq!(Key::all(b"\x1bq"), [Key::Quit]);
    }

    #[test]
    fn keys_change_the_view() {
        let mut view = View { width: 80, ..View::default() };
        assert!(!view.press(Key::Sort, 24) && view.sort == Sort::State);
        view.press(Key::PageDown, 24);
        assert_eq!(
            (view.above, view.footer(0)),
            (22, "0 more lines  q quit  s sort: state  ? help".to_owned())
        );
        view.press(Key::Help, 24);
        assert!(view.help && view.above == 0 && view.press(Key::Quit, 24));
        view.width = 10;
        assert_eq!(view.footer(7), "7 more lin");
    }
}
