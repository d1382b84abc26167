//! Requests about many names: no round trip for each, and never more of them than a channel tells apart.

use std::collections::VecDeque;

use crate::error::Error;

/// Items that wait for their answers at once: at a round trip of 100 ms, ten thousand a second.
pub const AT_ONCE: usize = 1024;

/// Asks for each of `items` in turn, and judges the answers in the same order. A server works through one channel's requests in
/// order, so an item that needs an earlier one finds that one done.
///
/// # Errors
/// The first error. Nothing further is asked for then, and the outstanding answers are judged.
pub async fn in_turn<T, R, A>(
    items: impl IntoIterator<Item = T>,
    mut ask: impl FnMut(&T) -> A,
    mut judge: impl FnMut(T, R) -> Result<(), Error>,
) -> Result<(), Error>
where
    A: Future<Output = Result<R, Error>>,
{
    let mut items = items.into_iter();
    let mut asked = VecDeque::new();
    let mut result = Ok(());
    loop {
        while result.is_ok()
            && asked.len() < AT_ONCE
            && let Some(item) = items.next()
        {
            let answer = ask(&item);
            asked.push_back((item, answer));
        }
        let Some((item, answer)) = asked.pop_front() else {
            return result;
        };
        let judged = answer.await.and_then(|answer| judge(item, answer));
        result = result.and(judged);
    }
}
