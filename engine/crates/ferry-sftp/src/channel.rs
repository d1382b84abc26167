//! One SFTP channel.

use crate::error::{FeedError, ProtocolError};
use crate::extensions::Extensions;
use crate::reply::{Handle, Reply};
use crate::request::{Request, put_write};
use crate::slab::{Expect, Slab};
use crate::wire::{Fields, begin_packet, end_packet, kind, put_u32};

const VERSION: u32 = 3;

/// The longest packet that is accepted, DATA aside: 256 KiB, as OpenSSH, and some room.
pub const MAX_PACKET: u32 = (256 << 10) + 1024;
/// The longest DATA packet that is accepted: 1 MiB of data and some room.
pub const MAX_DATA_PACKET: u32 = (1 << 20) + 1024;

/// An event that [`Channel::feed`] reports.
#[derive(Debug)]
pub enum Event<'a, T> {
    /// The server answered INIT: [`Channel::extensions`] is known from now on.
    Version,
    /// A part of the data of a READ, never empty.
    Data {
        /// The context given with the request.
        context: &'a mut T,
        /// Bytes of data in the complete reply.
        length: u32,
        /// Bytes of data that came before this part.
        at: u32,
        /// The part, a slice of the bytes fed.
        bytes: &'a [u8],
    },
    /// A request has ended. For READ this is after its last part.
    Reply {
        /// The context given with the request.
        context: T,
        /// The answer.
        reply: Reply,
    },
}

/// One SFTP channel: writes requests, reads replies, and matches them by their ids. `T` is the caller's context, which
/// comes back with the reply.
#[derive(Debug)]
pub struct Channel<T> {
    slab: Slab<T>,
    greeting: Greeting,
    dead: bool,
    phase: Phase,
    /// The head of the current packet: its length, its type, and for DATA the id and the data's length.
    head: [u8; DATA_HEAD],
    have: usize,
    /// The body of a packet that came in parts; the buffer is kept for its capacity.
    body: Vec<u8>,
}

const HEAD: usize = 5;
const DATA_HEAD: usize = 13;

#[derive(Debug)]
enum Greeting {
    None,
    Sent,
    Answered(Extensions),
}

/// The part of a packet that the next byte belongs to.
#[derive(Copy, Clone, Debug)]
enum Phase {
    Head,
    /// The body of a packet that is parsed once complete; `left` bytes are still to come.
    Body {
        left: usize,
    },
    Data {
        id: u32,
        length: u32,
        at: u32,
        trailing: usize,
    },
    /// Bytes behind the last field of a DATA packet. The draft has none, but only its length says where the next begins.
    Trailing {
        left: usize,
    },
}

