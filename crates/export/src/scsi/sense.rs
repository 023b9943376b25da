//! Status and sense: how a command that did not do what was asked says why (SPC-4, 4.5; SAM-5, 5.3).

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// GOOD.
    Good,
    /// CHECK CONDITION, with sense.
    Check(Sense),
    /// BUSY: the same may be tried again at once.
    Busy,
    /// RESERVATION CONFLICT.
    Conflict,
    /// TASK SET FULL: the same may be tried again once another command has ended.
    Full,
    /// TASK ABORTED: somebody else's task management ended it.
    Aborted,
}

impl Status {
    /// The byte on the wire.
    pub const fn code(self) -> u8 {
        match self {
            Self::Good => 0x00,
            Self::Check(_) => 0x02,
            Self::Busy => 0x08,
            Self::Conflict => 0x18,
            Self::Full => 0x28,
            Self::Aborted => 0x40,
        }
    }
}

/// Why a command failed, or what has happened meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sense {
    /// The sense key.
    pub key: u8,
    /// Additional sense code and qualifier.
    pub code: (u8, u8),
    /// INFORMATION: of a miscompare the offset of the first byte, of a medium error the block.
    pub information: Option<u64>,
    /// SENSE KEY SPECIFIC: the field that is wrong.
    pub field: Option<Field>,
}

/// A field that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The field is of the CDB; else of the parameters.
    pub of_cdb: bool,
    /// The field's first byte.
    pub byte: u16,
}

/// Bytes of sense in the fixed format.
const FIXED: usize = 18;
/// The longest sense that is made.
pub const LONGEST: usize = 32;

mod key {
    pub(super) const NOT_READY: u8 = 0x2;
    pub(super) const MEDIUM_ERROR: u8 = 0x3;
    pub(super) const HARDWARE_ERROR: u8 = 0x4;
    pub(super) const ILLEGAL_REQUEST: u8 = 0x5;
    pub(super) const UNIT_ATTENTION: u8 = 0x6;
    pub(super) const DATA_PROTECT: u8 = 0x7;
    pub(super) const COPY_ABORTED: u8 = 0xa;
    pub(super) const ABORTED_COMMAND: u8 = 0xb;
    pub(super) const MISCOMPARE: u8 = 0xe;
}

impl Sense {
    const fn new(key: u8, code: (u8, u8)) -> Self {
        Self { key, code, information: None, field: None }
    }

    /// No sense: nothing to tell.
    pub const NONE: Self = Self::new(0, (0, 0));
    /// The logical unit is being stopped.
    pub const NOT_READY: Self = Self::new(key::NOT_READY, (0x04, 0x00));
    /// There is no such command.
    pub const NO_SUCH_COMMAND: Self = Self::new(key::ILLEGAL_REQUEST, (0x20, 0x00));
    /// The range is not within the unit.
    pub const OUT_OF_RANGE: Self = Self::new(key::ILLEGAL_REQUEST, (0x21, 0x00));
    /// There is no such logical unit.
    pub const NO_SUCH_UNIT: Self = Self::new(key::ILLEGAL_REQUEST, (0x25, 0x00));
    /// Parameters are longer or shorter than they say.
    pub const PARAMETER_LENGTH: Self = Self::new(key::ILLEGAL_REQUEST, (0x1a, 0x00));
    /// A parameter's value is wrong.
    pub const PARAMETER: Self = Self::new(key::ILLEGAL_REQUEST, (0x26, 0x00));
    /// More target descriptors than are taken.
    pub const TOO_MANY_TARGETS: Self = Self::new(key::ILLEGAL_REQUEST, (0x26, 0x06));
    /// A type of target descriptor that is not known.
    pub const TARGET_TYPE: Self = Self::new(key::ILLEGAL_REQUEST, (0x26, 0x07));
    /// More segments than are taken.
    pub const TOO_MANY_SEGMENTS: Self = Self::new(key::ILLEGAL_REQUEST, (0x26, 0x08));
    /// A type of segment that is not known.
    pub const SEGMENT_TYPE: Self = Self::new(key::ILLEGAL_REQUEST, (0x26, 0x09));
    /// The release does not match the reservation.
    pub const RELEASE: Self = Self::new(key::ILLEGAL_REQUEST, (0x26, 0x04));
    /// Room to keep registrations is lacking, or they could not be made stable.
    pub const REGISTRATIONS: Self = Self::new(key::ILLEGAL_REQUEST, (0x55, 0x04));
    /// A third party copy names a unit that can't be reached.
    pub const COPY_UNREACHABLE: Self = Self::new(key::COPY_ABORTED, (0x0d, 0x02));
    /// A third party copy names another kind of unit than it has found.
    pub const COPY_WRONG_KIND: Self = Self::new(key::COPY_ABORTED, (0x0d, 0x03));
    /// A third party copy goes beyond a unit.
    pub const COPY_RANGE: Self = Self::new(key::COPY_ABORTED, (0x00, 0x00));
    /// A third party copy failed on the way.
    pub const COPY_FAILED: Self = Self::new(key::COPY_ABORTED, (0x0d, 0x01));
    /// The unit is write-protected.
    pub const WRITE_PROTECTED: Self = Self::new(key::DATA_PROTECT, (0x27, 0x00));
    /// No room where members live.
    pub const NO_SPACE: Self = Self::new(key::DATA_PROTECT, (0x27, 0x07));
    /// Bytes could not be read.
    pub const UNREAD: Self = Self::new(key::MEDIUM_ERROR, (0x11, 0x00));
    /// Bytes could not be written.
    pub const UNWRITTEN: Self = Self::new(key::MEDIUM_ERROR, (0x0c, 0x00));
    /// Members are gone.
    pub const FAILED: Self = Self::new(key::HARDWARE_ERROR, (0x44, 0x00));
    /// The initiator is to send another amount of data than the CDB says.
    pub const AMOUNT: Self = Self::new(key::ILLEGAL_REQUEST, (0x0e, 0x03));
    /// The initiator sent data in another order than they were asked for.
    pub const DATA_PHASE: Self = Self::new(key::ABORTED_COMMAND, (0x4b, 0x00));
    /// The initiator sent data that it was not asked for, or more of them than was agreed on.
    pub const UNSOLICITED: Self = Self::new(key::ABORTED_COMMAND, (0x0c, 0x0c));
    /// Data from the initiator came damaged.
    pub const DAMAGED: Self = Self::new(key::ABORTED_COMMAND, (0x47, 0x05));
    /// Bytes differ from those that were sent to be compared.
    pub const MISCOMPARE: Self = Self::new(key::MISCOMPARE, (0x1d, 0x00));

