//! Errors of a client.

/// Why a client can't go on, or was refused something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The greeting is another protocol's, or an old one's.
    #[error("the server does not speak fixed newstyle NBD: use another server")]
    NotNbd,
    /// The server answers the choice of an export with an error.
    #[error("the server refuses the export (reply {code:#x}): {message}")]
    Refused {
        /// The reply, see [`crate::nbd::proto::OptionReply`].
        code: u32,
        /// The server's message for people.
        message: String,
    },
    /// The server broke the protocol.
    #[error("the server breaks the protocol: {0}")]
    Broken(Breach),
    /// A request ended with an error of the protocol, see [`crate::nbd::proto::Errno`].
    #[error("the server answers with error {0}")]
    Failed(u32),
    /// The connection is closed or broken.
    #[error("the connection: {0}")]
    Io(#[from] std::io::Error),
}

/// How a server can break the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Breach {
    /// No reply to the option that was sent.
    #[error("it answers another option than was asked")]
    OptionReply,
    /// The export's size is missing or malformed.
    #[error("it does not tell the export's size")]
    NoSize,
    /// Neither a simple reply nor a chunk.
    #[error("the bytes that follow are not a reply")]
    NoReply,
    /// No request with the reply's cookie is under way.
    #[error("a reply to no request")]
    Cookie,
    /// A reply that does not fit its request.
    #[error("a reply of another length or kind than the request wants")]
    Shape,
}

impl From<Breach> for ClientError {
    fn from(breach: Breach) -> Self {
        Self::Broken(breach)
    }
}
