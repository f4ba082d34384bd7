// A day of @platformatic/kafka: one configuration as its users have it, and every step of the matrix.

import assert from 'node:assert/strict'
import {
  ALL_PARTITIONS, Account, BOOTSTRAP, Chores, GROUP, KILL_TOPIC, NODES, PARTITIONS, PREFIX, Reading, SHARED_TOPIC,
  TIMES_TOPIC, TOPIC, kill, live, load, records, until
} from '../lib/day.mjs'

const {
  Admin, ConfigResourceTypes, Consumer, IncrementalAlterConfigOperationTypes, ListOffsetTimestamps,
  MessagesStreamFallbackModes, MessagesStreamModes, ProduceAcks, Producer, compressionsAlgorithms
} = load('@platformatic/kafka')

const CLIENT = { clientId: PREFIX, bootstrapBrokers: [BOOTSTRAP] }
// Zstandard needs a newer Node than the oldest that the client runs on.
const CODECS = ['gzip', 'snappy', 'lz4', 'zstd'].filter(codec => compressionsAlgorithms[codec].available)
const admin = new Admin(CLIENT)
const sent = new Account()

function producer(settings = {}) {
  return new Producer({ ...CLIENT, acks: ProduceAcks.ALL, ...settings })
}

function made(label, count) {
  return records(label, count, { repeated: true })
}

/** Produces to all partitions in turn and waits until each record is acknowledged. */
async function send(to, topic, account, batch, settings = {}) {
  const messages = batch.map(({ key, value, headers }, n) => ({
    topic,
    partition: n % PARTITIONS,
    key: key ?? undefined,
    value: value ?? undefined,
    // Names as buffers: as strings, a name could come only once in a map.
    headers: new Map(headers.map(([name, bytes]) => [Buffer.from(name), bytes]))
  }))
  const { offsets } = await to.send({ messages, ...settings })
  for (const { partition, offset } of offsets) {
    batch.filter((_, n) => n % PARTITIONS === partition)
      .forEach((record, n) => account.acknowledge(partition, Number(offset) + n, record))
  }
}

function recordOf({ key, value, headers }) {
  return { key, value, headers: [...headers].map(([name, bytes]) => [name.toString(), bytes]) }
}

/** A member of a group that gives each record to `take`, and knows its partitions. */
class Member {
  failure = null

  static async start(groupId, topic, take, settings = {}) {
    const member = new Member()
    // By default a fetch waits for 5 s, and a member that leaves waits for its fetch.
    member.consumer = new Consumer({ ...CLIENT, groupId, sessionTimeout: 10_000, maxWaitTime: 500, ...settings })
    member.stream = await member.consumer.consume({
      topics: [topic], mode: MessagesStreamModes.COMMITTED, fallbackMode: MessagesStreamFallbackModes.EARLIEST
    })
    member.stream.on('data', message => take(message, member))
    member.stream.on('error', error => { member.failure = error })
    return member
  }

  get partitions() {
    if (this.failure !== null) throw this.failure
    return (this.consumer.assignments ?? []).flatMap(({ partitions }) => partitions)
  }

  /**
   * Until the fetches from before a rebalance are answered: the client hands out what they bring, also of partitions
   * that are another member's by then. An idle fetch ends at its `maxWaitTime`, so once one node's two are over, so
   * are those of the others that were out.
   */
  async pastEarlierFetches() {
    let ended = 0
    const count = () => { ended += 1 }
    this.stream.on('fetch', count)
    await until('fetches end', () => ended >= 2 * NODES)
    this.stream.off('fetch', count)
  }

  async leave() {
    await this.stream.close()
    await this.consumer.close()
    if (this.failure !== null) throw this.failure
  }
}

/** Until each member has partitions, no two the same, and together all. */
async function sharedOut(members) {
  await until(`${members.length} members have all partitions`, () => {
    const assigned = members.map(({ partitions }) => partitions)
    return assigned.every(some => some.length > 0) && String(assigned.flat().sort()) === String(ALL_PARTITIONS)
  })
}

function into(reading) {
  return (message, member) => reading.add(message.partition, Number(message.offset), recordOf(message), member)
}

