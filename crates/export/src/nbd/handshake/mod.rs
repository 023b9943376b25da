//! From the greeting to the choice of an export. [`options`] decides; here bytes are moved.

mod options;

use brindle_io::{Buf, OpError, Pool};

use super::proto::{ClientFlags, MAX_OPTION, OptionHeader, greeting};
pub(crate) use options::{Chosen, Offer};
use options::{Haggle, Next, Tls};

use crate::session::{Inbox, Link, SecureError, Security};

/// Data of an option that is too long for us are read and forgotten up to this length; beyond it the client is
/// not worth the time. Bytes.
const MAX_SKIP: u32 = 1 << 20;

/// Why a handshake did not end with an export.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    #[error("the client ended the handshake")]
    Ended,
    #[error("the client does not speak fixed newstyle NBD")]
    Garbage,
    #[error("{0}")]
    Socket(#[from] OpError),
    #[error("no TLS: {0}")]
    Secure(#[from] SecureError),
}

/// The state of a handshake: the connection, its inbox, and a buffer for messages to send.
pub(crate) struct Handshake<'a> {
    pub(crate) link: &'a Link,
    pub(crate) inbox: &'a mut Inbox,
    pub(crate) out: &'a Buf,
    /// Told when the client has chosen an export that it is not offered.
    pub(crate) in_vain: &'a dyn Fn(),
    /// TLS, if there is any, and where its buffers come from.
    pub(crate) security: Option<(&'a Security, &'a Pool)>,
}

impl Handshake<'_> {
    /// Negotiates until the client has chosen one of `offers`, which is called anew for each option.
    pub(crate) async fn run(
        &mut self,
        max_payload: u32,
        offers: impl Fn() -> Vec<Offer>,
    ) -> Result<Chosen, HandshakeError> {
        self.send(&greeting()).await?;
        let flags = ClientFlags::decode(self.take().await?).ok_or(HandshakeError::Garbage)?;
        let mut haggle = Haggle::new(flags, max_payload, self.tls());
        let mut reply = Vec::new();
        loop {
            let header = self.take::<{ OptionHeader::BYTES }>().await?;
            let header = OptionHeader::decode(&header).ok_or(HandshakeError::Garbage)?;
            reply.clear();
            let next = if header.len as usize > MAX_OPTION {
                self.skip(header.len).await?;
                haggle.too_big(header.option, &mut reply)
            } else {
                let len = header.len as usize;
                self.need(len).await?;
                let next = haggle.option(header.option, &self.inbox.bytes()[..len], &offers(), &mut reply);
                self.inbox.consume(len);
                next
            };
            if core::mem::take(&mut haggle.in_vain) {
                (self.in_vain)();
            }
            self.send(&reply).await?;
            match next {
                Next::Continue => {}
                Next::Close => return Err(HandshakeError::Ended),
                Next::Serve(chosen) => return Ok(chosen),
                Next::Secure => {
                    self.secure().await?;
                    // Choices from before TLS don't count, since others could have sent them.
                    haggle = Haggle::new(flags, max_payload, self.tls());
                }
            }
        }
    }

    /// The state of TLS on this connection.
    fn tls(&self) -> Tls {
        match self.security {
            _ if self.link.is_secure() => Tls::Spoken,
            None => Tls::None,
            Some((security, _)) if security.demanded => Tls::Demanded,
            Some(_) => Tls::Offered,
        }
    }

    async fn secure(&mut self) -> Result<(), HandshakeError> {
        // Bytes that came before TLS was agreed on are from nobody knows whom.
        let (0, Some((security, buffers))) = (self.inbox.len(), self.security) else {
            return Err(HandshakeError::Garbage);
        };
        self.link.secure(&security.tls, buffers).await?;
        self.link.heard();
        Ok(())
    }

    /// Waits until `count` bytes are there. They must fit in the inbox.
    async fn need(&mut self, count: usize) -> Result<(), HandshakeError> {
        while self.inbox.len() < count {
            if self.inbox.receive(self.link).await? == 0 {
                return Err(HandshakeError::Ended);
            }
            self.link.heard();
        }
        Ok(())
    }

    async fn take<const N: usize>(&mut self) -> Result<[u8; N], HandshakeError> {
        self.need(N).await?;
        let bytes = self.inbox.peek().ok_or(HandshakeError::Garbage)?;
        self.inbox.consume(N);
        Ok(bytes)
    }

    async fn skip(&mut self, count: u32) -> Result<(), HandshakeError> {
        if count > MAX_SKIP {
            return Err(HandshakeError::Garbage);
        }
        let mut left = count as usize;
        while left > 0 {
            self.need(1).await?;
            let now = left.min(self.inbox.len());
            self.inbox.consume(now);
            left -= now;
        }
        Ok(())
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), HandshakeError> {
        for part in bytes.chunks(self.out.len()) {
            self.out.bytes_mut()[..part.len()].copy_from_slice(part);
            self.link.send(&[self.out.slice(0..part.len())]).await?;
        }
        Ok(())
    }
}
