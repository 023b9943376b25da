//! Job files as sections of options. Knows no option but `include`.

use std::path::Path;
use std::sync::Arc;

use super::environment::Surroundings;
use super::error::{JobError, JobErrorKind, SettingPlace};

/// Most files that may include one another in a row.
const DEEPEST: usize = 16;
/// Most bytes of all files together.
const LARGEST: usize = 16 << 20;

/// One option as it was written.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) place: SettingPlace,
    pub(super) name: String,
    pub(super) value: Option<String>,
}

/// A section.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) place: SettingPlace,
    pub(super) name: String,
    /// By an option of the command line, not in brackets.
    pub(super) named: bool,
    pub(super) settings: Vec<Setting>,
}

/// Reads files.
pub(super) struct Reader<'a, S> {
    around: &'a S,
    sections: Vec<Section>,
    bytes: usize,
}

/// The sections of a file and of the files it includes.
pub(super) fn sections(file: &str, around: &impl Surroundings) -> Result<Vec<Section>, JobError> {
    let mut reader = Reader { around, sections: Vec::new(), bytes: 0 };
    let place = SettingPlace { file: Arc::from(file), line: 0 };
    reader.file(&place, file, 0)?;
    Ok(reader.sections)
}

impl<S: Surroundings> Reader<'_, S> {
    /// Reads a file that was named at `place`.
    fn file(&mut self, place: &SettingPlace, file: &str, depth: usize) -> Result<(), JobError> {
        if depth > DEEPEST {
            return Err(JobErrorKind::TooMuch("more than 16 files include one another").at(place));
        }
        let text = self.around.read(file).map_err(|why| JobErrorKind::Unreadable(why).at(place))?;
        self.bytes += text.len();
        if self.bytes > LARGEST {
            return Err(JobErrorKind::TooMuch("the job files hold more than 16 MiB").at(place));
        }
        let file: Arc<str> = Arc::from(file);
        for (at, line) in text.lines().enumerate() {
            let place = SettingPlace { file: Arc::clone(&file), line: at + 1 };
            self.line(&place, without_comment(line), depth)?;
        }
        Ok(())
    }

    fn line(&mut self, place: &SettingPlace, line: &str, depth: usize) -> Result<(), JobError> {
        if line.is_empty() {
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix('[') {
            return self.header(place, rest, depth);
        }
        if let Some(name) = included(line) {
            return self.file(place, &beside(&place.file, name), depth + 1);
        }
        let (name, value) = option(line);
        match self.sections.last_mut() {
            Some(section) => section.settings.push(Setting { place: place.clone(), name, value }),
            None => return Err(JobErrorKind::Outside(name).at(place)),
        }
        Ok(())
    }

    fn header(&mut self, place: &SettingPlace, rest: &str, depth: usize) -> Result<(), JobError> {
        if depth > 0 {
            return Err(JobErrorKind::SectionInside.at(place));
        }
        let name = rest.strip_suffix(']').ok_or_else(|| JobErrorKind::Header.at(place))?;
        let (place, name) = (place.clone(), name.to_owned());
        self.sections.push(Section { place, name, named: false, settings: Vec::new() });
        Ok(())
    }
}

/// The line up to a `;` or `#`, without spaces around it.
fn without_comment(line: &str) -> &str {
    line.split([';', '#']).next().unwrap_or_default().trim()
}

/// The file of `include FILE`.
fn included(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("include")?;
    rest.starts_with([' ', '\t']).then(|| rest.trim())
}

/// A file as one in a folder names it.
fn beside(parent: &str, name: &str) -> String {
    match Path::new(parent).parent() {
        Some(folder) => folder.join(name).to_string_lossy().into_owned(),
        None => name.to_owned(),
    }
}

/// `name` or `name=value`.
pub(super) fn option(line: &str) -> (String, Option<String>) {
    match line.split_once('=') {
        Some((name, value)) => (name.trim().to_owned(), Some(value.trim().to_owned())),
        None => (line.to_owned(), None),
    }
}