async function readAll(what, groupId, topic, account) {
  const reading = new Reading(account)
  const member = await Member.start(groupId, topic, into(reading))
  await until(what, () => reading.complete())
  await member.leave()
  reading.complete()
  return account.sent.size
}

async function create(topic, partitions = PARTITIONS) {
  const [made] = await admin.createTopics({ topics: [topic], partitions, replicas: 1 })
  assert.equal(made.partitions, partitions)
}

async function partitionsOf(topic) {
  const { topics } = await admin.metadata({ topics: [topic], forceUpdate: true })
  return topics.get(topic).partitionsCount
}

async function connect() {
  const { brokers, controllerId } = await admin.metadata({ forceUpdate: true })
  assert.equal(brokers.size, NODES)
  assert.ok(brokers.has(controllerId), `controller ${controllerId} is no node`)
  return `${NODES} nodes, controller ${controllerId}`
}

async function createTopic() {
  await create(TOPIC)
  assert.equal(await partitionsOf(TOPIC), PARTITIONS)
}

async function produce() {
  const to = producer()
  await send(to, TOPIC, sent, made('plain', 300))
  for (const compression of CODECS) await send(to, TOPIC, sent, made(compression, 60), { compression })
  await to.close()
  return CODECS.join(', ')
}

async function idempotent() {
  const to = producer({ idempotent: true })
  await send(to, TOPIC, sent, made('idempotent', 60))
  await send(to, TOPIC, sent, made('idempotent-on', 40))
  await to.close()
}

async function consume() {
  return `${await readAll('reading everything back', GROUP, TOPIC, sent)} records`
}

async function rebalance() {
  await create(SHARED_TOPIC)
  const [groupId, to, account] = [`${PREFIX}-shared`, producer(), new Account()]
  const reading = new Reading(account)
  const first = await Member.start(groupId, SHARED_TOPIC, into(reading))
  await sharedOut([first])
  const second = await Member.start(groupId, SHARED_TOPIC, into(reading))
  await sharedOut([first, second])
  await first.pastEarlierFetches()
  await send(to, SHARED_TOPIC, account, made('shared', 90))
  await until('both members read what was produced', () => reading.complete())
  await second.leave()
  await sharedOut([first])
  await first.pastEarlierFetches()
  await send(to, SHARED_TOPIC, account, made('alone', 90))
  await until('the first member reads all partitions', () => reading.complete())
  await first.leave()
  await to.close()
  reading.complete()
}

function offsetsToCommit(topic, offsets) {
  return {
    offsets: Object.entries(offsets).map(([partition, offset]) => (
      { topic, partition: Number(partition), offset: BigInt(offset), leaderEpoch: -1 }
    ))
  }
}

async function committed(consumer, topic) {
  const found = await consumer.listCommittedOffsets({ topics: [{ topic, partitions: ALL_PARTITIONS }] })
  return Object.fromEntries(found.get(topic).map((offset, partition) => [partition, Number(offset)]))
}

async function commit() {
  const [groupId, offsets, manual] = [`${PREFIX}-commit`, { 0: 50, 1: 20, 2: 30 }, { autocommit: false }]
  const came = []
  let member = await Member.start(groupId, TOPIC, message => came.push(message), manual)
  await until('a member that reads', () => came.length > 0)
  await member.consumer.commit(offsetsToCommit(TOPIC, offsets))
  await member.leave()
  const first = {}
  const note = ({ partition, offset }) => { first[partition] ??= Number(offset) }
  member = await Member.start(groupId, TOPIC, note, manual)
  assert.deepEqual(await committed(member.consumer, TOPIC), offsets)
  await until('a record of each partition', () => Object.keys(first).length === PARTITIONS)
  assert.deepEqual(first, offsets)
  await member.leave()
}

