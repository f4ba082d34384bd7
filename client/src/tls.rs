//! TLS over a stream of this runtime: rustls does no I/O of its own.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use ringgate_runtime::{BufferPool, TcpStream};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::{CallError, ClientError, options};

/// What connections of a run have in common.
#[derive(Clone)]
pub(super) struct Trust {
    config: Arc<ClientConfig>,
    /// The name to expect, unless it is the host's.
    name: Option<String>,
}

impl Trust {
    /// Reads the authorities.
    ///
    /// # Errors
    /// There are none, or they cannot be read.
    pub(super) fn new(tls: &options::Tls) -> Result<Trust, ClientError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let failed = |error: rustls::Error| ClientError(format!("TLS cannot be used: {error}"));
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(failed)?;
        let config = if tls.insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Anyone(provider))).with_no_client_auth()
        } else {
            builder.with_root_certificates(authorities(tls)?).with_no_client_auth()
        };
        Ok(Trust { config: Arc::new(config), name: tls.server_name.clone() })
    }
}

fn authorities(tls: &options::Tls) -> Result<RootCertStore, ClientError> {
    let mut roots = RootCertStore::empty();
    let found = match &tls.ca {
        Some(file) => {
            let failed = |error: &dyn std::fmt::Display| ClientError(format!("--tls-ca {}: {error}", file.display()));
            let certificates = CertificateDer::pem_file_iter(file).map_err(|error| failed(&error))?;
            certificates.collect::<Result<Vec<_>, _>>().map_err(|error| failed(&error))?
        }
        None => rustls_native_certs::load_native_certs().certs,
    };
    let (taken, _) = roots.add_parsable_certificates(found);
    if taken == 0 {
        let wher = tls.ca.as_ref().map_or("this system".into(), |file| file.display().to_string());
        return Err(ClientError(format!("{wher} has no certificate of an authority: see --tls-ca and --tls-insecure")));
    }
    Ok(roots)
}

/// Takes any certificate, but has the peer prove that it is its own.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A stream under TLS. One task may receive while another one sends.
pub(super) struct Tls {
    stream: TcpStream,
    session: RefCell<ClientConnection>,
}

impl Tls {
    /// Shakes hands over a connected stream.
    ///
    /// # Errors
    /// The peer speaks no TLS, is not who it should be, or has gone.
    pub(super) async fn shake_hands(
        stream: TcpStream,
        host: &str,
        trust: &Trust,
        pool: &BufferPool,
    ) -> Result<Tls, CallError> {
        let failed = |error: &dyn std::fmt::Display| CallError::Authentication(format!("TLS: {error}"));
        let name = trust.name.as_deref().unwrap_or(host).to_string();
        let name = ServerName::try_from(name).map_err(|error| failed(&error))?;
        let mut session = ClientConnection::new(trust.config.clone(), name).map_err(|error| failed(&error))?;
        // What is sent is bounded by who sends it.
        session.set_buffer_limit(None);
        let tls = Tls { stream, session: RefCell::new(session) };
        loop {
            let flight = tls.flight().map_err(|error| failed(&error))?;
            if !flight.is_empty() {
                tls.stream.send(vec![flight]).await.map_err(|error| failed(&error))?;
            }
            if !tls.session.borrow().is_handshaking() {
                return Ok(tls);
            }
            let came = tls.stream.recv(pool).await.map_err(|error| failed(&error))?;
            let Some(came) = came else {
                return Err(failed(&"the peer closed the connection within the handshake"));
            };
            if let Err(error) = tls.take_in(&came) {
                // The peer is told why.
                if let Ok(alert) = tls.flight()
                    && !alert.is_empty()
                {
                    let _ = tls.stream.send(vec![alert]).await;
                }
                return Err(failed(&error));
            }
        }
    }

    /// What the session wants to have sent.
    fn flight(&self) -> io::Result<Bytes> {
        let mut session = self.session.borrow_mut();
        let mut flight = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut flight)?;
        }
        Ok(flight.into())
    }

    /// Takes in what came; the plaintext that is there then, and whether the peer has closed.
    fn take_in(&self, mut came: &[u8]) -> io::Result<(BytesMut, bool)> {
        let mut session = self.session.borrow_mut();
        let mut plain = BytesMut::new();
        loop {
            if !came.is_empty() {
                session.read_tls(&mut came)?;
            }
            let state = session.process_new_packets().map_err(io::Error::other)?;
            let held = plain.len();
            plain.resize(held + state.plaintext_bytes_to_read(), 0);
            if plain.len() > held {
                session.reader().read_exact(&mut plain[held..])?;
            }
            if came.is_empty() || state.peer_has_closed() {
                return Ok((plain, state.peer_has_closed()));
            }
        }
    }

    pub(super) async fn recv(&self, pool: &BufferPool) -> io::Result<Option<BytesMut>> {
        // Bytes that came behind the handshake.
        let (plain, mut closed) = self.take_in(&[])?;
        if !plain.is_empty() {
            return Ok(Some(plain));
        }
        while !closed {
            let Some(came) = self.stream.recv(pool).await? else { return Ok(None) };
            let (plain, closes) = self.take_in(&came)?;
            if !plain.is_empty() {
                return Ok(Some(plain));
            }
            closed = closes;
        }
        Ok(None)
    }

    pub(super) async fn send(&self, segments: Vec<Bytes>) -> io::Result<()> {
        {
            let mut session = self.session.borrow_mut();
            for segment in &segments {
                session.writer().write_all(segment)?;
            }
        }
        drop(segments);
        let flight = self.flight()?;
        self.stream.send(vec![flight]).await
    }

    pub(super) fn abort_on_close(&self) {
        // Fails when the connection is gone already.
        let _ = self.stream.abort_on_close();
    }
}
