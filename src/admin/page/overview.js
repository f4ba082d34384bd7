// The first page: is it well, which groups lag, which shard is hot, how slow is it, and since when.
import { h, named } from './dom.js';
import { NONE, ago, bothBytes, count, lasting, latency, perSecond, percent, plural, short, span } from './format.js';
import { chart, spark, spread } from './charts.js';
import { shardHistory, strip } from './heat.js';
import { WORDS, facts, groupLink, section, shardLink, sign, state, table, told, trend } from './parts.js';

/// Their requests wait for records or for other members, so that how long they take is no fault; p99 of all leaves them out.
const WAITING = new Set(['Fetch', 'JoinGroup', 'SyncGroup']);
/// Rows of groups that lag; the list has all.
const LAGGING_SHOWN = 8;
/// Rows of the table of shards before the rest is folded away.
const SHARDS_SHOWN = 8;

export const overview = (answer, now) => [
  h('h1', { class: 'unseen', 'data-key': 'h1' }, 'Overview'),
  verdict(answer, now),
  answer.totals.topics === 0 && answer.totals.groups === 0 ? beginning(answer.gateway) : null,
  tiles(answer),
  h('div', { class: 'columns', 'data-key': 'columns' }, lagging(answer, now), shards(answer)),
  slowness(answer),
  shardTable(answer.shards),
  h('div', { class: 'columns', 'data-key': 'more' }, storage(answer), limits(answer, now)),
  gateway(answer, now),
];

export const verdictText = ({ status, findings, findings_left_out: left }) => (status === 'ok' ? WORDS.ok
  : `${WORDS[status] || status}: ${plural(findings.length + (left || 0), 'finding')}`);

const verdict = ({ health, totals, shards }, now) => h('section', { class: `verdict ${health.status}`, 'data-key': 'verdict', 'aria-label': 'Health' },
  sign(health.status),
  h('div', {},
    h('p', { class: 'big' }, verdictText(health), h('span', { class: 'since' }, ' for ', lasting(health.since, now))),
    health.findings.length
      ? h('ul', { class: 'findings' }, health.findings.map((finding) => h('li', { 'data-key': `${finding.kind} ${finding.subject}` },
        h('span', { class: `badge ${finding.severity}` }, WORDS[finding.severity] || finding.severity),
        h('span', { class: 'text' }, told(finding)),
        h('span', { class: 'since' }, 'for ', lasting(finding.since, now)))), health.findings_left_out ? h('li', {}, h('span', {}, ''), h('span', { class: 'text' }, `and ${health.findings_left_out} more`)) : null)
      : h('p', { class: 'calm' }, `${plural(shards.length, 'shard')}, ${plural(totals.connections, 'connection')}, ${plural(totals.groups, 'group')}, ${plural(totals.topics, 'topic')}. Nothing to report.`)));

const beginning = ({ nodes }) => {
  const address = nodes?.[0]?.addr || 'HOST:PORT';
  return section('begin', 'Nothing here yet',
    h('p', {}, 'There is no topic and no group. Clients connect to ', h('code', {}, address), '; the first topic is made when somebody produces to it:'),
    h('pre', {}, `printf 'hello\\nworld\\n' | kcat -b ${address} -P -t greetings\nkcat -b ${address} -G greeters -X auto.offset.reset=earliest greetings`));
};

/// The last step's; what was measured before it is not of now.
const newest = (ys) => ys?.at(-1) ?? null;

const tiles = ({ history, rates, totals }) => {
  const of = (name, title, value, unit, ys, show, note) => {
    const spec = { id: `spark-${name}`, title, from: history.from, step: history.step, series: [{ name: title, ys: ys || [], colour: 'var(--c0)' }], show };
    return h('li', { class: `tile ${name}`, 'data-key': name },
      h('h2', {}, title), h('strong', {}, value, unit && h('small', {}, unit)), h('p', {}, note), spark(spec));
  };
  const top = (ys, show, value) => {
    const seen = [...(ys || []), value].filter((y) => y != null);
    return seen.length ? `at most ${show(Math.max(...seen))}` : 'nothing measured yet';
  };
  const p99 = newest(history.p99);
  const lag = newest(history.loop_lag);
  return h('ul', { class: 'tiles', 'aria-label': 'Now, with the last half hour', 'data-key': 'tiles' },
    of('requests', 'Requests', count(rates.requests), '/s', history.requests, perSecond, top(history.requests, perSecond, rates.requests)),
    of('p99', 'Latency, p99', latency(p99), '', history.p99, latency, top(history.p99, latency)),
    of('lag', 'Lag of groups', count(totals.lag), ' records', history.lag, short, top(history.lag, short, totals.lag)),
    of('records', 'Records in', count(rates.records_in), '/s', history.records_in, perSecond, bothBytes(rates.bytes_in, rates.bytes_out)),
    of('connections', 'Connections', count(totals.connections), '', history.connections, short, `${plural(totals.members, 'member')} in ${plural(totals.groups, 'group')}`),
    of('loop', 'Loop lag', latency(lag), '', history.loop_lag, latency, top(history.loop_lag, latency)));
};