async function kill9() {
  await create(KILL_TOPIC)
  const [groupId, to, account] = [`${PREFIX}-kill`, producer({ idempotent: true }), new Account()]
  // A consumer that lost its connections may begin again at its last commit.
  const reading = new Reading(account, { repeatsAllowed: true })
  const member = await Member.start(groupId, KILL_TOPIC, into(reading), { autocommit: false })
  const readAllOfIt = () => {
    if (member.failure !== null) throw member.failure
    return reading.complete()
  }
  await send(to, KILL_TOPIC, account, made('before', 150))
  await until('reading before the kill', readAllOfIt)
  const ends = account.ends()
  await member.consumer.commit(offsetsToCommit(KILL_TOPIC, ends))
  const during = send(to, KILL_TOPIC, account, made('during', 150))
  await Promise.all([during, kill()])
  await send(to, KILL_TOPIC, account, made('after', 150))
  assert.equal(account.sent.size, 450)
  await until('reading on after the kill', readAllOfIt)
  assert.deepEqual(await committed(member.consumer, KILL_TOPIC), ends)
  await member.consumer.commit(offsetsToCommit(KILL_TOPIC, account.ends()))
  await member.leave()
  await to.close()
  await readAll('reading what was acknowledged hours before', `${PREFIX}-again`, TOPIC, sent)
  return `450 records through the kill, ${reading.repeats} of them read again`
}

async function offsets() {
  await create(TIMES_TOPIC, 1)
  const [to, began] = [producer(), 1_700_000_000_000n]
  await to.send({
    messages: Array.from({ length: 10 }, (_, n) => (
      { topic: TIMES_TOPIC, partition: 0, value: Buffer.from(`${n}`), timestamp: began + BigInt(n) * 1000n }
    ))
  })
  await to.close()
  const consumer = new Consumer({ ...CLIENT, groupId: GROUP })
  const at = async timestamp => (await consumer.listOffsets({ topics: [TIMES_TOPIC], timestamp })).get(TIMES_TOPIC)[0]
  assert.equal(await at(ListOffsetTimestamps.EARLIEST), 0n)
  assert.equal(await at(ListOffsetTimestamps.LATEST), 10n)
  assert.equal(await at(began + 5000n), 5n)
  assert.equal(await at(began + 5001n), 6n)
  assert.equal(await at(began + 9001n), -1n)
  const found = await consumer.listOffsetsWithTimestamps({ topics: [TIMES_TOPIC], timestamp: began + 3500n })
  assert.deepEqual(found.get(TIMES_TOPIC).get(0), { offset: 4n, timestamp: began + 4000n })
  await consumer.close()
}

