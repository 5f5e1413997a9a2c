"""What `status_page.py` has the gateway do, so that the page has something to show."""

import asyncio
import contextlib

import httpx


class Holder:
    """A server that takes requests and does not answer."""

    async def __aenter__(self):
        self.server = await asyncio.start_server(self._hold, "127.0.0.1", 0)
        self.url = "http://127.0.0.1:%d/v1" % self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self.server.close()

    @staticmethod
    async def _hold(reader, writer):
        with contextlib.suppress(ConnectionError):
            while await reader.read(65536):
                pass
        writer.close()


class Load:
    """Requests that go on until the end."""

    def __init__(self, url):
        self.client = httpx.AsyncClient(base_url=url, timeout=None)
        self.tasks = []
        self.sent = 0

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.client.aclose()

    def send(self, model, family, client, tokens=100, words=4, **headers):
        """One request, and the task that waits for its answer."""
        # Four bytes count as a token, and no worker has seen the beginning.
        self.sent += 1
        body = {
            "model": model,
            "max_tokens": words,
            "messages": [{"role": "user", "content": f"{self.sent:04}" * tokens}],
        }
        headers = {
            "x-model": model,
            "x-dynamo-meta-policy-class": family,
            "x-promptforge-client": client,
        } | {f"x-{name.replace('_', '-')}": str(value) for name, value in headers.items()}
        post = self.client.post("/v1/chat/completions", json=body, headers=headers)
        task = asyncio.create_task(post)
        self.tasks.append(task)
        return task

    def keep_sending(self, model, family, client, **how):
        async def again_and_again():
            while True:
                with contextlib.suppress(httpx.TransportError):
                    await self.send(model, family, client, **how)

        self.tasks.append(asyncio.create_task(again_and_again()))


async def fill(gateway, load):
    """Has something of everything that the page can show."""

    async def arrived(slots, waiting):
        await gateway.usage_soon(
            lambda usage: (usage["slots_in_use"], usage["waiting"]) == (slots, waiting)
        )

    slots = 0
    # The left worker is busy for `regular` then, the right one is not.
    for worker, tokens in [("left", 400), ("left", 400), ("right", 300), ("right", 100)]:
        load.send("held", "regular", "alice", tokens, worker=worker)
        slots += 1
        await arrived(slots, 0)
    load.send("small", "regular", "alice")
    load.send("large", "batch", "carol")
    slots += 2
    await arrived(slots, 0)
    refused = await load.send("small", "regular", "bob")
    gone = load.send("held", "premium", "dave")
    await arrived(slots, 1)
    gone.cancel()
    await arrived(slots, 0)
    waiters = [
        ("regular", "alice", 500, {}),
        ("regular", "alice", 300, {}),
        ("regular", "bob", 200, {}),
        ("regular", "bob", 700, {"worker": "left"}),
        ("regular", "carol", 900, {"worker": "left"}),
        ("premium", "carol", 2048, {}),
        ("premium", "carol", 1024, {}),
        ("premium", "erin", 64, {"strict_priority": 2}),
        *(("batch", "night-shift", 4000 + 250 * index, {}) for index in range(5)),
    ]
    for index, (family, client, tokens, headers) in enumerate(waiters):
        load.send("held", family, client, tokens, **headers)
        await arrived(slots, index + 1)
    return refused.status_code
