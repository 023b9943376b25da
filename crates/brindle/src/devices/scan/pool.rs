//! Pools, by labels.

use std::path::{Path, PathBuf};

use brindle_format::pool::Label;

use super::{Findable, Head, Heads};
use crate::base::failure::Failure;
use crate::devices::pools;

/// The kind.
pub(super) struct Labels;

impl Heads for Labels {
    fn look(&self, device: &Path) -> Result<Option<Head>, Failure> {
        let Some(label) = pools::member_label(device)? else { return Ok(None) };
        Ok(Some(Head { device: device.to_owned(), set: Some(label.pool.to_string()), seen: Box::new(label) }))
    }

    fn form(&self, set: Vec<Head>) -> Option<Findable> {
        let (members, labels) = Head::split(set);
        pool(&members, &labels)
    }
}

fn pool(members: &[PathBuf], labels: &[Label]) -> Option<Findable> {
    let first = labels.first()?;
    let name = |member| brindle_pool::Role::of(first, member).to_string();
    let there: Vec<_> = labels.iter().map(|label| label.member).collect();
    let mut sorted = there.clone();
    sorted.sort_unstable();
    let twice = sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
    let problem = twice.map(|member| {
        let of = members.iter().zip(labels).filter(|(_, label)| label.member == member);
        let named: Vec<String> = of.map(|(path, _)| path.display().to_string()).collect();
        format!("{} all say that they are member {}: leave one", named.join(" and "), name(member))
    });
    let missing: Vec<String> = (0..first.members.len())
        .filter_map(|member| u16::try_from(member).ok())
        .filter(|member| !there.contains(member))
        .map(name)
        .collect();
    Some(Findable {
        uuid: first.pool.to_string(),
        name: first.name.clone(),
        full_name: first.name.clone(),
        homehost: None,
        metadata: "pool".to_owned(),
        level: None,
        members: members.to_vec(),
        newly_missing: missing.clone(),
        missing,
        spares: 0,
        problem,
        risks: None,
    })
}
