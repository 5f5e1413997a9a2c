"""What `real_server.py` and `conversation.py` share."""

import asyncio
import os
from pathlib import Path

import check
import httpx
import openai
from check import HERE, PATIENCE

PROJECT = HERE.parent.parent


class Gateway(check.Gateway):
    """The gateway with these arguments, as a process of its own. None of them gives it a port."""

    def __init__(self, *arguments, binary=None, **variables):
        binary = Path(binary or check.TARGET / "release/examples/gateway").resolve()
        self.command = [str(binary), *arguments, "--listen", "127.0.0.1:0"]
        self.variables = variables

    async def __aenter__(self):
        self.output = []
        # Where `cargo run` starts it too, so that it finds its default policy.
        self.process = await asyncio.create_subprocess_exec(
            *self.command,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=PROJECT,
            env=os.environ | self.variables,
        )
        first = await asyncio.wait_for(self.process.stdout.readline(), PATIENCE)
        words = first.decode().replace(",", "").split()
        self.url = next(word for word in words if word.startswith("http://"))
        self.reader = asyncio.create_task(self._read())
        self.watch = httpx.AsyncClient(base_url=self.url)
        return self

    def client(self):
        """OpenAI's client, set up as its users do it: nothing but the address."""
        return openai.AsyncOpenAI(
            base_url=f"{self.url}/v1", api_key="any", max_retries=0, timeout=PATIENCE
        )
