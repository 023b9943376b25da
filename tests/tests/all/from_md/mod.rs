//! Arrays that md left behind, as Brindle's users see them: the content, the state of the array and that of each
//! member are those that md itself shows.

mod byte_order;
mod cases;
mod compared;
mod continued;
mod cover;
mod degraded;

use brindle_tests::files;
use brindle_tests::states::{self, Case, Left};
use brindle_tests::tools::{Missing, or_skip};
use brindle_tests::vm::{Kernel, Vm};

/// The arrays that the kernel made of the cases; those of a level that it does not have are left out.
fn left(kernel: Kernel, mut cases: Vec<Case>) -> Result<Vec<Left>, Missing> {
    if !Vm::on(kernel)?.has_linear() {
        cases.retain(|case| case.recipe.level != "linear");
    }
    states::left_by(kernel, &cases)
}

/// Does `check` for all, on as many threads as there are processors.
fn each<T: Sync>(all: &[T], check: impl Fn(&T) + Sync) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let check = &check;
    std::thread::scope(|scope| {
        for first in 0..threads {
            scope.spawn(move || all.iter().skip(first).step_by(threads).for_each(check));
        }
    });
}

#[test]
fn arrays_of_every_kind_in_every_state_are_read_and_told_as_md_does() {
    let Some(all) = or_skip(left(Kernel::Release, cases::all())) else { return };
    compared::as_md_does(&all);
}

#[test]
fn arrays_of_a_newer_kernel_are_read_and_told_as_it_does() {
    let Some(all) = or_skip(left(Kernel::Newer, cases::selection())) else { return };
    compared::as_md_does(&all);
}
