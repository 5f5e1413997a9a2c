'use strict';

// The whole page: the event stream, the state of the connection, and the parts that it updates.

/** Without an event for longer than this, what is shown counts as stale. */
const STALE_MS = 4000;
/** Without an event for this long, the stream is given up and reopened. */
const DEAD_MS = 10000;
/** The delay before a refused stream is retried; a browser retries only a lost one by itself. */
const REFUSED_MS = 3000;

// From this page's own address, which may or may not have a trailing slash.
const base = location.origin + location.pathname.replace(/\/*$/, '/');

const page = make_page();
let source = null;
let latest = null;
let paused = false;
/** The time of the last event: by the monotonic clock, and by the wall clock to show. */
let lastAt = -Infinity;
let lastTime = null;
const startedAt = performance.now();

function make_page() {
  const parts = {};
  for (const id of ['connection', 'pause', 'overview', 'dominions', 'empty', 'usage', 'json']) {
    parts[id] = document.getElementById(id);
  }
  return parts;
}

// ===== The connection =====

function connect() {
  source?.close();
  source = new EventSource(`${base}events`);
  source.onmessage = (event) => {
    say('live', 'Live');
    take(JSON.parse(event.data));
  };
  source.onerror = () => {
    const refused = source.readyState === EventSource.CLOSED;
    // A layer that is shut down ends its streams; nothing more will come.
    if (latest && isOver(latest) && !refused) return say('over', 'Shut down');
    reconnecting();
    if (refused) setTimeout(ask, REFUSED_MS);
  };
}

/** After a refused stream, perhaps because too many are open: a single snapshot may still work. */
async function ask() {
  try {
    const response = await fetch(`${base}snapshot.json`, { cache: 'no-store' });
    if (response.ok) {
      take(await response.json());
      say('polling', 'Live, every few seconds');
    } else {
      say('reconnecting', `Refused with ${response.status}${since()}`);
    }
  } catch {
    reconnecting();
  }
  connect();
}

function reconnecting() {
  say('reconnecting', `Reconnecting${since()}`);
}

function since() {
  return lastTime ? `, last seen ${clock(lastTime)}` : '';
}

function say(state, text) {
  page.connection.dataset.state = state;
  write(page.connection, text);
  document.body.classList.toggle('old', state === 'reconnecting' || state === 'stale');
}

function watch() {
  const now = performance.now();
  const silent = now - Math.max(lastAt, startedAt);
  const { state } = page.connection.dataset;
  if (silent > STALE_MS && (state === 'live' || state === 'polling')) {
    say('stale', `Stale since ${clock(lastTime)}`);
  } else if (silent > STALE_MS && state === 'over') {
    reconnecting();
  }
  if (silent > DEAD_MS && source.readyState === EventSource.OPEN) {
    // The network failed silently.
    reconnecting();
    connect();
  }
}

// ===== What it says =====

const histories = new Map();
const views = new Map();

/** The history of a class. */
function history(dominion, cls) {
  const key = `${anchorOf(dominion)}/${cls}`;
  if (!histories.has(key)) histories.set(key, new History());
  return histories.get(key);
}

function take(snapshot) {
  latest = snapshot;
  lastAt = performance.now();
  lastTime = new Date();
  for (const dominion of withImagined(snapshot.dominions)) {
    for (const it of dominion.classes) {
      const promised = dominion.waiting > 0 ? it.promised_share : null;
      history(dominion, `${it.profile ?? ''}/${it.name}`).add(lastAt, it.share, promised);
    }
  }
  if (!paused) render();
}

function isOver({ dominions }) {
  return dominions.every((dominion) => dominion.closed && dominion.in_use === 0);
}

function render() {
  const shown = withImagined(latest.dominions).filter((it) => it.id !== null || wasUsed(it));
  show(page.empty, shown.length === 0);
  const anchors = shown.map(anchorOf);
  for (const [anchor, view] of views) {
    if (anchors.includes(anchor)) continue;
    view.root.remove();
    views.delete(anchor);
  }
  shown.forEach((dominion, index) => {
    const anchor = anchors[index];
    const view = views.get(anchor) ?? new DominionView(anchor);
    views.set(anchor, view);
    // Index 0 is the notice for an empty page. Views that stay in place keep the focus.
    const there = page.dominions.children[index + 1];
    if (view.root !== there) page.dominions.insertBefore(view.root, there ?? null);
    view.update(dominion, (cls) => history(dominion, cls), lastAt);
  });
  overview(shown, anchors);
  usage(latest);
  const { waiting } = latest.usage;
  document.title = waiting > 0 ? `(${waiting}) Policy queue` : 'Policy queue';
}

/** A tile for each dominion, if there are several. */
function overview(dominions, anchors) {
  show(page.overview, dominions.length > 1);
  list(page.overview, dominions, (_, index) => anchors[index], 'tile', (tile, it, index) => {
    tile.root.setAttribute('href', `#${anchors[index]}`);
    write(tile.name, nameOf(it));
    const slots = it.slots === null ? `${count(it.in_use)} in use` : `${count(it.in_use)} of ${count(it.slots)}`;
    write(tile.figures, it.waiting > 0 ? `${slots}, ${count(it.waiting)} waiting` : slots);
    show(tile.bar, it.slots !== null);
    if (it.slots !== null) bar(tile.bar, it.in_use, it.slots);
    tile.root.classList.toggle('waits', it.waiting > 0);
    tile.root.classList.toggle('bad', it.closed || it.idle_beside_waiter_ms > 0);
  });
}

function usage({ usage, unplaced }) {
  const rejected = Object.entries(unplaced.rejected).filter(([, number]) => number > 0);
  const texts = {
    slots_in_use: count(usage.slots_in_use),
    waiting: count(usage.waiting),
    prefill_tokens: count(usage.prefill_tokens),
    read_ahead_bytes: bytes(usage.read_ahead_bytes),
    bypassed: count(unplaced.bypassed),
    nested: count(unplaced.nested),
    rejected: rejected.map(([code, number]) => `${code} ${count(number)}`).join(', ') || '0',
  };
  for (const part of page.usage.querySelectorAll('[data-part]')) {
    const text = texts[part.dataset.part];
    write(part, text);
    // Rare counts are shown only once they are not 0.
    const rare = ['bypassed', 'nested', 'rejected'].includes(part.dataset.part);
    show(part.parentElement, !rare || text !== '0');
  }
  show(page.usage, true);
}

page.pause.addEventListener('click', () => {
  paused = !paused;
  page.pause.setAttribute('aria-pressed', paused);
  document.body.classList.toggle('paused', paused);
  if (!paused && latest) render();
});
page.json.href = `${base}snapshot.json`;
connect();
setInterval(watch, 1000);
