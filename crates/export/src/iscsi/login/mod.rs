//! Login: from the first PDU of a connection to full feature phase, or to a refusal (RFC 7143, 6.3).
//!
//! Pure: a request comes in, its reply goes out. Who asks has proved itself, if that is demanded, before anything that it
//! says has an effect on others.

mod chap;
mod parameters;
mod text;

pub use chap::{Chap, ChapError, Credentials, Hash, SHORTEST as SHORTEST_SECRET};
pub use parameters::{Agreed, MOST_RECEIVED};
pub use text::{Keys, TextError, put};

use super::pdu::{Header, request, response};

/// The most text that is collected from PDUs that belong together. Bytes.
const MOST_TEXT: usize = 16 << 10;
/// The most PDUs of a login.
const MOST_STEPS: u32 = 32;

/// The questions of a login to the server.
pub trait Door {
    /// The number of a target.
    ///
    /// # Errors
    /// An initiator of this name that has proved that one, or none, may not use it.
    fn target(&self, name: &str, initiator: &str, proved: Option<&str>) -> Result<usize, Refusal>;
    /// The secrets by which initiators have to prove themselves; `None` if they need not.
    fn chap(&self) -> Option<&Chap>;
    /// Fills with bytes that nobody can guess.
    fn random(&self, bytes: &mut [u8]);
    /// The tag of the portal group by which the connection has come.
    fn group(&self) -> u16;
}

/// A session that has logged in: its initiator, its target, its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedIn {
    /// The initiator's name.
    pub initiator: String,
    /// The number that tells apart the sessions of one initiator.
    pub isid: [u8; 6],
    /// The number of the target; `None` for discovery.
    pub target: Option<usize>,
    /// The name that was proved by CHAP.
    pub proved: Option<String>,
    /// The parameters agreed on.
    pub agreed: Agreed,
    /// The number of the next command.
    pub command: u32,
    /// The number of the next status.
    pub status: u32,
}

/// Why a login is refused: class and detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message says it")]
pub enum Refusal {
    #[error("it does not keep to the protocol")]
    Protocol,
    #[error("it has not authenticated")]
    Authentication,
    #[error(
        "the initiator's name is another's, who has proved another name: give each initiator a secret under its own"
    )]
    Forbidden,
    #[error("there is no such target")]
    NotFound,
    #[error("it speaks another version")]
    Version,
    #[error("a session has one connection")]
    Connections,
    #[error("it has not said who it is, or which target it wants")]
    Missing,
    #[error("there are no sessions of this type")]
    Type,
    #[error("there is no such session")]
    Session,
    #[error("the server ends, or is not ready")]
    Unavailable,
    #[error("there are as many connections as may be")]
    Full,
}

impl Refusal {
    /// Class and detail.
    pub const fn code(self) -> [u8; 2] {
        match self {
            Self::Protocol => [2, 0x00],
            Self::Authentication => [2, 0x01],
            Self::Forbidden => [2, 0x02],
            Self::NotFound => [2, 0x03],
            Self::Version => [2, 0x05],
            Self::Connections => [2, 0x06],
            Self::Missing => [2, 0x07],
            Self::Type => [2, 0x09],
            Self::Session => [2, 0x0a],
            Self::Unavailable => [3, 0x01],
            Self::Full => [3, 0x02],
        }
    }

    /// The reply of this refusal that takes the place of another.
    #[must_use]
    pub fn in_place_of(self, reply: Header) -> Header {
        let [class, detail] = self.code();
        let reply = reply.byte(1, 0).byte(36, class).byte(37, detail).with_data(0);
        reply.byte(14, 0).byte(15, 0)
    }
}

/// The outcome of one PDU of the login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginStep {
    /// The login goes on once this has been sent.
    More(Header, Vec<u8>),
    /// The login is over once this has been sent.
    Done(Header, Vec<u8>, Box<LoggedIn>),
    /// The login is refused: this is sent, and the connection closed.
    Refused(Header, Refusal),
}

/// Progress of the initiator's authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Proof {
    /// The initiator has not begun to authenticate.
    Open,
    /// CHAP was agreed on.
    Chap,
    /// The initiator was sent a challenge.
    Asked { hash: Hash, id: u8, challenge: Vec<u8> },
    /// The initiator has authenticated, with this name.
    Given(String),
    /// The initiator need not authenticate.
    NotNeeded,
}

const SECURITY: u8 = 0;
const OPERATIONAL: u8 = 1;
const FULL: u8 = 3;

/// A login under way.
pub struct Login {
    stage: u8,
    steps: u32,
    proof: Proof,
    initiator: Option<String>,
    isid: [u8; 6],
    discovers: bool,
    /// The name of the target that it wants, and the target's number.
    wanted: String,
    target: Option<usize>,
    agreed: Agreed,
    declared: bool,
    collected: Vec<u8>,
    status: u32,
}

