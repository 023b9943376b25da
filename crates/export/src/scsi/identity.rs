//! Names and descriptions of a unit: INQUIRY (SPC-4, 6.6 and 7.8; SBC-3, 6.6).

use super::sense::Sense;
use super::unit_sizes::Shape;

/// The vendor, as INQUIRY has it.
const VENDOR: &[u8; 8] = b"BRINDLE ";
const REVISION: &[u8; 4] = b"0001";
/// A company number that IEEE gives to no one: it has the bit that marks it as given locally.
const COMPANY: u32 = 0x02_4252;
/// The most descriptors of an UNMAP.
pub(super) const MOST_UNMAPS: u32 = 256;
/// The most of one descriptor of an UNMAP. Bytes.
pub(super) const MOST_UNMAPPED: u64 = 512 << 20;
/// The most of a WRITE SAME. Bytes.
pub(super) const MOST_SAME: u64 = 16 << 20;
/// The most blocks of a COMPARE AND WRITE.
pub(super) const MOST_COMPARED: u8 = 255;

/// The identity of a unit: the same after each start, for initiators know a disk that they see twice by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The volume's UUID.
    pub uuid: [u8; 16],
    /// The name: the product of INQUIRY, of which 16 bytes are sent.
    pub product: String,
    /// The SCSI name of the target: of iSCSI its IQN.
    pub target: String,
}

/// A designator: code set, association and type, bytes.
struct Designator(u8, u8, Vec<u8>);

const BINARY: u8 = 1;
const ASCII: u8 = 2;
const UTF8: u8 = 3;
const OF_PORT: u8 = 0x90;
const OF_TARGET: u8 = 0xa0;

