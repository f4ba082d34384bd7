// One shard: all that the overview knows of it.
import { h } from './dom.js';
import { count, latency, perSecond, percent } from './format.js';
import { chart } from './charts.js';
import { WORDS, facts, section } from './parts.js';

export const shardPage = (answer, number) => {
  const shard = answer.shards.find((each) => `${each.shard}` === number);
  if (!shard) return [h('h1', {}, `Shard ${number}`), h('p', { class: 'calm' }, `This gateway has shards 0 to ${answer.shards.length - 1}. `, h('a', { href: '#/' }, 'Overview'))];
  const node = answer.gateway.nodes?.find((each) => each.shard === shard.shard);
  const findings = answer.health.findings.filter((finding) => finding.subject === `shard ${number}`);
  const ys = answer.history.shard_cpu?.[answer.shards.indexOf(shard)] || [];
  return [
    h('p', { class: 'crumbs', 'data-key': 'crumbs' }, h('a', { href: '#/' }, 'Overview'), ' / '),
    h('h1', { 'data-key': 'h1' }, `Shard ${number}`, shard.hot ? h('span', { class: 'badge warning' }, 'hot') : null),
    findings.length ? h('ul', { class: 'findings apart', 'data-key': 'findings' }, findings.map((finding) => h('li', {},
      h('span', { class: `badge ${finding.severity}` }, WORDS[finding.severity] || finding.severity), h('span', { class: 'text' }, finding.text)))) : null,
    section('shard-cpu', 'CPU', chart({ id: 'one-cpu', title: `CPU of shard ${number}`, from: answer.history.from, step: answer.history.step, series: [{ name: 'CPU', ys, colour: 'var(--c0)' }], show: percent, most: 1.04, height: 180 })),
    section('shard-now', 'Now', facts([
      ['CPU', percent(shard.cpu)],
      ['Requests', perSecond(shard.requests)],
      ['Records in', perSecond(shard.records_in)],
      ['Latency, p50', latency(shard.p50)],
      ['Latency, p99', latency(shard.p99)],
      ['Latency, p99.9', latency(shard.p999)],
      ['Loop lag', latency(shard.loop_lag)],
      ['Stalls since the start', count(shard.stalls)],
      ['Connections', count(shard.connections)],
      ['Groups', count(shard.groups)],
      ['Members', count(shard.members)],
      ['Partitions', count(shard.partitions)],
      ['Hops to other shards', perSecond(shard.hops)],
      ['Hop, p99', latency(shard.hop_p99)],
      ['Messages in its mailbox', count(shard.mailbox_depth)],
      node ? ['Node', `${node.id} at ${node.addr}`] : null,
    ])),
    h('p', { class: 'more', 'data-key': 'more' }, h('a', { href: '#/' }, 'All shards')),
  ];
};
