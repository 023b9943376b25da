//! The answer to each option: pure.

use brindle_volume::Limits;

use crate::nbd::proto::{
    BASE_ALLOCATION, BASE_ALLOCATION_ID, ClientFlags, InfoRequest, MAX_STRING, MetaQuery,
    OptionReply as Reply, Terms, export_name_reply, info_block_size, info_code, info_export, info_text,
    meta_context, option_code as code, option_reply, server_entry,
};

/// The description of an export for clients.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    /// Exports are numbered as they are added. A number is never used again, so that one export is not taken for another
    /// when some end.
    pub(crate) number: usize,
    /// The export for clients that name none.
    pub(crate) is_default: bool,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) limits: Limits,
}

/// How the handshake ended: the number of the offer, and on which terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) number: usize,
    pub(crate) terms: Terms,
}

/// The step after the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Continue,
    Close,
    Serve(Chosen),
    /// TLS begins.
    Secure,
}

/// How a connection stands to TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tls {
    /// The server has no TLS.
    None,
    /// The client may ask for TLS.
    Offered,
    /// The server answers nothing else before TLS is spoken.
    Demanded,
    /// The connection speaks TLS.
    Spoken,
}

/// The choices that a client has made so far.
pub(super) struct Haggle {
    flags: ClientFlags,
    max_payload: u32,
    structured: bool,
    /// The number of the offer for which `base:allocation` is chosen.
    context: Option<usize>,
    /// An export was chosen that is not offered.
    pub(super) in_vain: bool,
    tls: Tls,
}

/// The offer of that name; the empty name is the default offer's, unless one has just that name.
fn find<'a>(offers: &'a [Offer], name: &[u8]) -> Option<&'a Offer> {
    let named = offers.iter().find(|offer| offer.name.as_bytes() == name);
    named.or_else(|| offers.iter().find(|offer| name.is_empty() && offer.is_default))
}

/// The message for an export that [`find`] does not find.
fn unknown(offers: &[Offer], name: &[u8]) -> String {
    let mut message = match name {
        b"" => "there is no default export: choose one by its name",
        _ => "there is no export of this name",
    }
    .to_owned();
    for (at, offer) in offers.iter().enumerate() {
        let more = format!("{}'{}'", if at == 0 { "; exports: " } else { ", " }, offer.name.escape_debug());
        if message.len() + more.len() > MAX_STRING - 4 {
            message.push_str(" ...");
            break;
        }
        message.push_str(&more);
    }
    message
}

impl Haggle {
    pub(super) fn new(flags: ClientFlags, max_payload: u32, tls: Tls) -> Self {
        Self { flags, max_payload, structured: false, context: None, in_vain: false, tls }
    }

    fn start_tls(&self, data: &[u8]) -> (Reply, &'static [u8], Next) {
        match self.tls {
            Tls::None => (Reply::ErrUnsup, b"this server does not offer TLS", Next::Continue),
            Tls::Spoken => (Reply::ErrInvalid, b"TLS is spoken already", Next::Continue),
            _ if !data.is_empty() => (Reply::ErrInvalid, b"this option takes no data", Next::Continue),
            Tls::Offered | Tls::Demanded => (Reply::Ack, b"", Next::Secure),
        }
    }

    /// Answers an option whose data were too long to be kept.
    pub(super) fn too_big(&mut self, option: u32, out: &mut Vec<u8>) -> Next {
        match option {
            // There is no way to refuse it but to hang up.
            code::EXPORT_NAME => Next::Close,
            code::ABORT => self.option(option, &[], &[], out),
            _ => {
                if option == code::SET_META_CONTEXT {
                    self.context = None;
                }
                option_reply(out, option, Reply::ErrTooBig, b"the option is longer than this server reads");
                Next::Continue
            }
        }
    }

