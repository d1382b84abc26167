//! A run on its thread: connects, opens channels, begins files while there is room for them, and watches over silence.

use std::cell::RefCell;
use std::net::TcpStream;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferry_sftp::{Limits, Reply, Request};
use socket2::SockRef;
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, LocalSet, spawn_local};

use super::attempt::Opening;
use super::connection::{Connection, connect, dial_first, more, open_channel, round_trip, take, watch_end};
use super::core::{Core, Shared};
use super::{FileTask, Outcome, Plan, SessionFacts, Work, Worklist, files, remove, tree};
use crate::error::Error;
use crate::platform;
use crate::report::{Phases, SendBufferFacts, SshReport};
use crate::ssh::OpenRefused;
use crate::transfer::background::Watch;
use crate::transfer::pace::Pace;
use crate::transfer::samples::Samples;

/// Files begun at once on each channel: at a round trip of 100 ms, they allow 600 files a second.
const FILES_A_CHANNEL: usize = 64;
/// No further file is begun while those begun have this much to be asked for or sent.
const BACKLOG: u64 = 8 << 20;
/// The most names of trees that have been listed and not been looked at.
const FOUND_AHEAD: usize = 256;
/// The number of ticks in a row in which the send buffer has to hold back an upload.
const HELD_TICKS: u32 = 5;
const TICK: Duration = Duration::from_millis(100);
/// The logins under way at once. sshd drops some of more than ten connections that have not logged in yet (`MaxStartups
/// 10:30:100` in `sshd_config`(5)), and other clients may be logging in meanwhile.
const LOGINS_AT_ONCE: usize = 6;

/// Works through a worklist on one server. `Err` is the reason why files may be left over; each of them has been given back to
/// the worklist.
pub fn run(plan: &Plan, worklist: &mut dyn Worklist) -> (SessionFacts, Result<(), Error>) {
    platform::precise_timers();
    let mut facts = SessionFacts::default();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let problem = Error::local(format!("no event loop can be made: {error}")).with_source(error);
            return (facts, Err(abandon(worklist, problem)));
        }
    };
    let local = LocalSet::new();
    let result = local.block_on(&runtime, drive(plan, worklist, &mut facts));
    let result = result.map_err(|problem| abandon(worklist, problem));
    // Dropped on this thread, with the tasks that still run on it.
    drop(local);
    runtime.shutdown_background();
    (facts, result)
}

/// Every file that was not begun ends with the connection's problem.
fn abandon(worklist: &mut dyn Worklist, problem: Error) -> Error {
    while let Some(task) = worklist.give_back() {
        worklist.done(files::not_processed(task, problem.clone()));
    }
    problem
}

async fn drive(plan: &Plan, worklist: &mut dyn Worklist, facts: &mut SessionFacts) -> Result<(), Error> {
    let begin = Instant::now();
    let dialed = dial_first(plan)?;
    let mut phases = Phases {
        dns_s: dialed.dns.map(|dns| dns.as_secs_f64()),
        connect_s: Some(dialed.connect.as_secs_f64()),
        ..Phases::default()
    };
    let remote = dialed.remote.to_string();
    let dialed_rtt = dialed.rtt;
    let core: Shared = Arc::new(Core::new(&plan.settings.limit, dialed_rtt));
    let mut report = SshReport::default();
    let connected = unless_stopped(plan, connect(plan, &core, dialed, 0)).await??;
    let passed = connected.passed.unwrap_or_default();
    phases.connect_s = phases.connect_s.map(|connect| connect + passed.0.as_secs_f64());
    let timings = connected.session.timings();
    phases.kex_s = Some(timings.kex_s);
    phases.auth_s = Some(timings.auth_s);
    take(&mut report, &connected);
    facts.ssh = Some(report.clone());

    let rtt = round_trip(dialed_rtt.max(passed.1), timings);
    if rtt > dialed_rtt {
        core.set_least_rtt(rtt);
    }
    let opening = Instant::now();
    let connected = Rc::new(connected);
    let refused = Rc::new(RefCell::new(0_u32));
    let extra = extra_channels(plan, worklist, &report.server, rtt);
    // All extra channels are asked for in one flight.
    let mut helpers = JoinSet::new();
    let first = open_channel(&core, &connected, 0);
    for _ in 0..extra {
        let (core, connected, refused) = (Shared::clone(&core), Rc::clone(&connected), Rc::clone(&refused));
        helpers.spawn_local(async move {
            if open_channel(&core, &connected, 0).await.is_err() {
                *refused.borrow_mut() += 1;
            }
        });
    }
    let home = unless_stopped(plan, first).await?;
    let home = home.map_err(|error| no_channel(plan, &core, error))?;
    phases.channel_s = Some(opening.elapsed().as_secs_f64());
    phases.total_s = begin.elapsed().as_secs_f64();
    let logins = Rc::new(Semaphore::new(LOGINS_AT_ONCE));
    for connection in 1..plan.connections.unwrap_or(1) {
        let (core, logins) = (Shared::clone(&core), Rc::clone(&logins));
        helpers.spawn_local(more(core, plan.clone(), connection, extra + 1, logins));
    }

    let samples = Rc::new(RefCell::new(Samples::default()));
    let _ticker = spawn_local(tick(
        Shared::clone(&core),
        Arc::clone(&connected.socket),
        plan.clone(),
        begin,
        Rc::clone(&samples),
    ));
    spawn_watchers(plan, worklist, &core, &connected.socket, extra + 1);
    learn_limits(&core, home);
    let result = work(
        plan,
        worklist,
        &core,
        home,
        &Start {
            phases,
            remote,
            samples: &samples,
            connected: &connected,
        },
    )
    .await;
    report.channels = u32::try_from(*core.watch_channels().borrow()).unwrap_or(u32::MAX);
    helpers.abort_all();
    report.channels_refused = *refused.borrow();
    report.connections = u32::try_from(core.connections()).unwrap_or(u32::MAX);
    facts.ssh = Some(report);
    let failure = core.failure();
    core.fail(&Error::transient("the run is over"));
    if failure.is_none() {
        while helpers.join_next().await.is_some() {}
        if let Ok(connected) = Rc::try_unwrap(connected) {
            connected.session.close().await;
        }
    }
    result.and(failure.map_or(Ok(()), Err))
}

