//! Flags that every program with this client has.

use std::path::PathBuf;

use crate::{Sasl, SaslMechanism, Security, Tls};

/// A flag's value cannot be: exit code 2. Names the flag, the value, and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("--{flag} {value}: {allowed}")]
pub struct UsageError {
    /// Without dashes.
    pub flag: &'static str,
    /// As given.
    pub value: String,
    /// What would be right.
    pub allowed: String,
}

/// How connections are secured.
#[derive(Clone, Default, PartialEq, Eq, clap::Args)]
pub struct SecurityArgs {
    /// Connect by TLS
    #[arg(long, help_heading = "Security")]
    pub tls: bool,
    /// PEM file of the authorities to trust [default: the system's]
    #[arg(long, value_name = "FILE", help_heading = "Security", requires = "tls")]
    pub tls_ca: Option<PathBuf>,
    /// Name to expect in the certificate [default: the host that is connected to]
    #[arg(long, value_name = "NAME", help_heading = "Security", requires = "tls")]
    pub tls_server_name: Option<String>,
    /// Take any certificate: for tests only
    #[arg(long, help_heading = "Security", requires = "tls")]
    pub tls_insecure: bool,
    /// SASL mechanism
    #[arg(long, value_enum, value_name = "MECHANISM", help_heading = "Security", requires = "username")]
    pub sasl: Option<SaslArg>,
    /// SASL user
    #[arg(long, help_heading = "Security", requires = "sasl")]
    pub username: Option<String>,
    /// SASL password, which every user of this machine sees while the program runs; better use --password-file or the
    /// environment
    #[arg(long, help_heading = "Security", requires = "sasl")]
    pub password: Option<String>,
    /// File whose first line is the SASL password
    #[arg(long, value_name = "FILE", help_heading = "Security", requires = "sasl", conflicts_with = "password")]
    pub password_file: Option<PathBuf>,
}

impl std::fmt::Debug for SecurityArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The password is shown nowhere.
        f.debug_struct("SecurityArgs")
            .field("tls", &self.tls)
            .field("sasl", &self.sasl)
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

/// `--sasl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "verbatim")]
pub enum SaslArg {
    /// PLAIN
    #[value(name = "PLAIN")]
    Plain,
    /// SCRAM-SHA-256
    #[value(name = "SCRAM-SHA-256")]
    ScramSha256,
    /// SCRAM-SHA-512
    #[value(name = "SCRAM-SHA-512")]
    ScramSha512,
}

impl SecurityArgs {
    /// Checks all of them together. The password is that of the command line, of the file, or of the variable of the
    /// environment with this name.
    ///
    /// # Errors
    /// There is no password, or its file cannot be read.
    pub fn security(&self, variable: &str) -> Result<Security, UsageError> {
        let tls = self.tls.then(|| Tls {
            ca: self.tls_ca.clone(),
            server_name: self.tls_server_name.clone(),
            insecure: self.tls_insecure,
        });
        let Some(mechanism) = self.sasl else { return Ok(Security { tls, sasl: None }) };
        let mechanism = match mechanism {
            SaslArg::Plain => SaslMechanism::Plain,
            SaslArg::ScramSha256 => SaslMechanism::ScramSha256,
            SaslArg::ScramSha512 => SaslMechanism::ScramSha512,
        };
        let username = self.username.clone().unwrap_or_default();
        Ok(Security { tls, sasl: Some(Sasl { mechanism, username, password: self.password(variable)? }) })
    }

    fn password(&self, variable: &str) -> Result<String, UsageError> {
        if let Some(password) = &self.password {
            return Ok(password.clone());
        }
        if let Some(file) = &self.password_file {
            let refuse =
                |allowed: String| Err(UsageError { flag: "password-file", value: file.display().to_string(), allowed });
            return match std::fs::read_to_string(file) {
                Err(error) => refuse(format!("a file that can be read: {error}")),
                Ok(text) => match text.lines().next().filter(|line| !line.is_empty()) {
                    Some(line) => Ok(line.to_string()),
                    None => refuse("a file whose first line is the password".into()),
                },
            };
        }
        std::env::var(variable).map_err(|_| UsageError {
            flag: "password",
            value: String::new(),
            allowed: format!("a password, here, in --password-file, or as {variable} in the environment"),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        security: SecurityArgs,
    }

    fn security(arguments: &[&str]) -> Result<Security, UsageError> {
        let arguments = std::iter::once("program").chain(arguments.iter().copied());
        Program::parse_from(arguments).security.security("RINGGATE_NO_SUCH_VARIABLE")
    }

    #[test]
    fn a_password_comes_from_the_first_line_of_a_file() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "se cret\nmore\n").expect("written");
        let path = file.path().to_str().expect("text");
        let of_file = ["--sasl", "SCRAM-SHA-256", "--username", "u", "--password-file", path];
        let sasl = security(&of_file).expect("a password").sasl.expect("SASL");
        assert_eq!((sasl.mechanism, sasl.password.as_str()), (SaslMechanism::ScramSha256, "se cret"));
        std::fs::write(file.path(), "").expect("written");
        assert_eq!(security(&of_file).expect_err("nothing in it").flag, "password-file");
    }

    #[test]
    fn a_user_without_a_password_is_told_where_it_may_be() {
        let refused = security(&["--sasl", "PLAIN", "--username", "u"]).expect_err("no password").to_string();
        assert!(refused.contains("RINGGATE_NO_SUCH_VARIABLE") && refused.contains("--password-file"), "{refused}");
        assert!(security(&[]).expect("plaintext").sasl.is_none());
    }
}
