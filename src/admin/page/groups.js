// The list of groups, and one group: who has what, what is committed, how far behind.
import { clipped, h, named } from './dom.js';
import { NONE, ago, count, lasting, latency, plural, ranges, short } from './format.js';
import { chart } from './charts.js';
import { facts, finder, groupLink, lagged, pager, section, shardLink, sinceCell, state, table, topicLink } from './parts.js';

const STATES = ['Stable', 'PreparingRebalance', 'CompletingRebalance', 'Assigning', 'Reconciling', 'Empty'];
/// Rows of a table before the rest is folded away.
const ROWS_SHOWN = 100;

/// A column's order as a link; the gateway sorts.
export const sorting = (kind, query, by, up, standard) => {
  const to = new URLSearchParams(query);
  to.set('sort', by);
  to.delete('after');
  to.delete('from');
  return { href: `#/${kind}?${to}`, now: (query.get('sort') || standard) === by, up };
};

export const groupsPath = (query) => {
  const to = new URLSearchParams({ limit: '50', sort: query.get('sort') || 'lag' });
  for (const name of ['search', 'state', 'after']) if (query.get(name)) to.set(name, query.get(name));
  return `api/groups?${to}`;
};

export const groupsPage = (answer, now, query) => {
  const filtered = query.get('search') || query.get('state');
  const sort = (by, up) => sorting('groups', query, by, up, 'lag');
  return [
    h('h1', { 'data-key': 'h1' }, 'Groups'),
    finder('groups', query, 'Search by group id', STATES),
    answer.groups.length
      ? h('div', { 'data-key': 'list', class: 'part list' }, table('groups', 'Groups', [
        ['Group', 'name', (row) => [groupLink(row.group), h('small', { class: 'narrow' }, state(row.state))], sort('name', true)],
        ['State', 'wide', (row) => state(row.state)],
        ['Members', 'num', (row) => count(row.members), sort('members', false)],
        ['Lag', 'num', (row) => lagged(row.lag), sort('lag', false)],
        ['Lags for', 'num wide', (row) => sinceCell(row.since, now)],
        ['Type', 'wide', (row) => row.type || NONE],
        ['Assignor', 'wide', (row) => clipped(row.protocol)],
        ['Shard', 'num wide', (row) => shardLink(row.shard)],
      ], answer.groups, (row) => row.group))
      : h('p', { class: 'calm part', 'data-key': 'none' }, filtered ? 'No group is like that.' : 'There is no group yet: one begins when its first member joins, or its first offset is committed.'),
    pager('groups', query, answer.groups.length, answer.total, answer.next),
  ];
};

export const groupPage = (answer, now, name) => {
  const rebalances = answer.rebalances || {};
  return [
    h('p', { class: 'crumbs', 'data-key': 'crumbs' }, h('a', { href: '#/groups' }, 'Groups'), ' / '),
    h('h1', { 'data-key': 'h1' }, named(name), ' ', state(answer.state)),
    h('ul', { class: 'tiles plain', 'data-key': 'tiles' },
      tile('Lag', [count(answer.lag, 'records')], answer.lag && answer.since != null ? ['for ', lasting(answer.since, now)] : answer.lag === 0 ? 'caught up' : ''),
      tile('Members', count(answer.members_total), `${answer.type || NONE}${answer.protocol ? `, ${answer.protocol}` : ''}`),
      tile('Generation', count(answer.generation), ['on shard ', shardLink(answer.shard)]),
      tile('Rebalances', count(rebalances.completed), rebalances.last == null ? 'none seen'
        : [ago(rebalances.last, now), rebalances.last_took == null ? '' : `, took ${latency(rebalances.last_took)}`, rebalances.failed ? [', ', h('b', { class: 'loud' }, `${short(rebalances.failed)} failed`)] : ''])),
    answer.history ? section('group-lag', 'Lag', chart({ id: 'group-lag', title: 'Lag in records', from: answer.history.from, step: answer.history.step, series: [{ name: 'lag', ys: answer.history.lag || [], colour: 'var(--c0)' }], show: short, height: 170, nothing: 'no lag is known yet' })) : null,
    section('partitions', 'Partitions', partitions(answer, now)),
    section('members', 'Members', members(answer)),
    section('about', 'About', facts([
      ['Type', answer.type], ['Protocol type', answer.protocol_type ? named(answer.protocol_type) : NONE],
      ['Assignor', answer.protocol ? named(answer.protocol) : NONE], ['Leader', answer.leader ? named(answer.leader) : NONE],
    ])),
  ];
};

const tile = (title, value, note) => h('li', { class: 'tile' }, h('h2', {}, title), h('strong', {}, value), h('p', {}, note));

const partOf = (list, total, what) => (total > list.length ? h('p', { class: 'soft' }, `The first ${short(list.length)} of ${plural(total, what)}.`) : null);

/// The first rows, and the rest folded away: a thousand rows are much to scroll past.
const folded = (id, caption, columns, rows, key) => [
  table(id, caption, columns, rows.slice(0, ROWS_SHOWN), key),
  rows.length > ROWS_SHOWN ? h('details', {}, h('summary', {}, `${short(rows.length - ROWS_SHOWN)} more`), table(`${id}-rest`, `${caption}, the rest`, columns, rows.slice(ROWS_SHOWN), key)) : null,
];

const partitions = (answer, now) => {
  if (!answer.partitions.length) return h('p', { class: 'calm' }, 'Nothing is committed and nothing assigned.');
  const rows = [...answer.partitions].sort((a, b) => (b.lag ?? -1) - (a.lag ?? -1) || (a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : 0) || a.partition - b.partition);
  return [partOf(answer.partitions, answer.partitions_total, 'partition'), folded('partitions', 'Partitions, the largest lag first', [
    ['Topic', 'name', (row) => [topicLink(row.topic), h('small', { class: 'narrow' }, row.member ? clipped(row.member) : 'nobody has it')]],
    ['Partition', 'num', (row) => `${row.partition}`],
    ['Committed', 'num wide', (row) => exact(row.committed)],
    ['End', 'num wide', (row) => exact(row.end)],
    ['Lag', 'num', (row) => lagged(row.lag)],
    ['Committed at', 'num', (row) => (row.committed_at == null ? NONE : ago(row.committed_at, now))],
    ['Member', 'wide', (row) => (row.member ? clipped(row.member) : h('span', { class: 'soft' }, 'nobody'))],
    ['Metadata', 'wide', (row) => clipped(row.metadata)],
  ], rows, (row) => `${row.partition} ${row.topic}`)];
};

const exact = (offset) => (offset == null ? NONE : offset.toLocaleString('en-US'));

const members = (answer) => {
  if (!answer.members.length) return h('p', { class: 'calm' }, 'No member now.');
  return [partOf(answer.members, answer.members_total, 'member'), folded('members', 'Members', [
    ['Client', 'name', (row) => [named(row.client ?? NONE), row.member === answer.leader ? h('span', { class: 'badge' }, 'leader') : null, h('small', {}, named(row.member))]],
    ['Host', 'wide', (row) => (row.host ? named(row.host) : NONE)],
    ['Instance', 'wide', (row) => clipped(row.instance)],
    ['Has', 'assigned', (row) => (row.assigned?.length
      ? h('ul', {}, row.assigned.map(({ topic, partitions: numbers }) => h('li', {}, topicLink(topic), ' ', h('span', { class: 'soft' }, ranges(numbers)))))
      : h('span', { class: 'soft' }, 'nothing'))],
  ], answer.members, (row) => row.member)];
};
