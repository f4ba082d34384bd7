//! What clients of the classic protocol put into the bytes that the coordinator does not look into.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes};
use ringgate_group::Text;

/// A subscription of version 1, with what the member has.
pub fn subscription(topics: &[Text], owned: &[(Text, i32)]) -> Bytes {
    let mut out = Vec::new();
    out.put_i16(1);
    put_topics(&mut out, topics);
    out.put_i32(-1);
    put_by_topic(&mut out, owned);
    out.into()
}

/// Partitions by topic, as a member says that it has them.
type Owned = Vec<(Text, i32)>;

/// Topics and owned partitions; `None` for what no well-meaning client writes.
pub fn read_subscription(bytes: &[u8]) -> Option<(Vec<Text>, Owned)> {
    let mut input = Input(bytes);
    (input.i16()? == 1).then_some(())?;
    let count = input.i32()?;
    let topics = (0..count).map(|_| input.text()).collect::<Option<Vec<_>>>()?;
    (input.i32()? == -1).then_some(())?;
    Some((topics, input.by_topic()?))
}

/// What a leader gives a member, and as which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    pub generation: i32,
    pub leader: Text,
    pub member_id: Text,
    pub instance: Option<Text>,
    pub partitions: Vec<(Text, i32)>,
}

/// An assignment as all clients and coordinators read it.
pub fn assignment(partitions: &[(Text, i32)]) -> Bytes {
    let mut out = Vec::new();
    out.put_i16(1);
    put_by_topic(&mut out, partitions);
    out.put_i32(-1);
    out.into()
}

/// The partitions of an assignment.
pub fn read_assignment(bytes: &[u8]) -> Option<Owned> {
    let mut input = Input(bytes);
    input.i16()?;
    input.by_topic()
}

const MARK: i16 = 0x5a5a;

impl Given {
    pub fn write(&self) -> Bytes {
        let mut out = Vec::new();
        out.put_i16(MARK);
        out.put_i32(self.generation);
        put_text(&mut out, &self.leader);
        put_text(&mut out, &self.member_id);
        put_text(&mut out, self.instance.as_ref().unwrap_or(&Text::EMPTY));
        put_partitions(&mut out, &self.partitions);
        out.into()
    }

    /// `None` for what no well-meaning leader writes.
    pub fn read(bytes: &[u8]) -> Option<Given> {
        let mut input = Input(bytes);
        (input.i16()? == MARK).then_some(())?;
        Some(Given {
            generation: input.i32()?,
            leader: input.text()?,
            member_id: input.text()?,
            instance: input.text().map(|text| (!text.is_empty()).then_some(text))?,
            partitions: input.partitions()?,
        })
    }
}

fn put_text(out: &mut Vec<u8>, text: &Text) {
    out.put_i16(text.len() as i16);
    out.put_slice(text.as_bytes());
}

fn put_topics(out: &mut Vec<u8>, topics: &[Text]) {
    out.put_i32(topics.len() as i32);
    topics.iter().for_each(|topic| put_text(out, topic));
}

/// As the consumer protocol has it: topics with their partitions.
fn put_by_topic(out: &mut Vec<u8>, partitions: &[(Text, i32)]) {
    let mut topics: BTreeMap<&Text, Vec<i32>> = BTreeMap::new();
    for (topic, partition) in partitions {
        topics.entry(topic).or_default().push(*partition);
    }
    out.put_i32(topics.len() as i32);
    for (topic, partitions) in topics {
        put_text(out, topic);
        out.put_i32(partitions.len() as i32);
        partitions.into_iter().for_each(|partition| out.put_i32(partition));
    }
}

fn put_partitions(out: &mut Vec<u8>, partitions: &[(Text, i32)]) {
    out.put_i32(partitions.len() as i32);
    for (topic, partition) in partitions {
        put_text(out, topic);
        out.put_i32(*partition);
    }
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn i16(&mut self) -> Option<i16> {
        self.array().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_be_bytes)
    }

    fn text(&mut self) -> Option<Text> {
        let length = usize::try_from(self.i16()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok().map(Text::from)
    }

    fn by_topic(&mut self) -> Option<Owned> {
        let mut partitions = Vec::new();
        for _ in 0..self.i32()? {
            let topic = self.text()?;
            for _ in 0..self.i32()? {
                partitions.push((topic.clone(), self.i32()?));
            }
        }
        Some(partitions)
    }

    fn partitions(&mut self) -> Option<Vec<(Text, i32)>> {
        let count = self.i32()?;
        (0..count).map(|_| Some((self.text()?, self.i32()?))).collect()
    }
}
