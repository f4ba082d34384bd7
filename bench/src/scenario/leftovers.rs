//! What a run made on the target goes when it is over: groups, then the topics that their offsets are of.

use std::collections::BTreeMap;
use std::time::Instant;

use kafka_protocol::messages::{ApiKey, DeleteGroupsRequest, GroupId};
use kafka_protocol::protocol::StrBytes;
use ringgate_client::{Address, CallError, Target};

use crate::limits::{CLEAN_UP_GROUPS, CLEAN_UP_PAUSE, CLEAN_UP_RETRY, CLEAN_UP_TIMEOUT};
use crate::result::errors;

const COORDINATOR_LOAD_IN_PROGRESS: i16 = 14;
const COORDINATOR_NOT_AVAILABLE: i16 = 15;
const NOT_COORDINATOR: i16 = 16;
const NON_EMPTY_GROUP: i16 = 68;
const GROUP_ID_NOT_FOUND: i16 = 69;

/// Names of a run's own; nobody of the run uses them any more.
#[derive(Debug, Default)]
pub struct Leftovers {
    pub groups: Vec<String>,
    pub topics: Vec<String>,
}

impl Leftovers {
    /// What a reader is told where they are kept on purpose.
    pub fn kept(&self, prefix: &str) -> String {
        let what = if self.groups.is_empty() { "topics" } else { "topics and groups" };
        format!("{what} were kept (--keep-topics), under names that begin with {prefix}")
    }

    /// Deletes them, and says what could not be. Within [`CLEAN_UP_TIMEOUT`], whatever the target does.
    pub async fn delete(self, target: &Target) -> Vec<String> {
        let (groups, topics) = (self.groups.len(), self.topics.len());
        let deleted = async {
            let mut left = Vec::new();
            if !self.groups.is_empty() {
                left.extend(delete_groups(target, self.groups).await);
            }
            left.extend(delete_topics(target, &self.topics).await);
            left
        };
        ringgate_runtime::timeout(CLEAN_UP_TIMEOUT, deleted).await.unwrap_or_else(|_| {
            let waited = CLEAN_UP_TIMEOUT.as_secs();
            vec![format!(
                "not all of {groups} groups and {topics} topics were deleted within {waited} s: some are left"
            )]
        })
    }
}

/// Why a group may still be there.
type Refused = BTreeMap<String, CallError>;

async fn delete_groups(target: &Target, groups: Vec<String>) -> Option<String> {
    let (all, until) = (groups.len(), Instant::now() + CLEAN_UP_RETRY);
    let mut left = groups;
    loop {
        let refused = ask(target, &left).await;
        if refused.is_empty() {
            return None;
        }
        if Instant::now() >= until || !refused.values().any(may_pass) {
            return Some(say(&refused, all));
        }
        left = refused.into_keys().collect();
        ringgate_runtime::sleep(CLEAN_UP_PAUSE).await;
    }
}

/// Asks each group's coordinator once; gives those that may still be there.
async fn ask(target: &Target, groups: &[String]) -> Refused {
    let found = match target.find_coordinators(groups).await {
        Ok(found) => found,
        Err(error) => return groups.iter().map(|group| (group.clone(), error.clone())).collect(),
    };
    let mut refused = Refused::new();
    let mut by_coordinator: Vec<(Address, Vec<&String>)> = Vec::new();
    for (group, found) in groups.iter().zip(found) {
        match found {
            Err(error) => {
                refused.insert(group.clone(), error);
            }
            Ok(address) => match by_coordinator.iter_mut().find(|(of, _)| *of == address) {
                Some((_, groups)) => groups.push(group),
                None => by_coordinator.push((address, vec![group])),
            },
        }
    }
    for (address, groups) in by_coordinator {
        let mut left = groups.as_slice();
        // Others may do what this one does not.
        if let Err(error) = ask_one(target, &address, &mut left, &mut refused).await {
            refused.extend(left.iter().map(|group| ((*group).clone(), error.clone())));
        }
    }
    refused
}

/// Asks one coordinator for groups of its own; `left` are those that it has not answered for.
async fn ask_one(
    target: &Target,
    address: &Address,
    left: &mut &[&String],
    refused: &mut Refused,
) -> Result<(), CallError> {
    let version = target.version(ApiKey::DeleteGroups)?;
    let mut connection = target.connect(address).await?;
    while !left.is_empty() {
        let (part, rest) = left.split_at(left.len().min(CLEAN_UP_GROUPS));
        let names = part.iter().map(|group| GroupId(StrBytes::from_string((*group).clone()))).collect();
        let answer = connection.call(version, &DeleteGroupsRequest::default().with_groups_names(names)).await?;
        *left = rest;
        let failed = answer.results.into_iter().filter(|of| ![0, GROUP_ID_NOT_FOUND].contains(&of.error_code));
        refused.extend(failed.map(|of| {
            let error = CallError::Kafka { code: of.error_code, what: "DeleteGroups".into() };
            (of.group_id.0.to_string(), error)
        }));
    }
    Ok(())
}

/// Whether it is worth asking again: a coordinator that moves or is restarted, a leave that is under way.
fn may_pass(error: &CallError) -> bool {
    if matches!(error, CallError::Disconnected | CallError::ConnectFailed(_)) {
        return true;
    }
    let passing = [COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, NON_EMPTY_GROUP];
    passing.contains(&error.code())
}

fn say(refused: &Refused, all: usize) -> String {
    let mut reasons: BTreeMap<i16, usize> = BTreeMap::new();
    refused.values().for_each(|error| *reasons.entry(error.code()).or_default() += 1);
    let why: Vec<String> = reasons.iter().map(|(code, count)| format!("{} ({count})", errors::name(*code))).collect();
    let example = refused.keys().next().map_or("", String::as_str);
    let waits = match reasons.contains_key(&NON_EMPTY_GROUP) {
        true => "; members that were cut off are in them until their sessions end",
        false => "",
    };
    format!("{} of {all} groups were not deleted, {example} among them: {}{waits}", refused.len(), why.join(", "))
}

async fn delete_topics(target: &Target, topics: &[String]) -> Option<String> {
    let mut failed = Vec::new();
    for topic in topics {
        if let Err(error) = target.delete_topic(topic).await {
            failed.push(error.to_string());
        }
    }
    match failed.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        [first, ..] => Some(format!("{} of {} topics were not deleted: {first}", failed.len(), topics.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_one_sentence() {
        let refused = |code| CallError::Kafka { code, what: String::new() };
        let left = Refused::from([("a".into(), refused(68)), ("b".into(), refused(30)), ("c".into(), refused(68))]);
        assert_eq!(
            say(&left, 10),
            "3 of 10 groups were not deleted, a among them: GROUP_AUTHORIZATION_FAILED (1), NON_EMPTY_GROUP (2); members that \
             were cut off are in them until their sessions end"
        );
        assert!(may_pass(&left["a"]) && !may_pass(&left["b"]) && may_pass(&CallError::Disconnected));
    }
}