    /// A field of the CDB that is wrong.
    pub const fn cdb(byte: u16) -> Self {
        let field = Some(Field { of_cdb: true, byte });
        Self { field, ..Self::new(key::ILLEGAL_REQUEST, (0x24, 0x00)) }
    }

    /// A field of the parameters that is wrong.
    pub const fn parameter(byte: u16) -> Self {
        Self { field: Some(Field { of_cdb: false, byte }), ..Self::PARAMETER }
    }

    /// Something has happened.
    pub const fn attention(attention: Attention) -> Self {
        Self::new(key::UNIT_ATTENTION, attention.code())
    }

    /// Adds the INFORMATION field.
    pub const fn with(self, information: u64) -> Self {
        Self { information: Some(information), ..self }
    }

    /// The bytes, in the fixed format or in that of descriptors.
    pub fn encode(&self, descriptors: bool) -> Vec<u8> {
        if descriptors { self.descriptors() } else { self.fixed() }
    }

    fn specific(&self) -> Option<[u8; 3]> {
        let field = self.field?;
        let [high, low] = field.byte.to_be_bytes();
        Some([0x80 | u8::from(field.of_cdb) << 6, high, low])
    }

    fn fixed(&self) -> Vec<u8> {
        let mut bytes = vec![0; FIXED];
        bytes[0] = 0x70;
        bytes[2] = self.key;
        if let Some(information) = self.information.and_then(|all| u32::try_from(all).ok()) {
            bytes[0] |= 0x80;
            bytes[3..7].copy_from_slice(&information.to_be_bytes());
        }
        bytes[7] = FIXED as u8 - 8;
        (bytes[12], bytes[13]) = self.code;
        if let Some(specific) = self.specific() {
            bytes[15..18].copy_from_slice(&specific);
        }
        bytes
    }

    fn descriptors(&self) -> Vec<u8> {
        let mut bytes = vec![0x72, self.key, self.code.0, self.code.1, 0, 0, 0, 0];
        if let Some(information) = self.information {
            bytes.extend([0x00, 0x0a, 0x80, 0x00]);
            bytes.extend(information.to_be_bytes());
        }
        if let Some(specific) = self.specific() {
            bytes.extend([0x02, 0x06, 0x00, 0x00]);
            bytes.extend(specific);
            bytes.push(0);
        }
        bytes[7] = bytes.len() as u8 - 8;
        bytes
    }
}

/// Unit attention: reported to a nexus before its next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention {
    /// The server has begun anew, or this nexus has never been seen.
    PowerOn,
    /// A unit or the target was reset.
    Reset,
    /// The nexus was lost, and is there again.
    NexusLoss,
    /// Mode parameters were changed by another nexus.
    ModeChanged,
    /// Another nexus has preempted or cleared this one's reservation.
    ReservationsPreempted,
    /// Another nexus has released a reservation that this one was covered by.
    ReservationsReleased,
    /// Another nexus has removed this one's registration.
    RegistrationsPreempted,
    /// The size is another.
    CapacityChanged,
    /// The units of the target have changed.
    UnitsChanged,
}

impl Attention {
    /// Additional sense code and qualifier.
    const fn code(self) -> (u8, u8) {
        match self {
            Self::PowerOn => (0x29, 0x00),
            Self::Reset => (0x29, 0x03),
            Self::NexusLoss => (0x29, 0x07),
            Self::ModeChanged => (0x2a, 0x01),
            Self::ReservationsPreempted => (0x2a, 0x03),
            Self::ReservationsReleased => (0x2a, 0x04),
            Self::RegistrationsPreempted => (0x2a, 0x05),
            Self::CapacityChanged => (0x2a, 0x09),
            Self::UnitsChanged => (0x3f, 0x0e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_say_the_same() {
        let sense = Sense { field: Some(Field { of_cdb: true, byte: 0x102 }), ..Sense::MISCOMPARE.with(7) };
        let fixed = sense.encode(false);
        assert_eq!(fixed[..8], [0xf0, 0, 0xe, 0, 0, 0, 7, 10]);
        assert_eq!(fixed[8..], [0, 0, 0, 0, 0x1d, 0, 0, 0xc0, 1, 2]);
        let other = sense.encode(true);
        assert_eq!(other[..8], [0x72, 0xe, 0x1d, 0, 0, 0, 0, 20]);
        assert_eq!(other[8..20], [0, 0xa, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
        assert_eq!(other[20..], [2, 6, 0, 0, 0xc0, 1, 2, 0]);
        assert!(other.len() <= LONGEST);
    }

    #[test]
    fn what_does_not_fit_the_fixed_format_is_left_out() {
        assert_eq!(Sense::UNREAD.with(1 << 32).encode(false)[0], 0x70);
    }
}
