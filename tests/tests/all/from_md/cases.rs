//! Arrays that md is asked to make: the plans of the cover, with layouts, numbers of members and lost roles in turn.

use std::collections::{BTreeMap, BTreeSet};

use brindle_tests::files::MIB;
use brindle_tests::golden::{PARITY_LAYOUTS, RAID6_LAYOUTS, Recipe};
use brindle_tests::states::{Case, State};

use super::cover::{self, Family, Plan, Value, Way};

/// Members of this size are enough for several rows of the largest chunk.
const SIZE: u64 = 4 * MIB;

type Shape = (Option<&'static str>, usize);

fn level(family: Family) -> &'static str {
    match family {
        Family::Linear => "linear",
        Family::Raid0 => "0",
        Family::Raid1 => "1",
        Family::Raid4 => "4",
        Family::Raid5 => "5",
        Family::Raid6 | Family::Raid6Own => "6",
        Family::Near | Family::Far | Family::Offset => "10",
    }
}

/// Layouts and numbers of members.
fn shapes(family: Family) -> Vec<Shape> {
    let each = |layouts: &[&'static str], least: usize| -> Vec<Shape> {
        layouts.iter().enumerate().map(|(at, &layout)| (Some(layout), least + at % 2)).collect()
    };
    let copies = |two, three| vec![(Some(two), 4), (Some(three), 5), (Some(two), 5), (Some(three), 4)];
    match family {
        Family::Linear => vec![(None, 2), (None, 3)],
        Family::Raid0 => vec![(None, 2), (Some("original"), 3), (None, 3), (Some("alternate"), 3)],
        Family::Raid1 => vec![(None, 2), (None, 3)],
        Family::Raid4 => vec![(None, 4), (None, 3)],
        Family::Raid5 => each(&PARITY_LAYOUTS, 3),
        Family::Raid6 => each(&PARITY_LAYOUTS, 4),
        Family::Raid6Own => each(&RAID6_LAYOUTS, 4),
        Family::Near => copies("n2", "n3"),
        Family::Far => copies("f2", "f3"),
        Family::Offset => copies("o2", "o3"),
    }
}

fn recipe(family: Family, (layout, members): Shape) -> Recipe {
    let uneven = family == Family::Linear || matches!(layout, Some("original" | "alternate"));
    let size = |role: usize| SIZE + if uneven { [0, 3, 1][role % 3] * MIB } else { 0 };
    let recipe = Recipe::new(level(family), members).members(&(0..members).map(size).collect::<Vec<_>>());
    match layout {
        Some(layout) => recipe.layout(layout),
        None => recipe,
    }
}

/// Whether an array survives the loss of these roles: the rules of md(4), with no look at Brindle's own.
pub(super) fn survives(recipe: &Recipe, lost: &BTreeSet<usize>) -> bool {
    let members = recipe.members.len();
    match recipe.level {
        "1" => lost.len() < members,
        "4" | "5" => lost.len() <= 1,
        "6" => lost.len() <= 2,
        "10" => {
            let layout = recipe.layout.unwrap_or("n2");
            let copies: usize = layout[1..].parse().unwrap();
            // Near: each chunk's copies follow those of the chunk before, around all members. Far and offset: each
            // chunk's copies are on neighbours, and begin at each member.
            let step = if layout.starts_with('n') { copies } else { 1 };
            (0..members)
                .all(|chunk| (0..copies).any(|copy| !lost.contains(&((chunk * step + copy) % members))))
        }
        _ => lost.is_empty(),
    }
}

/// All sets of so many roles that the array can do without.
fn tolerated(recipe: &Recipe, lost: usize) -> Vec<Vec<usize>> {
    let members = recipe.members.len();
    let sets = (0..1_usize << members)
        .map(|set| (0..members).filter(|role| set >> role & 1 == 1).collect::<BTreeSet<_>>());
    sets.filter(|set| set.len() == lost && survives(recipe, set))
        .map(|set| set.into_iter().collect())
        .collect()
}

