//! The settings of the Iggy store: whom to ask, as whom, and which topics have other names there.

use std::path::Path;
use std::sync::Arc;

use ringgate_shards::store::iggy::{Credentials, IggyTopic, is_topic_name};
use toml::Table;

use crate::limits::CONFIG_FILE_BYTES_MAX;

/// Iggy's own port.
const PORT: u16 = 8090;

/// The longest name of a stream or topic.
const NAME_BYTES_MAX: usize = 255;

/// What `store` begins with.
pub const SCHEME: &str = "iggy://";

/// The form of a store in Iggy.
pub const ALLOWED: &str = "iggy://HOST[:PORT], further servers of the cluster separated by commas";

/// The servers of `iggy://HOST[:PORT][,HOST...]`.
///
/// # Errors
/// What is allowed.
pub fn servers(text: &str) -> Result<Vec<String>, String> {
    if text.contains('@') {
        return Err(format!("{ALLOWED}; user and password come by iggy_username and iggy_password"));
    }
    let hosts = text.trim_end_matches('/');
    hosts.split(',').map(|host| server(host.trim()).ok_or_else(|| ALLOWED.to_string())).collect()
}

fn server(text: &str) -> Option<String> {
    let (host, port) = super::check::host_and_port(text)?;
    let port = port.unwrap_or(PORT);
    Some(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
}

/// The credentials in a file: TOML with `username` and `password`.
///
/// # Errors
/// What is wrong with it, without anything of its contents.
pub fn credentials(path: &Path) -> Result<Credentials, String> {
    // The parser's message quotes the line, which may hold the password.
    let form = || "TOML with username = \"...\" and password = \"...\" and nothing else".to_string();
    let table: Table = read(path)?.parse().map_err(|_| form())?;
    let [username, password] = texts(&table, ["username", "password"]).ok_or_else(form)?;
    Ok(Credentials { username, password })
}

/// The topic map in a file: TOML with a line `"kafka name" = { stream = "...", topic = "..." }` for each.
///
/// # Errors
/// What is wrong with it.
pub fn topics(path: &Path) -> Result<Vec<(Arc<str>, IggyTopic)>, String> {
    let form = "TOML with lines such as orders = { stream = \"shop\", topic = \"orders\" }";
    let table: Table = read(path)?.parse().map_err(|error: toml::de::Error| format!("{form}: {}", error.message()))?;
    let mut topics: Vec<(Arc<str>, IggyTopic)> = Vec::with_capacity(table.len());
    for (name, entry) in table {
        if !is_topic_name(&name) {
            return Err(format!("names of Kafka's topics (1 to 249 of a-z, A-Z, 0-9, '.', '_', '-'), not {name:?}"));
        }
        let parts = entry.as_table().and_then(|entry| texts(entry, ["stream", "topic"]));
        let [stream, topic] = parts.ok_or_else(|| format!("{form}, and {name:?} is none"))?;
        if [&stream, &topic].iter().any(|part| part.len() > NAME_BYTES_MAX) {
            return Err(format!("streams and topics of 1 to {NAME_BYTES_MAX} bytes, not those of {name:?}"));
        }
        let at = IggyTopic { stream: stream.into(), topic: topic.into() };
        if let Some((other, _)) = topics.iter().find(|(_, taken)| *taken == at) {
            return Err(format!("one name for each topic; {name:?} and {other:?} are both {at}"));
        }
        topics.push((name.into(), at));
    }
    Ok(topics)
}

/// These texts, none of them empty, when a table has them and nothing else.
fn texts<const N: usize>(table: &Table, keys: [&str; N]) -> Option<[String; N]> {
    let text = |key| table.get(key).and_then(toml::Value::as_str).filter(|text| !text.is_empty());
    let all = keys.iter().all(|key| text(*key).is_some()) && table.len() == N;
    all.then(|| keys.map(|key| text(key).unwrap_or_default().to_owned()))
}

fn read(path: &Path) -> Result<String, String> {
    let size = std::fs::metadata(path).map_err(|error| format!("a file that can be read: {error}"))?.len();
    if size > CONFIG_FILE_BYTES_MAX {
        return Err(format!("a file of at most {CONFIG_FILE_BYTES_MAX} bytes"));
    }
    std::fs::read_to_string(path).map_err(|error| format!("a file that can be read: {error}"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn servers_have_iggys_port_unless_they_say_another() {
        assert_eq!(servers("a").unwrap(), ["a:8090"]);
        assert_eq!(servers("a:1,b,[::1]:9/").unwrap(), ["a:1", "b:8090", "[::1]:9"]);
        for wrong in ["", "a,,b", "a:x", "a b", "user:secret@host"] {
            let error = servers(wrong).unwrap_err();
            assert!(error.contains("HOST[:PORT]") && !error.contains("secret"), "{wrong}: {error}");
        }
    }

    #[test]
    fn credentials_are_read_and_never_quoted() {
        let good = credentials(file("username = \"u\"\npassword = \"p w\"\n").path()).unwrap();
        assert_eq!((good.username.as_str(), good.password.as_str()), ("u", "p w"));
        for wrong in ["password = \"secret", "username = \"u\"\npassword = \"secret\"\nmore = 1", "secret"] {
            let error = credentials(file(wrong).path()).unwrap_err();
            assert!(error.contains("username") && !error.contains("secret"), "{error}");
        }
        assert!(credentials(Path::new("/nowhere/at/all")).unwrap_err().contains("can be read"));
    }

    #[test]
    fn the_topic_map_names_streams_and_topics() {
        let map = topics(file("\"a.b\" = { stream = \"s\", topic = \"t t\" }\n").path()).unwrap();
        assert_eq!(map, [("a.b".into(), IggyTopic { stream: "s".into(), topic: "t t".into() })]);
        for (wrong, says) in [
            ("\"a b\" = { stream = \"s\", topic = \"t\" }", "\"a b\""),
            ("a = { stream = \"s\" }", "topic"),
            ("a = { stream = \"\", topic = \"t\" }", "\"a\" is none"),
            ("a = { stream = \"s\", topic = \"t\" }\nb = { stream = \"s\", topic = \"t\" }", "one name for each"),
            ("a = { stream = \"s\", topic = \"t\", more = 1 }", "\"a\" is none"),
        ] {
            let error = topics(file(wrong).path()).unwrap_err();
            assert!(error.contains(says), "{wrong}: {error}");
        }
    }
}
