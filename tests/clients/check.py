"""Real clients against the gateway example.

Starts the gateway on a free port, with the policy beside this file, and has the `openai` and
`httpx` clients use it over HTTP/1.1 and HTTP/2: many at a time, of whom a third hang up at random
moments; one that is turned away and comes back when it is told to; and some that are there when
the gateway is asked to end. Prints what was checked, and exits with 1 if any of it did not hold.

    cargo build --release --features status --example gateway
    pip install -r tests/clients/requirements.txt
    python tests/clients/check.py [path of the gateway]
"""

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import httpx
import openai

HERE = Path(__file__).parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent.parent / "target"))

REQUESTS = 200
SEED = 3
# Every wait has an end; none of them is reached unless something is wrong.
PATIENCE = 30.0

KINDS = [
    (client, protocol, stream)
    for client in ("openai", "httpx")
    for protocol in ("HTTP/1.1", "HTTP/2")
    for stream in (True, False)
]


class Report:
    """What was checked."""

    def __init__(self):
        self.rows = []

    def check(self, what, holds, measured=""):
        self.rows.append((bool(holds), what, str(measured)))

    def print(self):
        wide = max(len(what) for _, what, _ in self.rows)
        print()
        for holds, what, measured in self.rows:
            print(f"  {'ok    ' if holds else 'FAILED'}  {what:{wide}}  {measured}")
        print()

    def holds(self):
        return all(holds for holds, _, _ in self.rows)


