//! Options of topics: those that are settings here, and those that are kept as given.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use iggy_binary_protocol::WireOptions;
use ringgate_shards::catalogue::{IggyOption, Topic};
use ringgate_shards::iggy_code::IggyCode;
use ringgate_shards::topic_config::{TopicConfig, TopicDefaults, iggy};
use ringgate_wire::iggy::{HEADER_KIND_STRING, UserHeader, put_user_header};

/// Iggy's numbers of the types of values.
const STRING: u8 = HEADER_KIND_STRING;
const BOOL: u8 = 3;
const UINT32: u8 = 11;
const UINT64: u8 = 12;

/// Options that mean nothing to this store; what they are of.
const KEPT: [(&str, u8); 8] = [
    ("compression_algorithm", STRING),
    ("durability", STRING),
    ("consumer_offset_durability", STRING),
    ("partition_resize_policy", STRING),
    ("messages_required_to_save", UINT32),
    ("size_of_messages_required_to_save", UINT64),
    ("preallocate_segments", BOOL),
    ("replication_factor", UINT32),
];

/// Settings by Kafka's name, and options that are kept as given.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// As `NewIggyTopic::config`.
    pub config: BTreeMap<String, String>,
    /// As `NewIggyTopic::options`.
    pub options: BTreeMap<String, IggyOption>,
}

/// Reads the options of a topic with so many partitions.
///
/// # Errors
/// `InvalidOptionKey(4041)` and `InvalidOptionValue(4042)`.
pub fn read(options: &WireOptions, partitions: u32) -> Result<Given, IggyCode> {
    let mut given = Given::default();
    for option in options.iter() {
        let key = std::str::from_utf8(option.key).map_err(|_| IggyCode::INVALID_OPTION_KEY)?;
        let kind = option.value_kind.0;
        if iggy::OPTIONS.contains(&key) {
            let value = number(kind, option.value).ok_or(IggyCode::INVALID_OPTION_VALUE)?;
            given.config.extend(iggy::setting_of(key, value, partitions).map(|(name, value)| (name.to_owned(), value)));
            continue;
        }
        let (_, expected) = KEPT.iter().find(|(name, _)| *name == key).ok_or(IggyCode::INVALID_OPTION_KEY)?;
        let sound = match *expected {
            STRING => kind == STRING && std::str::from_utf8(option.value).is_ok(),
            BOOL => kind == BOOL && matches!(option.value, [0 | 1]),
            _ => number(kind, option.value).is_some(),
        };
        // There is one copy of everything.
        let copies = key == "replication_factor" && number(kind, option.value) != Some(1);
        if !sound || copies {
            return Err(IggyCode::INVALID_OPTION_VALUE);
        }
        given.options.insert(key.to_owned(), IggyOption { kind, value: Bytes::copy_from_slice(option.value) });
    }
    Ok(given)
}

/// Puts these options back to what Iggy has where nothing is said.
///
/// # Errors
/// `InvalidOptionKey(4041)`.
pub fn reset(
    names: &[String],
    config: &mut BTreeMap<String, String>,
    options: &mut BTreeMap<String, IggyOption>,
) -> Result<(), IggyCode> {
    for name in names {
        // Which setting it is does not depend on the value.
        if let Some((setting, _)) = iggy::setting_of(name, u64::MAX, 1) {
            config.remove(setting);
            config.extend(iggy::defaults().filter(|(of, _)| *of == setting).map(|(of, value)| (of.to_owned(), value)));
        } else if KEPT.iter().any(|(kept, _)| kept == name) {
            options.remove(name);
        } else {
            return Err(IggyCode::INVALID_OPTION_KEY);
        }
    }
    Ok(())
}

/// A whole number of 4 or 8 bytes, or one that is written out.
fn number(kind: u8, value: &[u8]) -> Option<u64> {
    match kind {
        UINT32 => Some(u32::from_le_bytes(value.try_into().ok()?).into()),
        UINT64 => Some(u64::from_le_bytes(value.try_into().ok()?)),
        STRING => std::str::from_utf8(value).ok()?.parse().ok(),
        _ => None,
    }
}

