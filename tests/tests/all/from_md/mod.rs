//! What md left behind, as Brindle's users see it: the content, the state of the array and that of each member are
//! those that md itself shows.

mod byte_order;
mod cases;
mod lost;
mod told;

use brindle_tests::states::{self, Case, Left};
use brindle_tests::tools::{Missing, or_skip};
use brindle_tests::vm::{Kernel, Vm};

/// What the kernel made of the cases; those of a level that it does not have are left out.
fn left(kernel: Kernel, mut cases: Vec<Case>) -> Result<Vec<Left>, Missing> {
    if !Vm::on(kernel)?.has_linear() {
        cases.retain(|case| case.recipe.level != "linear");
    }
    states::left_by(kernel, &cases)
}

#[test]
fn arrays_in_every_state_are_read_and_told_as_md_does() {
    let Some(all) = or_skip(left(Kernel::Release, cases::states())) else { return };
    told::as_md_does(&all);
}

#[test]
fn chunks_bitmaps_and_sectors_of_every_size_are_read_and_told_as_md_does() {
    let Some(all) = or_skip(left(Kernel::Release, cases::whole())) else { return };
    told::as_md_does(&all);
}

#[test]
fn arrays_of_a_newer_kernel_are_read_and_told_as_it_does() {
    let Some(all) = or_skip(left(Kernel::Newer, cases::selection())) else { return };
    told::as_md_does(&all);
}
