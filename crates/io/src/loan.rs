//! A question of another executor, and the memory that it lends, where the question is answered.

use core::future::poll_fn;
use core::task::Poll;
use std::rc::Rc;

use crate::buf::Slice;
use crate::class::OpClass;
use crate::core::Core;
use crate::loans::{Here, Question, Taken};

/// A question of another executor, with the memory that it lends. Dropping it unanswered answers that it was cancelled.
pub struct Loan {
    core: Rc<Core>,
    /// `None` once it is answered.
    taken: Option<Taken>,
    question: Question,
    class: OpClass,
}

impl Loan {
    /// Waits for the next question to an executor.
    pub(crate) async fn next(core: &Rc<Core>) -> Self {
        let loans = &core.crew().loans;
        let next = poll_fn(|_| loans.next(core.scheduler.current()).map_or(Poll::Pending, Poll::Ready));
        let (from, parcel) = next.await;
        let taken = loans.take(from, &parcel, &Here { scheduler: &core.scheduler, arenas: &core.arenas });
        let (question, class) = (taken.question, taken.class);
        Self { core: Rc::clone(core), taken: Some(taken), question, class }
    }

    /// The words of the question.
    pub fn question(&self) -> Question {
        self.question
    }

    /// The class of the operation.
    pub fn class(&self) -> OpClass {
        self.class
    }

    /// The memory that is lent, in order: no others use it until this is answered, and whoever still has some of it then keeps it.
    pub fn memory(&self) -> &[Slice] {
        self.taken.as_ref().map_or(&[], |taken| &taken.memory)
    }

    /// Answers.
    pub fn answer(mut self, value: u64) {
        self.finish(Some(value));
    }

    fn finish(&mut self, value: Option<u64>) {
        let Some(Taken { number, memory, .. }) = self.taken.take() else { return };
        let side = self.core.crew();
        side.loans.answer(number, memory, value, &side.crew);
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.finish(None);
    }
}
