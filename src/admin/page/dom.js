// Nodes out of values, and a page brought to what it should be without losing focus, scroll or what is being typed.
// Text from outside becomes text nodes and attributes, never markup.

const SVG = 'http://www.w3.org/2000/svg';
const SVG_NAMES = new Set(['svg', 'g', 'path', 'line', 'rect', 'text', 'circle', 'title', 'desc']);

/// An element. Attributes that are null or false are left out, `true` is the empty string; children may be nested lists.
export const h = (name, attributes, ...children) => {
  const node = SVG_NAMES.has(name) ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value != null && value !== false) node.setAttribute(key, value === true ? '' : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child != null && child !== false && child !== ''));
  return node;
};

// What text may hold and a reader would not see, or would see in the wrong order: controls, direction marks, zero width.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}]/gu;

/// A name that somebody else chose, as text that looks like what it is.
export const visible = (text) => (text === '' ? '(empty)'
  : String(text).replace(UNSEEN, (c) => `\\u${c.codePointAt(0).toString(16).padStart(4, '0')}`));

/// The same as a node, kept apart from the direction of what surrounds it.
export const named = (text, attributes) => h('bdi', attributes, visible(text));

/// Its first part and the whole on hover: for names in narrow columns.
export const clipped = (text) => (text == null || text === '' ? '–' : named(text, { class: 'clip', title: visible(text) }));

const keyOf = (node) => (node.nodeType === 1 ? node.getAttribute('data-key') : null);
const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

/// Makes `old` what `wanted` is and keeps every node that can stay. A `details` stays as it was opened or closed,
/// and the inside of what has `data-own` is left alone.
const morph = (old, wanted) => {
  if (old.nodeType !== 1) {
    if (old.nodeValue !== wanted.nodeValue) old.nodeValue = wanted.nodeValue;
    return;
  }
  for (const { name, value } of wanted.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const { name } of [...old.attributes]) {
    if (!wanted.hasAttribute(name) && name !== 'open') old.removeAttribute(name);
  }
  if (!wanted.hasAttribute('data-own')) morphChildren(old, [...wanted.childNodes]);
};

const morphChildren = (parent, wanted) => {
  const keyed = new Map();
  for (const child of parent.childNodes) if (keyOf(child) != null) keyed.set(keyOf(child), child);
  let at = parent.firstChild;
  for (const next of wanted) {
    const known = keyOf(next) == null ? at : keyed.get(keyOf(next));
    if (known && known.parentNode === parent && alike(known, next)) {
      if (known === at) at = at.nextSibling;
      else parent.insertBefore(known, at);
      morph(known, next);
    } else {
      parent.insertBefore(next, at);
    }
  }
  while (at) {
    const rest = at.nextSibling;
    at.remove();
    at = rest;
  }
};

/// Shows these nodes in `place`.
export const show = (place, nodes) => {
  const focused = document.activeElement;
  morphChildren(place, [nodes].flat(Infinity).filter(Boolean));
  // A row that moved took the focus off what is in it.
  if (focused && focused !== document.activeElement && place.contains(focused)) focused.focus({ preventScroll: true });
};
