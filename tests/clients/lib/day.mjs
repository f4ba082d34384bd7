// What the days in JavaScript share: talking with `run`, records that are told apart, and the account of them.

import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import path from 'node:path'
import readline from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'

// Proves liveness, never speed: everything waited for takes a second or two.
export const WAIT_MS_MAX = 60_000
const LOOK_AGAIN_MS = 20
export const { BOOTSTRAP, PREFIX } = process.env
export const NODES = Number(process.env.NODES)
export const PARTITIONS = 3
export const ALL_PARTITIONS = [0, 1, 2]
export const TOPIC = `${PREFIX}-records`
export const SHARED_TOPIC = `${PREFIX}-shared`
export const KILL_TOPIC = `${PREFIX}-kill`
export const TIMES_TOPIC = `${PREFIX}-times`
export const GROUP = `${PREFIX}-group`

/** The packages that `install` put into the cache directory. */
export const load = createRequire(path.join(path.resolve(process.argv[2]), 'package.json'))

/** Thrown by a step that the client has no call for; says which. */
export class Skip extends Error {}

const input = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()

/** Lives the steps, an object of async functions by name, one after the other, and ends the process. */
export async function live(steps) {
  let failed = false
  const say = (name, outcome, detail) => {
    console.log(`step ${name} ${outcome} ${detail.replaceAll(/\s+/g, ' ')}`.trimEnd())
  }
  // What a client throws where nobody can catch it is no reason to be silent about the steps that follow.
  const stray = []
  process.on('unhandledRejection', error => stray.push(error))
  process.on('uncaughtException', error => stray.push(error))
  for (const [name, work] of Object.entries(steps)) {
    const began = Date.now()
    try {
      const detail = (await work()) ?? ''
      if (stray.length > 0) throw stray[0]
      say(name, 'ok', detail)
    } catch (error) {
      if (error instanceof Skip) {
        say(name, 'skip', error.message)
      } else {
        failed = true
        console.error(error)
        say(name, 'fail', String(error))
      }
    }
    stray.length = 0
    console.error(`${name}: ${(Date.now() - began) / 1000} s`)
  }
  process.exit(failed ? 1 : 0)
}

/** Has the gateway killed with SIGKILL and started again; returns when it serves. */
export async function kill() {
  console.log('kill')
  assert.equal((await input.next()).value, 'restarted')
}

/** Returns when the condition holds; fails after the deadline. `look` may throw, which fails at once. */
export async function until(what, look) {
  const deadline = Date.now() + WAIT_MS_MAX
  while (!(await look())) {
    if (Date.now() > deadline) throw new Error(`${what}: not after ${WAIT_MS_MAX / 1000} s`)
    await pause(LOOK_AGAIN_MS)
  }
}

