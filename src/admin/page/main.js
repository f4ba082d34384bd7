// Which page is shown, what is asked for it, and how old the answers are.
import { h, show, visible } from './dom.js';
import { clock, plural, span } from './format.js';
import { Live } from './live.js';
import { keepWidths } from './charts.js';
import { paint } from './heat.js';
import { startReading } from './readoff.js';
import { SIGNS, WORDS } from './parts.js';
import { overview, verdictText } from './overview.js';
import { shardPage } from './shard.js';
import { groupPage, groupsPage, groupsPath } from './groups.js';
import { topicPage, topicsPage, topicsPath } from './topics.js';

const OVERVIEW_MS = 2_000;
const LIST_MS = 5_000;

const main = document.getElementById('main');
const decoded = (text) => { try { return decodeURIComponent(text); } catch { return text; } };

/// What the address asks for: `#/groups/billing`, `#/groups?search=b`, `#/shards/3`, `#/topics`. A group may be called
/// nothing: `#/groups/`.
const route = () => {
  const [path, query = ''] = location.hash.slice(1).split(/\?([^]*)/);
  const [, kind = '', name] = path.split('/');
  return { kind: kind || 'overview', name: name == null || (name === '' && kind !== 'groups') ? null : decoded(name), query: new URLSearchParams(query) };
};

const PAGES = {
  overview: { part: 'overview', title: () => 'Overview', draw: (_, all, now) => overview(all, now) },
  shards: { part: 'overview', title: ({ name }) => `Shard ${name}`, draw: (_, all, now, { name }) => shardPage(all, name || '0') },
  groups: {
    part: 'groups', title: ({ name }) => name ?? 'Groups', period: ({ name }) => (name == null ? LIST_MS : OVERVIEW_MS),
    path: ({ name, query }) => (name == null ? groupsPath(query) : `api/group?id=${encodeURIComponent(name)}`),
    draw: (answer, _, now, { name, query }) => (name == null ? groupsPage(answer, now, query) : groupPage(answer, now, name)),
  },
  topics: {
    part: 'topics', title: ({ name }) => name ?? 'Topics', period: () => LIST_MS,
    path: ({ name, query }) => (name == null ? topicsPath(query) : `api/topics/${encodeURIComponent(name)}`),
    draw: (answer, _, now, { name, query }) => (name == null ? topicsPage(answer, query) : topicPage(answer, name)),
  },
};

let at = null;
let own = null;
let shown = null;
let reread = () => {};
const all = new Live('api/overview', OVERVIEW_MS, () => draw());

const go = (typed) => {
  const before = at;
  at = route();
  own?.stop();
  own = null;
  const page = PAGES[at.kind];
  if (page?.path) own = new Live(page.path(at), page.period(at), () => draw());
  // A list that is searched or turned over keeps what it shows, and the focus, until the answer is there.
  if (before?.kind !== at.kind || before?.name !== at.name) {
    shown = null;
    show(main, [h('p', { class: 'soft opening' }, 'Asking the gateway…')]);
    scrollTo(0, 0);
    if (before) main.focus({ preventScroll: true });
  }
  draw();
  for (const input of main.querySelectorAll('.finder input, .finder select')) {
    if (typed !== true || input !== document.activeElement) input.value = at.query.get(input.name) || '';
  }
};

