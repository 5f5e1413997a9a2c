"""Headless Chromium for `status_page.py`, without Selenium's waits: the script has its own."""

import asyncio
import base64
import tempfile

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

# Offline and in a container: no calls home, no sandbox that would need privileges.
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

WATCH = """
window.__violations = [];
addEventListener('securitypolicyviolation', (event) =>
  __violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`));
"""

# Texts whose contrast with the ground behind them is below WCAG's AA.
PALE = """
const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
const luminance = ([r, g, b]) => [r, g, b]
  .map((it) => it / 255)
  .map((it) => (it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4))
  .reduce((sum, it, index) => sum + it * [0.2126, 0.7152, 0.0722][index], 0);
const ground = (node) => {
  for (let it = node; it; it = it.parentElement) {
    const colour = channels(getComputedStyle(it).backgroundColor);
    if (colour.length < 4 || colour[3] > 0) return colour;
  }
  return [255, 255, 255];
};
const pale = [];
for (const node of document.querySelectorAll('body *')) {
  const own = [...node.childNodes].some((it) => it.nodeType === 3 && it.data.trim());
  if (!own || node.getClientRects().length === 0) continue;
  const [a, b] = [channels(getComputedStyle(node).color), ground(node)].map(luminance);
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) pale.push(`${node.textContent.trim()} ${ratio.toFixed(2)}`);
}
return pale;
"""

FOCUSED = """
const it = document.activeElement;
const section = it.closest('section');
if (it === document.body) return ['the end', ''];
const name = it.id === 'json' ? it.id : it.getAttribute('href') ?? it.textContent.trim();
return [section ? `${section.id} ${it.dataset.part}` : name, getComputedStyle(it).outlineStyle];
"""


class Browser:
    async def __aenter__(self):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.driver = await asyncio.to_thread(self._start)
        capabilities = self.driver.capabilities
        self.name = f"Chromium {capabilities['browserVersion']}"
        await self._cdp("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        return self

    async def __aexit__(self, *_):
        await asyncio.to_thread(self.driver.quit)
        self.profile.cleanup()

    def _start(self):
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for argument in [*ARGUMENTS, f"--user-data-dir={self.profile.name}"]:
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = webdriver.ChromeService("/usr/bin/chromedriver")
        driver = webdriver.Chrome(options, service)
        driver.set_page_load_timeout(30)
        return driver

    def _cdp(self, command, **arguments):
        return asyncio.to_thread(self.driver.execute_cdp_cmd, command, arguments)

    def open(self, url):
        return asyncio.to_thread(self.driver.get, url)

    def run(self, script, *arguments):
        return asyncio.to_thread(self.driver.execute_script, script, *arguments)

    async def state(self, state):
        """Whether the page says that its connection is in this state."""
        return state == await self.run("return document.getElementById('connection').dataset.state")

    async def size(self, width, height):
        await self._cdp(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )

    async def scheme(self, scheme):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self._cdp("Emulation.setEmulatedMedia", features=features)

    async def press(self, key):
        key = Keys.ENTER if key == "\n" else key
        await asyncio.to_thread(ActionChains(self.driver).send_keys(key).perform)

    async def tab(self):
        """Where the focus is after Tab, and the style of its outline."""
        await self.press(Keys.TAB)
        return await self.run(FOCUSED)

    def pale_texts(self):
        return self.run(PALE)

    async def screenshot(self, path):
        """Of the whole page."""
        picture = await self._cdp("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(picture["data"]))

    async def errors(self):
        """What the console complains of, and violations of the policy, since it was last asked."""
        log = await asyncio.to_thread(self.driver.get_log, "browser")
        found = [entry["message"] for entry in log if entry["level"] in ("SEVERE", "WARNING")]
        violations = "const found = window.__violations ?? []; window.__violations = []; return found"
        return found + await self.run(violations)
