//! Checking passwords away from the shards: one thread, one password at a time, so that whoever guesses holds up
//! nobody but others who sign in for the first time.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

use ringgate_runtime::{OneshotSender, oneshot};
use secrecy::{ExposeSecret, SecretString};

use super::limits::SIGN_INS_WAITING_MAX;
use super::password::RootPassword;

/// The thread and its queue.
pub struct SignIns {
    password: Arc<RootPassword>,
    queue: SyncSender<(SecretString, OneshotSender<bool>)>,
}

/// Too many wait.
#[derive(Debug, PartialEq, Eq)]
pub struct TooMany;

impl SignIns {
    /// Starts the thread; it ends with the value.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(password: RootPassword) -> io::Result<SignIns> {
        let password = Arc::new(password);
        let (queue, asked) = sync_channel::<(SecretString, OneshotSender<bool>)>(SIGN_INS_WAITING_MAX);
        let checks = password.clone();
        std::thread::Builder::new().name("iggy_sign_ins".into()).spawn(move || {
            for (given, answer) in asked {
                if !answer.is_closed() {
                    // Whoever asked may have gone meanwhile.
                    let _ = answer.send(checks.is_known(given.expose_secret()) || checks.verify(given.expose_secret()));
                }
            }
        })?;
        Ok(SignIns { password, queue })
    }

    /// Whether it is the password.
    ///
    /// # Errors
    /// Too many wait to be told; it was not looked at.
    pub async fn check(&self, given: SecretString) -> Result<bool, TooMany> {
        if self.password.is_known(given.expose_secret()) {
            return Ok(true);
        }
        let (answer, answered) = oneshot();
        match self.queue.try_send((given, answer)) {
            Ok(()) => answered.await.map_err(|_| TooMany),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => Err(TooMany),
        }
    }
}