/// A topic's options as they were given and as they come out of its settings.
pub fn of(topic: &Topic, defaults: TopicDefaults) -> Result<(WireOptions, WireOptions), IggyCode> {
    let mut explicit = BytesMut::new();
    for (name, option) in &topic.options {
        put(&mut explicit, name, option.kind, &option.value);
    }
    let config = TopicConfig::parse(&topic.config, defaults).map_err(|_| IggyCode::ERROR)?;
    let partitions = u32::try_from(topic.partitions).unwrap_or(1);
    let mut derived = BytesMut::new();
    for name in iggy::OPTIONS {
        if let Some(value) = iggy::option_of(name, &config, partitions) {
            put(&mut derived, name, UINT64, &value.to_le_bytes());
        }
    }
    let block = |bytes: BytesMut| WireOptions::from_bytes(bytes.freeze()).map_err(|_| IggyCode::ERROR);
    Ok((block(explicit)?, block(derived)?))
}

fn put(out: &mut BytesMut, name: &str, value_kind: u8, value: &[u8]) {
    put_user_header(out, &UserHeader { name_kind: STRING, name: name.as_bytes(), value_kind, value });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(entries: &[(&str, u8, &[u8])]) -> WireOptions {
        let mut bytes = BytesMut::new();
        for (name, kind, value) in entries {
            put(&mut bytes, name, *kind, value);
        }
        WireOptions::from_bytes(bytes.freeze()).unwrap()
    }

    #[test]
    fn what_means_something_is_a_setting_and_the_rest_is_kept() {
        let given = read(
            &options(&[
                ("message_expiry", UINT64, &7_000_000u64.to_le_bytes()),
                ("segment_size", STRING, b"1048576"),
                ("compression_algorithm", STRING, b"none"),
            ]),
            1,
        )
        .unwrap();
        let config: Vec<_> = given.config.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(config, [("retention.ms", "7000"), ("segment.bytes", "1048576")]);
        assert_eq!(given.options.keys().collect::<Vec<_>>(), ["compression_algorithm"]);
    }

    #[test]
    fn what_is_reset_is_as_if_nothing_had_been_said() {
        let mut config: BTreeMap<String, String> =
            [("retention.ms", "7"), ("segment.bytes", "1048576"), ("max.message.bytes", "9")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into();
        let none = IggyOption { kind: STRING, value: Bytes::from_static(b"none") };
        let mut kept = BTreeMap::from([("compression_algorithm".to_owned(), none)]);
        let names = ["message_expiry", "segment_size", "compression_algorithm"].map(str::to_owned);
        reset(&names, &mut config, &mut kept).unwrap();
        let left: Vec<_> = config.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(left, [("max.message.bytes", "9"), ("retention.ms", "-1")]);
        assert!(kept.is_empty());
        assert_eq!(reset(&["name".to_owned()], &mut config, &mut kept), Err(IggyCode::INVALID_OPTION_KEY));
    }

    #[test]
    fn what_is_not_known_or_cannot_be_is_refused() {
        for (entry, code) in [
            (("no_such_option", UINT64, &[0; 8][..]), IggyCode::INVALID_OPTION_KEY),
            (("message_expiry", UINT64, &[0; 4]), IggyCode::INVALID_OPTION_VALUE),
            (("segment_size", STRING, b"large"), IggyCode::INVALID_OPTION_VALUE),
            (("replication_factor", UINT32, &3u32.to_le_bytes()), IggyCode::INVALID_OPTION_VALUE),
            (("preallocate_segments", BOOL, &[7]), IggyCode::INVALID_OPTION_VALUE),
        ] {
            assert_eq!(read(&options(&[entry]), 1), Err(code), "{}", entry.0);
        }
    }
}