/// Starts the tasks that run beside the work, and end with the connection.
fn spawn_watchers(plan: &Plan, worklist: &dyn Worklist, core: &Shared, socket: &Arc<TcpStream>, channels: usize) {
    spawn_local(watch_end(
        Shared::clone(core),
        Arc::clone(socket),
        plan.first_place().clone(),
    ));
    if let Some(pace) = &plan.settings.background {
        let sends = worklist.upload_bytes() > 0;
        spawn_local(yield_to_others(
            Shared::clone(core),
            Arc::clone(socket),
            pace.clone(),
            sends,
        ));
    }
    if plan.connections.is_none() && worklist.upload_bytes() > 0 {
        spawn_local(open_second_connection(
            Shared::clone(core),
            plan.clone(),
            Arc::clone(socket),
            channels,
        ));
    }
    if plan.settings.limit.rate().is_some() {
        spawn_local(follow_limits(Shared::clone(core)));
    }
}

/// The result of the work, or the reason for the stop if the run is asked to stop first.
async fn unless_stopped<T>(plan: &Plan, work: impl Future<Output = T>) -> Result<T, Error> {
    let stopped = async {
        loop {
            if let Some(problem) = plan.settings.stop.problem() {
                return problem;
            }
            tokio::time::sleep(TICK).await;
        }
    };
    tokio::select! {
        done = work => Ok(done),
        problem = stopped => Err(problem),
    }
}

/// Returns true for a server that was seen to work on several channels of a connection at once. `ProFTPD` (`mod_sftp`) was seen
/// to stop for ever (tests/engine, 64 MiB there and back); a server that has not been tried gets one channel.
fn works_side_by_side(server: &str) -> bool {
    ["OpenSSH", "dropbear", "AsyncSSH"]
        .iter()
        .any(|known| server.starts_with(known))
}

fn no_channel(plan: &Plan, core: &Core, error: OpenRefused) -> Error {
    match error {
        OpenRefused::Lost => core
            .failure()
            .unwrap_or_else(|| Error::transient("the connection was lost")),
        OpenRefused::Server { message } => Error::permanent(format!(
            "{}: no SFTP channel: {message}",
            crate::log::host_port(&plan.url)
        )),
    }
}

/// The number of extra channels that are worth opening: one channel fills its window once a round trip, 2 MiB if OpenSSH
/// receives.
fn extra_channels(plan: &Plan, worklist: &dyn Worklist, server: &str, rtt: Duration) -> usize {
    let round = |milliseconds: u128| usize::try_from(rtt.as_millis() / milliseconds).unwrap_or(usize::MAX);
    let extra = match worklist.upload_bytes() {
        _ if plan.settings.limit.rate().is_some() || !works_side_by_side(server) => 0,
        // Half of ferry's 32 MiB a round trip is 1.3 Gbit/s at 100 ms.
        0 => round(100),
        // On a short path, several writing processes of the server are worth having side by side: measured 10 %.
        bytes if rtt < Duration::from_millis(2) => 3 * usize::from(bytes >= 64 << 20),
        bytes => (round(12) + 1).min(usize::try_from(bytes / (2 << 20)).unwrap_or(usize::MAX)),
    };
    extra.min(plan.channels.saturating_sub(1))
}