impl Default for Login {
    fn default() -> Self {
        Self {
            stage: SECURITY,
            steps: 0,
            proof: Proof::Open,
            initiator: None,
            isid: [0; 6],
            discovers: false,
            wanted: String::new(),
            target: None,
            agreed: Agreed::default(),
            declared: false,
            collected: Vec::new(),
            status: 0,
        }
    }
}

impl Login {
    /// Takes a PDU.
    pub fn step(&mut self, header: &Header, data: &[u8], door: &dyn Door) -> LoginStep {
        let first = self.steps == 0;
        if first {
            self.status = header.word(28);
        }
        self.steps += 1;
        match self.take(header, data, door, first) {
            Ok((text, next)) => self.reply(header, text, next),
            Err(refusal) => LoginStep::Refused(refusal.in_place_of(self.header(header, 0)), refusal),
        }
    }

    /// The refusal of a PDU that is not looked at; `None` if it is none of a login, and gets no answer.
    pub fn refuse(&mut self, header: &Header, refusal: Refusal) -> Option<Header> {
        if header.opcode() != request::LOGIN {
            return None;
        }
        if self.steps == 0 {
            self.status = header.word(28);
        }
        Some(refusal.in_place_of(self.header(header, 0)))
    }

    /// Something of a login has come.
    pub fn has_begun(&self) -> bool {
        self.steps > 0
    }

    /// The name that was proved so far.
    pub fn proved(&self) -> Option<&str> {
        if let Proof::Given(name) = &self.proof { Some(name) } else { None }
    }

    fn reply(&mut self, header: &Header, text: Vec<u8>, next: Option<u8>) -> LoginStep {
        let stages = self.stage << 2 | next.map_or(0, |next| 0x80 | next);
        let reply = self.header(header, stages).with_data(text.len());
        self.status = self.status.wrapping_add(1);
        self.stage = next.unwrap_or(self.stage);
        if next != Some(FULL) {
            return LoginStep::More(reply, text);
        }
        let proved = self.proved().map(str::to_owned);
        let logged_in = LoggedIn {
            initiator: self.initiator.clone().unwrap_or_default(),
            isid: self.isid,
            target: self.target,
            proved,
            agreed: self.agreed,
            command: header.word(24),
            status: self.status,
        };
        LoginStep::Done(reply, text, Box::new(logged_in))
    }

    fn header(&self, request: &Header, flags: u8) -> Header {
        let mut header = Header::new(response::LOGIN, request.task()).byte(1, flags);
        header.0[8..16].copy_from_slice(&request.0[8..16]);
        let command = request.word(24);
        header.with(24, self.status).with(28, command).with(32, command)
    }

    /// The text of the reply, and the stage to which it goes on.
    fn take(
        &mut self,
        header: &Header,
        data: &[u8],
        door: &dyn Door,
        first: bool,
    ) -> Result<(Vec<u8>, Option<u8>), Refusal> {
        let (stage, next) = (header.flags() >> 2 & 3, header.flags() & 3);
        let (transits, goes_on) = (header.flags() & 0x80 != 0, header.flags() & 0x40 != 0);
        if header.opcode() != request::LOGIN || self.steps > MOST_STEPS || transits && goes_on {
            return Err(Refusal::Protocol);
        }
        if header.0[3] > 0 {
            return Err(Refusal::Version);
        }
        if first {
            self.begin(header, stage)?;
        }
        if stage != self.stage || self.isid != header.0[8..14] {
            return Err(Refusal::Protocol);
        }
        if self.collected.len() + data.len() > MOST_TEXT {
            return Err(Refusal::Protocol);
        }
        self.collected.extend(data);
        if goes_on {
            return Ok((Vec::new(), None));
        }
        let text = core::mem::take(&mut self.collected);
        let keys = Keys::parse(&text).map_err(|_| Refusal::Protocol)?;
        let mut answers = Vec::new();
        if self.initiator.is_none() {
            self.introduce(&keys, door, &mut answers)?;
        }
        let done = if stage == SECURITY {
            self.security(&keys, door, &mut answers)?
        } else {
            self.check_proof(door)?;
            if !self.agreed.step(&keys, &mut answers, &mut self.declared) {
                return Err(Refusal::Protocol);
            }
            true
        };
        let forward = next > stage && (next == OPERATIONAL || next == FULL);
        if transits && !forward {
            return Err(Refusal::Protocol);
        }
        if !transits || !done {
            return Ok((answers, None));
        }
        self.check_proof(door)?;
        Ok((answers, Some(next)))
    }

