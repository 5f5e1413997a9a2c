'use strict';

// A dominion's part of the page.

/** Waiting requests that are shown before "Show all" is clicked. */
const FEW = 10;
/** The most slots that are drawn one by one. */
const CELLS = 48;

/** Draws a bar with `used` of `all` filled: one cell for each, unless there are too many. */
function bar(parent, used, all) {
  const single = all <= CELLS;
  const cells = single ? all : 1;
  while (parent.childElementCount > cells) parent.lastElementChild.remove();
  while (parent.childElementCount < cells) parent.append(document.createElement('i'));
  parent.classList.toggle('whole', !single);
  if (single) {
    [...parent.children].forEach((cell, index) => cell.classList.toggle('used', index < used));
  } else {
    parent.firstElementChild.style.width = `${Math.min(used / all, 1) * 100}%`;
  }
}

function has(totals) {
  return totals.arrived > 0;
}

/** Whether any request ever arrived at a dominion. */
function wasUsed(dominion) {
  return dominion.classes.some(({ totals }) => has(totals)) || has(dominion.former_classes);
}

function nameOf(dominion) {
  const name = dominion.id ?? 'No dominion';
  return dominion.imagined ? `${name}, if enforced` : name;
}

/** The anchor of a dominion's part of the page. */
function anchorOf(dominion) {
  if (dominion.id === null) return 'no-dominion';
  return `${dominion.imagined ? 'would-be' : 'dominion'}-${dominion.id}`;
}

/** All dominions, each that is not enforced followed by what it would be. */
function withImagined(dominions) {
  return dominions.flatMap((it) => (it.would_be ? [it, { ...it.would_be, imagined: true }] : [it]));
}

class DominionView {
  constructor(anchor) {
    this.parts = make('dominion');
    this.root = this.parts.root;
    this.root.id = anchor;
    this.parts.name.id = `${anchor}-name`;
    this.root.setAttribute('aria-labelledby', this.parts.name.id);
    for (const title of ['classes', 'waiters', 'workers', 'clients', 'outcomes']) {
      const heading = this.parts[`${title}_title`];
      heading.id = `${anchor}-${title}`;
      this.parts[title].closest('table').setAttribute('aria-labelledby', heading.id);
    }
    this.charts = new WeakMap();
    this.all = false;
    this.parts.more.addEventListener('click', () => {
      this.all = !this.all;
      this.waiters(this.shown);
    });
  }

  update(dominion, histories, now) {
    this.shown = dominion;
    const { parts } = this;
    write(parts.name, nameOf(dominion));
    this.badges(dominion);
    this.gauges(dominion);
    this.classes(dominion, histories, now);
    this.waiters(dominion);
    this.workers(dominion);
    this.clients(dominion);
    this.outcomes(dominion);
  }

  badges(dominion) {
    const badges = [];
    if (dominion.closed) badges.push(['closed', 'bad']);
    if (dominion.imagined) badges.push(['as it would be']);
    else if (dominion.enforced === false) badges.push(['not enforced', 'warn']);
    if (dominion.slots === null) badges.push(['unlimited']);
    chips(this.parts.badges, badges);
  }

  gauges(dominion) {
    const { parts } = this;
    const { slots, in_use, waiting, max_queue, idle_beside_waiter_ms: idle } = dominion;
    write(parts.in_use, count(in_use));
    write(parts.of_slots, slots === null ? 'in use, unlimited' : `of ${count(slots)} in use`);
    show(parts.slots, slots !== null);
    if (slots !== null) bar(parts.slots, in_use, slots);
    write(parts.waiting, count(waiting));
    write(parts.of_queue, max_queue === null ? 'as many as come' : `of ${count(max_queue)} at most`);
    show(parts.queue, max_queue !== null);
    if (max_queue !== null) bar(parts.queue, waiting, Math.max(max_queue, 1));
    write(parts.oldest, duration(dominion.oldest_wait_ms));
    write(parts.rate, rate(dominion.tokens_per_second));
    write(parts.idle_ms, duration(idle));
    show(parts.idle, idle > 0);
    if (idle > 0) {
      const text = `Slots were free for ${duration(idle)} beside requests that could have used them. This should be 0: please report it.`;
      write(parts.idle, text);
    }
  }

