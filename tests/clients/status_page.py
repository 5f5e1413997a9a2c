"""The status page in a real browser, against the gateway example under load.

Starts the gateway, and has clients of three classes fill its queues; some of its workers answer only
when this script says so, so that what is there to be shown stays as it is. Opens the page in headless
Chromium, and compares every figure on it with `/snapshot.json`; uses it by keyboard, on a narrow
screen, and in the dark; kills the gateway and starts it again. Prints what was checked, and exits
with 1 if any of it did not hold.

    cargo build --release --features openai,status --example gateway
    pip install -r tests/clients/requirements.txt
    apt-get install chromium chromium-driver
    python tests/clients/status_page.py [path of the gateway]

With SCREENSHOTS=directory it leaves pictures there.
"""

import asyncio
import contextlib
import os
import re
import sys
import tempfile
import time
import traceback
from pathlib import Path

from browser import Browser
from check import HERE, PATIENCE, Report
from common import Gateway
from status_figures import SHOWN, expected
from status_load import Holder, Load, fill

WIDE = (1280, 900)
NARROW = (360, 740)


async def until(condition, patience=PATIENCE):
    """The first answer that is true, or the last one, and how long it took."""
    began = time.monotonic()
    while True:
        answer = condition()
        if asyncio.iscoroutine(answer):
            answer = await answer
        took = time.monotonic() - began
        if answer or took > patience:
            return answer, took
        await asyncio.sleep(0.05)


async def figures(gateway, browser, report):
    """Everything that stands still, in the dominion that is held."""
    await browser.run("document.querySelector('#dominion-held [data-part=more]').click()")

    async def differences():
        snapshot = (await gateway.watch.get("/status/snapshot.json")).json()
        found = []
        for dominion in snapshot["dominions"]:
            if dominion["id"] in ("held", "desktop", "cloud"):
                should, shown = expected(dominion), await browser.run(SHOWN, dominion["id"])
                found += [
                    f"{dominion['id']} {key}: {shown[key]} for {should[key]}"
                    for key in should
                    if shown[key] != should[key]
                ]
        return found, snapshot

    async def agree():
        return not (await differences())[0]

    await until(agree, 5)
    found, snapshot = await differences()
    held = snapshot["dominions"][0]
    report.check(
        "every figure, row and reason is that of /snapshot.json",
        not found,
        "; ".join(found) or f"{len(held['waiters'])} waiters, {len(held['classes'])} classes",
    )
    words = {waiter["why"]["word"] for waiter in held["waiters"]}
    report.check(
        "among the reasons are turns, order, a busy worker and who is behind it",
        {"slot", "class", "order", "busy", "blocked"} <= words,
        ", ".join(sorted(words)),
    )
    report.check("what came to no dominion is hidden, as nothing did", await browser.run(
        "return document.getElementById('no-dominion') === null"
    ))


async def in_motion(browser, report):
    """Shares and charts, while the simulated workers work."""
    shares = """
    const rows = document.querySelectorAll('#dominion-pool [data-part=classes] > tr');
    return [...rows].map((row) => [
      row.querySelector('[data-part=share]').textContent,
      row.querySelector('[data-part=promised]').textContent,
      row.querySelector('.line').getAttribute('d').split('L').length,
      row.querySelector('svg').getAttribute('aria-label'),
    ]);
    """

    async def grown():
        found = await browser.run(shares)
        return found if all(points > 4 for _, _, points, _ in found) else None

    found, _ = await until(grown)
    percent, promise = re.compile(r"^\d+ %$"), re.compile(r"^of \d+ % promised$")
    report.check(
        "each class has its share, its promised share, and a chart of both that grows",
        len(found or []) == 3
        and all(percent.match(share) and promise.match(promised) for share, promised, *_ in found)
        and all(share in label and promised in label for share, promised, _, label in found)
        and sum(int(share.split()[0]) for share, *_ in found) in range(98, 103),
        ", ".join(f"{share} {promised}" for share, promised, *_ in found or []),
    )


