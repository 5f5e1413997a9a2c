"""Conversations through the gateway example as it is: its own policy, and no header from anyone.

Has the `openai` client name models and talk, and looks at what the gateway made of it: where the
requests ran, and in which class. Prints what was checked, and exits with 1 if any of it did not
hold.

    cargo build --release --features openai,status --example gateway
    pip install -r tests/clients/requirements.txt
    python tests/clients/conversation.py [path of the gateway]
"""

import asyncio
import sys
import time
import traceback
from collections import Counter

import httpx
import openai
from check import PATIENCE, Report, is_idle
from common import Gateway

CONVERSATIONS = 6
WORDS = 3


def long_text(about):
    """More than 512 tokens, and unlike any other from the beginning on."""
    # Of few words, as they are what takes the simulated workers their time.
    return " ".join(f"{about} {str(n) * 80}" for n in range(10, 30))


class Conversation:
    """What was said, and where it was answered."""

    def __init__(self, client, about, *, model="twins", family=None, stream=False):
        self.client, self.model, self.stream = client, model, stream
        self.headers = {"x-dynamo-meta-policy-class": family} if family else {}
        self.messages = []
        self.classes, self.workers = [], []
        self.begins = long_text(about)
        self.began = asyncio.Event()

    async def say(self, text, words=WORDS):
        self.messages.append({"role": "user", "content": text})
        response = await self.client.chat.completions.with_raw_response.create(
            model=self.model,
            messages=self.messages,
            max_tokens=words,
            stream=self.stream,
            extra_headers=self.headers,
        )
        self.classes.append(response.headers.get("x-policy-queue-class"))
        self.workers.append(response.headers.get("x-worker"))
        self.began.set()
        answer = response.parse()
        if self.stream:
            said = [chunk.choices[0].delta.content or "" async for chunk in answer]
            answer = "".join(said)
        else:
            answer = answer.choices[0].message.content
        assert len(answer.split()) == words, answer
        self.messages.append({"role": "assistant", "content": answer})


async def models(client, report):
    """The model alone says where a request runs."""
    expected = {
        "demo": {"demo"},
        "twins": {"left", "right"},
        "tiny-chat": {"tiny-chat"},
        "nobody's": {"demo"},
    }
    found = {}
    for model in expected:
        conversation = Conversation(client, model, model=model)
        await conversation.say("Hello")
        found[model] = conversation.workers[0]
    report.check(
        "the model in the JSON picks the worker",
        all(found[model] in workers for model, workers in expected.items()),
        ", ".join(f"{model}: {worker}" for model, worker in found.items()),
    )


async def dominions(gateway, client, report):
    """One model's queue is full, which is nothing to the others."""
    runs = Conversation(client, "first", model="demo", stream=True)
    running = asyncio.create_task(runs.say("Hello", words=30))
    await asyncio.wait_for(runs.began.wait(), PATIENCE)
    waiting = asyncio.create_task(Conversation(client, "second", model="demo").say("Hello"))
    await gateway.usage_soon(lambda usage: usage["waiting"] == 1)
    try:
        await Conversation(client, "third", model="demo").say("Hello")
        refusal = "served"
    except openai.APIStatusError as error:
        refusal = f"{error.status_code} {error.code}"
    other = Conversation(client, "fourth")
    await other.say("Hello")
    still = not running.done() and not waiting.done()
    running.cancel()
    await asyncio.wait([running])
    await waiting
    report.check(
        "one model's queue is full, and another's requests run",
        refusal == "503 queue_full" and other.workers and still,
        f"demo: {refusal}, twins: {other.workers[0]}",
    )


