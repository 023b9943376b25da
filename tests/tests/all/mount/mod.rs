//! Arrays as files, on this machine: what programs, loop devices and file systems make of them, and the ends that a mount can have.

mod ends;
mod file_systems;
mod files;
mod stage;
mod users;