impl Identity {
    /// The UUID as the unit's serial number.
    pub fn serial(&self) -> String {
        self.uuid.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The NAA name: type 6, a company's number, and the first 100 bits of the UUID.
    pub fn naa(&self) -> [u8; 16] {
        let uuid = u128::from_be_bytes(self.uuid);
        (6 << 124 | u128::from(COMPANY) << 100 | uuid >> 28).to_be_bytes()
    }

    fn of_unit(&self) -> Vec<Designator> {
        let naa = self.naa();
        let text: String = naa.iter().map(|byte| format!("{byte:02X}")).collect();
        let mut vendor = VENDOR.to_vec();
        vendor.extend(self.serial().bytes());
        vec![
            Designator(BINARY, 0x03, naa.to_vec()),
            Designator(ASCII, 0x01, vendor),
            Designator(UTF8, 0x08, name(&format!("naa.{text}"))),
        ]
    }

    /// Whether a designator, with its head of four bytes, is one of the unit's.
    pub(super) fn is_called(&self, set: u8, kind: u8, bytes: &[u8]) -> bool {
        self.of_unit().iter().any(|own| own.0 == set & 0x0f && own.1 == kind & 0x3f && own.2 == bytes)
    }

    /// Standard INQUIRY data.
    pub(super) fn standard(&self) -> Vec<u8> {
        let mut bytes = standard(0);
        let product = self.product.bytes().map(|byte| if (0x20..0x7f).contains(&byte) { byte } else { b'_' });
        for (to, from) in bytes[16..32].iter_mut().zip(product) {
            *to = from;
        }
        bytes
    }

    /// A page of vital product data, asked for by way of a target port.
    ///
    /// # Errors
    /// There is no such page.
    pub(super) fn vital(&self, page: u8, shape: &Shape, port: u16) -> Result<Vec<u8>, Sense> {
        let body = match page {
            0x00 => vec![0x00, 0x80, 0x83, 0x86, 0x8f, 0xb0, 0xb1, 0xb2],
            0x80 => self.serial().into_bytes(),
            0x83 => self.designators(port),
            0x86 => extended(),
            0x8f => super::third_party::third_party(),
            0xb0 => limits(shape),
            0xb1 => characteristics(shape),
            0xb2 => provisioning(shape),
            _ => return Err(Sense::cdb(2)),
        };
        let mut bytes = vec![0, page];
        bytes.extend((body.len() as u16).to_be_bytes());
        bytes.extend(body);
        Ok(bytes)
    }

    fn designators(&self, port: u16) -> Vec<u8> {
        let mut all = self.of_unit();
        let [high, low] = port.to_be_bytes();
        let target = &self.target;
        all.push(Designator(BINARY, OF_PORT | 4, vec![0, 0, high, low]));
        all.push(Designator(BINARY, OF_PORT | 5, vec![0, 0, 0, 1]));
        all.push(Designator(UTF8, OF_PORT | 8, name(&format!("{target},t,0x{port:04x}"))));
        all.push(Designator(UTF8, OF_TARGET | 8, name(target)));
        let bytes = all.into_iter().flat_map(|Designator(set, kind, bytes)| {
            // iSCSI's number of a protocol stands where a designator is of a port or the target.
            let set = if kind & 0x80 != 0 { set | 0x50 } else { set };
            [vec![set, kind, 0, bytes.len() as u8], bytes].concat()
        });
        bytes.collect()
    }
}

/// A SCSI name string: with a NUL at its end, and zeroes up to a multiple of four.
fn name(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize((bytes.len() + 1).next_multiple_of(4), 0);
    bytes
}

/// Standard INQUIRY data of a peripheral: 0 is a disk, 0x7f what is not there.
pub(super) fn standard(peripheral: u8) -> Vec<u8> {
    let mut bytes = vec![0; 96];
    bytes[0] = peripheral;
    bytes[2] = 0x06; // SPC-4
    bytes[3] = 0x12; // HISUP, the usual format
    bytes[4] = 91;
    bytes[5] = 0x18; // implicit ALUA, third party copies
    bytes[6] = 0x10; // several ports
    bytes[7] = 0x02; // commands are queued
    bytes[8..16].copy_from_slice(VENDOR);
    bytes[16..32].fill(b' ');
    bytes[32..36].copy_from_slice(REVISION);
    // SAM-5, iSCSI, SPC-4, SBC-3.
    for (at, version) in [0x00a0_u16, 0x0960, 0x0460, 0x04c0].into_iter().enumerate() {
        bytes[58 + 2 * at..60 + 2 * at].copy_from_slice(&version.to_be_bytes());
    }
    bytes
}

/// Extended INQUIRY data.
fn extended() -> Vec<u8> {
    let mut body = vec![0; 60];
    body[1] = 0x01; // SIMPLE tasks
    body[2] = 0x01; // there is a volatile cache
    body[3] = 0x01; // LUICLR: unit attentions are cleared for their nexus only
    body
}

fn limits(shape: &Shape) -> Vec<u8> {
    let mut body = vec![0; 60];
    let blocks = |bytes: u64| u32::try_from(bytes / u64::from(shape.block)).unwrap_or(u32::MAX);
    let mut put = |at: usize, number: u32| body[at - 4..at].copy_from_slice(&number.to_be_bytes());
    // Positions count from the page's first byte.
    put(8, blocks(shape.most));
    put(12, blocks(shape.optimal));
    put(16, blocks(shape.most));
    if shape.unmaps {
        put(20, blocks(MOST_UNMAPPED));
        put(24, MOST_UNMAPS);
        put(28, 1 << shape.exponent());
    }
    put(40, blocks(MOST_SAME));
    body[1] = MOST_COMPARED;
    let granularity = u16::try_from(shape.preferred / shape.block).unwrap_or(u16::MAX);
    body[2..4].copy_from_slice(&granularity.to_be_bytes());
    body
}

fn characteristics(shape: &Shape) -> Vec<u8> {
    let mut body = vec![0; 60];
    // Not rotating, or not reported.
    body[1] = u8::from(!shape.rotates);
    body
}

fn provisioning(shape: &Shape) -> Vec<u8> {
    if !shape.unmaps {
        return vec![0, 0, 0, 0];
    }
    // UNMAP, and WRITE SAME with UNMAP; thin.
    vec![0, 0xe0, 2, 0]
}