async def by_keyboard(browser, report):
    await browser.run("window.scrollTo(0, 0); document.activeElement.blur()")
    reached, unseen = [], []
    for _ in range(40):
        name, outline = await browser.tab()
        if name in reached:
            break
        reached.append(name)
        if outline == "none":
            unseen.append(name)
    wanted = ["#dominions", "Pause", "#dominion-held", "#dominion-pool", "dominion-held more", "dominion-pool more", "json"]
    report.check(
        "Tab reaches every control, and shows where it is",
        all(name in reached for name in wanted) and not unseen,
        ", ".join(reached),
    )
    pause = "const it = document.getElementById('pause'); it.focus();"
    await browser.run(pause)
    await browser.press(" ")
    before = await browser.run("return document.body.textContent")
    await asyncio.sleep(2.2)
    held_still = before == await browser.run("return document.body.textContent")
    await browser.press(" ")
    goes_on, _ = await until(
        lambda: browser.run("return document.body.textContent !== arguments[0]", before), 5
    )
    report.check("Space pauses it, and has it go on", held_still and goes_on)
    more = "const it = document.querySelector('#dominion-held [data-part=more]');"
    await browser.run(more + "it.focus()")
    rows = "return document.querySelectorAll('#dominion-held [data-part=waiters] > tr').length"
    counts = [await browser.run(rows)]
    for _ in range(2):
        await browser.press("\n")
        counts.append(await browser.run(rows))
    await asyncio.sleep(1.2)
    kept = await browser.run(more + "return document.activeElement === it")
    report.check(
        "Enter shows fewer and more of those who wait, and the focus stays",
        counts == [13, 10, 13] and kept,
        counts,
    )


async def looks(browser, report, scratch):
    grounds = {}
    for scheme in ("light", "dark"):
        await browser.scheme(scheme)
        for name, size in (("wide", WIDE), ("narrow", NARROW)):
            await browser.size(*size)
            await asyncio.sleep(0.6)
            inner, overflow = await browser.run(
                "return [innerWidth, document.scrollingElement.scrollWidth - innerWidth]"
            )
            report.check(
                f"{scheme}, {size[0]} pixels wide: nothing is cut off at the side",
                inner == size[0] and overflow <= 0,
                f"{overflow} too wide" if overflow > 0 else "",
            )
            pale = await browser.pale_texts()
            report.check(f"{scheme}, {name}: texts have a contrast of 4.5 at least", not pale, pale[:3])
            await browser.screenshot(scratch / f"{scheme}-{name}.png")
        grounds[scheme] = await browser.run("return getComputedStyle(document.body).backgroundColor")
    report.check("the dark scheme has a ground of its own", len(set(grounds.values())) == 2, grounds)
    await browser.scheme("light")
    await browser.size(*WIDE)


async def rare(browser, report):
    """A snapshot that no gateway sends: what is rare, and what must never be."""
    markup = "<img src=x onerror=alert(1)>"
    shown = await browser.run(
        """
        const before = latest;
        const snapshot = structuredClone(latest);
        const held = snapshot.dominions.find((it) => it.id === 'held');
        const would_be = { ...held, waiting: 7 };
        Object.assign(held, { enforced: false, would_be, closed: true, idle_beside_waiter_ms: 12 });
        Object.assign(held.waiters[0], { client: arguments[0], class_name: arguments[0] });
        held.waiters[0].why = { word: arguments[0], sentence: arguments[0] };
        Object.assign(held.workers[0], { draining: true, taints: [arguments[0]] });
        take(snapshot);
        const root = document.getElementById('dominion-held');
        const part = (name) => root.querySelector(`[data-part="${name}"]`);
        const texts = (node) => [...node.children].map((it) => it.textContent);
        const shown = {
          badges: texts(part('badges')),
          conditions: texts(part('conditions')).slice(-2),
          waiter: texts(part('waiters').firstElementChild).slice(1, 4),
          alert: part('idle').hidden ? null : part('idle').textContent,
          images: document.images.length,
          would_be: [...document.querySelectorAll('h2, #would-be-held [data-part=waiting]')]
            .map((it) => it.textContent).slice(0, 3),
        };
        take(before);
        shown.gone = !document.getElementById('would-be-held');
        return shown;
        """,
        markup,
    )
    report.check(
        "a dominion that is closed or not enforced says so, and so does an idle slot",
        shown["badges"] == ["closed", "not enforced"] and "12 ms" in (shown["alert"] or ""),
        shown["badges"],
    )
    report.check(
        "a dominion that is not enforced has beside it what it would be",
        shown["would_be"] == ["held", "held, if enforced", "7"] and shown["gone"],
        shown["would_be"],
    )
    report.check(
        "whatever a label holds is text",
        shown["conditions"] == ["draining", f"tainted {markup}"]
        and shown["waiter"] == [markup, f"{markup} {markup}", markup]
        and shown["images"] == 0,
        shown["images"],
    )


