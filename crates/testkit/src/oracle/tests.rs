use super::*;

const SIZE: u64 = 4 * SECTOR as u64;

fn content(numbers: [u64; 4]) -> Vec<u8> {
    let mut bytes = vec![0; SIZE as usize];
    for (place, (sector, number)) in (0..).zip(bytes.chunks_exact_mut(SECTOR).zip(numbers)) {
        if number > 0 {
            stamp::stamp(sector, place, number);
        }
    }
    bytes
}

fn judge(oracle: &mut Oracle, numbers: [u64; 4]) -> Result<(), Wrong> {
    let began = oracle.read_begins();
    oracle.judge(began, 0, &content(numbers))
}

fn write(oracle: &mut Oracle, first: u64, sectors: u64, fua: bool) {
    let len = sectors * SECTOR as u64;
    let number = oracle.change_begins(Change::Write, first * SECTOR as u64, len);
    oracle.change_ended(number, true, fua);
}

fn flush(oracle: &mut Oracle) {
    let began = oracle.flush_begins();
    oracle.flush_ended(began);
}

#[test]
fn an_acknowledged_write_hides_what_was_before_it() {
    let mut oracle = Oracle::zeroes(SIZE);
    assert_eq!(judge(&mut oracle, [0; 4]), Ok(()));
    write(&mut oracle, 0, 2, false);
    write(&mut oracle, 1, 2, false);
    assert_eq!(judge(&mut oracle, [1, 2, 2, 0]), Ok(()));
    for wrong in [[0, 2, 2, 0], [1, 1, 2, 0], [1, 2, 0, 0], [1, 2, 2, 2], [1, 2, 2, 3]] {
        assert!(judge(&mut oracle, wrong).is_err(), "{wrong:?}");
    }
    let mut torn = content([1, 2, 2, 0]);
    torn[16] = 0;
    let began = oracle.read_begins();
    assert!(oracle.judge(began, 0, &torn).is_err_and(|wrong| wrong.found == Stamp::Strange));
}

#[test]
fn writes_side_by_side_end_in_either_order_and_failed_ones_perhaps() {
    let mut oracle = Oracle::zeroes(SIZE);
    let first = oracle.change_begins(Change::Write, 0, SIZE);
    let second = oracle.change_begins(Change::Zeroes, 0, SIZE);
    let third = oracle.change_begins(Change::Write, 0, SECTOR as u64);
    oracle.change_ended(first, true, false);
    oracle.change_ended(second, true, false);
    oracle.change_ended(third, false, false);
    assert_eq!(judge(&mut oracle, [3, 0, 1, 1]), Ok(()));
    assert_eq!(judge(&mut oracle, [1, 1, 1, 1]), Ok(()));
    write(&mut oracle, 0, 4, false);
    assert_eq!(judge(&mut oracle, [4; 4]), Ok(()));
    assert!(judge(&mut oracle, [3, 4, 4, 4]).is_err(), "what failed was overwritten since");
}

#[test]
fn a_read_sees_what_was_there_when_it_began_or_comes_while_it_runs() {
    let mut oracle = Oracle::zeroes(SIZE);
    let began = oracle.read_begins();
    write(&mut oracle, 0, 4, false);
    assert_eq!(oracle.judge(began, 0, &content([0, 1, 0, 1])), Ok(()));
    assert!(judge(&mut oracle, [0, 1, 1, 1]).is_err(), "a later read sees the write");
}

#[test]
fn a_power_cut_takes_what_was_not_flushed_and_nothing_else() {
    let mut oracle = Oracle::zeroes(SIZE);
    write(&mut oracle, 0, 2, false);
    flush(&mut oracle);
    write(&mut oracle, 1, 2, false);
    write(&mut oracle, 3, 1, true);
    let under_way = oracle.change_begins(Change::Write, 3 * SECTOR as u64, SECTOR as u64);
    assert_eq!(under_way, 4);
    oracle.power_cut();
    let after = |numbers| judge(&mut oracle.clone(), numbers);
    for right in [[1, 1, 0, 3], [1, 2, 2, 3], [1, 1, 2, 4]] {
        assert_eq!(after(right), Ok(()), "{right:?}");
    }
    for wrong in [[0, 1, 0, 3], [1, 0, 0, 3], [1, 1, 0, 0], [2, 2, 2, 3]] {
        assert!(after(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_flush_covers_what_had_returned_when_it_began() {
    let mut oracle = Oracle::zeroes(SIZE);
    let began = oracle.flush_begins();
    write(&mut oracle, 0, 4, false);
    oracle.flush_ended(began);
    oracle.power_cut();
    assert_eq!(judge(&mut oracle, [0, 1, 0, 1]), Ok(()));
}

#[test]
fn what_was_read_in_doubt_is_read_again_until_something_happens() {
    let mut oracle = Oracle::zeroes(SIZE);
    write(&mut oracle, 0, 4, false);
    oracle.power_cut();
    assert_eq!(judge(&mut oracle, [0, 1, 0, 1]), Ok(()));
    assert!(judge(&mut oracle, [1, 1, 0, 1]).is_err());
    oracle.upset();
    assert_eq!(judge(&mut oracle, [1, 1, 0, 1]), Ok(()), "another copy was read");
    write(&mut oracle, 0, 1, false);
    assert_eq!(judge(&mut oracle, [2, 1, 0, 1]), Ok(()));
    assert!(judge(&mut oracle, [1, 1, 0, 1]).is_err());
}

#[test]
fn numbers_go_on_over_starts_and_doubt_over_cuts() {
    let mut oracle = Oracle::anything(SIZE);
    write(&mut oracle, 0, 4, false);
    oracle.stopped();
    write(&mut oracle, 0, 1, false);
    oracle.power_cut();
    oracle.power_cut();
    assert_eq!(oracle.certain(), 3);
    for right in [[1, 1, 1, 1], [2, 1, 1, 1]] {
        assert_eq!(judge(&mut oracle.clone(), right), Ok(()));
    }
    assert!(judge(&mut oracle, [0, 1, 1, 1]).is_err());
    let discard = oracle.change_begins(Change::Discard, 0, SIZE);
    oracle.change_ended(discard, true, false);
    assert_eq!(judge(&mut oracle, [7, 0, 1, 9]), Ok(()), "anything, once it was discarded");
}