/// Moves limited downloads by the clock, and not by arriving data.
async fn follow_limits(core: Shared) {
    while core.failure().is_none() {
        match core.poll_paced(Instant::now()) {
            None => core.paced.notified().await,
            Some(at) => {
                tokio::select! {
                    () = core.paced.notified() => {}
                    () = platform::until(at) => {}
                }
            }
        }
    }
}

/// Samples TCP's own figures at each tick, and fails the core if the run is stopped or late, or the server is silent.
async fn tick(core: Shared, socket: Arc<TcpStream>, plan: Plan, begin: Instant, samples: Rc<RefCell<Samples>>) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while core.failure().is_none() {
        ticks.tick().await;
        let now = Instant::now();
        let socket = SockRef::from(&*socket);
        let t_s = now.saturating_duration_since(begin).as_secs_f64();
        samples.borrow_mut().tick(|| platform::tcp_sample(&socket, t_s));
        if let Some(rtt) = platform::rtt(&socket) {
            core.set_rtt(rtt);
        }
        if let Some(problem) = plan.settings.stop.problem() {
            core.fail(&problem);
        }
        let timeouts = plan.settings.timeouts;
        if plan.deadline.is_some_and(|deadline| now > deadline) {
            core.fail(&Error::transient("not done in time (--timeout-total)"));
        }
        let Some(silence) = core.silence() else {
            continue;
        };
        let arrived = platform::unacknowledged_bytes(&socket).unwrap_or_default() == 0;
        let (limit, flag) = match timeouts.answer {
            _ if !silence.ever => (timeouts.first_byte, "--timeout-first-byte"),
            _ if !silence.patient || !arrived => (timeouts.stall, "--stall"),
            Some(limit) => (limit, "--timeout-first-byte"),
            None => continue,
        };
        if now.saturating_duration_since(silence.since) > limit {
            core.fail(&Error::transient(format!(
                "the server has not answered for {:.1} s ({flag})",
                limit.as_secs_f64()
            )));
        }
    }
}

/// Carries out `--background`.
async fn yield_to_others(core: Shared, socket: Arc<TcpStream>, pace: Pace, sends: bool) {
    let mut watch = Watch::new(&pace);
    while core.failure().is_none() {
        watch.look(&SockRef::from(&*socket), sends, Instant::now());
        platform::until(watch.next()).await;
    }
}

/// Opens a second connection. One TCP connection sends no more in a round trip than its send buffer holds: if that is seen to be
/// the limit, a second one doubles it.
async fn open_second_connection(core: Shared, plan: Plan, socket: Arc<TcpStream>, channels: usize) {
    let mut ticks = tokio::time::interval(TICK);
    let mut before = Duration::ZERO;
    let mut row = 0;
    while core.failure().is_none() && row < HELD_TICKS {
        ticks.tick().await;
        let Some(held) = platform::held_by_send_buffer(&SockRef::from(&*socket)) else {
            return;
        };
        row = if held.saturating_sub(before) > TICK / 2 {
            row + 1
        } else {
            0
        };
        before = held;
    }
    if core.failure().is_none() {
        more(core, plan, 1, channels, Rc::new(Semaphore::new(1))).await;
    }
}

/// Asks for the largest size of requests, even if the server has not named the extension: waiting for its VERSION would be a
/// round trip, and a server without the extension says so.
fn learn_limits(core: &Shared, channel: usize) {
    let asked = core.call(channel, &Request::Limits);
    let core = Shared::clone(core);
    spawn_local(async move {
        if let Ok(Reply::Extended(bytes)) = asked.await
            && let Ok(limits) = Limits::parse(&bytes)
        {
            core.set_limits(&limits);
            core.wake_all();
        }
    });
}

/// The facts of the connection that the first file inherits.
struct Start<'a> {
    phases: Phases,
    remote: String,
    samples: &'a RefCell<Samples>,
    connected: &'a Connection,
}

impl Start<'_> {
    fn send_buffer(&self) -> SendBufferFacts {
        self.connected
            .tuner
            .borrow()
            .facts(&SockRef::from(&*self.connected.socket))
    }
}