async function administer() {
  const [chores, groupId, liveGroup] = [new Chores(), `${PREFIX}-kill`, `${PREFIX}-live`]
  const member = await Member.start(liveGroup, TOPIC, () => {})
  await sharedOut([member])
  let controller

  await chores.do('describe cluster', async () => {
    const found = await admin.metadata({ forceUpdate: true })
    assert.ok(found.id)
    controller = found.controllerId
  })
  await chores.do('list groups', async () => {
    const found = await admin.listGroups()
    // The client names states in capitals.
    assert.equal(found.get(liveGroup)?.state.toUpperCase(), 'STABLE')
    assert.equal(found.get(groupId)?.state.toUpperCase(), 'EMPTY')
  })
  await chores.do('describe groups', async () => {
    const found = await admin.describeGroups({ groups: [liveGroup] })
    assert.equal(found.get(liveGroup).state.toUpperCase(), 'STABLE')
    assert.deepEqual([...found.get(liveGroup).members.values()].map(({ clientId }) => clientId), [PREFIX])
  })
  const configs = async (resourceType, resourceName) => {
    const [{ configs }] = await admin.describeConfigs({ resources: [{ resourceType, resourceName }] })
    return Object.fromEntries(configs.map(({ name, value }) => [name, value]))
  }
  const topicResource = { resourceType: ConfigResourceTypes.TOPIC, resourceName: TOPIC }
  await chores.do('describe topic configs', async () => {
    const found = await configs(ConfigResourceTypes.TOPIC, TOPIC)
    for (const name of ['retention.ms', 'cleanup.policy', 'max.message.bytes']) assert.ok(name in found, `no ${name}`)
  })
  await chores.do('describe node configs', async () => {
    assert.ok(Object.keys(await configs(ConfigResourceTypes.BROKER, String(controller))).length > 0)
  })
  await chores.do('incremental alter configs', async () => {
    const set = { name: 'retention.ms', value: '3600000', configOperation: IncrementalAlterConfigOperationTypes.SET }
    await admin.incrementalAlterConfigs({ resources: [{ ...topicResource, configs: [set] }] })
    assert.equal((await configs(ConfigResourceTypes.TOPIC, TOPIC))['retention.ms'], '3600000')
  })
  await chores.do('alter configs', async () => {
    const set = { name: 'retention.ms', value: '7200000' }
    await admin.alterConfigs({ resources: [{ ...topicResource, configs: [set] }] })
    assert.equal((await configs(ConfigResourceTypes.TOPIC, TOPIC))['retention.ms'], '7200000')
  })
  await chores.do('create partitions', async () => {
    await admin.createPartitions({ topics: [{ name: SHARED_TOPIC, count: 6, assignments: null }] })
    await until('six partitions in the metadata', async () => (await partitionsOf(SHARED_TOPIC)) === 6)
    const to = producer()
    const { offsets } = await to.send({ messages: [{ topic: SHARED_TOPIC, partition: 5, value: Buffer.from('last') }] })
    assert.deepEqual(offsets, [{ topic: SHARED_TOPIC, partition: 5, offset: 0n }])
    await to.close()
  })
  await chores.do('delete records', async () => {
    const topics = [{ name: TOPIC, partitions: [{ partition: 0, offset: 10n }] }]
    const [{ partitions }] = await admin.deleteRecords({ topics })
    assert.deepEqual(partitions, [{ partition: 0, lowWatermark: 10n }])
    const earliest = [{ partitionIndex: 0, timestamp: ListOffsetTimestamps.EARLIEST }]
    const [listed] = await admin.listOffsets({ topics: [{ name: TOPIC, partitions: earliest }] })
    assert.equal(listed.partitions[0].offset, 10n)
  })
  const groupOffsets = async () => {
    const [{ topics }] = await admin.listConsumerGroupOffsets({ groups: [groupId] })
    return Object.fromEntries(topics.flatMap(({ partitions }) => partitions)
      .map(({ partitionIndex, committedOffset }) => [partitionIndex, committedOffset]))
  }
  await chores.do('list group offsets', async () => {
    assert.deepEqual(await groupOffsets(), { 0: 150n, 1: 150n, 2: 150n })
  })
  await chores.do('alter group offsets', async () => {
    const topics = [{ name: KILL_TOPIC, partitionOffsets: [{ partition: 1, offset: 7n }] }]
    await admin.alterConsumerGroupOffsets({ groupId, topics })
    assert.deepEqual(await groupOffsets(), { 0: 150n, 1: 7n, 2: 150n })
  })
  await chores.do('delete group offsets', async () => {
    await admin.deleteConsumerGroupOffsets({ groupId, topics: [{ name: KILL_TOPIC, partitionIndexes: [2] }] })
    assert.deepEqual(await groupOffsets(), { 0: 150n, 1: 7n })
  })
  await chores.do('refuse to delete a group in use', async () => {
    const refused = error => Boolean(error.findBy('apiId', 'NON_EMPTY_GROUP'))
    await assert.rejects(admin.deleteGroups({ groups: [liveGroup] }), refused)
  })
  await member.leave()
  await chores.do('delete group', async () => {
    await admin.deleteGroups({ groups: [groupId] })
    assert.ok(!(await admin.listGroups()).has(groupId), 'the deleted group is listed')
    assert.deepEqual(await groupOffsets(), {})
  })
  await chores.do('delete topic', async () => {
    await admin.deleteTopics({ topics: [TIMES_TOPIC] })
    await until('a deleted topic is gone', async () => !(await admin.listTopics()).includes(TIMES_TOPIC))
  })
  await admin.close()
  return chores.detail()
}

await live({
  connect,
  'create-topic': createTopic,
  produce,
  idempotent,
  consume,
  rebalance,
  commit,
  'kill-9': kill9,
  offsets,
  admin: administer
})
