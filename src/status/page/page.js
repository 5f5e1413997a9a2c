'use strict';

// The whole page: the stream of events, what it says of itself, and the parts that it feeds.

/** Without an event for longer than this, what is shown is old. */
const STALE_MS = 4000;
/** After this long without one, the stream is given up and asked for again. */
const DEAD_MS = 10000;
/** Until a stream that was refused is asked for again; a browser does that only for a lost one. */
const REFUSED_MS = 3000;

// Of this page's own address, which may or may not have a slash at its end.
const base = location.origin + location.pathname.replace(/\/*$/, '/');

const page = make_page();
let source = null;
let latest = null;
let paused = false;
/** Of the last event: by the clock that never jumps, and as one says it. */
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
    // A layer that is shut down ends its streams, and there is nothing more to come.
    if (latest && isOver(latest) && !refused) return say('over', 'Shut down');
    reconnecting();
    if (refused) setTimeout(ask, REFUSED_MS);
  };
}

/** The stream was refused: perhaps there are too many. One snapshot may be had all the same. */
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
    // The network went away without a word.
    reconnecting();
    connect();
  }
}

// ===== What it says =====

const histories = new Map();
const views = new Map();

/** What was seen of a class. */
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
    // After the notice for none. Those that stay where they are keep the focus.
    const there = page.dominions.children[index + 1];
    if (view.root !== there) page.dominions.insertBefore(view.root, there ?? null);
    view.update(dominion, (cls) => history(dominion, cls), lastAt);
  });
  overview(shown, anchors);
  usage(latest);
  const { waiting } = latest.usage;
  document.title = waiting > 0 ? `(${waiting}) Policy queue` : 'Policy queue';
}

/** A tile for each dominion, where there are several. */
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
    // What is rare is shown where it happens.
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
