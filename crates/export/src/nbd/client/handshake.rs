//! The client's part of the handshake, step by step.

use super::error::{Breach, ClientError};
use super::wire::{info_request, meta_query, option};
use crate::nbd::proto::reader::Reader;
use crate::nbd::proto::{
    BASE_ALLOCATION, MAGIC, MAX_OPTION, OPTION_MAGIC, OptionReply, OptionReplyHeader, handshake_flags,
    info_code, option_code, transmission_flags,
};

/// Bytes of the server's greeting.
const GREETING: usize = 18;

/// The agreement of client and server. Sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Bytes of the export.
    pub size: u64,
    /// See [`transmission_flags`].
    pub flags: u16,
    /// The unit of offsets and lengths.
    pub block: u32,
    /// From this size on writes cost no detour.
    pub preferred: u32,
    /// The largest read or write.
    pub max_payload: u32,
    /// Replies to reads are structured.
    pub structured: bool,
    /// Block status may be asked for.
    pub status: bool,
}

impl Agreed {
    /// Whether a flag of [`transmission_flags`] is set.
    pub fn can(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandshakeStep {
    /// Send `say`, if it is not empty, then wait for `hear` bytes and give them to [`Handshake::next`].
    Exchange {
        /// To be sent.
        say: Vec<u8>,
        /// Bytes to be received.
        hear: usize,
    },
    /// Requests may be sent.
    Done(Agreed),
}

/// The client's part of the handshake as a state machine. It asks for structured replies and block status where that
/// is wanted, does without if the server does not know them, and ends with `GO`.
#[derive(Debug)]
pub struct Handshake {
    name: Vec<u8>,
    wants_structured: bool,
    agreed: Agreed,
    size_known: bool,
    asked: u32,
    state: HandshakeState,
}

#[derive(Debug)]
enum HandshakeState {
    Greeting,
    Header,
    Data(OptionReplyHeader),
}

impl Handshake {
    /// A client that wants the export of that name (empty: the default one), with structured replies and block status
    /// or without.
    pub fn new(name: &str, structured: bool) -> Self {
        let agreed = Agreed {
            size: 0,
            flags: 0,
            // The protocol's default where the server names no block size.
            block: 1,
            preferred: 4096,
            max_payload: 32 << 20,
            structured: false,
            status: false,
        };
        Self {
            name: name.as_bytes().to_vec(),
            wants_structured: structured,
            agreed,
            size_known: false,
            asked: 0,
            state: HandshakeState::Greeting,
        }
    }

    /// The first step.
    pub fn begin(&self) -> HandshakeStep {
        HandshakeStep::Exchange { say: Vec::new(), hear: GREETING }
    }

    /// The next step after the bytes that the last one has waited for.
    ///
    /// # Errors
    /// - [`ClientError::NotNbd`]: the server greets in another protocol, or an old one.
    /// - [`ClientError::Refused`]: it does not give the export.
    /// - [`ClientError::Broken`] with [`Breach::OptionReply`] or [`Breach::NoSize`].
    pub fn next(&mut self, heard: &[u8]) -> Result<HandshakeStep, ClientError> {
        match self.state {
            HandshakeState::Greeting => self.greeted(heard),
            HandshakeState::Header => {
                let header = heard.try_into().ok().and_then(OptionReplyHeader::decode);
                let header =
                    header.filter(|header| header.option == self.asked).ok_or(Breach::OptionReply)?;
                if header.len as usize > MAX_OPTION {
                    return Err(Breach::OptionReply.into());
                }
                if header.len == 0 {
                    return self.replied(header, &[]);
                }
                self.state = HandshakeState::Data(header);
                Ok(HandshakeStep::Exchange { say: Vec::new(), hear: header.len as usize })
            }
            HandshakeState::Data(header) => self.replied(header, heard),
        }
    }

    fn greeted(&mut self, heard: &[u8]) -> Result<HandshakeStep, ClientError> {
        let mut from = Reader(heard);
        let (magic, style, flags) = (from.u64(), from.u64(), from.u16().unwrap_or(0));
        let fixed = flags & handshake_flags::FIXED_NEWSTYLE != 0;
        if magic != Some(MAGIC) || style != Some(OPTION_MAGIC) || !fixed {
            return Err(ClientError::NotNbd);
        }
        let ours = handshake_flags::FIXED_NEWSTYLE | flags & handshake_flags::NO_ZEROES;
        let mut say = u32::from(ours).to_be_bytes().to_vec();
        let first = if self.wants_structured { option_code::STRUCTURED_REPLY } else { option_code::GO };
        say.extend(self.ask(first));
        Ok(self.wait(say))
    }

    fn ask(&mut self, code: u32) -> Vec<u8> {
        self.asked = code;
        match code {
            option_code::GO => option(code, &info_request(&self.name, &[info_code::BLOCK_SIZE])),
            option_code::SET_META_CONTEXT => {
                option(code, &meta_query(&self.name, &[BASE_ALLOCATION.as_bytes()]))
            }
            _ => option(code, &[]),
        }
    }

    fn wait(&mut self, say: Vec<u8>) -> HandshakeStep {
        self.state = HandshakeState::Header;
        HandshakeStep::Exchange { say, hear: OptionReplyHeader::BYTES }
    }

    fn replied(&mut self, header: OptionReplyHeader, data: &[u8]) -> Result<HandshakeStep, ClientError> {
        const ACK: u32 = OptionReply::Ack as u32;
        let is_error = header.reply >> 31 == 1;
        if header.reply != ACK && !is_error {
            self.partial_reply(header.reply, data)?;
            return Ok(self.wait(Vec::new()));
        }
        let next = match self.asked {
            option_code::GO if is_error => {
                let message = String::from_utf8_lossy(data).into_owned();
                return Err(ClientError::Refused { code: header.reply, message });
            }
            option_code::GO if !self.size_known => return Err(Breach::NoSize.into()),
            option_code::GO => return Ok(HandshakeStep::Done(self.agreed)),
            option_code::STRUCTURED_REPLY if !is_error => {
                self.agreed.structured = true;
                option_code::SET_META_CONTEXT
            }
            _ => option_code::GO, // the client does without
        };
        let say = self.ask(next);
        Ok(self.wait(say))
    }

    /// A reply that is not the option's last.
    fn partial_reply(&mut self, reply: u32, data: &[u8]) -> Result<(), Breach> {
        let mut from = Reader(data);
        if reply == OptionReply::MetaContext as u32 {
            self.agreed.status = true;
        }
        if reply != OptionReply::Info as u32 {
            return Ok(());
        }
        match from.u16() {
            Some(info_code::EXPORT) => {
                self.agreed.size = from.u64().ok_or(Breach::NoSize)?;
                self.agreed.flags = from.u16().ok_or(Breach::NoSize)?;
                self.size_known = self.agreed.can(transmission_flags::HAS_FLAGS);
            }
            Some(info_code::BLOCK_SIZE) => {
                if let (Some(block), Some(preferred), Some(most)) = (from.u32(), from.u32(), from.u32()) {
                    self.agreed.block = block.max(1);
                    self.agreed.preferred = preferred;
                    self.agreed.max_payload = most;
                }
            }
            _ => {}
        }
        Ok(())
    }
}
