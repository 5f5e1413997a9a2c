"""A policy that changes under load, with SIGHUP.

Starts the gateway with a policy of its own, keeps clients streaming and waiting, and has it read one
policy after the other: good ones, one with mistakes, one that is no YAML. Prints what was checked, and
exits with 1 if any of it did not hold.

    cargo build --release --features openai,status --example gateway
    pip install -r tests/clients/requirements.txt
    python tests/clients/reload.py [path of the gateway]
"""

import asyncio
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from check import Report, is_idle
from common import Gateway

POLICY = """
default_policy_family: regular
uncached_isl_buckets: [{{min_tokens: 0, bucket: all}}]
policy_classes:
  - {{name: premium, policy_family: premium, cache_bucket: all, quantum: {premium}}}
  - {{name: regular, policy_family: regular, cache_bucket: all, quantum: 100}}
dominions: [{{id: demo, kind: remote, max_concurrency: {slots}, max_queue: 500}}]
endpoints: [{{id: demo, dominion: demo}}]
headers: {{model: x-model}}
"""

RELOADS = 40
CLIENTS = 24
PATIENCE = 30.0


async def said(gateway, text):
    """True once the gateway has said this."""
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE:
        if any(text in line for line in gateway.output):
            return True
        await asyncio.sleep(0.01)
    return False


async def reload(gateway, file, text, answer):
    """Has it read this policy; true if it answers so."""
    gateway.output.clear()
    file.write_text(text)
    gateway.process.send_signal(signal.SIGHUP)
    return await said(gateway, answer)


async def streams(client, family, outcomes, over):
    """One stream after the other."""
    while not over.is_set():
        try:
            stream = await client.chat.completions.create(
                model="demo",
                messages=[{"role": "user", "content": "Hello"}],
                max_tokens=3,
                stream=True,
                extra_headers={"x-dynamo-meta-policy-class": family},
            )
            async for _ in stream:
                pass
            outcomes["served"] += 1
        except Exception as error:
            outcomes[repr(error)] += 1


async def under_load(gateway, client, file, report):
    outcomes, over = Counter(), asyncio.Event()
    families = ["premium", "regular"] * (CLIENTS // 2)
    load = [asyncio.create_task(streams(client, family, outcomes, over)) for family in families]
    answered, most = 0, 0
    for number in range(RELOADS):
        slots = 2 + number % 3
        text = POLICY.format(premium=101 + number, slots=slots)
        before = (await gateway.usage())["slots_in_use"]
        answered += await reload(gateway, file, text, "is in force")
        await asyncio.sleep(0.02)
        most = max(most, (await gateway.usage())["slots_in_use"] - max(before, slots))
    over.set()
    await asyncio.gather(*load)
    report.check("each SIGHUP puts the file in force", answered == RELOADS, f"{answered} times")
    report.check(
        "no request is lost meanwhile",
        outcomes["served"] > RELOADS and set(outcomes) == {"served"},
        dict(outcomes),
    )
    report.check("no slot too many is handed out", most <= 0, f"{most} above")


async def what_changed(gateway, file, report):
    await reload(gateway, file, POLICY.format(premium=100, slots=2), "force")
    told = await reload(
        gateway, file, POLICY.format(premium=700, slots=2), "policy_classes.premium.quantum: 100 -> 700"
    )
    report.check("it says what has changed", told, gateway.output[-1:])
    same = await reload(gateway, file, POLICY.format(premium=700, slots=2), "nothing has changed")
    report.check("or that nothing has", same)


async def bad_files(gateway, client, file, report):
    bad = POLICY.format(premium=0, slots=0)
    told = await reload(gateway, file, bad, "policy_classes[0].quantum")
    told = told and await said(gateway, "dominions[0].max_concurrency")
    report.check("a bad file has every mistake told", told)
    told = await reload(gateway, file, "dominions: [", "the policy stays as it is")
    report.check("so has one that is no YAML", told)
    file.unlink()
    gateway.output.clear()
    gateway.process.send_signal(signal.SIGHUP)
    report.check("and one that is gone", await said(gateway, "the policy stays as it is"))
    outcomes, over = Counter(), asyncio.Event()
    task = asyncio.create_task(streams(client, "premium", outcomes, over))
    await asyncio.sleep(0.2)
    over.set()
    await task
    report.check("the old policy goes on", set(outcomes) == {"served"}, dict(outcomes))


async def main():
    report = Report()
    binary = sys.argv[1] if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "policy.yaml"
        file.write_text(POLICY.format(premium=100, slots=2))
        async with Gateway("--config", str(file), binary=binary) as gateway, gateway.client() as client:
            for step in [
                lambda: under_load(gateway, client, file, report),
                lambda: what_changed(gateway, file, report),
                lambda: bad_files(gateway, client, file, report),
            ]:
                try:
                    await step()
                except Exception as error:
                    traceback.print_exc()
                    report.check("no step breaks off", False, repr(error))
            usage, _ = await gateway.usage_soon(is_idle)
            report.check("afterwards all of the usage is zero", is_idle(usage), usage)
            report.check("it ends in order", await gateway.end() == 0)
    report.print()
    return 0 if report.holds() else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
