// A day of KafkaJS: one configuration as its users have it, and every step of the matrix.

import assert from 'node:assert/strict'
import {
  ALL_PARTITIONS, Account, BOOTSTRAP, Chores, GROUP, KILL_TOPIC, NODES, PARTITIONS, PREFIX, Reading, SHARED_TOPIC,
  TIMES_TOPIC, TOPIC, kill, live, load, records, until
} from '../lib/day.mjs'

process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'
const { CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = load('kafkajs')

const kafka = new Kafka({ clientId: PREFIX, brokers: [BOOTSTRAP], logLevel: logLevel.WARN })
const admin = kafka.admin()
const sent = new Account()

async function producer(settings = {}) {
  const to = kafka.producer(settings)
  await to.connect()
  return to
}

/** Produces to all partitions in turn and waits until each record is acknowledged. */
async function send(to, topic, account, batch, compression = CompressionTypes.None) {
  const messages = batch.map(({ key, value, headers }, n) => (
    { key, value, headers: byName(headers), partition: n % PARTITIONS }
  ))
  const answers = await to.send({ topic, messages, compression, acks: -1 })
  for (const { partition, errorCode, baseOffset } of answers) {
    assert.equal(errorCode, 0)
    batch.filter((_, n) => n % PARTITIONS === partition)
      .forEach((record, n) => account.acknowledge(partition, Number(baseOffset) + n, record))
  }
}

/** Header pairs as KafkaJS takes them: an array for a name that comes more than once. */
function byName(headers) {
  const named = {}
  for (const [name, value] of headers) named[name] = name in named ? [named[name], value].flat() : value
  return named
}

function recordOf({ key, value, headers }) {
  const pairs = Object.entries(headers ?? {}).flatMap(([name, values]) => [values].flat().map(value => [name, value]))
  return { key, value, headers: pairs }
}

/** A member of a group that gives each record to `take`, and knows its partitions. */
class Member {
  partitions = new Set()

  static async start(groupId, topic, take, { run = {}, ...settings } = {}) {
    const member = new Member()
    // KafkaJS hears of a rebalance, and leaves, only between two fetches; by default each waits up to 5 s.
    member.consumer = kafka.consumer({ groupId, sessionTimeout: 10_000, maxWaitTimeInMs: 500, ...settings })
    member.consumer.on(member.consumer.events.GROUP_JOIN, ({ payload }) => {
      member.partitions = new Set(payload.memberAssignment[topic] ?? [])
    })
    member.consumer.on(member.consumer.events.REBALANCING, () => { member.partitions = new Set() })
    await member.consumer.connect()
    await member.consumer.subscribe({ topics: [topic], fromBeginning: true })
    const eachMessage = async ({ partition, message }) => take(partition, message, member)
    await member.consumer.run({ ...run, eachMessage })
    return member
  }

  async leave() {
    await this.consumer.disconnect()
  }
}

/** Until each member has partitions, no two the same, and together all. */
async function sharedOut(members) {
  await until(`${members.length} members have all partitions`, () => {
    const assigned = members.map(({ partitions }) => [...partitions])
    return assigned.every(some => some.length > 0) && String(assigned.flat().sort()) === String(ALL_PARTITIONS)
  })
}

function into(reading) {
  return (partition, message, member) => reading.add(partition, Number(message.offset), recordOf(message), member)
}

async function readAll(what, groupId, topic, account) {
  const reading = new Reading(account)
  const member = await Member.start(groupId, topic, into(reading))
  await until(what, () => reading.complete())
  await member.leave()
  reading.complete()
  return account.sent.size
}

async function create(topic, numPartitions = PARTITIONS) {
  assert.equal(await admin.createTopics({ topics: [{ topic, numPartitions }] }), true)
}

async function connect() {
  await admin.connect()
  const { brokers, controller } = await admin.describeCluster()
  assert.equal(brokers.length, NODES)
  assert.ok(brokers.some(({ nodeId }) => nodeId === controller), `controller ${controller} is no node`)
  return `${NODES} nodes, controller ${controller}`
}

async function createTopic() {
  await create(TOPIC)
  const { topics: [{ partitions }] } = await admin.fetchTopicMetadata({ topics: [TOPIC] })
  assert.deepEqual(partitions.map(({ partitionId }) => partitionId).sort(), ALL_PARTITIONS)
}

async function produce() {
  const to = await producer()
  await send(to, TOPIC, sent, records('plain', 300, { repeated: true }))
  await send(to, TOPIC, sent, records('gzip', 60, { repeated: true }), CompressionTypes.GZIP)
  await to.disconnect()
  return 'gzip'
}

async function idempotent() {
  const to = await producer({ idempotent: true })
  await send(to, TOPIC, sent, records('idempotent', 60, { repeated: true }))
  await send(to, TOPIC, sent, records('idempotent-on', 40, { repeated: true }))
  await to.disconnect()
}

async function consume() {
  return `${await readAll('reading everything back', GROUP, TOPIC, sent)} records`
}

async function rebalance() {
  await create(SHARED_TOPIC)
  const [groupId, to, account] = [`${PREFIX}-shared`, await producer(), new Account()]
  const reading = new Reading(account)
  const first = await Member.start(groupId, SHARED_TOPIC, into(reading))
  await sharedOut([first])
  const second = await Member.start(groupId, SHARED_TOPIC, into(reading))
  await sharedOut([first, second])
  await send(to, SHARED_TOPIC, account, records('shared', 90, { repeated: true }))
  await until('both members read what was produced', () => reading.complete())
  await second.leave()
  await sharedOut([first])
  await send(to, SHARED_TOPIC, account, records('alone', 90, { repeated: true }))
  await until('the first member reads all partitions', () => reading.complete())
  await first.leave()
  await to.disconnect()
  reading.complete()
}

async function commit() {
  const [groupId, offsets, manual] = [`${PREFIX}-commit`, { 0: 50, 1: 20, 2: 30 }, { run: { autoCommit: false } }]
  const came = []
  let member = await Member.start(groupId, TOPIC, (partition, message) => came.push(message), manual)
  await until('a member that reads', () => came.length > 0)
  await member.consumer.commitOffsets(Object.entries(offsets).map(([partition, offset]) => (
    { topic: TOPIC, partition: Number(partition), offset: String(offset), metadata: `at ${offset}` }
  )))
  await member.leave()
  const [{ partitions }] = await admin.fetchOffsets({ groupId, topics: [TOPIC] })
  assert.deepEqual(
    Object.fromEntries(partitions.map(({ partition, offset, metadata }) => [partition, [Number(offset), metadata]])),
    Object.fromEntries(Object.entries(offsets).map(([partition, offset]) => [partition, [offset, `at ${offset}`]]))
  )
  const first = {}
  const note = (partition, { offset }) => { first[partition] ??= Number(offset) }
  member = await Member.start(groupId, TOPIC, note, manual)
  await until('a record of each partition', () => Object.keys(first).length === PARTITIONS)
  assert.deepEqual(first, offsets)
  await member.leave()
}

async function kill9() {
  await create(KILL_TOPIC)
  const [groupId, to, account] = [`${PREFIX}-kill`, await producer({ idempotent: true }), new Account()]
  // A consumer that lost its connections begins again at its last commit.
  const reading = new Reading(account, { repeatsAllowed: true })
  const member = await Member.start(groupId, KILL_TOPIC, into(reading), { run: { autoCommit: false } })
  await send(to, KILL_TOPIC, account, records('before', 150, { repeated: true }))
  await until('reading before the kill', () => reading.complete())
  const ends = account.ends()
  const commitEnds = () => member.consumer.commitOffsets(Object.entries(account.ends()).map(([partition, offset]) => (
    { topic: KILL_TOPIC, partition: Number(partition), offset: String(offset) }
  )))
  await commitEnds()
  const during = send(to, KILL_TOPIC, account, records('during', 150, { repeated: true }))
  await Promise.all([during, kill()])
  await send(to, KILL_TOPIC, account, records('after', 150, { repeated: true }))
  assert.equal(account.sent.size, 450)
  await until('reading on after the kill', () => reading.complete())
  const [{ partitions }] = await admin.fetchOffsets({ groupId, topics: [KILL_TOPIC] })
  assert.deepEqual(Object.fromEntries(partitions.map(({ partition, offset }) => [partition, Number(offset)])), ends)
  await commitEnds()
  await member.leave()
  await to.disconnect()
  await readAll('reading what was acknowledged hours before', `${PREFIX}-again`, TOPIC, sent)
  return `450 records through the kill, ${reading.repeats} of them read again`
}

async function offsets() {
  await create(TIMES_TOPIC, 1)
  const [to, began] = [await producer(), 1_700_000_000_000]
  const messages = Array.from({ length: 10 }, (_, n) => ({ value: String(n), timestamp: String(began + n * 1000) }))
  await to.send({ topic: TIMES_TOPIC, messages })
  await to.disconnect()
  const [{ low, high }] = await admin.fetchTopicOffsets(TIMES_TOPIC)
  assert.deepEqual([low, high], ['0', '10'])
  const at = async timestamp => (await admin.fetchTopicOffsetsByTimestamp(TIMES_TOPIC, timestamp))[0].offset
  assert.equal(await at(began + 5000), '5')
  assert.equal(await at(began + 5001), '6')
  // Beyond the last timestamp KafkaJS answers with the end.
  assert.equal(await at(began + 9001), '10')
}

async function administer() {
  const [chores, groupId, liveGroup] = [new Chores(), `${PREFIX}-kill`, `${PREFIX}-live`]
  let controller
  const member = await Member.start(liveGroup, TOPIC, () => {})
  await sharedOut([member])

  await chores.do('describe cluster', async () => {
    const found = await admin.describeCluster()
    assert.ok(found.clusterId)
    controller = found.controller
  })
  await chores.do('list groups', async () => {
    const found = (await admin.listGroups()).groups.map(group => group.groupId)
    for (const name of [groupId, liveGroup]) assert.equal(found.filter(id => id === name).length, 1, name)
  })
  await chores.do('describe groups', async () => {
    const { groups } = await admin.describeGroups([liveGroup, groupId])
    const found = Object.fromEntries(groups.map(group => [group.groupId, group]))
    assert.equal(found[liveGroup].state, 'Stable')
    assert.deepEqual(found[liveGroup].members.map(({ clientId }) => clientId), [PREFIX])
    assert.equal(found[groupId].state, 'Empty')
  })
  const configs = async (type, name) => {
    const asked = { resources: [{ type, name }], includeSynonyms: false }
    const { resources: [{ configEntries }] } = await admin.describeConfigs(asked)
    return Object.fromEntries(configEntries.map(({ configName, configValue }) => [configName, configValue]))
  }
  await chores.do('describe topic configs', async () => {
    const found = await configs(ConfigResourceTypes.TOPIC, TOPIC)
    for (const name of ['retention.ms', 'cleanup.policy', 'max.message.bytes']) assert.ok(name in found, `no ${name}`)
  })
  await chores.do('describe node configs', async () => {
    assert.ok(Object.keys(await configs(ConfigResourceTypes.BROKER, String(controller))).length > 0)
  })
  await chores.do('alter configs', async () => {
    const configEntries = [{ name: 'retention.ms', value: '3600000' }]
    const resources = [{ type: ConfigResourceTypes.TOPIC, name: TOPIC, configEntries }]
    await admin.alterConfigs({ validateOnly: false, resources })
    assert.equal((await configs(ConfigResourceTypes.TOPIC, TOPIC))['retention.ms'], '3600000')
  })
  await chores.do('create partitions', async () => {
    await admin.createPartitions({ topicPartitions: [{ topic: SHARED_TOPIC, count: 6 }] })
    await until('six partitions in the metadata', async () => {
      const { topics: [{ partitions }] } = await admin.fetchTopicMetadata({ topics: [SHARED_TOPIC] })
      return partitions.length === 6
    })
    const to = await producer()
    const [{ baseOffset }] = await to.send({ topic: SHARED_TOPIC, messages: [{ value: 'to the last', partition: 5 }] })
    assert.equal(baseOffset, '0')
    await to.disconnect()
  })
  await chores.do('delete records', async () => {
    // Also because KafkaJS looks for the partition's leader in what it knows before, and asks nobody.
    assert.deepEqual((await admin.fetchTopicOffsets(TOPIC)).map(({ low }) => low), ['0', '0', '0'])
    await admin.deleteTopicRecords({ topic: TOPIC, partitions: [{ partition: 0, offset: '10' }] })
    const found = await admin.fetchTopicOffsets(TOPIC)
    assert.equal(found.find(({ partition }) => partition === 0).low, '10')
  })
  const groupOffsets = async (settings = {}) => {
    const [{ partitions }] = await admin.fetchOffsets({ groupId, topics: [KILL_TOPIC], ...settings })
    return Object.fromEntries(partitions.map(({ partition, offset }) => [partition, offset]))
  }
  await chores.do('list group offsets', async () => {
    assert.deepEqual(await groupOffsets(), { 0: '150', 1: '150', 2: '150' })
  })
  await chores.do('alter group offsets', async () => {
    await admin.setOffsets({ groupId, topic: KILL_TOPIC, partitions: [{ partition: 1, offset: '7' }] })
    assert.equal((await groupOffsets())[1], '7')
  })
  await chores.do('reset group offsets', async () => {
    await admin.resetOffsets({ groupId, topic: KILL_TOPIC, earliest: true })
    // KafkaJS commits -2 for the earliest, and resolves it.
    assert.deepEqual(await groupOffsets({ resolveOffsets: true }), { 0: '0', 1: '0', 2: '0' })
  })
  await member.leave()
  await chores.do('delete group', async () => {
    await admin.deleteGroups([groupId])
    const { groups } = await admin.listGroups()
    assert.ok(!groups.some(group => group.groupId === groupId), 'the deleted group is listed')
    assert.deepEqual(new Set(Object.values(await groupOffsets())), new Set(['-1']))
  })
  await chores.do('delete topic', async () => {
    await admin.deleteTopics({ topics: [TIMES_TOPIC] })
    await until('a deleted topic is gone', async () => !(await admin.listTopics()).includes(TIMES_TOPIC))
  })
  chores.lacks('incremental alter configs', 'delete group offsets')
  await admin.disconnect()
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
