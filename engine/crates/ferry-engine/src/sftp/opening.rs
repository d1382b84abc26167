//! OPEN and OPENDIR within the number of files that the server takes.

use ferry_sftp::{Reply, Request, StatusCode};

use super::core::Core;
use super::handles::Room;
use crate::error::Error;

/// The answer to an OPEN or OPENDIR whose first answer is `first`: asked again when fewer files are open, if their number may be to blame.
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

/// The same for who must not wait, because a file of its own is open.
pub async fn open_now(core: &Core, room: &mut Room, request: &Request<'_>) -> Result<Reply, Error> {
    let reply = core.call(room.channel(), request).await?;
    if matches!(reply, Reply::Handle(_)) {
        room.opened();
    }
    Ok(reply)
}
