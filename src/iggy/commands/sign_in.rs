//! Sign-in, binding a further link, and logout.

use iggy_binary_protocol::requests::system::BindSessionRequest;
use iggy_binary_protocol::requests::users::{LoginRegisterRequest, LoginRegisterWithPatRequest};
use iggy_binary_protocol::responses::users::LoginRegisterResponse;
use iggy_binary_protocol::{
    ClientVersionInfo, IGGY_PROTOCOL_VERSION, WireDecode, WireEncode, WireName, is_protocol_compatible,
};
use ringgate_shards::iggy_code::IggyCode;
use secrecy::ExposeSecret;

use super::super::frames::{Answer, Eviction, Request};
use super::super::link::Link;

use super::super::session_ended;
use super::super::sessions::{Identity, Registration, Unregistered};
use crate::net::limit_hits::Limit;

/// The one user.
pub const ROOT_USER: &str = "iggy";

/// Its number, as Iggy's own root user has it.
pub const ROOT_USER_ID: u32 = 0;

/// Signs a client in on a link.
pub async fn register(link: &Link, request: &Request) -> Answer {
    let Ok((version, length)) = ClientVersionInfo::decode(&request.body) else {
        return Answer::Evicted(Eviction::MalformedLogin);
    };
    if !is_protocol_compatible(version.protocol_version) {
        return Answer::Evicted(Eviction::IncompatibleProtocol);
    }
    let login = match LoginRegisterRequest::decode_after_prefix(version, &request.body[length..]) {
        Ok((login, _)) => login,
        Err(_) if LoginRegisterWithPatRequest::decode_from(&request.body).is_ok() => {
            return Answer::Evicted(Eviction::InvalidToken);
        }
        Err(_) => return Answer::Evicted(Eviction::MalformedLogin),
    };
    if login.username.as_str() != ROOT_USER {
        return Answer::Evicted(Eviction::InvalidCredentials);
    }
    let gateway = &link.front.gateway;
    match gateway.sign_ins.check(login.password).await {
        Ok(true) => {}
        Ok(false) => return Answer::Evicted(Eviction::InvalidCredentials),
        Err(_) => {
            link.limit_hits.count(Limit::IggySignInsWaiting);
            return Answer::Refused(IggyCode::TRANSIENT_NOT_ACCEPTED);
        }
    }
    let registration = Registration {
        client: request.header.client,
        attempt: request.header.request_checksum,
        secret: *login.bind_secret.expose_secret(),
    };
    let registered = gateway.sessions().register(&registration, link.shard.ops());
    match registered {
        Ok((identity, ended)) => {
            if let Some(ended) = ended {
                session_ended(&link.shard, ended);
            }
            link.bind(Some(identity));
            Answer::done(identity.session, &signed_in(identity))
        }
        Err(why) => {
            link.limit_hits.count(match why {
                Unregistered::TooMany => Limit::IggySessions,
                Unregistered::OutOfNumbers => Limit::IggyOperations,
            });
            Answer::Refused(IggyCode::TRANSIENT_NOT_ACCEPTED)
        }
    }
}

/// Binds a link to a session that was signed in on another.
pub fn bind_session(link: &Link, request: &Request) -> Answer {
    let Ok(asked) = BindSessionRequest::decode_from(&request.body) else {
        return Answer::Refused(IggyCode::INVALID_COMMAND);
    };
    if !is_protocol_compatible(asked.version_info.protocol_version) {
        return Answer::Evicted(Eviction::IncompatibleProtocol);
    }
    let identity = Identity { client: asked.identity.client_id, session: asked.identity.session };
    let bound = link.front.gateway.sessions().bind(identity, asked.bind_secret.expose_secret());
    match bound {
        Some(identity) => {
            link.bind(Some(identity));
            Answer::read(signed_in(identity))
        }
        None => Answer::Refused(IggyCode::UNAUTHENTICATED),
    }
}

/// Ends the session; the link stays.
pub fn logout(link: &Link) -> Answer {
    let Some(identity) = link.bound() else { return Answer::Refused(IggyCode::UNAUTHENTICATED) };
    link.front.gateway.sessions().end(identity.session);
    session_ended(&link.shard, identity.session);
    link.bind(None);
    Answer::Committed(link.shard.ops().current(), bytes::Bytes::new())
}

fn signed_in(identity: Identity) -> bytes::Bytes {
    let response = LoginRegisterResponse {
        user_id: ROOT_USER_ID,
        session: identity.session,
        server_protocol_version: IGGY_PROTOCOL_VERSION,
        server_version: server_version(),
    };
    response.to_bytes()
}

/// What the server says it is.
pub fn server_version() -> WireName {
    const VERSION: &str = concat!("ringgate-", env!("CARGO_PKG_VERSION"));
    match WireName::new(VERSION) {
        Ok(name) => name,
        Err(_) => unreachable!("{VERSION} is 1 to 255 bytes"),
    }
}