async fn work(
    plan: &Plan,
    worklist: &mut dyn Worklist,
    core: &Shared,
    channel: usize,
    start: &Start<'_>,
) -> Result<(), Error> {
    if let Some(root) = worklist.destination() {
        let filter = worklist.filter();
        let listed = tree::list_if_there(core, channel, root, &filter, async |found| worklist.there(found)).await;
        worklist.compared(listed)?;
    }
    tree::make(core, channel, &worklist.directories()).await?;
    let mut trees = JoinSet::new();
    let (told, mut hears) = tokio::sync::mpsc::channel(FOUND_AHEAD);
    for (number, path) in worklist.trees() {
        let (core, told, filter) = (Shared::clone(core), told.clone(), worklist.filter());
        trees.spawn_local(async move {
            let result = tree::list(&core, channel, path, &filter, async |found| {
                let _ = told.send((number, found)).await;
            })
            .await;
            (number, result)
        });
    }
    drop(told);
    let mut running = JoinSet::new();
    let mut busy: Vec<usize> = Vec::new();
    let mut first = Some(start);
    let opening = Opening::default();
    let mut alone = true;
    loop {
        while worklist.has_room()
            && let Ok((tree, found)) = hears.try_recv()
        {
            worklist.found(tree, found);
        }
        busy.resize(*core.watch_channels().borrow(), 0);
        let mut full = false;
        while core.failure().is_none() {
            full = running.len() >= FILES_A_CHANNEL * busy.len()
                || core.backlog() + opening.bytes() >= BACKLOG
                || worklist.is_behind();
            if full {
                break;
            }
            let Some(task) = worklist.next() else { break };
            let on = least(&busy);
            if let Some(count) = busy.get_mut(on) {
                *count += 1;
            }
            alone &= first.is_some() && running.is_empty();
            let reservation = opening.reserve(expected(&task));
            let (core, plan) = (Shared::clone(core), plan.clone());
            running.spawn_local(async move { (on, files::run(core, plan, on, task, reservation).await) });
        }
        tokio::select! {
            Some(joined) = running.join_next(), if !running.is_empty() => {
                let (on, mut outcome): (usize, Outcome) =
                    joined.map_err(|error| Error::transient(format!("a transfer was cut short: {error}")).with_source(error))?;
                if let Some(count) = busy.get_mut(on) {
                    *count -= 1;
                }
                if let Some(start) = first.take() {
                    inherit(&mut outcome, start);
                }
                outcome.facts.remote = Some(start.remote.clone());
                outcome.facts.sndbuf = Some(start.send_buffer());
                if alone {
                    outcome.facts.tcp = start.samples.take().into_vec();
                }
                worklist.done(outcome);
            }
            Some(joined) = trees.join_next(), if !trees.is_empty() => {
                let (number, result) =
                    joined.map_err(|error| Error::transient(format!("a listing was cut short: {error}")).with_source(error))?;
                while let Ok((tree, found)) = hears.try_recv() {
                    worklist.found(tree, found);
                }
                worklist.listed(number, result);
            }
            Some((tree, found)) = hears.recv(), if !trees.is_empty() && worklist.has_room() => worklist.found(tree, found),
            // The next file is opened while the last ones are still on their way.
            () = tokio::time::sleep(Duration::from_millis(5)), if full => {}
            else => break,
        }
    }
    core.failure().map_or(Ok(()), Err)?;
    let (directories, doomed) = worklist.surplus();
    if !doomed.is_empty() {
        let removed = remove::remove(core, channel, &directories, &doomed, |each| worklist.removed(each)).await;
        worklist.cleared(removed)?;
    }
    // Permissions come last, because nothing can be put into a read-only directory, nor removed from it.
    let modes = worklist.modes();
    if modes.is_empty() {
        return Ok(());
    }
    let set = tree::set_modes(core, channel, &modes).await;
    worklist.modes_set(set)
}

fn least(busy: &[usize]) -> usize {
    busy.iter()
        .enumerate()
        .min_by_key(|(_, count)| **count)
        .map_or(0, |(channel, _)| channel)
}

fn expected(task: &FileTask) -> u64 {
    match &task.work {
        Work::Put(outbound) => outbound.length().unwrap_or(BACKLOG),
        Work::Get(_) => task.attrs.as_ref().and_then(|attrs| attrs.size).unwrap_or(0),
    }
}

/// Lets the first file's times begin with the connection's, so that the cost of the connection is counted.
fn inherit(outcome: &mut Outcome, start: &Start<'_>) {
    let phases = &mut outcome.facts.phases;
    let before = start.phases.total_s;
    phases.dns_s = start.phases.dns_s;
    phases.connect_s = start.phases.connect_s;
    phases.kex_s = start.phases.kex_s;
    phases.auth_s = start.phases.auth_s;
    phases.channel_s = start.phases.channel_s;
    if let Some(file) = &mut phases.body_start_s {
        *file += before;
    }
    phases.total_s += before;
}

#[cfg(test)]
mod tests {
    use super::works_side_by_side;

    #[test]
    fn several_channels_are_for_servers_that_were_tried() {
        assert!(works_side_by_side("OpenSSH_9.2p1 Debian-2+deb12u10") && works_side_by_side("dropbear_2022.83"));
        assert!(!works_side_by_side("mod_sftp") && !works_side_by_side(""));
    }
}
