//! Groups that a run makes for itself are deleted with their offsets at its end: none may be there before.

use std::collections::HashSet;
use std::time::Instant;

use kafka_protocol::messages::{ApiKey, ListGroupsRequest};
use ringgate_client::limits::CONTROL_PAUSE;
use ringgate_client::{Address, CallError, Target};

use super::SetupError;

const COORDINATOR_LOAD_IN_PROGRESS: i16 = 14;

/// Asks every broker for its groups, those without members too, as creating a topic asks for a topic.
///
/// # Errors
/// One of these is there already, or a broker does not say within the request timeout.
pub async fn are_new(target: &Target, names: impl IntoIterator<Item = String>) -> Result<(), SetupError> {
    let names: HashSet<String> = names.into_iter().collect();
    if names.is_empty() {
        return Ok(());
    }
    for (id, broker) in target.brokers().await? {
        let listed = listed(target, &broker).await;
        let listed = listed.map_err(|error| SetupError(format!("groups of broker {id} at {broker}: {error}")))?;
        let known = listed.iter().filter(|group| names.contains(*group)).min();
        if let Some(known) = known {
            return Err(SetupError(format!(
                "group {known} cannot be this run's own: it is there already, and would be deleted with its offsets at \
                 the end; choose another --prefix"
            )));
        }
    }
    Ok(())
}

/// Groups that a broker coordinates.
async fn listed(target: &Target, broker: &Address) -> Result<Vec<String>, CallError> {
    let version = target.version(ApiKey::ListGroups)?;
    let until = Instant::now() + target.request_timeout();
    let mut connection = target.connect(broker).await?;
    loop {
        let answer = connection.call(version, &ListGroupsRequest::default()).await?;
        match answer.error_code {
            0 => return Ok(answer.groups.into_iter().map(|group| group.group_id.0.to_string()).collect()),
            COORDINATOR_LOAD_IN_PROGRESS if Instant::now() < until => ringgate_runtime::sleep(CONTROL_PAUSE).await,
            code => return Err(CallError::Kafka { code, what: "ListGroups".into() }),
        }
    }
}