class Gateway:
    """The gateway, as a process of its own."""

    async def __aenter__(self):
        binary = sys.argv[1] if len(sys.argv) > 1 else TARGET / "release/examples/gateway"
        self.output = []
        self.process = await asyncio.create_subprocess_exec(
            str(binary), "--config", str(HERE / "policy.yaml"), "--listen", "127.0.0.1:0",
            stdout=asyncio.subprocess.PIPE,
        )
        first = await asyncio.wait_for(self.process.stdout.readline(), PATIENCE)
        words = first.decode().replace(",", "").split()
        self.url = next(word for word in words if word.startswith("http://"))
        self.reader = asyncio.create_task(self._read())
        self.watch = httpx.AsyncClient(base_url=self.url)
        return self

    async def __aexit__(self, *_):
        await self.watch.aclose()
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
        await self.reader

    async def _read(self):
        async for line in self.process.stdout:
            self.output.append(line.decode().rstrip())

    async def usage(self):
        return (await self.watch.get("/usage")).raise_for_status().json()

    async def usage_soon(self, condition):
        """Waits until the usage is as it should be; the last one that was seen, and the wait."""
        began = time.monotonic()
        while True:
            usage = await self.usage()
            waited = time.monotonic() - began
            if condition(usage) or waited > PATIENCE:
                return usage, waited
            await asyncio.sleep(0.01)

    async def end(self):
        """SIGTERM; the answer is the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(self.process.wait(), PATIENCE)


def is_idle(usage):
    return not any(usage.values())


def connections(client, protocol, on_request=None, on_response=None):
    """A pool of connections for a client. Closing it closes them, whatever is under way."""

    async def speaks(response):
        assert response.http_version == protocol, response.http_version

    kind = openai.DefaultAsyncHttpxClient if client == "openai" else httpx.AsyncClient
    return kind(
        http1=protocol == "HTTP/1.1",
        http2=protocol == "HTTP/2",
        timeout=PATIENCE,
        event_hooks={
            "request": [on_request] if on_request else [],
            "response": [speaks, on_response] if on_response else [speaks],
        },
    )


async def all_connections(stack, on_request=None):
    """A pool for each client and protocol, closed with the stack."""
    pools = {}
    for client, protocol, _ in KINDS[::2]:
        pool = connections(client, protocol, on_request)
        pools[client, protocol] = await stack.enter_async_context(pool)
    return pools


@dataclass
class Answer:
    """What a request has come to so far."""

    status: int = 0
    code: str = ""
    retry_after: str = ""
    words: int = 0
    complete: bool = False

    def refuse(self, response, body):
        self.status = response.status_code
        self.retry_after = response.headers.get("retry-after", "")
        error = body.get("error", body) if isinstance(body, dict) else {}
        self.code = error.get("code", "")

    def is_served(self, words):
        return (self.status, self.words, self.complete) == (200, words, True)


class Request:
    """A completion to be asked for, and the answer as far as it came."""

    def __init__(self, gateway, kind, *, model="many", family="regular", words=3, padding=0):
        self.gateway = gateway
        self.client, self.protocol, self.stream = kind
        self.words = words
        self.asked = {
            "model": model,
            "max_tokens": words,
            "stream": self.stream,
            # One word, so that it takes the simulated worker no time.
            "messages": [{"role": "user", "content": "x" * (padding + 1)}],
        }
        self.headers = {"x-model": model, "x-dynamo-meta-policy-class": family}
        self.answer = Answer()
        self.began = asyncio.Event()

    async def send(self, pool, retries=0):
        if self.client == "openai":
            await self._with_openai(pool, retries)
        else:
            await self._with_httpx(pool)
        return self.answer

    async def _with_openai(self, pool, retries):
        client = openai.AsyncOpenAI(
            base_url=f"{self.gateway.url}/v1", api_key="any", max_retries=retries, http_client=pool
        )
        create = client.chat.completions.create
        try:
            answer = await create(**self.asked, extra_headers=self.headers)
            self.answer.status = 200
            if self.stream:
                async for chunk in answer:
                    choice = chunk.choices[0]
                    self._words(choice.delta.content)
                    self.answer.complete |= choice.finish_reason is not None
            else:
                self._words(answer.choices[0].message.content)
                self.answer.complete = True
        except openai.APIStatusError as error:
            self.answer.refuse(error.response, error.body)

    async def _with_httpx(self, pool):
        url = f"{self.gateway.url}/v1/chat/completions"
        sent = pool.stream("POST", url, json=self.asked, headers=self.headers)
        async with sent as response:
            if response.status_code != 200:
                await response.aread()
                return self.answer.refuse(response, response.json())
            self.answer.status = 200
            if not self.stream:
                await response.aread()
                self._words(response.json()["choices"][0]["message"]["content"])
                self.answer.complete = True
                return
            async for line in response.aiter_lines():
                data = line.removeprefix("data: ")
                if data == "[DONE]":
                    self.answer.complete = True
                elif data:
                    self._words(json.loads(data)["choices"][0]["delta"].get("content"))

    def _words(self, text):
        self.answer.words += len((text or "").split())
        self.began.set()


# ===== Many at a time, of whom a third hang up =====


async def crowd(gateway, report, chance):
    cut = set(chance.sample(range(REQUESTS), REQUESTS // 3))
    stays, leaves = [], []
    for index in range(REQUESTS):
        kind = KINDS[index % len(KINDS)]
        padding = 1024 * 1024 if index % 20 == 3 else 64 * 1024 if index % 5 == 4 else 0
        family = chance.choice(["premium", "regular"])
        words = 6 if index in cut else 3
        request = Request(gateway, kind, family=family, words=words, padding=padding)
        (leaves if index in cut else stays).append(request)

    peaks = {}

    async def watch():
        while True:
            for name, value in (await gateway.usage()).items():
                peaks[name] = max(peaks.get(name, 0), value)
            await asyncio.sleep(0.02)

    async def hang_up(group, moment, after_word):
        """Requests of one kind, on connections of their own, closed at some moment."""
        async with connections(group[0].client, group[0].protocol) as pool:
            sent = [asyncio.create_task(request.send(pool)) for request in group]
            if after_word:
                begins = asyncio.create_task(group[0].began.wait())
                await asyncio.wait([*sent, begins], return_when=asyncio.FIRST_COMPLETED)
                begins.cancel()
            await asyncio.wait(sent, timeout=moment)
            for task in sent:
                task.cancel()
            ends = await asyncio.gather(*sent, return_exceptions=True)
        # Over HTTP/2, these clients hang up on a stream only by closing its connection, as now.
        for end in ends:
            if isinstance(end, Exception):
                raise end

    async with contextlib.AsyncExitStack() as stack:
        pools = await all_connections(stack)
        tasks = [request.send(pools[request.client, request.protocol]) for request in stays]
        for kind in KINDS:
            group = [r for r in leaves if (r.client, r.protocol, r.stream) == kind]
            while group:
                together, group = group[:3], group[3:]
                # At any time, most of which is spent waiting; or while the answer comes.
                after_word = kind[2] and chance.random() < 0.5
                moment = chance.uniform(0.0, 0.3 if after_word else 7.0)
                tasks.append(hang_up(together, moment, after_word))
        chance.shuffle(tasks)

        watching = asyncio.create_task(watch())
        began = time.monotonic()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        took = time.monotonic() - began
        watching.cancel()
    after, settled = await gateway.usage_soon(is_idle)

    failures = [end for end in ends if isinstance(end, BaseException)]
    for failure in failures[:3]:
        traceback.print_exception(type(failure), failure, failure.__traceback__)
    requests = stays + leaves
    statuses = Counter(request.answer.status for request in requests if request.answer.status)
    served = sum(request.answer.is_served(request.words) for request in stays)
    early = sum(request.answer.is_served(request.words) for request in leaves)
    waiting = sum(not request.answer.status for request in leaves)
    streaming = len(leaves) - early - waiting
    report.check(
        f"{REQUESTS} at a time: those who stay get all they asked for",
        served == len(stays) and not failures,
        f"{served} of {len(stays)}, in {took:.1f} s",
    )
    report.check(
        f"{len(leaves)} hang up, at random moments",
        waiting and streaming,
        f"{waiting} without an answer, {streaming} within it, {early} too late",
    )
    report.check("no unexpected status", set(statuses) == {200}, dict(statuses))
    report.check(
        "slots, queue and read-ahead were in use, and never too many slots",
        peaks["slots_in_use"] == 4
        and peaks["waiting"] > REQUESTS // 2
        and peaks["prefill_tokens"]
        and peaks["read_ahead_bytes"] > 1024 * 1024,
        ", ".join(f"{name} {value}" for name, value in peaks.items()),
    )
    report.check(
        "afterwards all of it is zero",
        is_idle(after),
        f"{after if not is_idle(after) else 'after'} {settled * 1000:.0f} ms",
    )


async def next_ones(gateway, report):
    served = 0
    for kind in KINDS:
        async with connections(*kind[:2]) as pool:
            request = Request(gateway, kind)
            served += (await request.send(pool)).is_served(request.words)
    report.check("the next request of each kind is served", served == len(KINDS), served)


# ===== One that is turned away, and comes back =====


async def warm_up(gateway, report):
    """Has the gateway learn how long a request runs, which is what it tells those it turns away."""
    kind = ("httpx", "HTTP/1.1", True)
    async with connections(*kind[:2]) as pool:
        answer = await Request(gateway, kind, model="one", words=8).send(pool)
    report.check("a single request is served", answer.is_served(8))


async def comes_back(gateway, report, kind):
    turned_away = asyncio.Event()
    sent, answers = [], []

    async def on_request(_):
        sent.append(time.monotonic())

    async def on_response(response):
        answers.append((time.monotonic(), response.status_code, response.headers))
        turned_away.set()

    watched = connections(*kind[:2], on_request, on_response)
    async with connections("httpx", "HTTP/1.1") as holders, watched as pool:
        # One runs for as long as it is needed, one waits, and so the next finds the queue full.
        runs = Request(gateway, ("httpx", "HTTP/1.1", True), model="one", words=36)
        running = asyncio.create_task(runs.send(holders))
        await asyncio.wait_for(runs.began.wait(), PATIENCE)
        waits = Request(gateway, ("httpx", "HTTP/1.1", True), model="one", words=2)
        waiting = asyncio.create_task(waits.send(holders))
        await gateway.usage_soon(lambda usage: usage["waiting"] == 1)

        request = Request(gateway, kind, model="one", words=2)
        returning = asyncio.create_task(request.send(pool, retries=5))
        await asyncio.wait_for(turned_away.wait(), PATIENCE)
        running.cancel()
        answer = await asyncio.wait_for(returning, PATIENCE)
        first = await waiting

    refusals = answers[:-1]
    full = [
        status == 503 and headers["x-policy-queue-reason"] == "queue_full"
        for _, status, headers in refusals
    ]
    told = [float(headers["retry-after-ms"]) / 1000 for _, _, headers in refusals]
    whole = [int(headers["retry-after"]) for _, _, headers in refusals]
    waited = [again - at for (at, _, _), again in zip(refusals, sent[1:])]
    how = f"{kind[1]}, {'streaming' if kind[2] else 'whole'}"
    report.check(
        f"openai, turned away with queue_full, waits as told and succeeds ({how})",
        full
        and all(full)
        and all(told_ <= waited_ < told_ + 2.0 for told_, waited_ in zip(told, waited))
        and all(1 <= told_ <= whole_ < told_ + 1.01 for told_, whole_ in zip(told, whole))
        and answer.is_served(2)
        and first.is_served(2),
        ", ".join(f"told {t:.3f} s, waited {w:.3f} s" for t, w in zip(told, waited)),
    )


# ===== The end =====


async def orderly_end(gateway, report):
    words = 20
    async with contextlib.AsyncExitStack() as stack:
        sent = 0

        async def on_request(request):
            nonlocal sent
            sent += int(request.headers["content-length"])

        pools = await all_connections(stack, on_request)

        def send(request):
            return asyncio.create_task(request.send(pools[request.client, request.protocol]))

        streams = [Request(gateway, kind, words=words) for kind in KINDS if kind[2]]
        streaming = [send(request) for request in streams]
        await asyncio.wait_for(asyncio.gather(*(r.began.wait() for r in streams)), PATIENCE)
        sent = 0
        paddings = [0, 64 * 1024]
        parked = [send(Request(gateway, k, padding=p)) for k in KINDS for p in paddings]
        # With their bodies: clients that are still sending may not see an answer that comes early.
        usage, _ = await gateway.usage_soon(
            lambda usage: (usage["waiting"], usage["read_ahead_bytes"]) == (len(parked), sent)
        )
        report.check(
            "streams run and requests wait when SIGTERM comes",
            (usage["slots_in_use"], usage["waiting"]) == (len(streams), len(parked)),
            f"{usage['slots_in_use']} and {usage['waiting']}",
        )

        began = time.monotonic()
        ending = asyncio.create_task(gateway.end())
        answers = await asyncio.wait_for(asyncio.gather(*parked), PATIENCE)
        answered = time.monotonic() - began
        told = sum(
            (answer.status, answer.code) == (503, "queue_unavailable") and answer.retry_after != ""
            for answer in answers
        )
        refused = 0
        for kind in KINDS:
            async with connections(*kind[:2]) as pool:
                answer = await Request(gateway, kind).send(pool)
                refused += (answer.status, answer.code) == (503, "queue_unavailable")
        still = sum(not task.done() for task in streaming)
        report.check(
            "those who wait get 503 queue_unavailable at once",
            told == len(parked) and still == len(streams),
            f"{told}, after {answered * 1000:.0f} ms",
        )
        report.check("so do those who come while the streams run", refused == len(KINDS), refused)
        finished = await asyncio.wait_for(asyncio.gather(*streaming), PATIENCE)
        whole = sum(answer.is_served(words) for answer in finished)
        report.check("the streams finish", whole == len(streams), f"{whole} of {len(streams)}")
        status = await ending
        took = time.monotonic() - began
    await gateway.reader
    report.check(
        "the gateway exits with 0",
        status == 0 and gateway.output[-1] == "All that was begun is finished.",
        f"{status}, after {took:.1f} s",
    )


async def main():
    report = Report()
    began = time.monotonic()
    async with Gateway() as gateway:
        steps = [
            lambda: crowd(gateway, report, random.Random(SEED)),
            lambda: next_ones(gateway, report),
            lambda: warm_up(gateway, report),
            *(lambda kind=kind: comes_back(gateway, report, kind) for kind in KINDS[:4]),
            lambda: orderly_end(gateway, report),
        ]
        for step in steps:
            try:
                await step()
            except Exception as error:
                traceback.print_exc()
                report.check("no step breaks off", False, repr(error))
    report.print()
    print(f"openai {openai.__version__}, httpx {httpx.__version__}: {time.monotonic() - began:.0f} s")
    return 0 if report.holds() else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