    /// Answers an option: appends the replies to `out`.
    pub(super) fn option(&mut self, option: u32, data: &[u8], offers: &[Offer], out: &mut Vec<u8>) -> Next {
        let (reply, message): (_, &[u8]) = match option {
            code::EXPORT_NAME if self.tls == Tls::Demanded => return Next::Close,
            code::EXPORT_NAME => return self.export_name(data, offers, out),
            code::ABORT => {
                option_reply(out, option, Reply::Ack, &[]);
                return Next::Close;
            }
            code::STARTTLS => {
                let (reply, message, next) = self.start_tls(data);
                option_reply(out, option, reply, message);
                return next;
            }
            _ if self.tls == Tls::Demanded => {
                (Reply::ErrTlsRequired, b"this server speaks TLS only: start it")
            }
            code::LIST if data.is_empty() => {
                for offer in offers {
                    option_reply(out, option, Reply::Server, &server_entry(&offer.name, &offer.description));
                }
                (Reply::Ack, b"")
            }
            code::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                (Reply::Ack, b"")
            }
            code::LIST | code::STRUCTURED_REPLY => (Reply::ErrInvalid, b"this option takes no data"),
            code::INFO | code::GO => return self.info(option, data, offers, out),
            code::LIST_META_CONTEXT | code::SET_META_CONTEXT => self.meta(option, data, offers, out),
            _ => (Reply::ErrUnsup, b"this option is not known here"),
        };
        option_reply(out, option, reply, message);
        Next::Continue
    }

    fn terms(&self, offer: &Offer) -> Terms {
        Terms {
            limits: offer.limits,
            max_payload: self.max_payload,
            structured: self.structured,
            status: self.structured && self.context == Some(offer.number),
        }
    }

    fn export_name(&mut self, name: &[u8], offers: &[Offer], out: &mut Vec<u8>) -> Next {
        let found = if name.len() > MAX_STRING { None } else { find(offers, name) };
        let Some(offer) = found else {
            self.in_vain = true;
            return Next::Close;
        };
        let terms = self.terms(offer);
        out.extend(export_name_reply(offer.limits.size, terms.transmission_flags(), self.flags.no_zeroes));
        Next::Serve(Chosen { number: offer.number, terms })
    }

    fn info(&mut self, option: u32, data: &[u8], offers: &[Offer], out: &mut Vec<u8>) -> Next {
        let Some(wanted) = InfoRequest::decode(data) else {
            option_reply(out, option, Reply::ErrInvalid, b"the option's data are not well-formed");
            return Next::Continue;
        };
        let Some(offer) = find(offers, wanted.name) else {
            self.in_vain = option == code::GO;
            option_reply(out, option, Reply::ErrUnknown, unknown(offers, wanted.name).as_bytes());
            return Next::Continue;
        };
        let terms = self.terms(offer);
        let mut info = |data: &[u8]| option_reply(out, option, Reply::Info, data);
        info(&info_export(offer.limits.size, terms.transmission_flags()));
        if wanted.wants_name {
            info(&info_text(info_code::NAME, &offer.name));
        }
        if wanted.wants_description {
            info(&info_text(info_code::DESCRIPTION, &offer.description));
        }
        if wanted.wants_block_size {
            info(&info_block_size(offer.limits.block, terms.preferred(), terms.max_payload));
        }
        option_reply(out, option, Reply::Ack, &[]);
        let chosen = Chosen { number: offer.number, terms };
        if option == code::GO { Next::Serve(chosen) } else { Next::Continue }
    }

    /// Lists or sets contexts; returns the final reply.
    fn meta(
        &mut self,
        option: u32,
        data: &[u8],
        offers: &[Offer],
        out: &mut Vec<u8>,
    ) -> (Reply, &'static [u8]) {
        let set = option == code::SET_META_CONTEXT;
        if set {
            self.context = None; // also if this one fails
        }
        if !self.structured {
            return (Reply::ErrInvalid, b"ask for structured replies first");
        }
        let Some(asked) = MetaQuery::decode(data) else {
            return (Reply::ErrInvalid, b"the option's data are not well-formed");
        };
        let Some(offer) = find(offers, asked.name) else {
            return (Reply::ErrUnknown, b"there is no export of this name");
        };
        let named = asked.queries.contains(&BASE_ALLOCATION.as_bytes());
        let listed = !set && (asked.queries.is_empty() || asked.queries.contains(&b"base:".as_slice()));
        if named || listed {
            let id = if set { BASE_ALLOCATION_ID } else { 0 };
            option_reply(out, option, Reply::MetaContext, &meta_context(id, BASE_ALLOCATION));
        }
        if set && named {
            self.context = Some(offer.number);
        }
        (Reply::Ack, b"")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::nbd::proto::{MAX_OPTION, OptionReplyHeader};

    fn offers() -> Vec<Offer> {
        let limits =
            Limits { size: 1 << 20, block: 512, preferred: 0, optimal: 0, read_only: false, discard: true };
        let offer = |number, name: &str, is_default| Offer {
            number,
            is_default,
            name: name.to_owned(),
            description: "of a test".to_owned(),
            limits,
        };
        // Offers with gaps in their numbers, as if some had ended.
        vec![offer(3, "a", true), offer(7, "b", false)]
    }

    /// Replies to `option` in `bytes`; `None` if they are not whole.
    fn replies(mut bytes: &[u8], option: u32) -> Option<Vec<u32>> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let (header, rest) = bytes.split_first_chunk()?;
            let header = OptionReplyHeader::decode(header)?;
            if header.option != option {
                return None;
            }
            found.push(header.reply);
            bytes = rest.split_at_checked(header.len as usize)?.1;
        }
        Some(found)
    }

    fn options() -> impl Strategy<Value = (u32, Vec<u8>)> {
        let name = prop_oneof![Just(vec![]), Just(b"a".to_vec()), prop::collection::vec(any::<u8>(), 0..4)];
        let query = prop_oneof![Just(BASE_ALLOCATION.as_bytes().to_vec()), Just(b"base:".to_vec())];
        let meta =
            (name, prop::collection::vec(query, 0..3), any::<bool>()).prop_map(|(name, queries, go)| {
                let mut data = (name.len() as u32).to_be_bytes().to_vec();
                data.extend(name);
                if go {
                    data.extend([0, 1, 0, 3]);
                    return data;
                }
                data.extend((queries.len() as u32).to_be_bytes());
                for query in queries {
                    data.extend((query.len() as u32).to_be_bytes());
                    data.extend(query);
                }
                data
            });
        let data = prop_oneof![Just(vec![]), meta, prop::collection::vec(any::<u8>(), 0..64)];
        (prop_oneof![0u32..13, any::<u32>()], data)
    }

    proptest! {
        #[test]
        fn every_option_has_one_last_reply(asked in prop::collection::vec(options(), 1..20)) {
            let mut haggle = Haggle::new(ClientFlags { no_zeroes: true }, 32 << 20, Tls::None);
            for (option, data) in asked {
                let mut out = Vec::new();
                let next = haggle.option(option, &data, &offers(), &mut out);
                if let Next::Serve(chosen) = next {
                    prop_assert!(option == code::GO || option == code::EXPORT_NAME);
                    prop_assert!([3, 7].contains(&chosen.number) && (haggle.structured || !chosen.terms.status));
                }
                if option == code::EXPORT_NAME {
                    prop_assert!(next != Next::Continue);
                    continue;
                }
                let replies = replies(&out, option);
                let replies = replies.ok_or_else(|| TestCaseError::fail("replies are cut or misnamed"))?;
                let (last, others) = replies.split_last().ok_or_else(|| TestCaseError::fail("no reply"))?;
                prop_assert!(*last == 1 || last >> 31 == 1);
                prop_assert!(others.iter().all(|reply| (2..=4).contains(reply)));
                prop_assert_eq!(matches!(next, Next::Serve(_)), option == code::GO && *last == 1);
            }
        }

        #[test]
        fn what_is_said_of_an_unknown_name_is_no_longer_than_a_string_may_be(
            names in prop::collection::vec("\\PC{0,4096}", 0..5),
            asked in prop::collection::vec(any::<u8>(), 0..3),
        ) {
            let offers: Vec<Offer> =
                names.into_iter().map(|name| Offer { name, ..offers()[1].clone() }).collect();
            let said = unknown(&offers, &asked);
            prop_assert!(said.len() <= MAX_STRING, "{} bytes", said.len());
            prop_assert!(offers.is_empty() || said.contains('\'') || said.ends_with(" ..."));
        }

        #[test]
        fn what_is_too_big_is_refused_or_ends_it(option: u32) {
            let mut haggle = Haggle::new(ClientFlags { no_zeroes: true }, 32 << 20, Tls::None);
            let mut out = Vec::new();
            let next = haggle.too_big(option, &mut out);
            prop_assert_eq!(next == Next::Close, matches!(option, code::EXPORT_NAME | code::ABORT));
            prop_assert!(out.len() < MAX_OPTION);
        }
    }
}
