//! Topics, or some of their partitions, as users write them.

use std::collections::BTreeSet;
use std::str::FromStr;

/// A topic, or some of its partitions: `orders`, `orders:0,3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSelection {
    /// Its name.
    pub topic: String,
    /// Which of its partitions; all when none are said.
    pub partitions: Option<BTreeSet<i32>>,
}

impl FromStr for TopicSelection {
    type Err = String;

    fn from_str(text: &str) -> Result<TopicSelection, String> {
        let wrong = || "a topic, or a topic and some of its partitions: orders, orders:0,3".to_string();
        // No topic's name has a colon in it.
        let (topic, partitions) = match text.split_once(':') {
            None => (text, None),
            Some((topic, list)) => {
                let number = |part: &str| part.trim().parse::<i32>().ok().filter(|number| *number >= 0);
                let partitions = list.split(',').map(number).collect::<Option<BTreeSet<i32>>>();
                (topic, Some(partitions.ok_or_else(wrong)?))
            }
        };
        if topic.is_empty() {
            return Err(wrong());
        }
        Ok(TopicSelection { topic: topic.into(), partitions })
    }
}