const lagging = (answer, now) => section('lagging', 'Groups that lag',
  answer.lagging.length
    ? table('lagging', 'Groups that lag, the largest lag first', [
      ['Group', 'name', (row) => [groupLink(row.group), h('small', {}, state(row.state), `, ${plural(row.members, 'member')}`)]],
      ['Lag', 'num', (row) => [count(row.lag, 'records'), h('small', { class: 'narrow' }, trend(row.lag, row.per_second)), row.since == null ? null : h('small', { class: 'narrow' }, 'for ', lasting(row.since, now))]],
      ['Trend', 'wide', (row) => trend(row.lag, row.per_second)],
      ['For', 'num wide', (row) => (row.since == null ? NONE : lasting(row.since, now))],
    ], answer.lagging.slice(0, LAGGING_SHOWN), (row) => row.group)
    : h('p', { class: 'calm' }, answer.totals.groups ? 'No group lags.' : 'There is no group.'),
  answer.totals.groups ? h('p', { class: 'more' }, h('a', { href: '#/groups?sort=lag' }, `All ${plural(answer.totals.groups, 'group')}`)) : null);

const shards = ({ shards: all, history }) => section('shards', 'Shards',
  h('p', { class: 'soft' }, hottest(all)), strip(all), shardHistory(history, all));

const hottest = (all) => {
  const hot = all.filter((shard) => shard.hot);
  if (hot.length) return h('span', { class: 'loud' }, `Hot: ${hot.length > 6 ? `${hot.length} of ${all.length} shards` : hot.map((shard) => `shard ${shard.shard} (${percent(shard.cpu)})`).join(', ')}`);
  const known = all.filter((shard) => shard.cpu != null);
  if (!known.length) return 'CPU is not known yet.';
  const most = known.reduce((a, b) => (b.cpu > a.cpu ? b : a));
  return all.length === 1 ? `None is hot. It takes ${percent(most.cpu)} of its CPU.` : `None is hot. Shard ${most.shard} takes most CPU: ${percent(most.cpu)}.`;
};

/// APIs that were asked since the page was opened: a row that comes and goes each second cannot be read.
const asked = new Set();

/// By decades of their rate, so that two that are as busy do not change places all the time.
const byRate = (apis) => {
  apis.filter((api) => api.requests).forEach((api) => asked.add(api.api));
  const now = new Map(apis.map((api) => [api.api, api]));
  const decade = ({ requests }) => (requests ? Math.floor(Math.log10(requests)) : -Infinity);
  return [...asked].map((api) => now.get(api) || { api, requests: 0, errors: 0 })
    .sort((a, b) => (decade(b) === decade(a) ? (a.api < b.api ? -1 : 1) : decade(b) - decade(a)));
};

const slowness = ({ history, apis }) => {
  const seen = byRate(apis);
  const all = seen.flatMap(({ p50, p99, p999, max }) => [p50, p99, p999, max]).filter((ms) => ms > 0);
  const from = Math.min(...all) / 1.5;
  const to = Math.max(...all, from * 10) * 1.2;
  return section('slowness', 'How slow',
    chart({ id: 'p99', title: 'Latency of requests, p99, without Fetch, JoinGroup and SyncGroup, which wait', from: history.from, step: history.step, series: [{ name: 'p99', ys: history.p99 || [], colour: 'var(--c0)' }], show: latency, log: true, height: 190, nothing: 'no request was answered yet' }),
    seen.length ? table('apis', 'Requests by API over the last seconds', [
      ['API', '', (row) => [row.api, WAITING.has(row.api) ? h('span', { class: 'soft' }, ' (waits)') : null]],
      ['Requests', 'num', (row) => perSecond(row.requests)],
      ['Errors', 'num', (row) => (row.errors ? h('span', { class: 'loud' }, perSecond(row.errors)) : '0')],
      ['p50', 'num wide', (row) => latency(row.p50)],
      ['p99', 'num', (row) => latency(row.p99)],
      ['p99.9', 'num wide', (row) => latency(row.p999)],
      ['Largest', 'num wide', (row) => latency(row.max)],
      ['p50 to largest, log. scale', 'wide drawn', (row) => spread(row, from, to)],
    ], seen, (row) => row.api, { captioned: true }) : h('p', { class: 'calm' }, 'No request was answered in the last seconds.'));
};

