//! Leaders, connections and identities: found at the start, and again when something failed.

use std::rc::Rc;
use std::time::Instant;

use bytes::BytesMut;
use kafka_protocol::messages::{ApiKey, InitProducerIdRequest, ProducerId};
use ringgate_client::{Address, CallError};
use ringgate_wire::records::BatchHeader;

use super::queue::Batch;
use super::sender::{Broker, Identity, Inner};
use crate::limits::RETRY_PAUSE;
use crate::result::errors::TIMED_OUT;

/// Where a batch's producer id is, behind which epoch and sequence follow, and what its CRC covers.
const PRODUCER_AT: usize = 43;
const CRC_AT: usize = 17;
const CRC_FROM: usize = 21;
/// COORDINATOR_LOAD_IN_PROGRESS and COORDINATOR_NOT_AVAILABLE: a broker that has just started has no producer ids to give yet.
const IDENTITIES_COMING: [i16; 2] = [14, 15];

impl Inner {
    /// Looks up who leads what, and connects to leaders that there is no connection to.
    pub(super) async fn find_leaders(&self) -> Result<(), CallError> {
        let mut leaders: Vec<Address> = Vec::new();
        for topic in self.settings.topics.iter() {
            leaders.extend(self.target.leaders(&topic.name).await?.into_iter().take(self.settings.partitions));
        }
        if leaders.len() < self.state.borrow().leaders.len() {
            return Err(CallError::BadResponse(format!("topics have {} partitions in all", leaders.len())));
        }
        for address in &leaders {
            let known = self.state.borrow().brokers.iter().any(|broker| broker.address == *address);
            if !known {
                self.state.borrow_mut().brokers.push(Broker::new(address.clone()));
            }
        }
        let brokers = self.state.borrow().brokers.len();
        for at in 0..brokers {
            let address = {
                let state = self.state.borrow();
                let broker = &state.brokers[at];
                let connected = broker.link.as_ref().is_some_and(|link| link.ended().is_none());
                if connected || !leaders.contains(&broker.address) {
                    continue;
                }
                broker.address.clone()
            };
            let link = self.target.connect(&address).await?.linked(|_| {});
            self.state.borrow_mut().brokers[at].link = Some(Rc::new(link));
        }
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        state.brokers.iter_mut().for_each(|broker| broker.leads.clear());
        let mine = state.content.partitions().to_vec();
        for (partition, address) in leaders.iter().enumerate().take(state.leaders.len()) {
            let at = state.brokers.iter().position(|broker| broker.address == *address).unwrap_or(0);
            state.leaders[partition] = at;
            if mine.contains(&partition) {
                state.brokers[at].leads.push(partition);
            }
        }
        state.list_anew();
        Ok(())
    }

    /// Gets the first producer id. Waits within the request timeout while there is none to be had.
    pub(super) async fn find_first_identity(&self) -> Result<(), CallError> {
        let until = Instant::now() + self.settings.request_timeout;
        loop {
            match self.find_identity().await {
                Err(CallError::Kafka { code, .. })
                    if IDENTITIES_COMING.contains(&code) && Instant::now() + RETRY_PAUSE < until =>
                {
                    ringgate_runtime::sleep(RETRY_PAUSE).await;
                }
                found => return found,
            }
        }
    }

