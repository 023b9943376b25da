//! Operational parameters, and how each is agreed on (RFC 7143, 13).

use super::text::{Keys, put};

/// Parameters that both sides have agreed on. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Headers have a digest.
    pub header_digest: bool,
    /// Data have one.
    pub data_digest: bool,
    /// Data may come with their command.
    pub immediate: bool,
    /// Most data of a PDU that the initiator takes.
    pub most_sent: usize,
    /// Most data of a burst.
    pub burst: usize,
    /// Most data that come with a command.
    pub first_burst: usize,
}

/// Most data of a PDU that is taken here. Bytes.
pub const MOST_RECEIVED: usize = 256 << 10;
/// The largest burst that is agreed to.
const BURST: usize = 1 << 20;
const FIRST_BURST: usize = 64 << 10;
/// The bounds of sizes.
const SMALLEST: usize = 512;
const LARGEST: usize = (1 << 24) - 1;

impl Default for Agreed {
    /// The RFC's values where nothing is said.
    fn default() -> Self {
        Self {
            header_digest: false,
            data_digest: false,
            immediate: true,
            most_sent: 8192,
            burst: 256 << 10,
            first_burst: 64 << 10,
        }
    }
}

fn flag(value: &str) -> Option<bool> {
    match value {
        "Yes" => Some(true),
        "No" => Some(false),
        _ => None,
    }
}

fn number(value: &str) -> Option<usize> {
    let hex = value.strip_prefix("0x").or_else(|| value.strip_prefix("0X"));
    match hex {
        Some(hex) => usize::from_str_radix(hex, 16).ok(),
        None => value.parse().ok(),
    }
}

fn size(value: &str) -> Option<usize> {
    number(value).filter(|size| (SMALLEST..=LARGEST).contains(size))
}

const fn word(flag: bool) -> &'static str {
    if flag { "Yes" } else { "No" }
}

/// The first of a list that is known here.
fn digest(list: &str) -> Option<bool> {
    list.split(',').find_map(|one| match one.trim() {
        "CRC32C" => Some(true),
        "None" => Some(false),
        _ => None,
    })
}

impl Agreed {
    /// Answers a key, and keeps the agreed value; `None` if the key is not of this stage.
    fn answer(&mut self, key: &str, value: &str) -> Option<String> {
        let reject = || "Reject".to_owned();
        let chosen = |digest: Option<bool>, keep: &mut bool| match digest {
            Some(on) => {
                *keep = on;
                if on { "CRC32C" } else { "None" }.to_owned()
            }
            None => reject(),
        };
        let least = |most: usize| number(value).map_or_else(reject, |theirs| theirs.min(most).to_string());
        Some(match key {
            "HeaderDigest" => chosen(digest(value), &mut self.header_digest),
            "DataDigest" => chosen(digest(value), &mut self.data_digest),
            "ImmediateData" => match flag(value) {
                Some(on) => {
                    self.immediate = on;
                    word(on).to_owned()
                }
                None => reject(),
            },
            // Data come with their command, or when they are asked for.
            "InitialR2T" | "DataPDUInOrder" | "DataSequenceInOrder" => "Yes".to_owned(),
            "MaxBurstLength" => match size(value) {
                Some(theirs) => {
                    self.burst = theirs.min(BURST);
                    self.burst.to_string()
                }
                None => reject(),
            },
            "FirstBurstLength" => match size(value) {
                Some(theirs) => {
                    self.first_burst = theirs.min(FIRST_BURST);
                    self.first_burst.to_string()
                }
                None => reject(),
            },
            "MaxConnections" | "MaxOutstandingR2T" | "iSCSIProtocolLevel" => least(1),
            "ErrorRecoveryLevel" | "DefaultTime2Retain" => least(0),
            "DefaultTime2Wait" => number(value).map_or_else(reject, |theirs| theirs.max(2).to_string()),
            "IFMarker" | "OFMarker" => "No".to_owned(),
            "TaskReporting" => "RFC3720".to_owned(),
            "IFMarkInt" | "OFMarkInt" => "Irrelevant".to_owned(),
            _ => return None,
        })
    }

    /// Takes the keys of a step and appends the answers; `declared`: the own segment size has been declared. `false`
    /// if a value makes no sense.
    pub(super) fn step(&mut self, keys: &Keys, answers: &mut Vec<u8>, declared: &mut bool) -> bool {
        for (key, value) in keys.iter() {
            match key {
                "MaxRecvDataSegmentLength" => match size(value) {
                    Some(most) => self.most_sent = most,
                    None => return false,
                },
                // Told, not agreed on; or of another stage.
                "InitiatorName" | "InitiatorAlias" | "SessionType" | "TargetName" | "AuthMethod" => {}
                _ if key.starts_with("CHAP_") => {}
                _ => match self.answer(key, value) {
                    Some(answer) => put(answers, key, &answer),
                    None => put(answers, key, "NotUnderstood"),
                },
            }
        }
        if !*declared {
            put(answers, "MaxRecvDataSegmentLength", &MOST_RECEIVED.to_string());
            *declared = true;
        }
        self.first_burst = self.first_burst.min(self.burst);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agree(text: &str) -> (Agreed, String) {
        let keys = Keys::parse(text.replace(' ', "\0").as_bytes()).unwrap();
        let (mut agreed, mut answers, mut declared) = (Agreed::default(), Vec::new(), true);
        assert!(agreed.step(&keys, &mut answers, &mut declared));
        (agreed, String::from_utf8(answers).unwrap().replace('\0', " ").trim_end().to_owned())
    }

    #[test]
    fn each_key_is_answered_by_its_rule() {
        let (agreed, answers) = agree("HeaderDigest=CRC32C,None DataDigest=None,CRC32C InitialR2T=No");
        assert_eq!(answers, "HeaderDigest=CRC32C DataDigest=None InitialR2T=Yes");
        assert!(agreed.header_digest && !agreed.data_digest);
        let (agreed, answers) = agree("MaxBurstLength=16776192 FirstBurstLength=0x20000 MaxConnections=4");
        assert_eq!(answers, "MaxBurstLength=1048576 FirstBurstLength=65536 MaxConnections=1");
        assert_eq!((agreed.burst, agreed.first_burst), (BURST, FIRST_BURST));
        let (agreed, answers) =
            agree("MaxRecvDataSegmentLength=4096 ImmediateData=No X-a=1 MaxBurstLength=1");
        assert_eq!(answers, "ImmediateData=No X-a=NotUnderstood MaxBurstLength=Reject");
        assert_eq!((agreed.most_sent, agreed.immediate, agreed.burst), (4096, false, 256 << 10));
    }
}