/// The array of a plan; `turn` says which shape and which roles it takes.
fn case(plan: &Plan, turn: usize) -> Case {
    let shapes = shapes(plan.family);
    let lost = plan.way.lost();
    let fits = |turn: &usize| {
        let recipe = recipe(plan.family, shapes[turn % shapes.len()]);
        let mut sets = tolerated(&recipe, lost);
        // The last member of a RAID 4 has the parity alone: without it nothing is in doubt that could be read.
        if plan.family == Family::Raid4 && plan.way == Way::LostInResync {
            sets.pop();
        }
        (!sets.is_empty()).then(|| (recipe, sets[turn % sets.len()].clone()))
    };
    let (mut recipe, lost) = (turn..).find_map(|turn| fits(&turn)).unwrap();
    recipe = recipe.metadata(plan.metadata);
    if let Some(chunk) = plan.chunk {
        recipe = recipe.chunk(chunk << 10);
    }
    if plan.bitmap {
        recipe = recipe.extra(&["--bitmap=internal"]);
    }
    let state = match plan.way {
        Way::Whole => State::Whole,
        Way::Spares => State::Spares(1),
        Way::Missing(_) => State::Missing(lost),
        Way::Stale(_) => State::Stale(lost),
        Way::HalfResynced => State::HalfResynced,
        Way::LostInResync => State::LostInResync(lost[0]),
        Way::HalfRecovered => State::HalfRecovered(lost[0]),
    };
    Case::new(recipe, state).sector(plan.sector)
}

/// Arrays without losses take turns of their own, so that every layout also has its turn among the degraded ones.
fn cases(plans: &[Plan]) -> Vec<Case> {
    let mut turns: BTreeMap<(Family, bool), usize> = BTreeMap::new();
    let mut next = |plan: &Plan| {
        let turn = turns.entry((plan.family, matches!(plan.way, Way::Whole | Way::Spares))).or_default();
        *turn += 1;
        case(plan, *turn - 1)
    };
    plans.iter().map(&mut next).collect()
}

/// All arrays of the cover.
pub(super) fn all() -> Vec<Case> {
    cases(cover::plans())
}

/// For another kernel: a few in which each value is twice.
pub(super) fn selection() -> Vec<Case> {
    let mut times: BTreeMap<Value, usize> = BTreeMap::new();
    let mut is_wanted = |plan: &&Plan| {
        let values = plan.values();
        let wanted = values.iter().any(|value| times.get(value).is_none_or(|&times| times < 2));
        if wanted {
            values.into_iter().for_each(|value| *times.entry(value).or_default() += 1);
        }
        wanted
    };
    cases(&cover::plans().iter().filter(&mut is_wanted).copied().collect::<Vec<_>>())
}

#[test]
fn every_layout_and_number_of_copies_takes_its_turn() {
    let all = all();
    for family in Family::ALL {
        for (layout, members) in shapes(family) {
            let is = |case: &&Case| {
                let recipe = &case.recipe;
                (recipe.level, recipe.layout, recipe.members.len()) == (level(family), layout, members)
            };
            let degraded = |case: &Case| !matches!(case.state, State::Whole | State::Spares(_));
            assert!(all.iter().any(|case| is(&case)), "{family:?} {layout:?} {members}");
            let layouts =
                all.iter().filter(|case| (case.recipe.level, case.recipe.layout) == (level(family), layout));
            assert_eq!(layouts.into_iter().any(degraded), family.is_redundant(), "{family:?} {layout:?}");
        }
    }
    for layout in ["n3", "f3", "o3"] {
        let two = |case: &Case| {
            let (State::Missing(lost) | State::Stale(lost)) = &case.state else { return false };
            case.recipe.layout == Some(layout) && lost.len() == 2
        };
        assert!(all.iter().any(two), "{layout} without two");
    }
}