async def guarded(gateway, browser, report):
    refused = await browser.run(
        "try { document.body.innerHTML = '<i></i>'; return false } catch { return true }"
    )
    report.check("the browser refuses markup made of text", refused)
    with_slash = []
    for path in ("/status", "/status/"):
        await browser.open(gateway.url + path)
        live, _ = await until(lambda: browser.state("live"), 10)
        shown = await browser.run("return document.querySelectorAll('.dominion').length")
        styled = await browser.run("return getComputedStyle(document.body).maxWidth !== 'none'")
        with_slash.append(bool(live and shown and styled))
    report.check("with and without a slash at its end", all(with_slash), with_slash)


async def comes_back(gateway, browser, report, restart):
    gateway.process.kill()
    await gateway.process.wait()
    says, took = await until(lambda: browser.state("reconnecting"), 10)
    report.check("the gateway is killed, and it says that it reconnects", says, f"after {took:.1f} s")
    async with restart() as gateway:
        says, took = await until(lambda: browser.state("live"), 15)
        empty, _ = await until(
            lambda: browser.run(
                "return document.querySelector('#dominion-held [data-part=in_use]').textContent === '0'"
            ),
            5,
        )
        report.check(
            "the gateway is there again on its port, and it is live again",
            says and empty,
            f"after {took:.1f} s",
        )
        await browser.open("about:blank")

        async def ended():
            # A place for each stream: all of them are free again.
            async with contextlib.AsyncExitStack() as stack:
                for _ in range(16):
                    stream = gateway.watch.stream("GET", "/status/events")
                    response = await stack.enter_async_context(stream)
                    if response.status_code != 200:
                        return False
                one_too_many = await gateway.watch.get("/status/events")
                return one_too_many.status_code == 503

        free, took = await until(ended, 10)
        report.check("a page that is left gives its place up", free, f"after {took:.1f} s")
        status = await gateway.end()
        report.check("the gateway ends in order", status == 0, status)


async def main():
    report = Report()
    began = time.monotonic()
    binary = sys.argv[1] if len(sys.argv) > 1 else None
    policy = str(HERE / "status_policy.yaml")
    async with contextlib.AsyncExitStack() as stack:
        scratch = os.environ.get("SCREENSHOTS") or stack.enter_context(tempfile.TemporaryDirectory())
        holder = await stack.enter_async_context(Holder())

        def start(listen="127.0.0.1:0"):
            gateway = Gateway("--config", policy, binary=binary, HOLDER=holder.url)
            gateway.command[-1] = listen
            return gateway

        gateway = await stack.enter_async_context(start())
        browser = await stack.enter_async_context(Browser())
        try:
            load = await stack.enter_async_context(Load(gateway.url))
            refused = await fill(gateway, load)
            report.check("the load is there, one of it turned away", refused == 429, refused)
            for family, clients in (("premium", 8), ("regular", 6), ("batch", 6)):
                for index in range(clients):
                    load.keep_sending("quick", family, f"{family}-{index % 3}", tokens=256)
            await browser.open(gateway.url + "/status")
            await browser.size(*WIDE)
            live, took = await until(lambda: browser.state("live"), 10)
            report.check("the page opens and is live", live, f"after {took:.1f} s")
            await figures(gateway, browser, report)
            await in_motion(browser, report)
            await by_keyboard(browser, report)
            await rare(browser, report)
            await looks(browser, report, Path(scratch))
            errors = await browser.errors()
            report.check("the console has no errors, and the policy was not violated", not errors, errors)
            await guarded(gateway, browser, report)
            await browser.errors()
            port = gateway.url.removeprefix("http://")
            await comes_back(gateway, browser, report, lambda: start(port))
            lost = [e for e in await browser.errors() if "net::ERR_" not in e]
            report.check("nor had it later, but for the lost connection", not lost, lost)
        except Exception as error:
            traceback.print_exc()
            report.check("no step breaks off", False, repr(error))
    report.print()
    print(f"{browser.name}: {time.monotonic() - began:.0f} s")
    return 0 if report.holds() else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
