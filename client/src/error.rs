//! Why a call has no answer.

use crate::errors;

/// What could not be done, and why, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ClientError(pub String);

/// Why a call has no usable answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No answer within the request timeout.
    #[error("no answer within the request timeout")]
    TimedOut,
    /// The connection ended before the answer.
    #[error("the connection was closed by the peer")]
    Disconnected,
    /// No connection could be made; says why.
    #[error("cannot connect: {0}")]
    ConnectFailed(String),
    /// No connection could be made, for this host has no port left towards the peer, or not the address it was to come
    /// from; says which.
    #[error("no local address is left to connect from: {0}")]
    NoLocalAddress(String),
    /// The answer cannot be decoded, or answers another request; says how.
    #[error("bad response: {0}")]
    BadResponse(String),
    /// TLS or SASL failed; says how.
    #[error("authentication failed: {0}")]
    Authentication(String),
    /// The answer to a question of the client's own (who leads, who coordinates) is an error of Kafka's.
    #[error("{what}: {}", errors::name(*.code))]
    Kafka {
        /// Kafka's code.
        code: i16,
        /// What was asked for.
        what: String,
    },
    /// The target and this client share no version of the API, or not the pinned one, or that one cannot say what is
    /// to be asked; says which there are.
    #[error("{0}")]
    NoVersion(String),
}

impl CallError {
    /// The code under which it is counted: Kafka's, or one of [`errors`].
    pub fn code(&self) -> i16 {
        match self {
            CallError::TimedOut => errors::TIMED_OUT,
            CallError::Disconnected => errors::DISCONNECTED,
            CallError::ConnectFailed(_) | CallError::NoLocalAddress(_) => errors::CONNECT_FAILED,
            CallError::BadResponse(_) => errors::BAD_RESPONSE,
            CallError::Authentication(_) => errors::AUTHENTICATION_FAILED,
            CallError::Kafka { code, .. } => *code,
            CallError::NoVersion(_) => errors::NO_SHARED_VERSION,
        }
    }
}

impl From<CallError> for ClientError {
    fn from(error: CallError) -> ClientError {
        ClientError(error.to_string())
    }
}
