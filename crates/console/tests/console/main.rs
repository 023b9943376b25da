//! The console as its users meet it: over HTTP, in a browser, against daemons on files and servers that lie.
//!
//! `brindle` is the program that `BRINDLE_PROGRAM` names, else the one beside this test, which is not built for it.

mod groups;
mod hostile;
mod http;
mod pages;
mod servers;
mod webdriver;
mod world;