    fn begin(&mut self, header: &Header, stage: u8) -> Result<(), Refusal> {
        if header.0[14..16] != [0, 0] {
            // There is one connection to a session: none is added to one, or takes the place of its.
            return Err(Refusal::Session);
        }
        if stage > OPERATIONAL {
            return Err(Refusal::Protocol);
        }
        self.isid.copy_from_slice(&header.0[8..14]);
        self.stage = stage;
        Ok(())
    }

    /// Takes the initiator's name and the session that it wants.
    fn introduce(&mut self, keys: &Keys, door: &dyn Door, answers: &mut Vec<u8>) -> Result<(), Refusal> {
        let initiator = keys.get("InitiatorName").filter(|name| is_name(name)).ok_or(Refusal::Missing)?;
        match keys.get("SessionType") {
            Some("Discovery") => self.discovers = true,
            None | Some("Normal") => {
                let name = keys.get("TargetName").ok_or(Refusal::Missing)?;
                // An initiator that proves nothing does not even learn which targets there are.
                self.wanted = name.to_owned();
                if door.chap().is_none() {
                    self.target = Some(door.target(name, initiator, None)?);
                }
                put(answers, "TargetPortalGroupTag", &door.group().to_string());
            }
            Some(_) => return Err(Refusal::Type),
        }
        self.initiator = Some(initiator.to_owned());
        Ok(())
    }

    /// Whether it has proved itself, or need not.
    fn check_proof(&self, door: &dyn Door) -> Result<(), Refusal> {
        let proved = matches!(self.proof, Proof::Given(_));
        if door.chap().is_some() && !proved { Err(Refusal::Authentication) } else { Ok(()) }
    }

    /// A step of proving; `true` if no more is to be said.
    fn security(&mut self, keys: &Keys, door: &dyn Door, answers: &mut Vec<u8>) -> Result<bool, Refusal> {
        if let Some(methods) = keys.get("AuthMethod") {
            let offers = |method: &str| methods.split(',').any(|one| one.trim() == method);
            let (chap, wanted) = (door.chap().is_some(), if door.chap().is_some() { "CHAP" } else { "None" });
            if self.proof != Proof::Open || !offers(wanted) {
                return Err(Refusal::Authentication);
            }
            self.proof = if chap { Proof::Chap } else { Proof::NotNeeded };
            put(answers, "AuthMethod", wanted);
            return Ok(!chap);
        }
        let Some(chap) = door.chap() else { return Ok(true) };
        match &self.proof {
            Proof::Chap => {
                let hash = keys.get("CHAP_A").and_then(Hash::choose).ok_or(Refusal::Authentication)?;
                let (mut id, mut challenge) = ([0], vec![0; hash.bytes()]);
                door.random(&mut id);
                door.random(&mut challenge);
                put(answers, "CHAP_A", hash.number());
                put(answers, "CHAP_I", &id[0].to_string());
                put(answers, "CHAP_C", &text::encode(&challenge));
                self.proof = Proof::Asked { hash, id: id[0], challenge };
                Ok(false)
            }
            Proof::Asked { hash, id, challenge } => {
                let given = (keys.get("CHAP_N"), keys.get("CHAP_R").and_then(text::decode));
                let (Some(name), Some(answer)) = given else { return Err(Refusal::Authentication) };
                if !chap.proves(name, &answer, *hash, *id, challenge) {
                    return Err(Refusal::Authentication);
                }
                if let Some(theirs) = keys.get("CHAP_C") {
                    let id =
                        keys.get("CHAP_I").and_then(|id| id.parse().ok()).ok_or(Refusal::Authentication)?;
                    let theirs = text::decode(theirs).ok_or(Refusal::Authentication)?;
                    let own = chap.prove(*hash, id, &theirs, challenge).ok_or(Refusal::Authentication)?;
                    put(answers, "CHAP_N", own.0);
                    put(answers, "CHAP_R", &text::encode(&own.1));
                }
                self.proof = Proof::Given(name.to_owned());
                if !self.discovers {
                    let initiator = self.initiator.as_deref().unwrap_or_default();
                    self.target = Some(door.target(&self.wanted, initiator, Some(name))?);
                }
                Ok(true)
            }
            Proof::Given(_) => Ok(true),
            Proof::Open | Proof::NotNeeded => Err(Refusal::Authentication),
        }
    }
}

/// Whether a name can be an initiator's: of the forms that exist, and of characters that files and lines bear.
pub(super) fn is_name(name: &str) -> bool {
    let formed = ["iqn.", "eui.", "naa."].iter().any(|form| name.starts_with(form));
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b',' || byte >= 0x80;
    formed && name.len() <= 223 && name.bytes().all(plain)
}
