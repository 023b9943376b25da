//! The proof that bytes live where they should, by subject.

mod bijection;
mod document;
mod draw;
mod golden_mirrored;
mod golden_parity;
mod golden_striped;
mod loss;
mod names;
mod random;
mod refusals;
mod shapes;
