//! Pools, by labels.

use std::path::{Path, PathBuf};

use brindle_format::pool::{Label, MemberRecord, MemberState};
use brindle_pool::{Belonging, MemberHead, youngest_of};

use super::{Belongs, Findable, Head, Heads};
use crate::base::failure::Failure;
use crate::base::host::host_as_it_is;
use crate::devices::pools::{self, holder};

/// The kind.
pub(super) struct Labels;

impl Heads for Labels {
    fn look(&self, device: &Path) -> Result<Option<Head>, Failure> {
        let Some(found) = pools::member_head(device)? else { return Ok(None) };
        let set = Some(found.label.pool.to_string());
        Ok(Some(Head { device: device.to_owned(), set, seen: Box::new(found) }))
    }

    fn form(&self, set: Vec<Head>) -> Option<Findable> {
        let (members, heads) = Head::split::<MemberHead>(set);
        let youngest = youngest_of(heads.iter().filter_map(|one| one.head.as_ref()));
        let whose = youngest.map(|head| Belonging::of(head, host_as_it_is()));
        let labels: Vec<Label> = heads.into_iter().map(|one| one.label).collect();
        pool(&members, &labels, whose)
    }
}

fn pool(members: &[PathBuf], labels: &[Label], whose: Option<Belonging>) -> Option<Findable> {
    // That of a spare may be of the time when it came.
    let first = labels.iter().max_by_key(|label| label.generation)?;
    let name = |member| brindle_pool::Role::of(first, member).to_string();
    let there: Vec<_> = labels.iter().map(|label| label.member).collect();
    let mut sorted = there.clone();
    sorted.sort_unstable();
    let twice = sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
    let twice = twice.map(|member| {
        let of = members.iter().zip(labels).filter(|(_, label)| label.member == member);
        let named: Vec<String> = of.map(|(path, _)| path.display().to_string()).collect();
        format!("{} all say that they are member {}: leave one", named.join(" and "), name(member))
    });
    let other = match whose {
        Some(Belonging::Anothers(of)) if twice.is_none() => Some(of),
        _ => None,
    };
    let is_needed = |record: &MemberRecord| matches!(record.state, MemberState::InUse | MemberState::Offline);
    let missing: Vec<String> = (0u16..)
        .zip(&first.members)
        .filter(|(member, record)| is_needed(record) && !there.contains(member))
        .map(|(member, _)| member)
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
        // Nothing that comes yet would change that it is another's.
        newly_missing: if other.is_some() { Vec::new() } else { missing.clone() },
        missing,
        spares: 0,
        problem: twice.or_else(|| Some(holder::refused(&first.name, &other?))),
        risks: other
            .map(|of| vec![format!("host {} may have it: {}", holder::host_text(&of.host), holder::RISK)]),
        belongs: whose.map(|whose| match whose {
            Belonging::Nobodys => Belongs::Nowhere,
            Belonging::Own | Belonging::Unsure(_) => Belongs::Here,
            Belonging::Anothers(of) => Belongs::Elsewhere(holder::host_text(&of.host)),
        }),
    })
}
