//! Points on devices that only note what is asked of them.

use super::*;

/// Notes everything, in its order.
#[derive(Default)]
struct Notes {
    said: RefCell<Vec<String>>,
    /// Loads that nothing answers before they are given more time.
    slow: bool,
    /// Finished points after which the end is asked for.
    ends_after: Option<usize>,
    kept: RefCell<usize>,
}

#[derive(Debug)]
enum Never {}

impl From<PointError> for Never {
    fn from(why: PointError) -> Self {
        panic!("{why}")
    }
}

impl From<JobError> for Never {
    fn from(why: JobError) -> Self {
        panic!("{why}")
    }
}

impl Notes {
    fn say(&self, what: String) {
        self.said.borrow_mut().push(what);
    }
}

fn joined(names: &[PathBuf]) -> String {
    names.iter().map(|name| name.display().to_string()).collect::<Vec<_>>().join(" ")
}

impl Bench for Notes {
    type Error = Never;
    type Opened = usize;

    fn shape(&self, point: &Point) -> Result<Option<Shape>, Never> {
        if point.level == "none" {
            return Ok(None);
        }
        let level: brindle_layout::Level = point.level.parse().unwrap();
        let (layout, members) = (brindle_layout::Layout::default_for(level), point.members.parse().unwrap());
        Ok(Some(Shape { level, layout, chunk: 65_536, members, bitmap: None }))
    }

    fn devices(&self, names: &[PathBuf]) -> Result<usize, Never> {
        self.say(format!("open {}", joined(names)));
        Ok(names.len())
    }

    fn make(&self, point: &Point, names: &[PathBuf], number: u16) -> Result<Result<(), String>, Never> {
        self.say(format!("make {number}: {} of {}", point.level, joined(names)));
        Ok(if point.chunk == "3K" { Err("no power of two".to_owned()) } else { Ok(()) })
    }

    fn array(&self, names: &[PathBuf]) -> Result<usize, Never> {
        self.say(format!("array {}", joined(names)));
        Ok(1)
    }

    fn sizes(&self, opened: &usize) -> Vec<u64> {
        vec![1 << 30; *opened]
    }

    fn run(&self, _: &usize, load: &Job, names: &[PathBuf]) -> Result<Result<Came, String>, Never> {
        let runtime = load.runtime.unwrap_or_default();
        self.say(format!("run {}s on {}", runtime.as_secs(), names.len()));
        let mut all = Tally::new(Duration::from_secs(1), false);
        if !self.slow || runtime > Duration::from_secs(10) {
            all.ios = 1;
        }
        Ok(Ok(Came { all, busiest: None, processor: 0.0 }))
    }

    fn close(&self, _: usize) -> Result<(), Never> {
        self.say("close".to_owned());
        Ok(())
    }

    fn is_asked(&self) -> bool {
        self.ends_after.is_some_and(|after| *self.kept.borrow() >= after)
    }

    fn keep(&self, _: &Finished) -> Result<(), Never> {
        *self.kept.borrow_mut() += 1;
        Ok(())
    }
}

fn point(level: &str, members: &str, rw: &str) -> Point {
    let text = |word: &str| word.to_owned();
    Point {
        level: text(level),
        members: text(members),
        rw: text(rw),
        chunk: text("64K"),
        bs: text("4k"),
        iodepth: text("1"),
        numjobs: text("1"),
        ..Point::default()
    }
}

fn ran(notes: &Notes, points: &[Point]) -> Vec<Finished> {
    let names: Vec<PathBuf> = ["a", "b", "c", "d"].map(PathBuf::from).to_vec();
    let times = [Duration::ZERO, Duration::from_secs(5)];
    let measuring = Measuring::new(notes, &names, None, times, 1 << 20);
    measuring.run(&points.iter().collect::<Vec<_>>()).unwrap()
}

#[test]
fn an_array_is_made_once_and_after_all_that_overwrites_it() {
    let notes = Notes::default();
    let done = ran(&notes, &[point("0", "2", "read"), point("0", "2", "write")]);
    assert!(done.len() == 2 && done.iter().all(|one| one.figures.is_some()));
    let said = notes.said.borrow();
    let made = said.iter().position(|what| what == "make 0: 0 of a b").unwrap();
    assert_eq!(said.iter().filter(|what| what.starts_with("make")).count(), 1, "{said:?}");
    assert!(said[..made].iter().any(|what| what == "run 5s on 2"), "{said:?}");
    assert_eq!(said[made..], ["make 0: 0 of a b", "array a b", "run 5s on 2", "run 5s on 2", "close"]);
}

#[test]
fn arrays_of_arrays_are_made_from_within() {
    let notes = Notes::default();
    ran(&notes, &[point("1+0", "4", "read")]);
    let said = notes.said.borrow();
    let made: Vec<&String> = said.iter().filter(|what| what.starts_with("make")).collect();
    assert_eq!(made, ["make 1: 1 of a b", "make 2: 1 of c d", "make 0: 0 of a+b c+d"]);
    assert!(said.contains(&"array a+b c+d".to_owned()));
}

#[test]
fn what_can_t_be_is_a_point_without_figures_and_ends_nothing() {
    let notes = Notes::default();
    let odd = Point { chunk: "3K".to_owned(), ..point("0", "2", "read") };
    let done = ran(&notes, &[odd, point("1+0", "5", "read"), point("none", "1", "read")]);
    let refused: Vec<_> = done.iter().map(|one| one.refused.is_some()).collect();
    assert_eq!(refused, [true, true, false]);
}

#[test]
fn a_load_without_an_answer_is_given_more_time_and_the_end_is_heard() {
    let slow = Notes { slow: true, ..Notes::default() };
    ran(&slow, &[point("none", "1", "read")]);
    assert_eq!(*slow.said.borrow(), ["open a", "run 5s on 1", "run 20s on 1", "close"]);
    let ending = Notes { ends_after: Some(1), ..Notes::default() };
    assert_eq!(ran(&ending, &[point("none", "1", "read"), point("none", "1", "write")]).len(), 1);
}
