"""A real server behind the gateway example: llama.cpp's, with four slots and a tiny model.

Has the `openai` client ask the gateway for chats and plain completions, streaming and not, for
premium and regular, many at a time, of whom some hang up; and compares what the server itself says
of its slots with what the gateway says of its own. Prints what was checked, and exits with 1 if any
of it did not hold.

    cargo build --release --features openai,status --example gateway
    pip install -r tests/clients/requirements.txt
    python tests/clients/real_server.py [path of the gateway]

The server must never have more requests than the dominion allows, working and waiting together.
Where nobody hangs up, that holds without exception. A client that hangs up ends its request at the
gateway at once, and the next one is sent; but the server has yet to notice. It does so when it
writes the next token of a stream. For an answer in one piece it looks only once a second has passed
in which it had nothing to say to anybody: with much to do, it works on to the end, which is not far
here. So the server may have one request more for each client that hung up, but no longer than
`GRACE_STREAM` or `GRACE_WHOLE` after.
"""

import asyncio
import contextlib
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import openai
from check import HERE, PATIENCE, Report, is_idle
from common import Gateway

SLOTS = 4
# Enough that a token takes the server some milliseconds, and there is something to wait for.
LAYERS = 8
# The server ends by itself after this, whatever becomes of the script.
LIFE_OF_THE_SERVER = 180

REQUESTS = 48
# Of streams, and of answers in one piece.
LEAVERS = (12, 4)
TOKENS = 64
SEED = 5
# In seconds, for a machine that is busy with other things: a token takes some milliseconds, and an
# answer some tenths of a second.
GRACE_STREAM = 1.0
GRACE_WHOLE = 2.0
# In seconds: until all is idle after the last answer.
SOON = 5.0
# Takes the server many seconds, and still fits into a slot.
MANY_TOKENS = 1900


class Server:
    """llama.cpp's server, as a process of its own."""

    async def __aenter__(self):
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            model = str(Path(folder) / "tiny.gguf")
            maker = await self._run("make_tiny_gguf.py", model, LAYERS)
            assert await asyncio.wait_for(maker.wait(), PATIENCE) == 0
            self.process = await self._run("llama_server.py", model, 0, LIFE_OF_THE_SERVER, SLOTS)
            stack.callback(self._kill)
            first = await asyncio.wait_for(self.process.stdout.readline(), PATIENCE)
            self.url = first.decode().strip()
            assert self.url.startswith("http://"), "the server does not start"
            self.watch = httpx.AsyncClient(base_url=self.url, timeout=PATIENCE)
            self.stack = stack.pop_all()
        return self

    async def __aexit__(self, *_):
        await self.watch.aclose()
        self.stack.close()
        await self.process.wait()

    def _kill(self):
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()

    async def _run(self, script, *arguments):
        return await asyncio.create_subprocess_exec(
            sys.executable, str(HERE / script), *map(str, arguments), stdout=asyncio.subprocess.PIPE
        )

    async def busy(self):
        """Slots that work."""
        slots = (await self.watch.get("/slots")).raise_for_status().json()
        assert len(slots) == SLOTS, slots
        return sum(slot["is_processing"] for slot in slots)

    async def waiting(self):
        """Requests that have come and found no slot."""
        metrics = (await self.watch.get("/metrics")).raise_for_status().text
        name = "llamacpp:requests_deferred "
        value = next(line for line in metrics.splitlines() if line.startswith(name))
        return int(float(value.removeprefix(name)))


class Request:
    """A completion to be asked for, and the answer as far as it came."""

    def __init__(self, client, model, index, *, family="regular", tokens=TOKENS, stream=None):
        self.client, self.model, self.family = client, model, family
        # Each kind in turn.
        self.chat = index % 2 == 0
        self.stream = index // 2 % 2 == 0 if stream is None else stream
        # No two begin alike, so nothing of it is cached.
        self.prompt = f"{index} the quick brown fox jumps over lazy dog"
        self.tokens = tokens
        self.status = 0
        self.pieces = 0
        self.reported = None
        self.complete = False
        self.began = asyncio.Event()

    def is_served(self):
        return self.status == 200 and self.complete and self.reported == self.tokens

    async def send(self, hang_up_after=None):
        """To the end, or until so many pieces of a stream have come; true if it hung up."""
        asked = {
            "model": self.model,
            "max_tokens": self.tokens,
            # Of the server: it writes as many tokens as it is asked for.
            "extra_body": {"ignore_eos": True},
            "extra_headers": {"x-dynamo-meta-policy-class": self.family},
        }
        if self.stream:
            asked |= {"stream": True, "stream_options": {"include_usage": True}}
        if self.chat:
            asked["messages"] = [{"role": "user", "content": self.prompt}]
            create = self.client.chat.completions.create
        else:
            asked["prompt"] = self.prompt
            create = self.client.completions.create
        try:
            answer = await create(**asked)
        except openai.APIStatusError as error:
            self.status = error.status_code
            return False
        self.status = 200
        if not self.stream:
            self._take(answer)
            return False
        async with answer:
            async for chunk in answer:
                self._take(chunk)
                if self.pieces == hang_up_after:
                    return True
        return False

    def _take(self, piece):
        if piece.usage:
            self.reported = piece.usage.completion_tokens
        for choice in piece.choices:
            self.complete |= choice.finish_reason == "length"
        self.pieces += 1
        self.began.set()


