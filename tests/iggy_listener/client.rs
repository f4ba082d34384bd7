//! Clients of the Iggy SDK.

use std::net::SocketAddr;

use iggy::prelude::*;

use crate::common::gateway::{Gateway, IGGY_PASSWORD};
use crate::common::within;

/// A client that has signed in.
pub async fn client(gateway: &Gateway) -> IggyClient {
    let client = client_of(gateway.iggy(), IGGY_PASSWORD);
    within("connect", client.connect()).await.expect("connect");
    client
}

/// A client of this address with this password, not connected yet.
pub fn client_of(address: SocketAddr, password: &str) -> IggyClient {
    IggyClient::builder()
        .with_tcp()
        .with_server_address(address.to_string())
        .with_auto_sign_in(AutoLogin::Enabled(Credentials::UsernamePassword(
            "iggy".into(),
            password.to_string().into(),
        )))
        .with_reconnection_interval("20ms".parse().expect("a duration"))
        .with_no_delay()
        .build()
        .expect("a client")
}

/// The code of the error that an operation came to.
pub fn code<T: std::fmt::Debug>(outcome: Result<T, IggyError>) -> u32 {
    outcome.expect_err("an error").as_code()
}
