//! One file, from the first request to its outcome.

use std::time::Instant;

use super::attempt::{FileAttempt, Reservation};
use super::core::Shared;
use super::{FileTask, Outcome, Plan, Work, get, put};
use crate::clock::seconds;
use crate::error::Error;
use crate::transfer::Facts;
use crate::transfer::send::Sender;

/// Runs one file; never fails, because an error is part of the outcome.
pub async fn run(core: Shared, plan: Plan, channel: usize, mut task: FileTask, reservation: Reservation) -> Outcome {
    let begin = Instant::now();
    let mut attempt = FileAttempt {
        reservation: Some(reservation),
        ..FileAttempt::default()
    };
    let path = task.path.clone();
    let result = match &mut task.work {
        Work::Get(inbound) => {
            get::run(
                &core,
                &plan,
                channel,
                &path,
                task.attrs.as_ref(),
                inbound.as_mut(),
                &mut attempt,
            )
            .await
        }
        Work::Put(outbound) => put::run(&core, &plan, channel, &path, outbound.as_mut(), &mut attempt).await,
    };
    let (facts, moved) = facts(begin, &mut attempt);
    Outcome {
        task,
        result,
        facts,
        receiver: attempt.receiver,
        sender: attempt.sender,
        offset: attempt.offset,
        acknowledged: attempt.acknowledged,
        moved,
        not_processed: false,
    }
}

/// The outcome of a file that was not begun.
pub fn not_processed(task: FileTask, problem: Error) -> Outcome {
    Outcome {
        task,
        result: Err(problem),
        facts: Facts::default(),
        receiver: None,
        sender: None,
        offset: 0,
        acknowledged: 0,
        moved: None,
        not_processed: true,
    }
}

fn facts(begin: Instant, attempt: &mut FileAttempt) -> (Facts, Option<(Instant, Instant)>) {
    let now = Instant::now();
    let upload_ended = |sender: &Sender| sender.ended.or(sender.last_moved());
    let (mut facts, moved) = Facts::of_body(
        begin,
        attempt.sender.as_mut(),
        upload_ended,
        attempt.receiver.as_deref_mut(),
    );
    facts.protocol = Some("sftp");
    facts.phases.total_s = seconds(begin, now);
    (facts, moved)
}
