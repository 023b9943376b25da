//! Names of arrays that are members: `m0+m1+m2`.

use std::path::{Path, PathBuf};

/// Joins the members of an array that is itself a member.
const JOIN: char = '+';

/// The members of an array that is itself named as a member. A file whose name has the sign in it is a file.
pub(crate) fn parts(name: &Path) -> Option<Vec<PathBuf>> {
    let text = name.to_str()?;
    (text.contains(JOIN) && !name.exists()).then(|| text.split(JOIN).map(PathBuf::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_names_are_an_array_unless_a_file_is_called_so() {
        assert_eq!(parts(Path::new("a+b")), Some(vec!["a".into(), "b".into()]));
        assert_eq!(parts(Path::new("/dev/sda")), None);
        let file = std::env::temp_dir().join(format!("brindle+{}", std::process::id()));
        std::fs::write(&file, b"").unwrap();
        assert_eq!(parts(&file), None);
        std::fs::remove_file(&file).unwrap();
    }
}
