//! Sections to jobs: variables, globals, options, and what contradicts itself.

use std::sync::Arc;

use super::defaults;
use super::environment::Surroundings;
use super::error::{JobError, JobErrorKind, SettingPlace, Wants};
use super::given::{self, Given};
use super::ignored::{self, MANY, ONE_AT_A_TIME, OTHER_WORK};
use super::number::Base;
use super::options::{Distribution, Job};
use super::table::{self, Word};
use super::text::{self, Section, Setting};

/// Most jobs of all files.
const MOST_JOBS: usize = 4096;
/// Most bytes of a value, once its variables are there.
const LONGEST: usize = 64 << 10;

/// A note about an option that has no effect of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The place of the setting.
    pub place: SettingPlace,
    /// The option.
    pub option: String,
    /// The treatment of the option.
    pub effect: String,
}

/// All that job files ask for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobPlan {
    /// The options of the `[global]` sections, for reports.
    pub global: Vec<Given>,
    /// The jobs, in their order.
    pub jobs: Vec<Job>,
    /// Options without an effect of their own.
    pub notes: Vec<Note>,
    /// Errors that were skipped, with `lenient` only.
    pub warnings: Vec<JobError>,
}

/// Reads job files. Each begins with globals of its own, and its jobs run once those of the file before it have ended. With
/// `lenient`, options that are not supported are left out.
///
/// # Errors
/// The first thing that is wrong, and where.
pub fn parse(files: &[&str], lenient: bool, around: &impl Surroundings) -> Result<JobPlan, JobError> {
    let mut builder = Builder { plan: JobPlan::default(), lenient, around };
    for file in files {
        let before = builder.plan.jobs.len();
        builder.sections(&text::sections(file, around)?)?;
        if let Some(job) = builder.plan.jobs.get_mut(before).filter(|_| before > 0) {
            job.stonewall = true;
        }
    }
    builder.end(&SettingPlace { file: Arc::from(files.last().copied().unwrap_or("job file")), line: 0 })
}

/// Parses options of the command line: those before the first `name` hold for all jobs, each `name` begins one.
/// Without a `name` there is one job, called `bench`.
///
/// # Errors
/// As [`parse`].
pub fn parse_words(
    words: &[(String, Option<String>)],
    lenient: bool,
    around: &impl Surroundings,
) -> Result<JobPlan, JobError> {
    let place = SettingPlace { file: Arc::from("command line"), line: 0 };
    let section = |name: &str, named: bool| {
        let (place, name) = (place.clone(), name.to_owned());
        Section { place, name, named, settings: Vec::new() }
    };
    let mut sections = vec![section("global", false)];
    for (name, value) in words {
        if name == "name" {
            sections.push(section(value.as_deref().unwrap_or_default(), true));
        } else if let Some(last) = sections.last_mut() {
            let (name, value) = (name.clone(), value.clone());
            last.settings.push(Setting { place: place.clone(), name, value });
        }
    }
    if sections.len() == 1 {
        sections.insert(0, section("global", false));
        sections[1].name = "bench".to_owned();
    }
    let mut builder = Builder { plan: JobPlan::default(), lenient, around };
    builder.sections(&sections)?;
    builder.end(&place)
}

struct Builder<'a, S> {
    plan: JobPlan,
    lenient: bool,
    around: &'a S,
}

