//! The bytes that classic members of type `consumer` exchange: what they subscribe to and what they were
//! assigned (Kafka's ConsumerProtocolSubscription and ConsumerProtocolAssignment).
//!
//! Of a subscription only as much is read as is there: some clients write a version whose later fields they
//! leave out. Nothing allocates by a count that the bytes could not hold.

use bytes::{BufMut, Bytes};

use crate::Text;

/// The version that names owned partitions.
const OWNED_SINCE: i16 = 1;
/// The newest version of an assignment.
const ASSIGNMENT_VERSION_MAX: i16 = 3;

/// Partitions by topic.
pub(super) type ByTopic = Vec<(Text, Vec<i32>)>;

/// What a member subscribes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Subscription {
    pub version: i16,
    pub topics: Vec<Text>,
    /// What it has; nothing in versions that do not say.
    pub owned: ByTopic,
}

/// The subscription; `None` where not even its topics can be read.
pub(super) fn subscription(mut metadata: &[u8]) -> Option<Subscription> {
    let version = i16::from_be_bytes(take(&mut metadata)?);
    if version < 0 {
        return None;
    }
    let count = count(&mut metadata)?;
    let mut topics = Vec::with_capacity(count.min(metadata.len() / 2));
    for _ in 0..count {
        topics.push(text(&mut metadata)?);
    }
    let owned = match version {
        OWNED_SINCE.. => blob(&mut metadata).and_then(|_| by_topic(&mut metadata)).unwrap_or_default(),
        _ => ByTopic::new(),
    };
    Some(Subscription { version, topics, owned })
}

/// The partitions that a classic member of type `consumer` was assigned, by topic; `None` where the bytes cannot be
/// read.
pub fn assigned_partitions(assignment: &[u8]) -> Option<Vec<(Text, Vec<i32>)>> {
    self::assignment(assignment).map(|(by_topic, _)| by_topic)
}

/// What a member was assigned, and whether its assignor said more than that; `None` where it cannot be read.
/// No bytes at all are no partitions.
pub(super) fn assignment(mut bytes: &[u8]) -> Option<(ByTopic, bool)> {
    if bytes.is_empty() {
        return Some((ByTopic::new(), false));
    }
    let version = i16::from_be_bytes(take(&mut bytes)?);
    if version < 0 {
        return None;
    }
    let partitions = by_topic(&mut bytes)?;
    let has_user_data = blob(&mut bytes).is_some_and(|user_data| !user_data.is_empty());
    Some((partitions, has_user_data))
}

/// How many partitions a member was assigned, as far as that can be read.
pub(super) fn count_assigned(mut bytes: &[u8]) -> usize {
    let mut partitions = 0;
    let mut next = || -> Option<()> {
        let _version: [u8; 2] = take(&mut bytes)?;
        for _ in 0..count(&mut bytes)? {
            let name = usize::try_from(i16::from_be_bytes(take(&mut bytes)?)).ok()?;
            bytes = bytes.split_at_checked(name)?.1;
            let of_topic = count(&mut bytes)?;
            bytes = bytes.split_at_checked(of_topic.checked_mul(size_of::<i32>())?)?.1;
            partitions += of_topic;
        }
        Some(())
    };
    let _ends_early = next();
    partitions
}

/// An assignment for a member whose subscription is of this version.
pub(super) fn encode_assignment<'a>(
    version: i16,
    partitions: impl ExactSizeIterator<Item = (&'a str, Vec<i32>)>,
) -> Bytes {
    let mut out = Vec::new();
    out.put_i16(version.clamp(0, ASSIGNMENT_VERSION_MAX));
    out.put_i32(partitions.len() as i32);
    for (topic, partitions) in partitions {
        out.put_i16(topic.len() as i16);
        out.put_slice(topic.as_bytes());
        out.put_i32(partitions.len() as i32);
        partitions.iter().for_each(|partition| out.put_i32(*partition));
    }
    // No user data.
    out.put_i32(-1);
    Bytes::from(out)
}

fn by_topic(bytes: &mut &[u8]) -> Option<ByTopic> {
    let topics = count(bytes)?;
    let mut all = ByTopic::with_capacity(topics.min(bytes.len() / 6));
    for _ in 0..topics {
        let topic = text(bytes)?;
        let count = count(bytes)?;
        let mut partitions = Vec::with_capacity(count.min(bytes.len() / 4));
        for _ in 0..count {
            partitions.push(i32::from_be_bytes(take(bytes)?));
        }
        all.push((topic, partitions));
    }
    Some(all)
}

fn count(bytes: &mut &[u8]) -> Option<usize> {
    usize::try_from(i32::from_be_bytes(take(bytes)?)).ok()
}

fn text(bytes: &mut &[u8]) -> Option<Text> {
    let length = usize::try_from(i16::from_be_bytes(take(bytes)?)).ok()?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    std::str::from_utf8(text).ok().map(Text::from)
}

/// Null is no bytes.
fn blob<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(i32::from_be_bytes(take(bytes)?)).unwrap_or_default();
    let (blob, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(blob)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_part_of_a_subscription_that_is_there_is_read() {
        let read = |bytes: &[u8]| subscription(bytes);
        let topics = |names: &[&str]| names.iter().map(|name| Text::from(*name)).collect::<Vec<_>>();
        let short = read(b"\x00\x01\x00\x00\x00\x02\x00\x01a\x00\x02bc").expect("its topics are there");
        assert_eq!((short.topics, short.owned), (topics(&["a", "bc"]), ByTopic::new()));
        let whole = b"\x00\x01\x00\x00\x00\x01\x00\x01a\xff\xff\xff\xff\x00\x00\x00\x01\x00\x01a\x00\x00\x00\x01\x00\x00\x00\x07";
        assert_eq!(read(whole).expect("whole").owned, [(Text::from("a"), vec![7])]);
        assert_eq!(read(b"\x00\x00\x00\x00\x00\x00").expect("none").topics, topics(&[]));
    }

    #[test]
    fn a_hostile_count_reads_as_nothing_and_allocates_nothing() {
        assert_eq!(subscription(b"\x00\x00\x7f\xff\xff\xff"), None);
        assert_eq!(subscription(b"\x00\x00\xff\xff\xff\xff"), None);
        assert_eq!(subscription(b"\x00"), None);
        assert_eq!(assignment(b"\x00\x00\x7f\xff\xff\xff"), None);
        assert_eq!(assignment(b"\x00\x00\x00\x00\x00\x01\x00\x01a\x7f\xff\xff\xff"), None);
    }

    #[test]
    fn an_assignment_is_read_as_it_was_written() {
        let bytes = encode_assignment(9, [("a", vec![0, 2]), ("b", vec![])].into_iter());
        let expected = vec![(Text::from("a"), vec![0, 2]), (Text::from("b"), vec![])];
        assert_eq!(assignment(&bytes), Some((expected, false)));
        assert_eq!(assignment(b""), Some((ByTopic::new(), false)));
        assert_eq!(assignment(b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01x"), Some((ByTopic::new(), true)), "user data");
    }
}
