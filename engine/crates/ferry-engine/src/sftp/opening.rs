//! OPEN and OPENDIR within the number of files that the server takes.

use ferry_sftp::{Reply, Request, StatusCode};

use super::core::Core;
use super::handles::Room;
use crate::error::Error;

/// The final answer to an OPEN or OPENDIR whose first answer is `first`: after a refusal that the number of open files may be to
/// blame for, the request is repeated when fewer are open.
pub async fn open(
    core: &Core,
    room: &mut Room,
    first: impl Future<Output = Result<Reply, Error>>,
    again: &Request<'_>,
) -> Result<Reply, Error> {
    let mut reply = first.await?;
    loop {
        match &reply {
            Reply::Handle(_) => room.opened(),
            Reply::Status(status) if status.code == StatusCode::Failure && room.refused() => {
                room.again().await;
                reply = core.call(room.channel(), again).await?;
                continue;
            }
            _ => {}
        }
        return Ok(reply);
    }
}

/// Sends an OPEN or OPENDIR once, for a caller that must not wait because it has a file open.
pub async fn open_now(core: &Core, room: &mut Room, request: &Request<'_>) -> Result<Reply, Error> {
    let reply = core.call(room.channel(), request).await?;
    if matches!(reply, Reply::Handle(_)) {
        room.opened();
    }
    Ok(reply)
}