@dataclass
class Watch:
    """Looks at the server and at the gateway, over and over, while something else goes on."""

    gateway: Gateway
    server: Server
    allowed: int
    # Until when each client that hung up may explain a request too many.
    hang_ups: list = field(default_factory=list)
    looks: int = 0
    peaks: Counter = field(default_factory=Counter)
    # What looks found above what is allowed, and the looks that hang-ups do not explain.
    excesses: list = field(default_factory=list)
    unexplained: list = field(default_factory=list)

    async def look(self):
        began = time.monotonic()
        usage = await self.gateway.usage()
        # Requests wait at the server only while all its slots are busy: so the sum counts none
        # twice that ends its wait between the two questions.
        busy, waiting = await self.server.busy(), await self.server.waiting()
        seen = {
            "slots busy": busy,
            "waiting there": waiting,
            "held": usage["slots_in_use"],
            "queued": usage["waiting"],
        }
        for name, value in seen.items():
            self.peaks[name] = max(self.peaks[name], value)
        self.looks += 1
        excess = busy + waiting - self.allowed
        if excess > 0:
            self.excesses.append(excess)
            if excess > sum(until > began for until in self.hang_ups):
                self.unexplained.append(seen)

    async def look_on(self):
        while True:
            await self.look()
            await asyncio.sleep(0.01)


async def both_idle(gateway, server):
    """Waits until neither has anything left. Whether it was soon, and the wait, or what is left."""
    began = time.monotonic()
    while True:
        usage, busy = await gateway.usage(), await server.busy()
        waited = time.monotonic() - began
        if is_idle(usage) and not busy:
            return waited < SOON, f"after {waited * 1000:.0f} ms"
        if waited > PATIENCE:
            return False, f"{usage}, {busy} slots busy"
        await asyncio.sleep(0.01)


# ===== A few, one look at a time =====


async def side_by_side(gateway, server, report):
    seen = []

    async def compare(expected):
        began = time.monotonic()
        while True:
            counts = (await gateway.usage())["slots_in_use"], await server.busy()
            waited = time.monotonic() - began
            if counts == (expected, expected) or waited > GRACE_STREAM:
                seen.append((expected, *counts, waited))
                return
            await asyncio.sleep(0.005)

    async with gateway.client() as client:
        streams = [Request(client, "all", n, tokens=MANY_TOKENS, stream=True) for n in range(3)]
        sent = [asyncio.create_task(request.send()) for request in streams]
        await asyncio.wait_for(asyncio.gather(*(r.began.wait() for r in streams)), PATIENCE)
        await compare(3)
        for left, task in zip((2, 1, 0), sent):
            task.cancel()
            await asyncio.wait([task])
            await compare(left)
    report.check(
        "streams that hang up one by one: server and gateway count the same",
        all(expected == held == busy for expected, held, busy, _ in seen),
        ", ".join(f"{held} and {busy} after {took * 1000:.0f} ms" for _, held, busy, took in seen),
    )


async def in_one_piece(gateway, server, report):
    async with gateway.client() as client:
        request = Request(client, "all", 0, tokens=MANY_TOKENS, stream=False)
        sent = asyncio.create_task(request.send())
        began = time.monotonic()
        while not await server.busy() and time.monotonic() - began < PATIENCE:
            await asyncio.sleep(0.005)
        sent.cancel()
        await asyncio.wait([sent])
    _, freed = await gateway.usage_soon(is_idle)
    # An answer to a question of ours is something to say, too: so it is asked no sooner.
    await asyncio.sleep(GRACE_WHOLE)
    busy = await server.busy()
    report.check(
        "a client that hangs up on an answer in one piece: the server stops too",
        sent.cancelled() and not busy,
        f"gateway after {freed * 1000:.0f} ms, server "
        + ("works on" if busy else f"within {GRACE_WHOLE:.0f} s"),
    )
    # The next step begins with nothing going on.
    await both_idle(gateway, server)


# ===== Many at a time =====


