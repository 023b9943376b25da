//! Text with colours.

/// How a part of a line is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Style {
    #[default]
    Plain,
    /// Beside the point.
    Quiet,
    /// A heading.
    Title,
    /// A good state.
    Good,
    /// Something is under way, or wrong.
    Warn,
    /// Lost.
    Bad,
}

/// A line of parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line(Vec<(Style, String)>);

impl Line {
    pub(super) fn of(style: Style, text: impl Into<String>) -> Self {
        Self(vec![(style, text.into())])
    }

    pub(super) fn push(&mut self, style: Style, text: impl Into<String>) {
        self.0.push((style, text.into()));
    }

    /// Characters.
    pub(super) fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text.chars().count()).sum()
    }

    /// Without colours.
    pub(super) fn text(&self) -> String {
        let all: String = self.0.iter().map(|(_, text)| text.as_str()).collect();
        all.trim_end().to_owned()
    }

    /// With a terminal's colours.
    pub(super) fn coloured(&self) -> String {
        let part = |(style, text): &(Style, String)| match style.code() {
            "" => text.clone(),
            code => format!("\x1b[{code}m{text}\x1b[0m"),
        };
        self.0.iter().map(part).collect()
    }
}

impl Style {
    const fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Quiet => "2",
            Self::Title => "1",
            Self::Good => "32",
            Self::Warn => "33",
            Self::Bad => "1;31",
        }
    }

    /// The style of a state of an array, a pool or a member.
    pub(super) fn of_state(state: &str) -> Self {
        match state {
            "clean" | "active" | "in-sync" | "online" | "journal" => Self::Good,
            "broken" | "faulty" | "failed" | "missing" | "stale" => Self::Bad,
            "spare" => Self::Quiet,
            _ => Self::Warn,
        }
    }
}

/// Cuts text into lines of so many characters, at spaces where it can be, at hard spaces only where it must.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let long = |line: &String| line.chars().count();
        let last = lines.len() - 1;
        if lines[last].is_empty() {
            lines[last].push_str(word);
        } else if long(&lines[last]) + 1 + word.chars().count() <= width {
            lines[last].push(' ');
            lines[last].push_str(word);
        } else {
            lines.push(word.to_owned());
        }
        while long(&lines[lines.len() - 1]) > width {
            let last = lines.len() - 1;
            let rest: String = lines[last].chars().skip(width).collect();
            lines[last] = lines[last].chars().take(width).collect();
            lines.push(rest);
        }
    }
    lines.iter().map(|line| line.replace('\u{a0}', " ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_at_spaces_and_nothing_of_it_is_lost() {
        assert_eq!(wrapped("no answer for 5 s", 10), ["no answer", "for 5 s"]);
        assert_eq!(wrapped("/dev/disk/by-id/x", 6), ["/dev/d", "isk/by", "-id/x"]);
        assert_eq!(wrapped("0 clients: 3\u{a0}B/s read", 13), ["0 clients:", "3 B/s read"]);
        assert_eq!(wrapped("", 6), [""]);
        assert_eq!(wrapped("ab", 0), ["a", "b"]);
    }

    #[test]
    fn colours_are_around_the_text_only() {
        let mut line = Line::of(Style::Bad, "faulty");
        line.push(Style::Plain, "  x ");
        assert_eq!((line.width(), line.text()), (10, "faulty  x".to_owned()));
        assert_eq!(line.coloured(), "\x1b[1;31mfaulty\x1b[0m  x ");
    }
}