  classes(dominion, histories, now) {
    const { parts } = this;
    const used = dominion.classes.filter(({ totals }) => has(totals));
    const unused = dominion.classes.filter(({ totals }) => !has(totals));
    show(parts.classes_table, used.length > 0);
    show(parts.legend, used.length > 0);
    const names = unused.map((it) => `${it.name} (quantum ${count(it.quantum)})`).join(', ');
    write(parts.unused, names && `Nothing has come yet for ${names}.`);
    // Quanta promise shares only to classes that compete. If nobody waits, everybody has what they want.
    const contested = dominion.waiting > 0;
    const key = (it) => `${it.profile ?? ''}/${it.name}`;
    list(parts.classes, used, key, 'class', (row, it) => {
      write(row.name, it.name);
      write(row.profile, it.profile ?? '');
      write(row.share, percent(it.share));
      write(row.promised, contested ? `of ${percent(it.promised_share)} promised` : 'nobody waits');
      row.fill.style.width = `${it.share * 100}%`;
      row.mark.style.left = `${it.promised_share * 100}%`;
      show(row.mark, contested);
      write(row.queued, count(it.queued));
      write(row.deficit, count(it.deficit));
      write(row.quantum, count(it.quantum));
      write(row.rate, rate(it.tokens_per_second));
      write(row.wait, duration(it.estimated_wait_ms));
      let chart = this.charts.get(row);
      if (!chart) {
        chart = new Chart(row.chart);
        this.charts.set(row, chart);
      }
      const label = `Share over the last five minutes, now ${row.share.textContent}, ${row.promised.textContent}`;
      chart.draw(histories(key(it)), now, label);
    });
  }

  waiters(dominion) {
    const { parts } = this;
    const { waiters, waiters_omitted: omitted } = dominion;
    show(parts.waiters_block, dominion.waiting > 0);
    const shown = this.all ? waiters : waiters.slice(0, FEW);
    list(parts.waiters, shown, (_, index) => index, 'waiter', (row, it) => {
      write(row.position, it.position ?? '–');
      write(row.class, it.class_name);
      write(row.word, it.why.word);
      row.word.dataset.word = it.why.word;
      write(row.sentence, it.why.sentence);
      write(row.client, it.client ?? '–');
      write(row.worker, it.worker ?? 'any');
      write(row.cost, count(it.cost));
      write(row.tier, it.tier);
      row.tier.classList.toggle('lowest', it.tier === 0);
      write(row.age, duration(it.age_ms));
    });
    show(parts.more, waiters.length > FEW);
    parts.more.setAttribute('aria-expanded', this.all);
    write(parts.more, this.all ? `Show the first ${FEW}` : `Show all ${count(waiters.length)}`);
    write(parts.omitted, omitted > 0 ? `and ${count(omitted)} more that are not listed` : '');
  }

  workers(dominion) {
    const name = (index) => dominion.classes[index]?.name ?? `class ${index}`;
    const key = (it, index) => it.id ?? `#${index}`;
    list(this.parts.workers, dominion.workers, key, 'worker', (row, it) => {
      write(row.id, it.id ?? 'not named');
      write(row.in_flight, count(it.in_flight));
      write(row.prefill, count(it.prefill_tokens));
      const conditions = it.busy_for.map((index) => [`busy for ${name(index)}`, 'warn']);
      if (it.draining) conditions.push(['draining', 'warn']);
      if (it.overloaded) conditions.push(['overloaded', 'bad']);
      if (it.unselected) conditions.push(['not loaded']);
      if (it.removed) conditions.push(['removed']);
      for (const taint of it.taints) conditions.push([`tainted ${taint}`, 'warn']);
      if (conditions.length === 0) conditions.push(['takes requests', 'good']);
      chips(row.conditions, conditions);
    });
    show(this.parts.workers_block, dominion.workers.length > 0);
  }

  clients(dominion) {
    const clients = dominion.clients.filter(({ waiting, served }) => waiting > 0 || served > 0);
    const most = dominion.max_queue_per_client;
    const places = most === null ? '' : ` of ${count(most)}`;
    list(this.parts.clients, clients, (it) => it.label, 'client', (row, it) => {
      write(row.label, it.label);
      write(row.waiting, count(it.waiting) + places);
      write(row.served, count(it.served));
    });
    show(this.parts.clients_block, clients.length > 0);
  }

  outcomes(dominion) {
    const former = { name: 'former classes', profile: null, totals: dominion.former_classes };
    const used = [...dominion.classes, former].filter(({ totals }) => has(totals));
    const key = (it) => `${it === former ? '*' : ''}${it.profile ?? ''}/${it.name}`;
    list(this.parts.outcomes, used, key, 'outcome', (row, it) => {
      const { totals } = it;
      write(row.name, it.name);
      write(row.profile, it.profile ?? '');
      write(row.arrived, count(totals.arrived));
      write(row.completed, count(totals.completed));
      write(row.failed, count(totals.failed));
      write(row.mean, duration(totals.waited > 0 ? totals.wait_ms / totals.waited : null));
      write(row.longest, duration(totals.waited > 0 ? totals.longest_wait_ms : null));
      chips(row.ends, ends(totals));
    });
    show(this.parts.outcomes_block, used.length > 0);
  }
}

/** Rejections by code and cancellations by stage, without those that are 0. */
function ends({ rejected, cancelled, revoked }) {
  const found = Object.entries(rejected).filter(([, number]) => number > 0);
  const texts = found.map(([code, number]) => [`${code} ${count(number)}`, 'bad']);
  for (const [stage, number] of Object.entries(cancelled)) {
    if (number > 0) texts.push([`cancelled while ${stage} ${count(number)}`]);
  }
  if (revoked > 0) texts.push([`revoked ${count(revoked)}`, 'bad']);
  return texts;
}