async def crowd(gateway, server, report, model, allowed, leavers, chance):
    """So many leavers of streams, and of answers in one piece."""
    watch = Watch(gateway, server, allowed)
    finished = []
    async with gateway.client() as client:
        requests = [
            Request(client, model, index, family="premium" if index // 4 % 2 else "regular")
            for index in range(REQUESTS)
        ]
        leaving = {
            index
            for stream, count in zip((True, False), leavers)
            for index in chance.sample(
                [n for n, request in enumerate(requests) if request.stream == stream], count
            )
        }

        async def stay(request):
            await request.send()
            finished.append(request)

        async def leave(request):
            # Within the answer if there is a stream to hang up on, and else when so many others are
            # done.
            within = request.stream and chance.random() < 0.7
            pieces = chance.randint(1, TOKENS // 2) if within else None
            others = REQUESTS if within else chance.randrange(REQUESTS // 2)
            sent = asyncio.create_task(request.send(pieces))
            while not sent.done() and len(finished) < others:
                await asyncio.wait([sent], timeout=0.01)
            if sent.done():
                hung_up = sent.result()
            else:
                sent.cancel()
                await asyncio.wait([sent])
                hung_up = sent.cancelled()
            if hung_up:
                grace = GRACE_STREAM if request.stream else GRACE_WHOLE
                watch.hang_ups.append(time.monotonic() + grace)

        tasks = [leave(r) if n in leaving else stay(r) for n, r in enumerate(requests)]
        chance.shuffle(tasks)
        watching = asyncio.create_task(watch.look_on())
        began = time.monotonic()
        try:
            all_of_them = asyncio.gather(*tasks, return_exceptions=True)
            ends = await asyncio.wait_for(all_of_them, 2 * PATIENCE)
            took = time.monotonic() - began
            idle, settled = await both_idle(gateway, server)
        finally:
            watching.cancel()
            broke_off, *_ = await asyncio.gather(watching, return_exceptions=True)

    ends.append(broke_off)
    failures = [end for end in ends if isinstance(end, Exception)]
    for failure in failures[:3]:
        traceback.print_exception(type(failure), failure, failure.__traceback__)
    stays = [request for index, request in enumerate(requests) if index not in leaving]
    served = sum(request.is_served() for request in stays)
    statuses = Counter(request.status for request in requests if request.status)
    name = f"{allowed} of {SLOTS} slots, {f'{len(leaving)} hang up' if leaving else 'all stay'}"
    report.check(
        f"{name}: who stays gets all of it",
        served == len(stays) and not failures and set(statuses) == {200},
        f"{served} of {len(stays)} in {took:.1f} s, {dict(statuses)}",
    )
    if leaving:
        left = [request for index, request in enumerate(requests) if index in leaving]
        within = sum(request.pieces > 0 and not request.complete for request in left)
        report.check(
            f"{name}: some before the answer, some within",
            within and len(watch.hang_ups) > within,
            f"{len(watch.hang_ups) - within} and {within}",
        )
    peaks = ", ".join(f"{value} {name}" for name, value in watch.peaks.items())
    if watch.excesses:
        peaks += f"; {max(watch.excesses)} more in {len(watch.excesses)} looks, within the grace"
    report.check(
        f"{name}: the server never has more than allowed",
        watch.looks > 20
        and watch.peaks["slots busy"] >= allowed
        and watch.peaks["held"] == allowed
        and watch.peaks["queued"] > REQUESTS // 2
        and not watch.unexplained,
        watch.unexplained[:3] or f"{watch.looks} looks, at most {peaks}",
    )
    ranks = {
        family: [n for n, request in enumerate(finished) if request.family == family]
        for family in ("premium", "regular")
    }
    means = {family: sum(of) / len(of) for family, of in ranks.items()}
    report.check(
        f"{name}: premium finishes earlier",
        means["premium"] < means["regular"],
        ", ".join(f"{family} {mean:.1f}th" for family, mean in means.items()) + " on average",
    )
    report.check(f"{name}: afterwards no slot is busy, and all of the usage is zero", idle, settled)


async def main():
    report = Report()
    began = time.monotonic()
    binary = sys.argv[1] if len(sys.argv) > 1 else None
    config = ["--config", str(HERE / "real_policy.yaml")]
    chance = random.Random(SEED)
    async with Server() as server, Gateway(*config, binary=binary, LLAMA_URL=server.url) as gateway:
        steps = [
            lambda: side_by_side(gateway, server, report),
            lambda: in_one_piece(gateway, server, report),
            *(
                lambda model=model, allowed=allowed, leavers=leavers: crowd(
                    gateway, server, report, model, allowed, leavers, chance
                )
                for model, allowed in (("all", 4), ("half", 2))
                for leavers in ((0, 0), LEAVERS)
            ),
        ]
        for step in steps:
            try:
                await step()
            except Exception as error:
                traceback.print_exc()
                report.check("no step breaks off", False, repr(error))
        report.check("the gateway ends", await gateway.end() == 0)
    report.print()
    print(f"openai {openai.__version__}: {time.monotonic() - began:.0f} s")
    return 0 if report.holds() else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