async def talks(client, report, family):
    """Several conversations at a time, each of a long beginning and three more turns."""
    name = family or "regular"
    all_of_them = [
        Conversation(client, f"{name} {index}", family=family, stream=index % 2 == 0)
        for index in range(CONVERSATIONS)
    ]

    async def everybody(texts):
        await asyncio.gather(*(c.say(text) for c, text in zip(all_of_them, texts, strict=True)))

    await everybody(conversation.begins for conversation in all_of_them)
    await everybody(["And then?"] * CONVERSATIONS)
    # In another order, so that no worker is the right one by its turn.
    all_of_them.reverse()
    await everybody(["Why?"] * CONVERSATIONS)
    await everybody(long_text(f"more of {index}") for index in range(CONVERSATIONS))

    turns = list(zip(*(conversation.classes for conversation in all_of_them)))
    rows = [
        ("a long prompt is uncached", 0, "uncached"),
        ("the same conversation continued is cached", 1, "cached"),
        ("and again", 2, "cached"),
        ("a long text that is new to it is uncached", 3, "uncached"),
    ]
    for what, turn, bucket in rows:
        counts = Counter(turns[turn])
        report.check(
            f"{name}: {what}",
            set(counts) == {f"{name}-{bucket}"},
            ", ".join(f"{count} {of}" for of, count in counts.items()),
        )
    places = Counter(conversation.workers[0] for conversation in all_of_them)
    moved = sum(len(set(conversation.workers)) > 1 for conversation in all_of_them)
    report.check(
        f"{name}: each stays at its worker",
        set(places) == {"left", "right"} and not moved,
        f"{', '.join(f'{count} {worker}' for worker, count in places.items())}; {moved} moved",
    )


async def busy_worker(gateway, client, report):
    """A conversation goes on where it began, though that worker has more to do."""
    conversation = Conversation(client, "loyal")
    await conversation.say(conversation.begins)
    home = conversation.workers[0]
    streams = [Conversation(client, f"load {n}", stream=True) for n in range(4)]
    load = [asyncio.create_task(stream.say("Hello", words=30)) for stream in streams]
    await asyncio.wait_for(asyncio.gather(*(s.began.wait() for s in streams)), PATIENCE)
    # The other worker's hang up, so that it is the idle one.
    at_home = sum(stream.workers[0] == home for stream in streams)
    for stream, task in zip(streams, load):
        if stream.workers[0] != home:
            task.cancel()
    await gateway.usage_soon(lambda usage: usage["slots_in_use"] == at_home)
    newcomer = Conversation(client, "new")
    await newcomer.say(newcomer.begins)
    await conversation.say("And then?")
    for task in load:
        task.cancel()
    await asyncio.gather(*load, return_exceptions=True)
    report.check(
        "it goes on where it began, though the other worker is idle",
        at_home and newcomer.workers[0] != home and conversation.workers[1] == home,
        f"it: {' and '.join(conversation.workers)}, somebody new: {newcomer.workers[0]}",
    )


async def no_json(gateway, report):
    async with httpx.AsyncClient(base_url=gateway.url) as client:
        response = await client.post("/v1/chat/completions", content="{model: demo}")
        error = response.json().get("error", {})
    report.check(
        "what is no JSON gets an error as clients read it",
        response.status_code == 400 and error.get("code") == "invalid_json",
        f"{response.status_code} {error.get('code')}",
    )


async def main():
    report = Report()
    began = time.monotonic()
    binary = sys.argv[1] if len(sys.argv) > 1 else None
    async with Gateway(binary=binary) as gateway, gateway.client() as client:
        steps = [
            lambda: models(client, report),
            lambda: dominions(gateway, client, report),
            lambda: talks(client, report, None),
            lambda: talks(client, report, "premium"),
            lambda: busy_worker(gateway, client, report),
            lambda: no_json(gateway, report),
        ]
        for step in steps:
            try:
                await step()
            except Exception as error:
                traceback.print_exc()
                report.check("no step breaks off", False, repr(error))
        usage, settled = await gateway.usage_soon(is_idle)
        report.check(
            "afterwards all of the usage is zero",
            is_idle(usage),
            f"after {settled * 1000:.0f} ms" if is_idle(usage) else usage,
        )
    report.print()
    print(f"openai {openai.__version__}: {time.monotonic() - began:.0f} s")
    return 0 if report.holds() else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
