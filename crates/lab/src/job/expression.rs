//! Arithmetic in values: `(64 * 1k)`, `8*$ncpus`.

/// Most brackets in one another.
const DEEPEST: usize = 32;

/// Whether a value has to be computed.
pub(super) fn is_one(text: &str) -> bool {
    text.contains(['(', ')', '*', '+', '/', '^'])
}

/// The value; none where it can't be computed, is negative or too large. `number` reads a number with its unit.
pub(super) fn value(text: &str, number: &dyn Fn(&str) -> Option<u64>) -> Option<u64> {
    let mut parser = Parser { rest: text.trim(), number, depth: 0 };
    let value = parser.sum()?;
    if parser.rest.is_empty() { u64::try_from(value).ok() } else { None }
}

struct Parser<'a> {
    rest: &'a str,
    number: &'a dyn Fn(&str) -> Option<u64>,
    depth: usize,
}

impl Parser<'_> {
    /// Takes one of these signs.
    fn sign(&mut self, signs: &[char]) -> Option<char> {
        let sign = self.rest.chars().next().filter(|sign| signs.contains(sign))?;
        self.rest = self.rest[1..].trim_start();
        Some(sign)
    }

    fn sum(&mut self) -> Option<i128> {
        let mut value = self.product()?;
        while let Some(sign) = self.sign(&['+', '-']) {
            let other = self.product()?;
            value = if sign == '+' { value.checked_add(other)? } else { value.checked_sub(other)? };
        }
        Some(value)
    }

    fn product(&mut self) -> Option<i128> {
        let mut value = self.power()?;
        while let Some(sign) = self.sign(&['*', '/', '%']) {
            let other = self.power()?;
            value = match sign {
                '*' => value.checked_mul(other)?,
                '/' => value.checked_div(other)?,
                _ => value.checked_rem(other)?,
            };
        }
        Some(value)
    }

    fn power(&mut self) -> Option<i128> {
        let mut value = self.atom()?;
        while self.sign(&['^']).is_some() {
            value = value.checked_pow(u32::try_from(self.atom()?).ok()?)?;
        }
        Some(value)
    }

    fn atom(&mut self) -> Option<i128> {
        if self.sign(&['(']).is_none() {
            return self.number();
        }
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let value = self.sum()?;
        self.depth -= 1;
        self.sign(&[')'])?;
        Some(value)
    }

    fn number(&mut self) -> Option<i128> {
        let is_part = |c: char| c.is_ascii_alphanumeric();
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let value = (self.number)(&self.rest[..end])?;
        self.rest = self.rest[end..].trim_start();
        Some(value.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<u64> {
        value(text, &|number| number.parse().ok())
    }

    #[test]
    fn signs_bind_as_usual() {
        assert_eq!(of("1 + 2*3"), Some(7));
        assert_eq!(of("(1+2)*3"), Some(9));
        assert_eq!(of("2*3^2-1"), Some(17));
        assert_eq!(of("10-2-3"), Some(5));
        assert_eq!(of("17%5/2"), Some(1));
    }

    #[test]
    fn what_has_no_value_gives_none() {
        for wrong in
            ["", "(", "()", "1+", "*2", "(1", "1)", "1-2", "1/0", "1%0", "9^99", "2^(0-1)", "1 2", "é*1"]
        {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        let deep = |depth| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
        assert_eq!(of(&deep(32)), Some(1));
        assert_eq!(of(&deep(33)), None);
        assert_eq!(of(&deep(100_000)), None);
    }
}