/** The promise's value; fails after the deadline. */
export async function within(what, promise) {
  const over = new AbortController()
  const late = pause(WAIT_MS_MAX, undefined, { signal: over.signal }).then(() => {
    throw new Error(`${what}: not after ${WAIT_MS_MAX / 1000} s`)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    over.abort()
    late.catch(() => {})
  }
}

/**
 * Records with all that is odd about keys, values and headers: `{ key, value, headers }`, buffers or null, headers as
 * pairs of a name and a buffer. `repeated`: whether the client can send a header name twice.
 */
export function records(label, count, { repeated }) {
  return Array.from({ length: count }, (_, n) => {
    const record = {
      key: Buffer.from(`${label}-key-${n}`),
      value: Buffer.concat([Buffer.from(`${label}-${n}-`), Uint8Array.from(Array(n % 256).keys())]),
      headers: [['n', Buffer.from(`${n}`)], ['label', Buffer.from(label)]]
    }
    switch (n % 10) {
      case 1: record.key = null; break
      case 2: record.value = Buffer.alloc(0); break
      case 3: record.value = null; break
      case 4:
        record.headers = [['again', Buffer.from('1')], ['other', Buffer.from([0, 255])]]
        if (repeated) record.headers.push(['again', Buffer.from('2')], ['again', Buffer.from('1')])
        break
      case 5: record.key = Buffer.alloc(0); break
      case 6: record.headers = []; break
      case 7: record.headers = [['empty', Buffer.alloc(0)], ['ключ', Buffer.from('значение')]]; break
    }
    return record
  })
}

/** One text for equal records. Clients hold headers by name, so order counts among those of one name only. */
function text({ key, value, headers }) {
  const hex = bytes => (bytes === null || bytes === undefined ? null : Buffer.from(bytes).toString('hex'))
  const byName = new Map()
  for (const [name, bytes] of headers) byName.set(name, [...(byName.get(name) ?? []), hex(bytes)])
  return JSON.stringify([hex(key), hex(value), [...byName].sort(([one], [two]) => (one < two ? -1 : 1))])
}

/** What was acknowledged on a topic, by partition and offset. */
export class Account {
  sent = new Map()

  acknowledge(partition, offset, record) {
    assert.ok(offset >= 0, `acknowledged without an offset: ${text(record)}`)
    const at = `${partition}:${offset}`
    assert.ok(!this.sent.has(at), `offset ${offset} of partition ${partition} was given twice`)
    this.sent.set(at, text(record))
  }

  /** The next offset of each partition, by partition. */
  ends() {
    const ends = {}
    for (const at of this.sent.keys()) {
      const [partition, offset] = at.split(':').map(Number)
      ends[partition] = Math.max(ends[partition] ?? 0, offset + 1)
    }
    return ends
  }
}

/** What consumers read of a topic. Everything must come once, in order, as it was sent. */
export class Reading {
  repeats = 0
  #account
  #repeatsAllowed
  #came = []
  #seen = new Set()
  #last = new Map()

  /** `repeatsAllowed`: a record may come again, as after a consumer that begins again at its last commit. */
  constructor(account, { repeatsAllowed = false } = {}) {
    this.#account = account
    this.#repeatsAllowed = repeatsAllowed
  }

  /** Takes a record, which may come before the producer has its acknowledgement. */
  add(partition, offset, record, reader = '') {
    this.#came.push({ partition, offset, came: text(record), reader })
  }

  /** Once all is acknowledged: whether all is read; throws when something is wrong. */
  complete() {
    for (const { partition, offset, came, reader } of this.#came.splice(0)) {
      const at = `${partition}:${offset}`
      const where = `partition ${partition} offset ${offset}`
      const sent = this.#account.sent.get(at)
      assert.ok(sent !== undefined, `${where} was read and never acknowledged: ${came}`)
      assert.equal(came, sent, where)
      if (this.#seen.has(at)) {
        assert.ok(this.#repeatsAllowed, `${where} was read twice`)
        this.repeats += 1
        continue
      }
      const last = this.#last.get(reader) ?? new Map()
      assert.ok((last.get(partition) ?? -1) < offset, `${where} was read out of order`)
      this.#last.set(reader, last.set(partition, offset))
      this.#seen.add(at)
    }
    assert.ok(this.#account.sent.size > 0, 'nothing was acknowledged that could be read')
    return this.#seen.size === this.#account.sent.size
  }
}

/** The many small calls of one step: one that fails does not keep the others from being tried. */
export class Chores {
  #done = []
  #failed = []
  #missing = []

  async do(name, work) {
    try {
      await within(name, work())
      this.#done.push(name)
    } catch (error) {
      console.error(error)
      this.#failed.push(`${name} (${error})`)
    }
  }

  /** Calls that the client does not have. */
  lacks(...names) {
    this.#missing.push(...names)
  }

  detail() {
    if (this.#failed.length > 0) throw new Error(this.#failed.join('; '))
    return this.#done.join(', ') + (this.#missing.length > 0 ? `; not in the client: ${this.#missing.join(', ')}` : '')
  }
}
