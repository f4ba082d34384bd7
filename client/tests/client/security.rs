//! TLS and SASL against a peer of the tests' own.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use kafka_protocol::messages::{
    ApiKey, HeartbeatRequest, HeartbeatResponse, SaslAuthenticateRequest, SaslAuthenticateResponse,
    SaslHandshakeRequest, SaslHandshakeResponse,
};
use kafka_protocol::protocol::StrBytes;
use ring::{digest, hmac, pbkdf2};
use ringgate_client::Target;
use ringgate_client::{Options, Sasl, SaslMechanism, Security, Tls};
use rustls::pki_types::PrivateKeyDer;

use crate::peer::{Asked, Does, broker, broker_under};
use crate::{on_executor, options};

/// A server's side of TLS for these names, and a file of the authority that vouches for it.
fn certified(names: &[&str]) -> (Arc<rustls::ServerConfig>, tempfile::NamedTempFile) {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), made.cert.pem()).expect("written");
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("a certificate that fits its key");
    (Arc::new(config), file)
}

fn tls(ca: Option<PathBuf>, server_name: Option<&str>, insecure: bool) -> Security {
    Security { tls: Some(Tls { ca, server_name: server_name.map(Into::into), insecure }), sasl: None }
}

/// Answers heartbeats with the length of the member id, and a name that large answers are made of.
fn heartbeats(asked: Asked) -> Does {
    let request = asked.read::<HeartbeatRequest>();
    asked.answer(&HeartbeatResponse::default().with_throttle_time_ms(request.member_id.len() as i32))
}

/// Sends requests of many sizes through a connection and then through a pipeline.
async fn talk(options: Options) -> Result<(), String> {
    let target = Target::reach(&options).await.map_err(|error| error.to_string())?;
    let (mut connection, steps) =
        target.connect_timed(&target.bootstrap()[0]).await.map_err(|error| error.to_string())?;
    assert_eq!(steps.tls.is_some(), options.security.tls.is_some());
    assert_eq!(steps.sasl.is_some(), options.security.sasl.is_some());
    let version = target.version(ApiKey::Heartbeat).expect("shared");
    // Past a TLS record, and past what one read takes.
    for length in [0, 1, 1_000, 17_000, 300_000] {
        let request = HeartbeatRequest::default().with_member_id(StrBytes::from_string("m".repeat(length)));
        let answer = connection.call(version, &request).await.map_err(|error| error.to_string())?;
        assert_eq!(answer.throttle_time_ms as usize, length);
    }
    let pipeline = connection.pipelined();
    for _ in 0..100 {
        let answer = pipeline.submit_request(version, &HeartbeatRequest::default()).await.expect("a place");
        answer.await.expect("an answer");
    }
    Ok(())
}

#[test]
fn requests_go_through_tls_when_the_authority_vouches_for_the_name() {
    let (server, ca) = certified(&["broker.test"]);
    let address = broker_under(Some(server), heartbeats);
    let with = |security| {
        let options = Options { security, ..options(std::slice::from_ref(&address)) };
        on_executor(move || talk(options))
    };
    let ca = Some(ca.path().to_path_buf());
    with(tls(ca.clone(), Some("broker.test"), false)).expect("all is well");
    let error = with(tls(ca.clone(), Some("other.test"), false)).expect_err("another name");
    assert!(error.contains("TLS: ") && error.contains("authentication failed"), "{error}");
    with(tls(ca, None, false)).expect_err("the address is no name of the certificate");
    let (_, other) = certified(&["broker.test"]);
    with(tls(Some(other.path().to_path_buf()), Some("broker.test"), false)).expect_err("another authority");
    with(tls(None, None, true)).expect("any certificate is taken when asked for");
}

#[test]
fn what_speaks_no_tls_is_told_as_that() {
    let address = broker(|_| Does::Close);
    // The peer takes the first bytes for a length and waits for the rest.
    let options = Options {
        security: tls(None, None, true),
        request_timeout: std::time::Duration::from_millis(500),
        ..options(&[address])
    };
    let error = on_executor(move || talk(options)).expect_err("no TLS");
    assert!(error.contains("no bootstrap server can be used"), "{error}");
    let (file, missing) = (tempfile::NamedTempFile::new().expect("a file"), PathBuf::from("/nowhere/ca.pem"));
    for ca in [file.path().to_path_buf(), missing] {
        let options =
            Options { security: tls(Some(ca.clone()), None, false), ..crate::options(&["127.0.0.1:9".into()]) };
        let error = on_executor(move || talk(options)).expect_err("no authority");
        assert!(error.contains(&ca.display().to_string()), "{error}");
    }
}

const USER: &str = "us=er";
const PASSWORD: &str = "pen,cil";

