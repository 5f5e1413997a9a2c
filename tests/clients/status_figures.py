"""What the status page should say of a snapshot, and what it says."""


def number(value):
    return f"{value:,.0f}"


def expected(dominion):
    """The texts of a dominion, but for those that change with the time."""
    names = [it["name"] for it in dominion["classes"]]
    slots, most = dominion["slots"], dominion["max_queue"]
    each = dominion["max_queue_per_client"]
    places = "" if each is None else f" of {number(each)}"
    return {
        "in_use": number(dominion["in_use"]),
        "of_slots": "in use, unlimited" if slots is None else f"of {number(slots)} in use",
        "waiting": number(dominion["waiting"]),
        "of_queue": f"of {number(most)} at most",
        "used_cells": None if slots is None else dominion["in_use"],
        "cells": slots,
        "idle_ms": "0 ms",
        "alert": False,
        "classes": [
            [it["name"], number(it["queued"]), f"{number(it['deficit'])} of {number(it['quantum'])}"]
            for it in dominion["classes"]
            if it["totals"]["arrived"]
        ],
        "workers": [
            [
                it["id"],
                number(it["in_flight"]),
                number(it["prefill_tokens"]),
                [f"busy for {names[index]}" for index in it["busy_for"]] or ["takes requests"],
            ]
            for it in dominion["workers"]
        ],
        "clients": [
            [it["label"], number(it["waiting"]) + places, number(it["served"])]
            for it in dominion["clients"]
            if it["waiting"] or it["served"]
        ],
        "waiters": [
            [
                str(it["position"] or "–"),
                it["class_name"],
                it["why"]["word"],
                it["why"]["sentence"],
                it["client"] or "–",
                it["worker"] or "any",
                number(it["cost"]),
                str(it["tier"]),
            ]
            for it in dominion["waiters"]
        ],
        "outcomes": [
            [it["name"], number(it["totals"]["arrived"]), ends(it["totals"])]
            for it in dominion["classes"]
            if it["totals"]["arrived"]
        ],
    }


def ends(totals):
    rejected = [f"{code} {number(n)}" for code, n in totals["rejected"].items() if n]
    stages = totals["cancelled"].items()
    return rejected + [f"cancelled while {stage} {number(n)}" for stage, n in stages if n]


SHOWN = """
const root = document.getElementById('dominion-' + arguments[0]);
const text = (node) => node.textContent.trim().replace(/\\s+/g, ' ');
const part = (node, name) => node.querySelector(`[data-part="${name}"]`);
const one = (name) => text(part(root, name));
const rows = (table, ...names) =>
  [...part(root, table).children].map((row) => names.map((name) => {
    const node = part(row, name);
    return ['conditions', 'ends'].includes(name) ? [...node.children].map(text) : text(node);
  }));
const seen = (node) => node.getClientRects().length > 0;
const slots = part(root, 'slots');
return {
  in_use: one('in_use'), of_slots: one('of_slots'),
  waiting: one('waiting'), of_queue: one('of_queue'),
  cells: seen(slots) ? slots.children.length : null,
  used_cells: seen(slots) ? slots.querySelectorAll('.used').length : null,
  idle_ms: one('idle_ms'), alert: seen(part(root, 'idle')),
  classes: rows('classes', 'name', 'queued', 'deficit', 'quantum')
    .map(([name, queued, deficit, quantum]) => [name, queued, `${deficit} of ${quantum}`]),
  workers: rows('workers', 'id', 'in_flight', 'prefill', 'conditions'),
  clients: rows('clients', 'label', 'waiting', 'served'),
  waiters: rows('waiters', 'position', 'class', 'word', 'sentence', 'client', 'worker', 'cost', 'tier'),
  outcomes: rows('outcomes', 'name', 'arrived', 'ends'),
};
"""
