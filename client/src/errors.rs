//! Errors of the client's own, in the same space as Kafka's codes but far below them.

/// No answer within the request timeout. The latency is recorded as the time waited.
pub const TIMED_OUT: i16 = -1_001;
/// The connection was closed or reset by the peer.
pub const DISCONNECTED: i16 = -1_002;
/// A connection could not be made.
pub const CONNECT_FAILED: i16 = -1_003;
/// The answer could not be decoded, or answered another request.
pub const BAD_RESPONSE: i16 = -1_004;
/// TLS or SASL failed.
pub const AUTHENTICATION_FAILED: i16 = -1_005;
/// Both sides share no version of an API, or not the pinned one.
pub const NO_SHARED_VERSION: i16 = -1_006;

/// The name of a code: Kafka's own, or the client's.
pub fn name(code: i16) -> String {
    match code {
        TIMED_OUT => "TIMED_OUT".into(),
        DISCONNECTED => "DISCONNECTED".into(),
        CONNECT_FAILED => "CONNECT_FAILED".into(),
        BAD_RESPONSE => "BAD_RESPONSE".into(),
        AUTHENTICATION_FAILED => "AUTHENTICATION_FAILED".into(),
        NO_SHARED_VERSION => "NO_SHARED_VERSION".into(),
        code => match kafka_protocol::error::ResponseError::try_from_code(code) {
            None => "NONE".into(),
            Some(error) => screaming(&format!("{error:?}")),
        },
    }
}

/// Kafka's codes are -1 and those up to here; one that this build does not know is called by its number.
const KAFKA_MAX: i16 = 255;

/// Whether an error has this name.
pub fn is_name(text: &str) -> bool {
    text != "NONE" && (AUTHENTICATION_FAILED..=TIMED_OUT).chain(-1..=KAFKA_MAX).any(|code| name(code) == text)
}

/// `NotCoordinator` as Kafka writes it: `NOT_COORDINATOR`.
fn screaming(camel: &str) -> String {
    let mut name = String::new();
    for (at, letter) in camel.chars().enumerate() {
        if letter.is_uppercase() && at > 0 {
            name.push('_');
        }
        name.extend(letter.to_uppercase());
    }
    name
}

#[cfg(test)]
mod tests {
    #[test]
    fn codes_have_kafkas_names() {
        assert_eq!(super::name(16), "NOT_COORDINATOR");
        assert_eq!(super::name(27), "REBALANCE_IN_PROGRESS");
        assert_eq!(super::name(super::TIMED_OUT), "TIMED_OUT");
        assert_eq!(super::name(0), "NONE");
    }
}
