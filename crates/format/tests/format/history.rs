//! Pages of the history of pools: what fits is read again as it was written, and hostile bytes are refused.

#![allow(clippy::unwrap_used)]

use brindle_format::pool::{
    BLOCK, HISTORY_TEXT, HistoryKind, HistoryPage, HistoryRecord, MAX_NAME, PoolError,
};
use proptest::prelude::*;

fn command(text: &str) -> HistoryRecord {
    HistoryRecord::new(1_800_000_000, HistoryKind::Command { user: Some(1000) }, "nas", text)
}

fn page() -> HistoryPage {
    let mut page = HistoryPage::default();
    page.add(command("brindle pool create tank mirror a b")).unwrap();
    page.add(HistoryRecord::new(7, HistoryKind::Internal, "", "scrub begun")).unwrap();
    page
}

#[test]
fn texts_are_kept_as_far_as_they_fit_and_without_control_characters() {
    let record = command("a\nb\u{85}c");
    assert_eq!((record.text(), record.host()), ("a b c", "nas"));
    // A character that would be parted goes.
    let long = "x".repeat(HISTORY_TEXT - 1) + "\u{e4}";
    assert_eq!(command(&long).text().len(), HISTORY_TEXT - 1);
    let host = HistoryRecord::new(1, HistoryKind::Internal, &"h".repeat(99), "");
    assert_eq!(host.host().len(), MAX_NAME);
}

#[test]
fn a_page_takes_what_fits_and_gives_the_rest_back() {
    let mut page = HistoryPage::default();
    let long = command(&"x".repeat(HISTORY_TEXT));
    let taken = (0..).take_while(|_| page.add(long.clone()).is_ok()).count();
    assert_eq!(taken, 3);
    assert_eq!(page.add(long.clone()), Err(long));
    assert_eq!(HistoryPage::parse(&page.encode(5).unwrap(), 5), Ok(page.clone()));
    let last = command(&"y".repeat(HISTORY_TEXT));
    page.make_room(last.clone());
    assert_eq!(page.records().last(), Some(&last));
    assert_eq!(page.records().len(), 3, "the oldest has gone");
}

#[test]
fn bytes_that_can_not_be_are_refused_by_name() {
    let bytes = page().encode(1).unwrap();
    assert_eq!((bytes[8], HistoryPage::parse(&bytes, 1)), (11, Ok(page())));
    assert_eq!(HistoryPage::parse(&bytes, 2), Err(PoolError::Foreign { what: "page" }));
    let with = |at: usize, to: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        match HistoryPage::parse(&bytes, 1) {
            Err(PoolError::Impossible { field, .. } | PoolError::Unknown { field, .. }) => field,
            Err(PoolError::Short { .. }) => "short",
            other => panic!("{other:?}"),
        }
    };
    // The page's body begins at 32: 16 bytes, the host, the command.
    let second = 32 + 16 + 3 + 35;
    for (at, to, field) in [
        (10, &[255][..], "count"),
        (10, &[254], "short"),
        (32 + 12, &[2], "kind"),
        (32 + 12, &[1], "user"),
        (32 + 13, &[65], "host"),
        (32 + 14, &[1, 4], "text"),
        (32 + 16, &[7], "host"),
        (32 + 16 + 3, &[0xff], "text"),
        (second + 8, &[0, 0, 0, 0], "user"),
    ] {
        assert_eq!(with(at, to), field, "{to:?} at {at}");
    }
}

proptest! {
    #[test]
    fn records_of_any_texts_are_read_as_they_were_written(
        records in proptest::collection::vec((any::<u64>(), any::<Option<u32>>(), ".{0,90}", ".{0,1100}"), 0..60),
    ) {
        let mut page = HistoryPage::default();
        for (time, user, host, text) in records {
            let user = user.filter(|&user| user != u32::MAX);
            let kind = if text.len() % 3 == 0 { HistoryKind::Internal } else { HistoryKind::Command { user } };
            let _full = page.add(HistoryRecord::new(time, kind, &host, &text));
        }
        let bytes = page.encode(3).unwrap();
        prop_assert_eq!(bytes.len(), BLOCK);
        prop_assert_eq!(HistoryPage::parse(&bytes, 3), Ok(page));
    }

    #[test]
    fn any_bytes_are_a_page_that_is_written_again_or_refused(at in 8usize..400, bytes: [u8; 4]) {
        let mut changed = page().encode(3).unwrap();
        changed[at..at + 4].copy_from_slice(&bytes);
        if let Ok(page) = HistoryPage::parse(&changed, 3) {
            let again = page.encode(3).unwrap();
            prop_assert_eq!(HistoryPage::parse(&again, 3), Ok(page));
        }
    }
}