impl<T> Default for Channel<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Channel<T> {
    /// A channel on which nothing has been sent or received.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            slab: Slab::new(),
            greeting: Greeting::None,
            dead: false,
            phase: Phase::Head,
            head: [0; DATA_HEAD],
            have: 0,
            body: Vec::new(),
        }
    }

    /// Appends INIT (section 4). It has to be the first packet; requests may follow without waiting for the answer, though
    /// the server's extensions are then not known.
    pub fn hello(&mut self, out: &mut Vec<u8>) {
        let begin = begin_packet(out, kind::INIT);
        put_u32(out, VERSION);
        end_packet(out, begin, 0);
        if matches!(self.greeting, Greeting::None) {
            self.greeting = Greeting::Sent;
        }
    }

    /// Appends one packet and returns its id. On a dead channel the context waits for [`Self::abandon`].
    ///
    /// # Panics
    /// Above [`MAX_IN_FLIGHT`](crate::MAX_IN_FLIGHT) requests in flight.
    #[inline]
    pub fn request(&mut self, request: &Request<'_>, context: T, out: &mut Vec<u8>) -> u32 {
        let (packet, expect) = request.expect();
        let id = self.slab.insert(expect, context);
        request.put(packet, id, out);
        id
    }

    /// Appends a WRITE up to its data and returns its id. The caller has to append exactly `length` bytes (below 4 GiB less
    /// 512 bytes) before anything else. The answer is a status (6.4).
    ///
    /// # Panics
    /// Above [`MAX_IN_FLIGHT`](crate::MAX_IN_FLIGHT) requests in flight.
    #[inline]
    pub fn write_header(&mut self, handle: &Handle, offset: u64, length: u32, context: T, out: &mut Vec<u8>) -> u32 {
        let id = self.slab.insert(Expect::new("WRITE", kind::STATUS), context);
        put_write(id, handle, offset, length, out);
        id
    }

    /// Takes the server's bytes, in pieces of any size, and reports their events. Neither data nor an acknowledgement
    /// allocates; a packet other than DATA that comes in parts is kept until it is complete.
    ///
    /// # Errors
    /// [`FeedError::Protocol`] when the server broke the rules, [`FeedError::Caller`] with the error of `on`. Either way
    /// the rest of `bytes` is lost and the channel is dead: contexts come out of [`Self::abandon`].
    pub fn feed<E>(
        &mut self,
        bytes: &[u8],
        mut on: impl FnMut(Event<'_, T>) -> Result<(), E>,
    ) -> Result<(), FeedError<E>> {
        if self.dead {
            return Err(ProtocolError::Dead.into());
        }
        let result = self.advance(bytes, &mut on);
        self.dead = result.is_err();
        result
    }

    /// Requests that are not answered.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.slab.len()
    }

    /// The extensions that the server announced; `None` before VERSION.
    #[must_use]
    pub fn extensions(&self) -> Option<&Extensions> {
        match &self.greeting {
            Greeting::Answered(extensions) => Some(extensions),
            Greeting::None | Greeting::Sent => None,
        }
    }

    /// The contexts of all requests in flight, which will never be answered. The channel is dead afterwards.
    pub fn abandon(&mut self) -> Vec<T> {
        self.dead = true;
        self.slab.drain()
    }

    fn advance<E>(
        &mut self,
        mut bytes: &[u8],
        on: &mut impl FnMut(Event<'_, T>) -> Result<(), E>,
    ) -> Result<(), FeedError<E>> {
        while !bytes.is_empty() {
            match self.phase {
                Phase::Head => {
                    let wanted = self.head_length() - self.have;
                    let (part, rest) = bytes.split_at(wanted.min(bytes.len()));
                    let free = self.head.iter_mut().skip(self.have);
                    free.zip(part).for_each(|(to, from)| *to = *from);
                    self.have += part.len();
                    bytes = rest;
                    if part.len() == wanted {
                        self.after_head(on)?;
                    }
                }
                Phase::Body { left } => {
                    let (part, rest) = bytes.split_at(left.min(bytes.len()));
                    bytes = rest;
                    self.part_of_body(part, left, on)?;
                }
                Phase::Data {
                    id,
                    length,
                    at,
                    trailing,
                } => {
                    let (part, rest) = bytes.split_at(bytes.len().min((length - at) as usize));
                    bytes = rest;
                    let (_, context) = self.slab.get(id).ok_or(ProtocolError::UnknownId { id })?;
                    let data = Event::Data {
                        context,
                        length,
                        at,
                        bytes: part,
                    };
                    on(data).map_err(FeedError::Caller)?;
                    // At most `length - at`, so it fits.
                    let at = at + u32::try_from(part.len()).unwrap_or(0);
                    if at == length {
                        self.end_of_data(id, length, trailing, on)?;
                    } else {
                        self.phase = Phase::Data {
                            id,
                            length,
                            at,
                            trailing,
                        };
                    }
                }
                Phase::Trailing { left } => {
                    let skipped = left.min(bytes.len());
                    bytes = bytes.get(skipped..).unwrap_or_default();
                    self.phase = skip(left - skipped);
                }
            }
        }
        Ok(())
    }

    /// Bytes of the head that are needed before it can be looked at (again).
    fn head_length(&self) -> usize {
        if self.have >= HEAD && self.head[4] == kind::DATA {
            DATA_HEAD
        } else {
            HEAD
        }
    }

    /// The length and the type are there, and for DATA perhaps the id and the length of the data.
    fn after_head<E>(&mut self, on: &mut impl FnMut(Event<'_, T>) -> Result<(), E>) -> Result<(), FeedError<E>> {
        let [l0, l1, l2, l3, packet, id @ .., d0, d1, d2, d3] = self.head;
        let length = u32::from_be_bytes([l0, l1, l2, l3]);
        if self.have == HEAD {
            self.check_head(packet, length)?;
            if packet != kind::DATA {
                let left = length as usize - 1;
                self.phase = Phase::Body { left };
                self.have = 0;
            }
            return Ok(());
        }
        self.have = 0;
        let id = u32::from_be_bytes(id);
        let (expect, _) = self.slab.get(id).ok_or(ProtocolError::UnknownId { id })?;
        if expect.kind != kind::DATA {
            let request = expect.request;
            return Err(ProtocolError::WrongReply { kind: packet, request }.into());
        }
        let data = u32::from_be_bytes([d0, d1, d2, d3]);
        // `check_head` has seen to it that the nine bytes are there.
        let room = length - 9;
        if data > room {
            return Err(ProtocolError::DataBeyondPacket { length: data, room }.into());
        }
        if data > expect.length {
            let asked = expect.length;
            return Err(ProtocolError::TooMuchData { asked, length: data }.into());
        }
        let trailing = (room - data) as usize;
        if data == 0 {
            return self.end_of_data(id, data, trailing, on);
        }
        self.phase = Phase::Data {
            id,
            length: data,
            at: 0,
            trailing,
        };
        Ok(())
    }

    /// Refuses a packet that cannot be a reply before any byte of its body is kept.
    fn check_head(&self, packet: u8, length: u32) -> Result<(), ProtocolError> {
        match (packet, &self.greeting) {
            (kind::VERSION, Greeting::None) => return Err(ProtocolError::BeforeInit),
            (kind::VERSION, Greeting::Answered(_)) => return Err(ProtocolError::SecondVersion),
            (kind::VERSION, Greeting::Sent)
            | (kind::STATUS..=kind::ATTRS | kind::EXTENDED_REPLY, Greeting::Answered(_)) => {}
            (kind, Greeting::Answered(_)) => return Err(ProtocolError::UnknownKind { kind }),
            (kind, _) => return Err(ProtocolError::BeforeVersion { kind }),
        }
        // The type and the id, or the version; and the data's length.
        let (least, most) = if packet == kind::DATA {
            (9, MAX_DATA_PACKET)
        } else {
            (5, MAX_PACKET)
        };
        if length < least {
            return Err(ProtocolError::Truncated);
        }
        if length > most {
            return Err(ProtocolError::PacketTooLong { length, most });
        }
        Ok(())
    }

    fn end_of_data<E>(
        &mut self,
        id: u32,
        length: u32,
        trailing: usize,
        on: &mut impl FnMut(Event<'_, T>) -> Result<(), E>,
    ) -> Result<(), FeedError<E>> {
        self.phase = skip(trailing);
        let context = self.slab.remove(id).ok_or(ProtocolError::UnknownId { id })?;
        let reply = Reply::Data { length };
        on(Event::Reply { context, reply }).map_err(FeedError::Caller)
    }

    fn part_of_body<E>(
        &mut self,
        part: &[u8],
        left: usize,
        on: &mut impl FnMut(Event<'_, T>) -> Result<(), E>,
    ) -> Result<(), FeedError<E>> {
        if part.len() < left {
            self.body.extend_from_slice(part);
            self.phase = Phase::Body {
                left: left - part.len(),
            };
            return Ok(());
        }
        self.phase = Phase::Head;
        if self.body.is_empty() {
            return self.packet(part, on);
        }
        let mut body = std::mem::take(&mut self.body);
        body.extend_from_slice(part);
        let result = self.packet(&body, on);
        body.clear();
        self.body = body;
        result
    }

    /// Handles a complete packet other than DATA; `body` follows the type.
    fn packet<E>(
        &mut self,
        body: &[u8],
        on: &mut impl FnMut(Event<'_, T>) -> Result<(), E>,
    ) -> Result<(), FeedError<E>> {
        let packet = self.head[4];
        let mut fields = Fields(body);
        if packet == kind::VERSION {
            let version = fields.u32()?;
            // The lower of both sides' versions is spoken (section 4), so more than 3 cannot be right either.
            if version != VERSION {
                return Err(ProtocolError::WrongVersion { version }.into());
            }
            self.greeting = Greeting::Answered(Extensions::parse(&mut fields)?);
            return on(Event::Version).map_err(FeedError::Caller);
        }
        let id = fields.u32()?;
        let (expect, _) = self.slab.get(id).ok_or(ProtocolError::UnknownId { id })?;
        let reply = Reply::parse(packet, expect, &mut fields)?;
        let context = self.slab.remove(id).ok_or(ProtocolError::UnknownId { id })?;
        on(Event::Reply { context, reply }).map_err(FeedError::Caller)
    }
}

fn skip(left: usize) -> Phase {
    if left == 0 {
        Phase::Head
    } else {
        Phase::Trailing { left }
    }
}