    /// Gets a producer id, when the one that there is cannot be used any more. Sequences begin anew with it, so that
    /// nothing may be out.
    pub(super) async fn find_identity(&self) -> Result<(), CallError> {
        if !self.state.borrow().identity_spent {
            return Ok(());
        }
        let version = self.target.version(ApiKey::InitProducerId)?;
        let request = InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_transaction_timeout_ms(0)
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1);
        let answer = self.target.ask(version, &request).await?;
        if answer.error_code != 0 {
            return Err(CallError::Kafka { code: answer.error_code, what: "InitProducerId".into() });
        }
        let identity = Identity { id: answer.producer_id.0, epoch: answer.producer_epoch };
        let mut state = self.state.borrow_mut();
        state.identity = Some(identity);
        state.identity_spent = false;
        state.totals.identities += 1;
        for queue in &mut state.queues {
            queue.sequence = 0;
            let mut sequence = 0;
            for batch in queue.again_mut() {
                set_identity(batch, identity, sequence);
                sequence = (sequence as u32).wrapping_add(batch.records) as i32 & i32::MAX;
            }
            queue.sequence = sequence;
        }
        Ok(())
    }

    /// Has leaders looked up again, and lets what waits for that go on.
    pub(super) fn recover(self: &Rc<Self>) {
        let mut state = self.state.borrow_mut();
        if !state.ended && !std::mem::replace(&mut state.recovering, true) {
            ringgate_runtime::spawn_as("a producer's recovery", self.clone().recovered()).detach();
        }
    }

    async fn recovered(self: Rc<Self>) {
        loop {
            ringgate_runtime::sleep(RETRY_PAUSE).await;
            self.expire();
            if self.state.borrow().ended {
                return;
            }
            for topic in self.settings.topics.iter() {
                self.target.forget_topic(&topic.name);
            }
            // What does not work is tried again, until batches are too old and the run ends.
            if self.find_leaders().await.is_err() || !self.settle().await {
                continue;
            }
            let mut state = self.state.borrow_mut();
            for queue in &mut state.queues {
                // What is out may fail too, and would overtake.
                queue.recovering &= queue.out > 0;
            }
            state.list_anew();
            if state.queues.iter().all(|queue| !queue.recovering) {
                state.recovering = false;
                drop(state);
                self.work.give();
                return;
            }
            drop(state);
            self.work.give();
        }
    }

    /// Whether the identity is in order; a new one takes that nothing is out under the old.
    async fn settle(&self) -> bool {
        {
            let mut state = self.state.borrow_mut();
            if !state.identity_spent {
                return true;
            }
            state.queues.iter_mut().for_each(|queue| queue.recovering = true);
            if state.queues.iter().any(|queue| queue.out > 0) {
                return false;
            }
        }
        self.find_identity().await.is_ok()
    }

    /// Fails batches that have been sent again for too long.
    fn expire(self: &Rc<Self>) {
        let now = Instant::now();
        let timeout = self.settings.request_timeout;
        let mut expired: Vec<Batch> = Vec::new();
        {
            let mut state = self.state.borrow_mut();
            let state = &mut *state;
            for queue in &mut state.queues {
                expired.extend(queue.take_again_from_before(now, timeout));
            }
            state.under_way -= expired.iter().map(|batch| batch.records as usize).sum::<usize>();
            state.identity_spent |= self.settings.idempotent && !expired.is_empty();
        }
        for batch in &expired {
            self.failed(batch, TIMED_OUT, now);
        }
        if !expired.is_empty() {
            self.fewer.give();
        }
    }
}

/// Makes it a batch of another identity, with a new CRC.
fn set_identity(batch: &mut Batch, identity: Identity, sequence: i32) {
    debug_assert!(BatchHeader::parse(&batch.bytes).is_some());
    let mut bytes = BytesMut::from(&batch.bytes[..]);
    bytes[PRODUCER_AT..PRODUCER_AT + 8].copy_from_slice(&identity.id.to_be_bytes());
    bytes[PRODUCER_AT + 8..PRODUCER_AT + 10].copy_from_slice(&identity.epoch.to_be_bytes());
    bytes[PRODUCER_AT + 10..PRODUCER_AT + 14].copy_from_slice(&sequence.to_be_bytes());
    let crc = crc32c::crc32c(&bytes[CRC_FROM..]);
    bytes[CRC_AT..CRC_FROM].copy_from_slice(&crc.to_be_bytes());
    batch.bytes = bytes.freeze();
}