impl<S: Surroundings> Builder<'_, S> {
    /// Adds the jobs of one file.
    fn sections(&mut self, sections: &[Section]) -> Result<(), JobError> {
        let mut global = (Job::default(), Base::default());
        for section in sections {
            if section.name == "global" {
                let mut given = core::mem::take(&mut self.plan.global);
                let end = self.section(section, &mut global.0, &mut global.1, &mut given);
                self.plan.global = given;
                end?;
                continue;
            }
            let (mut job, mut base) = global.clone();
            let mut given = Vec::new();
            job.name.clone_from(&section.name);
            // As in fio's reports: a section's name is not an option, and that of the command line is one.
            if section.named {
                given::note(&mut given, "name", Some(&section.name));
            }
            self.section(section, &mut job, &mut base, &mut given)?;
            job.given = given;
            check(&job, &self.plan.jobs).map_err(|kind| kind.at(&section.place))?;
            self.plan.jobs.push(job);
            if self.plan.jobs.len() > MOST_JOBS {
                return Err(JobErrorKind::TooMuch("there are more than 4096 jobs").at(&section.place));
            }
        }
        Ok(())
    }

    fn section(
        &mut self,
        section: &Section,
        job: &mut Job,
        base: &mut Base,
        given: &mut Vec<Given>,
    ) -> Result<(), JobError> {
        let settings = section.settings.iter().map(|setting| self.expanded(setting));
        let settings: Vec<Setting> = settings.collect::<Result<_, _>>()?;
        // The unit `k` must be known before the first value is read.
        for setting in settings.iter().filter(|setting| setting.name == "kb_base") {
            *base = match setting.value.as_deref() {
                Some("1000") => Base::Si,
                Some("1024") => Base::Old,
                _ => return Err(wrong(setting, &setting.name, Wants("1000 or 1024"))),
            };
        }
        settings.iter().try_for_each(|setting| self.apply(setting, job, *base, given))
    }

    fn apply(
        &mut self,
        setting: &Setting,
        job: &mut Job,
        base: Base,
        given: &mut Vec<Given>,
    ) -> Result<(), JobError> {
        let value = setting.value.as_deref();
        if let Some(option) = table::find(&setting.name) {
            (option.set)(job, &Word { text: value, base })
                .map_err(|wants| wrong(setting, option.name, wants))?;
            given::note(given, option.name, value);
            return Ok(());
        }
        let effect = if setting.name == "ioengine" {
            engine(setting, job)?
        } else if let Some(effect) = ignored::effect(&setting.name) {
            effect
        } else if defaults::is_stated(&setting.name, value) {
            "fio's default, which holds here too"
        } else {
            return self.unknown(setting);
        };
        given::note(given, &setting.name, value);
        self.note(setting, effect);
        Ok(())
    }

    fn note(&mut self, setting: &Setting, effect: &str) {
        let note =
            Note { place: setting.place.clone(), option: setting.name.clone(), effect: effect.to_owned() };
        self.plan.notes.push(note);
    }

    fn unknown(&mut self, setting: &Setting) -> Result<(), JobError> {
        let error = JobErrorKind::Unknown(setting.name.clone()).at(&setting.place);
        if !self.lenient {
            return Err(error);
        }
        self.plan.warnings.push(error);
        Ok(())
    }

    /// The setting with its variables expanded.
    fn expanded(&self, setting: &Setting) -> Result<Setting, JobError> {
        let mut setting = setting.clone();
        if let Some(value) = setting.value.as_mut().filter(|value| value.contains('$')) {
            *value = self.expand(value);
        }
        if setting.value.as_ref().is_some_and(|value| value.len() > LONGEST) {
            return Err(JobErrorKind::TooMuch("a value has more than 64 KiB").at(&setting.place));
        }
        Ok(setting)
    }

    fn expand(&self, value: &str) -> String {
        let mut out = String::new();
        let mut rest = value;
        while let Some((before, after)) = rest.split_once("${") {
            let Some((name, after)) = after.split_once('}') else { break };
            out.push_str(before);
            // An unset variable is empty, as in fio.
            out.push_str(&self.around.variable(name).unwrap_or_default());
            rest = after;
        }
        out.push_str(rest);
        let words = [
            ("$pagesize", self.around.pagesize()),
            ("$mb_memory", self.around.mb_memory()),
            ("$ncpus", self.around.ncpus()),
        ];
        words.iter().fold(out, |text, (word, value)| text.replace(word, &value.to_string()))
    }

    fn end(self, place: &SettingPlace) -> Result<JobPlan, JobError> {
        if self.plan.jobs.is_empty() { Err(JobErrorKind::NoJob.at(place)) } else { Ok(self.plan) }
    }
}

fn wrong(setting: &Setting, option: &str, wants: Wants) -> JobError {
    let value = setting.value.clone().unwrap_or_default();
    JobErrorKind::Value { option: option.to_owned(), value, wants: wants.0 }.at(&setting.place)
}

/// The meaning of an I/O engine here.
fn engine(setting: &Setting, job: &mut Job) -> Result<&'static str, JobError> {
    let name = setting.value.as_deref().unwrap_or_default();
    // An engine may have a file behind it.
    let name = name.split([',', ':']).next().unwrap_or_default();
    if OTHER_WORK.contains(&name) {
        return Err(JobErrorKind::Engine(name.to_owned()).at(&setting.place));
    }
    job.one_at_a_time = ONE_AT_A_TIME.contains(&name);
    if job.one_at_a_time {
        return Ok(
            "one request in flight, whatever iodepth says; requests go through this program's own reactor",
        );
    }
    if MANY.contains(&name) {
        return Ok("iodepth requests in flight; they go through this program's own reactor");
    }
    Err(wrong(
        setting,
        "ioengine",
        Wants("an engine of fio that reads and writes blocks, for example libaio or psync"),
    ))
}

/// Options that can't be true together.
fn check(job: &Job, before: &[Job]) -> Result<(), JobErrorKind> {
    let why = if job.time_based && job.runtime.is_none() {
        "time_based needs a runtime"
    } else if job.distribution != Distribution::Uniform && !job.access.random {
        "random_distribution needs random requests (rw=randread and so on)"
    } else if job.verify.is_some_and(|kind| kind.needs_pattern()) && job.verify_pattern.is_none() {
        "verify=pattern and verify=pattern_hdr need a verify_pattern"
    } else if job.verify.is_some_and(|kind| job.verify_interval() < job.verify_offset + kind.least_block()) {
        "verify needs blocks (verify_interval, else bs) that hold verify_offset, a header, its checksum and some data"
    } else if job.wait_for.as_ref().is_some_and(|name| before.iter().all(|other| other.name != *name)) {
        "wait_for names no job that stands before it"
    } else if job.name.is_empty() {
        "a job needs a name"
    } else {
        return Ok(());
    };
    Err(JobErrorKind::Contradiction { job: job.name.clone(), why })
}