const columns = [
  ['Shard', '', (row) => [shardLink(row.shard), row.hot ? h('span', { class: 'badge warning' }, 'hot') : null]],
  ['CPU', 'num', (row) => percent(row.cpu)],
  ['Requests', 'num', (row) => perSecond(row.requests)],
  ['Records in', 'num wide', (row) => perSecond(row.records_in)],
  ['p50', 'num wide', (row) => latency(row.p50)],
  ['p99', 'num', (row) => latency(row.p99)],
  ['p99.9', 'num wide', (row) => latency(row.p999)],
  ['Loop lag', 'num', (row) => latency(row.loop_lag)],
  ['Stalls', 'num wide', (row) => count(row.stalls)],
  ['Connections', 'num wide', (row) => count(row.connections)],
  ['Groups', 'num wide', (row) => count(row.groups)],
  ['Partitions', 'num wide', (row) => count(row.partitions)],
  ['Hops', 'num wide', (row) => perSecond(row.hops)],
  ['Hop p99', 'num wide', (row) => latency(row.hop_p99)],
  ['Mailbox', 'num wide', (row) => count(row.mailbox_depth)],
];

const shardTable = (all) => {
  const sorted = all.length > SHARDS_SHOWN ? [...all].sort((a, b) => (b.hot - a.hot) || (b.cpu ?? -1) - (a.cpu ?? -1)) : all;
  const rest = sorted.slice(SHARDS_SHOWN);
  return section('each-shard', all.length > SHARDS_SHOWN ? 'The busiest shards' : 'Each shard',
    table('shards', 'Each shard now', columns, sorted.slice(0, SHARDS_SHOWN), (row) => row.shard),
    rest.length ? h('details', {}, h('summary', {}, `The other ${rest.length}`), table('rest', 'The other shards', columns, rest, (row) => row.shard)) : null);
};

const storage = ({ store, lane, gateway: { store: kind, where, fsync } }) => section('store', 'Store',
  facts([
    ['Kind', kind === 'embedded' ? 'embedded' : kind || NONE, where ? [' in ', named(where)] : null],
    fsync ? ['fsync', fsync] : null,
    store?.sync_p99 == null && store?.sync_p50 == null ? null : ['Sync, p50 and p99', `${latency(store.sync_p50)}, ${latency(store.sync_p99)}`],
    store ? ['Write, p99', latency(store.write_p99)] : null,
    store ? ['Appends in a write', short(store.batch)] : null,
    lane && ['Calls on Iggy', perSecond(lane.calls)],
    lane && ['Call, p50 and p99', `${latency(lane.p50)}, ${latency(lane.p99)}`],
    lane && ['Calls under way', short(lane.in_flight)],
    lane && ['Calls that failed', lane.failures ? h('span', { class: 'loud' }, perSecond(lane.failures)) : perSecond(lane.failures)],
    lane && ['Lease, still good for', lane.lease == null ? NONE : lane.lease ? span(lane.lease) : h('span', { class: 'loud' }, 'lost: groups are not answered')],
  ]));

const limits = (answer, now) => section('limits', 'Limits hit',
  answer.limits.length
    ? table('limits', 'Limits that were hit since the start', [
      ['Limit', '', (row) => h('code', {}, named(row.limit))],
      ['Hits', 'num', (row) => count(row.hits)],
      ['Last', 'num', (row) => (row.last == null ? NONE : ago(row.last, now))],
    ], answer.limits, (row) => row.limit)
    : h('p', { class: 'calm' }, 'None since the start.'));

const gateway = ({ gateway: it }, now) => section('gateway', 'This gateway',
  facts([
    ['Version', it.version],
    ['Started', ago(it.started, now)],
    ['Cluster', named(it.cluster_id)],
    ['Process', `${it.pid}`],
    ['Advertises', it.advertise === 'gateway' ? 'one node for all shards' : it.advertise === 'shards' ? 'a node for each shard' : it.advertise],
  ]),
  it.nodes?.length ? h('details', {}, h('summary', {}, `Addresses of ${plural(it.nodes.length, 'node')}`),
    table('nodes', 'Nodes that clients are told of', [
      ['Node', '', (row) => `${row.id}`], ['Shard', 'num', (row) => shardLink(row.shard)], ['Address', '', (row) => h('code', {}, named(row.addr))],
    ], it.nodes, (row) => row.id)) : null);