/// A broker that lets in who knows the password, and answers heartbeats of those only.
fn guarded(mechanism: &'static str) -> String {
    let exchange = Mutex::new(Exchange::default());
    broker(move |asked| match asked.api {
        ApiKey::SaslHandshake => {
            let offered = asked.read::<SaslHandshakeRequest>().mechanism;
            let code = if offered.as_str() == mechanism { 0 } else { 33 };
            let answer = SaslHandshakeResponse::default()
                .with_error_code(code)
                .with_mechanisms(vec![StrBytes::from_static_str(mechanism)]);
            asked.answer(&answer)
        }
        ApiKey::SaslAuthenticate => {
            let message = asked.read::<SaslAuthenticateRequest>().auth_bytes;
            let message = std::str::from_utf8(&message).expect("text");
            let said = exchange.lock().expect("one connection at a time").hear(mechanism, message);
            let answer = SaslAuthenticateResponse::default();
            asked.answer(&match said {
                Some(said) => answer.with_auth_bytes(Bytes::from(said)),
                None => answer
                    .with_error_code(58)
                    .with_error_message(Some(StrBytes::from_static_str("wrong user or password"))),
            })
        }
        _ => heartbeats(asked),
    })
}

/// The server's side, which knows the password itself.
#[derive(Default)]
struct Exchange {
    /// Both first messages, once the client has sent its own.
    first: Option<String>,
}

impl Exchange {
    fn hear(&mut self, mechanism: &str, message: &str) -> Option<String> {
        if mechanism == "PLAIN" {
            return (message == format!("\0{USER}\0{PASSWORD}")).then(String::new);
        }
        let Some(first) = self.first.take() else {
            let bare = message.strip_prefix("n,,").expect("no channel binding");
            let (name, nonce) = bare.split_once(",r=").expect("a name and a nonce");
            assert_eq!(name, "n=us=3Der");
            let server = format!("r={nonce}server,s={},i=4096", BASE64.encode("salt"));
            self.first = Some(format!("{bare},{server}"));
            return Some(server);
        };
        let (without_proof, proof) = message.split_once(",p=").expect("a proof");
        let (pbkdf2, mac, hash) = match mechanism {
            "SCRAM-SHA-256" => (pbkdf2::PBKDF2_HMAC_SHA256, hmac::HMAC_SHA256, &digest::SHA256),
            _ => (pbkdf2::PBKDF2_HMAC_SHA512, hmac::HMAC_SHA512, &digest::SHA512),
        };
        let mut salted = vec![0; hash.output_len()];
        pbkdf2::derive(pbkdf2, 4096.try_into().expect("not 0"), b"salt", PASSWORD.as_bytes(), &mut salted);
        let sign = |key: &[u8], message: &[u8]| hmac::sign(&hmac::Key::new(mac, key), message).as_ref().to_vec();
        let message = format!("{first},{without_proof}");
        let stored = digest::digest(hash, &sign(&salted, b"Client Key"));
        let signature = sign(stored.as_ref(), message.as_bytes());
        let proof = BASE64.decode(proof).expect("base64");
        let client_key: Vec<u8> = proof.iter().zip(&signature).map(|(proof, signature)| proof ^ signature).collect();
        if digest::digest(hash, &client_key).as_ref() != stored.as_ref() {
            return None;
        }
        Some(format!("v={}", BASE64.encode(sign(&sign(&salted, b"Server Key"), message.as_bytes()))))
    }
}

fn sasl(mechanism: SaslMechanism, password: &str) -> Security {
    Security { tls: None, sasl: Some(Sasl { mechanism, username: USER.into(), password: password.into() }) }
}

#[test]
fn each_mechanism_lets_in_who_knows_the_password_and_nobody_else() {
    for (name, mechanism) in [
        ("PLAIN", SaslMechanism::Plain),
        ("SCRAM-SHA-256", SaslMechanism::ScramSha256),
        ("SCRAM-SHA-512", SaslMechanism::ScramSha512),
    ] {
        let address = guarded(name);
        let with = |security| {
            let options = Options { security, ..options(std::slice::from_ref(&address)) };
            on_executor(move || talk(options))
        };
        with(sasl(mechanism, PASSWORD)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let error = with(sasl(mechanism, "wrong")).expect_err("a wrong password");
        assert!(error.contains("wrong user or password"), "{name}: {error}");
        assert!(!error.contains(PASSWORD), "the password is shown");
    }
}

#[test]
fn a_mechanism_that_the_target_lacks_is_told_with_those_it_has() {
    let address = guarded("SCRAM-SHA-256");
    let options = Options { security: sasl(SaslMechanism::Plain, PASSWORD), ..options(&[address]) };
    let error = on_executor(move || talk(options)).expect_err("refused");
    assert!(error.contains("PLAIN") && error.contains("SCRAM-SHA-256"), "{error}");
}
