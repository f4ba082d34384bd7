//! A command line that may be shown.

/// What a word that holds a secret is replaced by.
const MASK: &str = "***";

/// Words in the name of a flag or key whose value is a secret.
const SECRET: [&str; 4] = ["password", "passwd", "secret", "token"];

/// The command with every secret masked: `--sasl-password X`, `--sasl-password=X`, `password=X` within a value, and
/// the password in `user:password@host`.
pub fn masked<S: AsRef<str>>(command: &[S]) -> Vec<String> {
    let mut shown = Vec::with_capacity(command.len());
    let mut value_is_secret = false;
    for word in command.iter().map(AsRef::as_ref) {
        if value_is_secret && !word.starts_with("--") {
            shown.push(MASK.to_owned());
            value_is_secret = false;
            continue;
        }
        value_is_secret = word.starts_with("--") && !word.contains('=') && is_secret(word);
        shown.push(without_secrets(word));
    }
    shown
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET.iter().any(|secret| name.contains(secret)) && !name.ends_with("-file")
}

fn without_secrets(word: &str) -> String {
    if let Some((name, _)) = word.split_once('=')
        && is_secret(name)
    {
        return format!("{name}={MASK}");
    }
    if let Some((before, host)) = word.rsplit_once('@')
        && let Some((user, _)) = before.rsplit_once(':')
        && !user.is_empty()
    {
        // `scheme://user@host` has a colon, but no password.
        if !before.rsplit_once(':').is_some_and(|(_, rest)| rest.starts_with("//")) {
            return format!("{user}:{MASK}@{host}");
        }
    }
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::masked;

    #[test]
    fn no_secret_of_a_command_is_shown() {
        let command =
            ["bench", "--sasl-username", "ann", "--sasl-password", "pw1", "--seed", "7", "--sasl-password=pw2"];
        assert_eq!(
            masked(&command),
            ["bench", "--sasl-username", "ann", "--sasl-password", "***", "--seed", "7", "--sasl-password=***"]
        );
        assert_eq!(
            masked(&["iggy://ann:pw@host:1", "-Djaas.password=x"]),
            ["iggy://ann:***@host:1", "-Djaas.password=***"]
        );
        assert_eq!(
            masked(&["iggy://ann@host:1", "--password-file", "/etc/pw"]),
            ["iggy://ann@host:1", "--password-file", "/etc/pw"]
        );
        // A flag without its value hides nothing but what follows it.
        assert_eq!(masked(&["--sasl-password", "--seed", "7"]), ["--sasl-password", "--seed", "7"]);
    }
}
