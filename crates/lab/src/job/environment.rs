//! The world around a job file.

/// The environment that a job file may refer to.
pub trait Surroundings {
    /// The text of a file: a job file, or one that it includes.
    ///
    /// # Errors
    /// Why it can't be read, for people.
    fn read(&self, file: &str) -> Result<String, String>;
    /// A variable of the environment, for `${NAME}`.
    fn variable(&self, name: &str) -> Option<String>;
    /// Bytes of a page of memory: `$pagesize`.
    fn pagesize(&self) -> u64;
    /// MiB of memory: `$mb_memory`.
    fn mb_memory(&self) -> u64;
    /// Processors: `$ncpus`.
    fn ncpus(&self) -> u64;
}
