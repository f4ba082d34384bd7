//! SCRAM (RFC 5802, RFC 7677), the client's side: values that make messages of messages.

use std::fmt::Write as _;
use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::{digest, hmac, pbkdf2};

use crate::SaslMechanism;
use crate::limits::SCRAM_ITERATIONS_MAX;

/// What of a mechanism's hash is needed.
#[derive(Clone, Copy)]
struct Hash {
    pbkdf2: pbkdf2::Algorithm,
    hmac: hmac::Algorithm,
    digest: &'static digest::Algorithm,
}

impl Hash {
    fn of(mechanism: SaslMechanism) -> Hash {
        match mechanism {
            SaslMechanism::ScramSha512 => {
                Hash { pbkdf2: pbkdf2::PBKDF2_HMAC_SHA512, hmac: hmac::HMAC_SHA512, digest: &digest::SHA512 }
            }
            _ => Hash { pbkdf2: pbkdf2::PBKDF2_HMAC_SHA256, hmac: hmac::HMAC_SHA256, digest: &digest::SHA256 },
        }
    }

    fn hmac(self, key: &[u8], message: &[u8]) -> Vec<u8> {
        hmac::sign(&hmac::Key::new(self.hmac, key), message).as_ref().to_vec()
    }
}

/// A salted password, which takes milliseconds to make: kept over connections, since the target's salt stays the same.
#[derive(Clone, Default)]
pub(super) struct Salted(Option<(Vec<u8>, u32, Vec<u8>)>);

/// One exchange.
pub(super) struct Scram {
    hash: Hash,
    nonce: String,
    first_bare: String,
    server_signature: Vec<u8>,
}

impl Scram {
    /// Begins; `nonce` is random, printable, and has no comma.
    pub(super) fn new(mechanism: SaslMechanism, username: &str, nonce: String) -> Scram {
        let name = username.replace('=', "=3D").replace(',', "=2C");
        let first_bare = format!("n={name},r={nonce}");
        Scram { hash: Hash::of(mechanism), nonce, first_bare, server_signature: Vec::new() }
    }

    /// The client's first message.
    pub(super) fn first(&self) -> String {
        format!("n,,{}", self.first_bare)
    }

    /// The client's last message, in answer to the server's first.
    ///
    /// # Errors
    /// What is wrong with the server's.
    pub(super) fn last(&mut self, server: &str, password: &str, salted: &mut Salted) -> Result<String, String> {
        if let Some(why) = field(server, 'e') {
            return Err(format!("the server says: {why}"));
        }
        let missing = |name| format!("the server's first message has no {name}");
        let nonce = field(server, 'r').ok_or_else(|| missing("nonce"))?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err("the server's nonce does not go on from the client's".into());
        }
        let salt = field(server, 's').and_then(|salt| BASE64.decode(salt).ok()).ok_or_else(|| missing("salt"))?;
        let iterations = field(server, 'i').and_then(|count| count.parse::<u32>().ok()).and_then(NonZeroU32::new);
        let iterations = iterations.ok_or_else(|| missing("iteration count"))?;
        if iterations.get() > SCRAM_ITERATIONS_MAX {
            return Err(format!("{iterations} iterations are over {SCRAM_ITERATIONS_MAX}"));
        }
        let password = match &salted.0 {
            Some((of_salt, count, kept)) if *of_salt == salt && *count == iterations.get() => kept.clone(),
            _ => {
                let mut made = vec![0; self.hash.digest.output_len()];
                pbkdf2::derive(self.hash.pbkdf2, iterations, &salt, password.as_bytes(), &mut made);
                salted.0 = Some((salt, iterations.get(), made.clone()));
                made
            }
        };
        let client_key = self.hash.hmac(&password, b"Client Key");
        let stored_key = digest::digest(self.hash.digest, &client_key);
        // "n,," in base64: no channel binding.
        let mut last = format!("c=biws,r={nonce}");
        let message = format!("{},{server},{last}", self.first_bare);
        let signature = self.hash.hmac(stored_key.as_ref(), message.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(key, signature)| key ^ signature).collect();
        let server_key = self.hash.hmac(&password, b"Server Key");
        self.server_signature = self.hash.hmac(&server_key, message.as_bytes());
        // Writing to a string does not fail.
        let _ = write!(last, ",p={}", BASE64.encode(proof));
        Ok(last)
    }

    /// Whether the server has proved that it knows the password, too.
    ///
    /// # Errors
    /// It has not; says why.
    pub(super) fn finish(&self, server: &str) -> Result<(), String> {
        if let Some(why) = field(server, 'e') {
            return Err(format!("the server says: {why}"));
        }
        let signature = field(server, 'v').and_then(|signature| BASE64.decode(signature).ok());
        match signature {
            Some(signature) if signature == self.server_signature => Ok(()),
            _ => Err("the server's signature is wrong: it does not know the password".into()),
        }
    }
}

/// A message's field.
fn field(message: &str, name: char) -> Option<&str> {
    message.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7677, section 3.
    const SERVER_FIRST: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    fn exchange() -> Scram {
        Scram::new(SaslMechanism::ScramSha256, "user", "rOprNGfwEbeRWgbNEkqO".into())
    }

    #[test]
    fn the_exchange_is_that_of_the_rfc() {
        let (mut scram, mut salted) = (exchange(), Salted::default());
        assert_eq!(scram.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                    p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(scram.last(SERVER_FIRST, "pencil", &mut salted).expect("an answer"), last);
        scram.finish("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").expect("the server knows it");
        assert!(scram.finish("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5=").is_err());
        assert!(scram.finish("e=invalid-proof").expect_err("refused").contains("invalid-proof"));
        let again = exchange().last(SERVER_FIRST, "pencil", &mut salted);
        assert_eq!(again.expect("from the kept one"), last);
    }

    #[test]
    fn what_the_server_gets_wrong_is_told() {
        let refused = |server: &str| exchange().last(server, "pencil", &mut Salted::default()).expect_err("refused");
        assert!(refused("r=rOprNGfwEbeRWgbNEkqO,s=W22Z,i=4096").contains("nonce"), "nothing added");
        assert!(refused("r=other,s=W22Z,i=4096").contains("nonce"));
        assert!(refused("r=rOprNGfwEbeRWgbNEkqO1,s=!,i=4096").contains("salt"));
        assert!(refused("r=rOprNGfwEbeRWgbNEkqO1,s=W22Z,i=0").contains("iteration"));
        assert!(refused("r=rOprNGfwEbeRWgbNEkqO1,s=W22Z,i=4000000000").contains("over"));
        assert!(refused("e=unknown-user").contains("unknown-user"));
    }

    #[test]
    fn names_are_escaped() {
        let scram = Scram::new(SaslMechanism::ScramSha512, "a=b,c", "n".into());
        assert_eq!(scram.first(), "n,,n=a=3Db=2Cc,r=n");
    }
}
