use iggy::prelude::*;
use iggy_binary_protocol::Operation;

use crate::client::{client, client_of, code};
use crate::common::gateway::{Gateway, IGGY_PASSWORD, Options};
use crate::common::within;
use crate::proxy::Proxy;

#[tokio::test]
async fn a_client_signs_in_pings_and_learns_of_one_node() {
    let gateway = Gateway::start(Options::new(2).iggy());
    let client = client(&gateway).await;
    within("ping", client.ping()).await.expect("ping");
    let cluster = within("cluster metadata", client.get_cluster_metadata()).await.expect("cluster metadata");
    assert_eq!(cluster.nodes.len(), 1);
    let node = &cluster.nodes[0];
    assert_eq!((node.ip.as_str(), node.endpoints.tcp), (&*gateway.iggy().ip().to_string(), gateway.iggy().port()));
    let me = within("me", client.get_me()).await.expect("me");
    assert!(me.address.starts_with("127."), "{}", me.address);
}

#[tokio::test]
async fn a_wrong_password_is_refused_at_once() {
    let gateway = Gateway::start(Options::new(2).iggy());
    let wrong = client_of(gateway.iggy(), "iggy");
    assert_eq!(code(within("connect", wrong.connect()).await), IggyError::InvalidCredentials.as_code());
    let line = gateway.until_logged(&["connection closed", "wrong name or password"]);
    assert!(!line.contains(IGGY_PASSWORD));
}

#[tokio::test]
async fn a_password_is_made_and_shown_at_the_first_start_and_holds_at_the_next() {
    let options = Options::new(1).iggy().unset("iggy-root-password");
    let mut gateway = Gateway::start(options.clone());
    let line = gateway.until_logged(&["password ", "made now"]);
    let (_, rest) = line.split_once("password ").expect("a password in the banner");
    let made = rest.split(':').next().expect("a password").to_owned();
    within("connect", client_of(gateway.iggy(), &made).connect()).await.expect("connect");
    assert!(gateway.sigterm().success());
    gateway.restart(options);
    within("connect", client_of(gateway.iggy(), &made).connect()).await.expect("connect after a restart");
    assert_eq!(gateway.written().matches(&made).count(), 1, "it is shown once");
}

#[tokio::test]
async fn a_password_that_is_given_replaces_the_one_before() {
    let mut gateway = Gateway::start(Options::new(1).iggy());
    assert!(gateway.sigterm().success());
    gateway.restart(Options::new(1).iggy().set("iggy-root-password", "another"));
    within("connect", client_of(gateway.iggy(), "another").connect()).await.expect("connect");
    let before = client_of(gateway.iggy(), IGGY_PASSWORD);
    assert_eq!(code(within("connect", before.connect()).await), IggyError::InvalidCredentials.as_code());
    assert!(!gateway.written().contains("another"), "a password is shown to nobody");
}

#[tokio::test]
async fn nothing_but_ping_is_served_before_sign_in() {
    let gateway = Gateway::start(Options::new(2).iggy());
    let client =
        IggyClient::builder().with_tcp().with_server_address(gateway.iggy().to_string()).build().expect("a client");
    within("connect", client.connect()).await.expect("connect");
    within("ping", client.ping()).await.expect("ping");
    assert_eq!(code(within("me", client.get_me()).await), IggyError::Unauthenticated.as_code());
}

#[tokio::test]
async fn after_logout_nothing_is_served_until_the_next_sign_in() {
    let gateway = Gateway::start(Options::new(2).iggy());
    let client = client(&gateway).await;
    within("logout", client.logout_user()).await.expect("logout");
    assert_eq!(code(within("me", client.get_me()).await), IggyError::Unauthenticated.as_code());
    within("login", client.login_user("iggy", IGGY_PASSWORD)).await.expect("login");
    within("me", client.get_me()).await.expect("me");
}

#[tokio::test]
async fn a_client_that_lost_its_link_goes_on_over_another_one() {
    let gateway = Gateway::start(Options::new(3).iggy());
    let proxy = Proxy::to(gateway.iggy()).await;
    let client = client_of(proxy.address(), IGGY_PASSWORD);
    within("connect", client.connect()).await.expect("connect");
    let before = within("me", client.get_me()).await.expect("me");
    for _ in 0..5 {
        proxy.cut();
        let me = within("me", client.get_me()).await.expect("me over another link");
        assert_eq!(me.client_id, before.client_id, "it is the same session");
        assert_ne!(me.address, before.address, "it is another link");
    }
}

#[tokio::test]
async fn a_client_whose_sign_in_was_not_answered_gets_in_all_the_same() {
    let gateway = Gateway::start(Options::new(2).iggy());
    let proxy = Proxy::to(gateway.iggy()).await;
    proxy.lose_the_next_reply_to(Operation::Register);
    let client = client_of(proxy.address(), IGGY_PASSWORD);
    within("connect", client.connect()).await.expect("connect");
    assert!(proxy.passed(Operation::Register) >= 1);
    within("me", client.get_me()).await.expect("me");
}

#[tokio::test]
async fn a_client_signs_in_anew_when_the_gateway_has_forgotten_it() {
    let mut gateway = Gateway::start(Options::new(2).iggy());
    let client = client(&gateway).await;
    gateway.kill9();
    let options = gateway.options().clone();
    gateway.restart(options);
    // What was asked while the session was lost may be reported as lost with it; nothing has to be done but to ask
    // again.
    let again = async {
        while let Err(error) = client.get_me().await {
            let lost = [IggyError::TransientNotCommitted, IggyError::Disconnected];
            assert!(lost.iter().any(|lost| lost.as_code() == error.as_code()), "{error}");
        }
    };
    within("me after a restart", again).await;
}

#[tokio::test]
async fn what_is_not_served_is_said_to_be_unavailable() {
    let gateway = Gateway::start(Options::new(1).iggy());
    let client = client(&gateway).await;
    assert_eq!(code(within("users", client.get_users()).await), IggyError::FeatureUnavailable.as_code());
    let options = UserCreateOptions::default();
    let user = client.create_user("somebody", "password", UserStatus::Active, None, &options);
    assert_eq!(code(within("create user", user).await), IggyError::FeatureUnavailable.as_code());
    within("the link goes on", client.ping()).await.expect("ping");
}