const header = () => {
  const page = PAGES[at.kind];
  for (const link of document.querySelectorAll('nav [data-page]')) {
    if (link.dataset.page === page?.part) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  const health = all.answer?.health;
  const current = all.state();
  const status = current === 'live' && health ? health.status : current === 'live' ? 'stale' : current === 'resuming' ? 'starting' : current;
  const says = current === 'stale' ? `No answer for ${span(all.age())}` : current !== 'live' || !health ? (all.missing || 'Asking…') : health.status === 'ok' ? WORDS.ok : plural(health.findings.length + (health.findings_left_out || 0), 'finding');
  const chip = document.getElementById('chip');
  chip.className = `chip ${status}`;
  chip.firstElementChild.textContent = SIGNS[status] || SIGNS.stale;
  chip.lastElementChild.textContent = says;
  document.body.dataset.state = current;
  const title = visible(page?.title(at) ?? 'No such page');
  document.title = `${status === 'ok' || status === 'starting' ? '' : `${SIGNS[status] || SIGNS.stale} ${says} · `}${title} · ringgate`;
  // Read aloud when it changes, and not each second with its age.
  const aloud = current === 'stale' ? 'The gateway does not answer. What is shown is old.'
    : current === 'live' && health ? [verdictText(health), ...health.findings.map((finding) => visible(finding.text))].join('. ') : '';
  const place = document.getElementById('aloud');
  if (aloud && place.textContent !== aloud) place.textContent = aloud;
};

/// What stands above a page that is not of now.
const staleness = (live) => {
  if (live.state() !== 'stale') return null;
  const wait = Math.max(0, Math.ceil((live.next - Date.now()) / 1000));
  return h('section', { class: 'verdict stale', 'data-key': 'stale', 'aria-label': 'No answer' },
    h('span', { class: 'sign', 'aria-hidden': 'true' }, SIGNS.stale),
    h('div', {},
      h('p', { class: 'big' }, `No answer for ${span(live.age())}`),
      h('p', { class: 'calm' }, live.failure ? `${live.failure}. ` : '', live.asking ? 'Asking again now.' : wait ? `Asking again in ${wait} s.` : 'Asking again.',
        live.answer ? ` What is below is of ${clock(Date.now() - live.age())}.` : '')));
};

const draw = () => {
  if (!at) return;
  header();
  const page = PAGES[at.kind];
  const live = own || all;
  if (!page) {
    show(main, [h('h1', {}, 'No such page'), h('p', {}, h('a', { href: '#/' }, 'Overview'))]);
    return;
  }
  const stale = staleness(all.state() === 'stale' ? all : live);
  if (live.missing != null) {
    show(main, [stale, h('h1', { 'data-key': 'h1' }, visible(page.title(at))), h('p', { class: 'calm part', 'data-key': 'none' }, visible(live.missing)), h('p', { class: 'more' }, h('a', { href: `#/${page.part === 'overview' ? '' : page.part}` }, 'Back'))]);
    shown = null;
  } else if (live.answer) {
    shown = live;
    show(main, [stale, page.draw(live.answer, all.answer, all.now(), at)]);
    document.querySelector('footer').textContent = all.answer ? `ringgate ${all.answer.gateway.version}` : '';
  } else if (shown && !stale) {
    return;
  } else {
    show(main, [stale, h('p', { class: 'soft opening', 'data-key': 'opening' }, stale ? 'Nothing is known of it.' : 'Asking the gateway…')]);
  }
  keepWidths(draw);
  paint();
  reread();
};

// A search is done as it is typed, and is one step of the browser's history.
let typing = null;
const search = (form, replace) => {
  clearTimeout(typing);
  const query = new URLSearchParams(route().query);
  for (const { name, value } of form.querySelectorAll('input, select')) if (value) query.set(name, value); else query.delete(name);
  query.delete('after');
  query.delete('from');
  const hash = `#/${form.dataset.kind}${query.size ? `?${query}` : ''}`;
  if (hash === location.hash) return;
  history[replace ? 'replaceState' : 'pushState'](null, '', hash);
  go(true);
};
document.addEventListener('submit', (event) => {
  event.preventDefault();
  search(event.target, false);
});
document.addEventListener('input', (event) => {
  const form = event.target.closest('.finder');
  clearTimeout(typing);
  if (form) typing = setTimeout(() => search(form, new URLSearchParams(route().query).has('search')), 250);
});

// The first link leads past the header, which is no address of a page.
document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});

addEventListener('hashchange', go);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', paint);
reread = startReading();
go();
// Ages go on while nothing is answered.
setInterval(() => { if (!document.hidden) draw(); }, 1_000);
