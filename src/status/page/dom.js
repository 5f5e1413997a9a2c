'use strict';

// Elements from templates, and texts. Data from a snapshot gets into the page only as `textContent`,
// and only here.

/** A copy of a template's element, as `root`, and its parts by their `data-part`. */
function make(template) {
  const root = document.getElementById(template).content.firstElementChild.cloneNode(true);
  const parts = { root };
  for (const part of [root, ...root.querySelectorAll('[data-part]')]) {
    if (part.dataset.part) parts[part.dataset.part] = part;
  }
  return parts;
}

/** Writes only what has changed, so that a selection survives. */
function write(node, text) {
  text = String(text);
  if (node.textContent !== text) node.textContent = text;
}

function show(node, shown) {
  if (node.hidden === shown) node.hidden = !shown;
}

/** The rows that an element has, by key. */
const rowsOf = new WeakMap();

/**
 * Makes `parent` show one element for each item, in order. An element is kept for as long as its key
 * is there, and with it the focus.
 */
function list(parent, items, key, template, fill) {
  const before = rowsOf.get(parent) ?? new Map();
  const rows = new Map();
  let next = parent.firstElementChild;
  items.forEach((item, index) => {
    let id = key(item, index);
    // Equal keys are made distinct: a row that is not in the map would never be removed.
    while (rows.has(id)) id = `${id}\u0000`;
    const row = before.get(id) ?? make(template);
    before.delete(id);
    rows.set(id, row);
    if (row.root === next) {
      next = next.nextElementSibling;
    } else {
      parent.insertBefore(row.root, next);
    }
    fill(row, item, index);
  });
  for (const row of before.values()) row.root.remove();
  rowsOf.set(parent, rows);
}

/** Shows a chip for each `[text, kind]`. */
function chips(parent, texts) {
  list(parent, texts, ([text]) => text, 'chip', (chip, [text, kind]) => {
    write(chip.text, text);
    chip.root.dataset.kind = kind ?? '';
  });
}

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

function count(number) {
  return whole.format(number);
}

/** Formats a number of tokens per second. */
function rate(number) {
  return (number < 10 ? fine : whole).format(number);
}

function percent(part) {
  return `${whole.format(part * 100)} %`;
}

function duration(ms) {
  if (ms === null || ms === undefined) return '–';
  if (ms < 1000) return `${whole.format(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${whole.format(Math.floor(minutes / 60))} h ${minutes % 60} min`;
}

function bytes(number) {
  if (number < 1024) return `${number} B`;
  if (number < 1024 * 1024) return `${fine.format(number / 1024)} KiB`;
  return `${fine.format(number / 1024 / 1024)} MiB`;
}

function clock(date) {
  return date.toLocaleTimeString('en-GB');
}
