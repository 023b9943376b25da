//! What md left behind, as Brindle's users see it: the content, the state of the array and that of each member are
//! those that md itself shows.

mod byte_order;
mod lost;
