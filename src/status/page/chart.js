'use strict';

// The share of a class over the last minutes, as this page has seen it.

const SPAN_MS = 5 * 60 * 1000;
/** If no event came for longer than this, the lines have a gap. */
const GAP_MS = 5000;
const WIDTH = 300;
const HEIGHT = 36;

/** What was seen of one class, oldest first. */
class History {
  constructor() {
    this.seen = [];
  }

  add(now, share, promised) {
    this.seen.push({ at: now, share, promised });
    const old = this.seen.findIndex((point) => now - point.at <= SPAN_MS);
    this.seen.splice(0, old);
  }

  /** The points that have this part, split at gaps. */
  stretches(part) {
    const stretches = [];
    let last = -Infinity;
    for (const point of this.seen) {
      if (point[part] === null) continue;
      if (point.at - last > GAP_MS) stretches.push([]);
      stretches.at(-1).push(point);
      last = point.at;
    }
    return stretches;
  }
}

function svg(name, attributes) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

/** An area for the actual share, and a line for the promised one. */
class Chart {
  constructor(parent) {
    this.root = svg('svg', {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      preserveAspectRatio: 'none',
      role: 'img',
    });
    this.area = svg('path', { class: 'area' });
    this.line = svg('path', { class: 'line' });
    this.promise = svg('path', { class: 'promise' });
    this.root.append(this.area, this.line, this.promise);
    parent.append(this.root);
  }

  draw(history, now, label) {
    // Kept half a line's width away from the edges, which would clip the line.
    const x = (point) => (WIDTH * (1 - (now - point.at) / SPAN_MS)).toFixed(1);
    const y = (part) => (HEIGHT - 1 - (HEIGHT - 2) * Math.min(part, 1)).toFixed(1);
    const path = (points, part) =>
      points.map((point, index) => `${index ? 'L' : 'M'}${x(point)} ${y(point[part])}`).join('');
    const shares = history.stretches('share');
    const areas = shares.map((points) => {
      const [first, last] = [points[0], points.at(-1)].map(x);
      return `${path(points, 'share')}L${last} ${HEIGHT}L${first} ${HEIGHT}Z`;
    });
    const promises = history.stretches('promised').map((points) => path(points, 'promised'));
    this.area.setAttribute('d', areas.join(''));
    this.line.setAttribute('d', shares.map((points) => path(points, 'share')).join(''));
    this.promise.setAttribute('d', promises.join(''));
    this.root.setAttribute('aria-label', label);
  }
}
