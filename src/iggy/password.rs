//! The password of the one user, `iggy`: given by a setting or made at the first start, kept as a hash.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use argon2::Argon2;
use argon2::password_hash::rand_core::{OsRng, RngCore};
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use ringgate_shards::store::embedded::data_dir::IGGY_ROOT_PASSWORD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Letters and digits that cannot be taken for each other.
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// Letters of a password that was made: 5 bits each.
const MADE_LETTERS: usize = 26;

/// Checks passwords.
pub struct RootPassword {
    hash: String,
    /// A key of this process, and under it what was right before: to check that again takes no time.
    key: [u8; 32],
    known: Mutex<Option<[u8; 32]>>,
}

/// What a start found or did.
pub struct Opened {
    /// Checks passwords.
    pub password: RootPassword,
    /// The password that was made, to be shown this once.
    pub made: Option<String>,
}

/// Reads the hash in a data directory, a text in the PHC string format; makes it of the password that is given, where that is not what it is of, or
/// of one made here where there is none.
///
/// # Errors
/// The file cannot be read or written, or holds no hash.
pub fn open(directory: &Path, given: Option<&str>) -> io::Result<Opened> {
    let path = directory.join(IGGY_ROOT_PASSWORD);
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let kept = match std::fs::read_to_string(&path) {
        Ok(text) => Some(text.trim().to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(named(error)),
    };
    if let Some(hash) = kept {
        PasswordHash::new(&hash).map_err(|error| named(io::Error::new(io::ErrorKind::InvalidData, error)))?;
        let password = RootPassword::of(hash);
        if given.is_none_or(|given| password.verify(given)) {
            return Ok(Opened { password, made: None });
        }
    }
    let (text, made) = match given {
        Some(given) => (given.to_owned(), None),
        None => {
            let made = make();
            (made.clone(), Some(made))
        }
    };
    let salt = SaltString::generate(&mut OsRng);
    let hash = Argon2::default().hash_password(text.as_bytes(), &salt).map_err(io::Error::other)?.to_string();
    write(directory, &path, &hash).map_err(named)?;
    Ok(Opened { password: RootPassword::of(hash), made })
}

fn make() -> String {
    let mut random = [0; MADE_LETTERS];
    OsRng.fill_bytes(&mut random);
    random.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect()
}

/// By a rename, readable by the owner alone.
fn write(directory: &Path, path: &Path, hash: &str) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let temporary = path.with_extension("tmp");
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    writeln!(file, "{hash}")?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)?;
    std::fs::File::open(directory)?.sync_all()
}

impl RootPassword {
    fn of(hash: String) -> RootPassword {
        let mut key = [0; 32];
        OsRng.fill_bytes(&mut key);
        RootPassword { hash, key, known: Mutex::new(None) }
    }

    /// Whether it is the password that was right before; no answer otherwise.
    pub fn is_known(&self, password: &str) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.is_some_and(|known| known.ct_eq(&self.digest(password)).into())
    }

    /// Whether it is the password. Takes some 20 ms and 19 MiB, so that guessing takes long, too.
    pub fn verify(&self, password: &str) -> bool {
        let right = PasswordHash::new(&self.hash)
            .is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok());
        if right {
            *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.digest(password));
        }
        right
    }

    fn digest(&self, password: &str) -> [u8; 32] {
        Sha256::new().chain_update(self.key).chain_update(password).finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_made_once_and_kept_as_a_hash() {
        let directory = tempfile::tempdir().unwrap();
        let first = open(directory.path(), None).unwrap();
        let made = first.made.unwrap();
        assert_eq!(made.len(), MADE_LETTERS);
        assert!(!first.password.is_known(&made));
        assert!(first.password.verify(&made) && !first.password.verify("iggy"));
        assert!(first.password.is_known(&made) && !first.password.is_known("iggy"));
        let again = open(directory.path(), None).unwrap();
        assert!(again.made.is_none() && again.password.verify(&made));
        let kept = std::fs::read_to_string(directory.path().join(IGGY_ROOT_PASSWORD)).unwrap();
        assert!(kept.starts_with("$argon2id$") && !kept.contains(&made), "{kept}");
    }

    #[test]
    fn a_password_that_is_given_replaces_the_one_before() {
        let directory = tempfile::tempdir().unwrap();
        let made = open(directory.path(), None).unwrap().made.unwrap();
        let given = open(directory.path(), Some("of my own")).unwrap();
        assert!(given.made.is_none() && given.password.verify("of my own") && !given.password.verify(&made));
        let without = open(directory.path(), None).unwrap();
        assert!(without.made.is_none() && without.password.verify("of my own"));
    }

    #[test]
    fn a_file_that_holds_no_hash_is_refused_by_name() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(IGGY_ROOT_PASSWORD), "secret").unwrap();
        let error = open(directory.path(), None).err().unwrap();
        assert!(error.to_string().contains(IGGY_ROOT_PASSWORD), "{error}");
    }
}
