//! SASL: SaslHandshake, then as many SaslAuthenticate as the mechanism takes.

use std::cell::RefCell;

use bytes::Bytes;
use kafka_protocol::messages::{ApiKey, SaslAuthenticateRequest, SaslHandshakeRequest};
use kafka_protocol::protocol::StrBytes;

use super::scram::{Salted, Scram};
use super::versions::Versions;
use super::{CallError, Connection};
use crate::{Sasl, SaslMechanism};

/// Kafka's code of a mechanism that the broker does not have.
const UNSUPPORTED_SASL_MECHANISM: i16 = 33;

/// Lets a connection in as a user.
pub(super) struct Login {
    sasl: Sasl,
    salted: RefCell<Salted>,
}

impl Login {
    pub(super) fn new(sasl: Sasl) -> Login {
        Login { sasl, salted: RefCell::default() }
    }

    /// The exchange.
    ///
    /// # Errors
    /// The broker refuses, or does not prove that it knows the password (SCRAM).
    pub(super) async fn log_in(&self, connection: &mut Connection, versions: &Versions) -> Result<(), CallError> {
        // From version 1 on what follows is framed as requests (KIP-152).
        let version = versions.of(ApiKey::SaslHandshake, 1)?;
        if version < 1 {
            return Err(CallError::NoVersion("SaslHandshake: the target has no version 1 (KIP-152)".into()));
        }
        let request =
            SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str(self.sasl.mechanism.name()));
        let answer = connection.call(version, &request).await?;
        match answer.error_code {
            0 => {}
            UNSUPPORTED_SASL_MECHANISM => {
                let has: Vec<&str> = answer.mechanisms.iter().map(|name| name.as_str()).collect();
                let (wanted, has) = (self.sasl.mechanism.name(), has.join(", "));
                return Err(CallError::Authentication(format!("the target has no mechanism {wanted}, but {has}")));
            }
            code => {
                let name = crate::errors::name(code);
                return Err(CallError::Authentication(format!("SaslHandshake: {name}")));
            }
        }
        let version = versions.of(ApiKey::SaslAuthenticate, i16::MAX)?;
        let Sasl { mechanism, username, password } = &self.sasl;
        if *mechanism == SaslMechanism::Plain {
            // RFC 4616: no authorization identity of its own.
            say(connection, version, format!("\0{username}\0{password}")).await?;
            return Ok(());
        }
        let mut scram = Scram::new(*mechanism, username, uuid::Uuid::new_v4().simple().to_string());
        let server = say(connection, version, scram.first()).await?;
        let last = scram.last(&server, password, &mut self.salted.borrow_mut()).map_err(CallError::Authentication)?;
        let server = say(connection, version, last).await?;
        scram.finish(&server).map_err(CallError::Authentication)
    }
}

/// Sends a message of the exchange, and gives the broker's.
async fn say(connection: &mut Connection, version: i16, message: String) -> Result<String, CallError> {
    let request = SaslAuthenticateRequest::default().with_auth_bytes(Bytes::from(message));
    let answer = connection.call(version, &request).await?;
    if answer.error_code != 0 {
        let name = crate::errors::name(answer.error_code);
        let why = answer.error_message.map_or(name, |why| why.to_string());
        return Err(CallError::Authentication(why));
    }
    String::from_utf8(answer.auth_bytes.to_vec())
        .map_err(|_| CallError::Authentication("the broker's message is no text".into()))
}
