//! What downloads and uploads of one file have in common: `get` and `put` know the rest.

use std::time::Instant;

use ferry_sftp::{Attrs, Handle, OpenFlags, Reply, Request};
use tokio::sync::oneshot;

use super::body::End;
use super::core::Shared;
use super::session::Pledge;
use super::{FileTask, Outcome, Plan, Work, get, nonsense, put, refused};
use crate::clock::nanos;
use crate::report::Problem;
use crate::transfer::Facts;
use crate::transfer::receive::Receiver;
use crate::transfer::send::Sender;

/// A file of at least this size goes over all channels.
pub const STRIPED: u64 = 4 << 20;

/// What an attempt has come to; becomes an `Outcome`.
#[derive(Default)]
pub struct Ledger {
    pub pledge: Option<Pledge>,
    pub receiver: Option<Box<Receiver>>,
    pub sender: Option<Sender>,
    pub offset: u64,
    pub acknowledged: u64,
}

/// Runs one file; never fails, because what went wrong is part of the outcome.
pub async fn run(core: Shared, plan: Plan, lane: usize, mut task: FileTask, pledge: Pledge) -> Outcome {
    let begin = Instant::now();
    let mut ledger = Ledger {
        pledge: Some(pledge),
        ..Ledger::default()
    };
    let path = task.path.clone();
    let result = match &mut task.work {
        Work::Get(inbound) => {
            get::run(
                &core,
                &plan,
                lane,
                &path,
                task.attrs.as_ref(),
                inbound.as_mut(),
                &mut ledger,
            )
            .await
        }
        Work::Put(outbound) => put::run(&core, &plan, lane, &path, outbound.as_mut(), &mut ledger).await,
    };
    let (facts, moved) = facts(begin, &mut ledger);
    Outcome {
        task,
        result,
        facts,
        receiver: ledger.receiver,
        sender: ledger.sender,
        offset: ledger.offset,
        acknowledged: ledger.acknowledged,
        moved,
        untouched: false,
    }
}

/// A file that was not begun.
pub fn untouched(task: FileTask, problem: Problem) -> Outcome {
    Outcome {
        task,
        result: Err(problem),
        facts: Facts::default(),
        receiver: None,
        sender: None,
        offset: 0,
        acknowledged: 0,
        moved: None,
        untouched: true,
    }
}

/// Opens the file on the other channels, too: those that are there and those that come while it is being sent.
pub fn stripe(core: &Shared, home: usize, id: u64, path: &[u8], flags: OpenFlags) -> AbortOnDrop {
    let (core, path) = (Shared::clone(core), path.to_vec());
    let task = tokio::task::spawn_local(async move {
        let mut lanes = core.watch_lanes();
        let mut known = 0;
        loop {
            let count = *lanes.borrow_and_update();
            for lane in (known..count).filter(|lane| *lane != home) {
                let core = Shared::clone(&core);
                let path = path.clone();
                tokio::task::spawn_local(async move {
                    let attrs = Attrs::default();
                    let open = Request::Open {
                        path: &path,
                        flags,
                        attrs: &attrs,
                    };
                    // A channel that cannot help does no harm.
                    if let Ok(Reply::Handle(handle)) = core.call(lane, &open).await {
                        core.add_handle(id, lane, handle);
                    }
                });
            }
            known = count;
            if lanes.changed().await.is_err() {
                return;
            }
        }
    });
    AbortOnDrop(task.abort_handle())
}

pub struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Until the body is over; the progress line moves meanwhile.
pub async fn watch(
    core: &Shared,
    mut over: oneshot::Receiver<End>,
    id: u64,
    mut progress: impl FnMut(u64),
) -> Result<End, Problem> {
    loop {
        let tick = tokio::time::sleep(std::time::Duration::from_millis(100));
        tokio::select! {
            biased;
            end = &mut over => return end.map_err(|_| Problem::transient("the transfer was given up")),
            () = tick => progress(core.progress(id)),
        }
    }
}

pub fn handle_of(reply: Reply, what: &str, path: &[u8]) -> Result<Handle, Problem> {
    match reply {
        Reply::Handle(handle) => Ok(handle),
        Reply::Status(status) => Err(refused(what, path, &status)),
        _ => Err(nonsense("OPEN", path)),
    }
}

pub fn close(core: &Shared, lane: usize, handle: Option<Handle>) {
    if let Some(handle) = handle {
        core.post(lane, &Request::Close { handle: &handle });
    }
}

fn facts(begin: Instant, ledger: &mut Ledger) -> (Facts, Option<(Instant, Instant)>) {
    let now = Instant::now();
    let seconds = |from: Instant, to: Instant| to.saturating_duration_since(from).as_secs_f64();
    let mut facts = Facts {
        protocol: Some("sftp"),
        ..Facts::default()
    };
    let (first, last, series) = if let Some(sender) = &mut ledger.sender {
        facts.bytes = sender.given;
        facts.shortfall_s = sender.throttle.shortfall_s();
        (sender.began, sender.ended.or(sender.last_moved()), sender.series.take())
    } else if let Some(receiver) = &mut ledger.receiver {
        facts.bytes = receiver.delivered;
        facts.shortfall_s = receiver.throttle.shortfall_s();
        (
            receiver.began,
            receiver.ended.or(receiver.last_moved()),
            receiver.series.take(),
        )
    } else {
        (None, None, None)
    };
    if let (Some(series), Some(end)) = (series, last) {
        facts.series = Some(series.finish(nanos(end).0));
    }
    facts.phases.body_start_s = first.map(|at| seconds(begin, at));
    facts.phases.body_s = first.zip(last).map(|(from, to)| seconds(from, to));
    facts.phases.total_s = seconds(begin, now);
    (facts, first.zip(last))
}
