"""A headless Chromium driven over a pipe (JSON messages that end with a zero byte), and hostile names for its pages."""

import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import time

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
in_browser = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium or Chrome, and neither is on PATH")
LARGEST = 8_000_000  # bytes of a page
PHONE, DESK = 390, 1280  # px
TURN = "\u202e"  # what follows it is read from right to left
ATTACKS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    "</script><script>alert(1)</script>",
    "]]>--></style></title>",
    "{{7*7}}${7*7}",
    f"{TURN}drah",
)
ATTACK = "".join(ATTACKS)


class Browser:
    """A headless Chromium, and what its page says."""

    def __init__(self, profile):
        (hear, self._to), (self._from, say) = os.pipe(), os.pipe()
        place = "import fcntl, os, sys\nhigh = [fcntl.fcntl(int(x), fcntl.F_DUPFD, 10) for x in sys.argv[1:3]]\n"
        place += "os.dup2(high[0], 3)\nos.dup2(high[1], 4)\nos.execv(sys.argv[3], sys.argv[3:])"
        command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]
        command += ["--disable-dev-shm-usage", "--disable-background-networking", "--remote-debugging-pipe"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", place, str(hear), str(say), *command, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(hear, say),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(hear)
        os.close(say)
        self._numbers, self._rest, self.events = itertools.count(1), b"", []

    def ask(self, method, session=None, **params):
        """Send a message, keep what is told meanwhile, return the answer."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (said := self._read()).get("id") != number:
            self._hear(said)
        assert "error" not in said, said
        return said["result"]

    def await_event(self, method):
        while all(event.get("method") != method for event in self.events):
            self._hear(self._read())

    def _hear(self, said):
        self.events.append(said)
        if said.get("method") == "Page.javascriptDialogOpening":  # it would wait for ever
            message = {"id": next(self._numbers), "method": "Page.handleJavaScriptDialog", "params": {"accept": True}}
            os.write(self._to, json.dumps(message | {"sessionId": said["sessionId"]}).encode() + b"\0")

    def _read(self, patience=60.0):
        end = time.monotonic() + patience
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser says nothing"
            more = os.read(self._from, 1 << 20)
            assert more, "the browser has ended"
            self._rest += more
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)

    def close(self):
        self.ask("Browser.close")
        self.process.wait(30)
        os.close(self._to)
        os.close(self._from)


class Page:
    """A page that is used as a person would: by mouse, fingers and keys."""

    def __init__(self, browser, url, width=1280, height=900):
        self.browser = browser
        browser.events.clear()
        self._target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.ask("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.ask("Page.navigate", url=url)
        browser.await_event("Page.loadEventFired")
        self.run("0")

    def ask(self, method, **params):
        return self.browser.ask(method, self._session, **params)

    def run(self, expression):
        """Return the value of an expression, once the page has drawn what it was to draw."""
        rest = "await new Promise(done => setTimeout(done, 120));"
        found = self.ask(
            "Runtime.evaluate", expression=f"(async () => {{ {rest} return {expression}; }})()", awaitPromise=True,
            returnByValue=True,
        )  # fmt: skip
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def place(self, selector, index=0):
        """Bring an element into view; return its left, top, width and height."""
        one = f"document.querySelectorAll({json.dumps(selector)})[{index}]"
        self.run(f"{one}.scrollIntoView({{ block: 'center', behavior: 'instant' }})")
        return self.run(f"(b => [b.left, b.top, b.width, b.height])({one}.getBoundingClientRect())")

    def mouse(self, kind, x, y, button="none", buttons=0, **more):
        kind = f"mouse{kind}"
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, buttons=buttons, **more)

    def drag(self, start, end, button="left", shift=False):
        held, keys = {"left": 1, "right": 2}[button], {"modifiers": 8 if shift else 0}
        self.mouse("Moved", *start, **keys)
        self.mouse("Pressed", *start, button, held, clickCount=1, **keys)
        for k in range(1, 6):
            self.mouse("Moved", *(a + k / 5 * (b - a) for a, b in zip(start, end, strict=True)), button, held, **keys)
        self.mouse("Released", *end, button, 0, clickCount=1, **keys)

    def click(self, x, y, times=1):
        for count in range(1, times + 1):
            self.mouse("Pressed", x, y, "left", 1, clickCount=count)
            self.mouse("Released", x, y, "left", 0, clickCount=count)

    def wheel(self, x, y, delta, ctrl=True):
        self.mouse("Wheel", x, y, deltaX=0, deltaY=delta, modifiers=2 if ctrl else 0)

    def key(self, key, shift=False):
        text = {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            more = text if kind == "keyDown" else {}
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, modifiers=8 if shift else 0, **more)

    def touch(self, *moments):
        """Put fingers down at the places of the first moment, move them to those of the others, and lift them."""
        for k, moment in enumerate(moments):
            points = [{"x": x, "y": y, "id": i} for i, (x, y) in enumerate(moment)]
            self.ask("Input.dispatchTouchEvent", type="touchMove" if k else "touchStart", touchPoints=points)
        self.ask("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def said(self):
        """What the page wrote to the console."""
        self.run("0")
        loud = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [event["params"] for event in self.browser.events if event.get("method") in loud]

    def close(self):
        self.browser.ask("Target.closeTarget", targetId=self._target)


# open what is folded, press what can be pressed, look at every part; then say what has come of it
USE = """
(async () => {
  const all = selector => [...document.querySelectorAll(selector)], box = element => element.getBoundingClientRect();
  const rest = time => new Promise(done => setTimeout(done, time));
  await rest(150);
  all('details').forEach(details => details.open = true);
  for (const button of all('#tabs button, #zoom button, #views button, .units button, th button')) button.click();
  const slider = document.getElementById('scrub');
  if (slider) {
    slider.value = 400;
    slider.dispatchEvent(new Event('input'));
  }
  const point = svg => new PointerEvent('pointermove', { clientX: box(svg).left + 100, clientY: box(svg).top + 20 });
  all('svg').filter(svg => box(svg).width).slice(0, 60).forEach(svg => svg.dispatchEvent(point(svg)));
  await rest(150);
  const wide = all('body *').filter(e => box(e).right > innerWidth + 1 && !e.closest('.scroll, svg'));
  return {
    title: document.title, text: document.body.innerText, markup: document.documentElement.outerHTML,
    wide: document.documentElement.scrollWidth, inner: innerWidth,
    tooWide: wide.slice(0, 5).map(e => e.outerHTML.slice(0, 120)),
    images: all('img').length, scripts: all('script').length, failed: all('.failed').length,
    handlers: all('*').filter(e => e.getAttributeNames().some(name => name.startsWith('on'))).length,
  };
})()
"""


def visit(browser, path, width):
    """Open a page, use it, and return what it is and what it said."""
    browser.events.clear()
    target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
    session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for domain in ("Page", "Runtime", "Log", "Network", "Audits"):
        browser.ask(f"{domain}.enable", session)
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.ask("Emulation.setDeviceMetricsOverride", session, **size)
    browser.ask("Page.navigate", session, url=path.as_uri())
    browser.await_event("Page.loadEventFired")
    found = browser.ask("Runtime.evaluate", session, expression=USE, awaitPromise=True, returnByValue=True)
    assert "exceptionDetails" not in found, found["exceptionDetails"]
    browser.ask("Target.closeTarget", targetId=target)
    loud = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Page.javascriptDialogOpening")
    told = found["result"]["value"]
    told["said"] = [e["params"] for e in browser.events if e.get("method") in (*loud, "Audits.issueAdded")]
    asked = ("Network.requestWillBeSent", "Network.webSocketCreated", "Network.webTransportCreated")
    urls = [e["params"].get("url") or e["params"]["request"]["url"] for e in browser.events if e.get("method") in asked]
    told["requests"] = [url for url in urls if url != path.as_uri()]
    return told


def dirty(value):
    """Put the attack behind every text of some data, its keys left alone."""
    if isinstance(value, str):
        return value + ATTACK
    if isinstance(value, dict):
        return {key: dirty(entry) for key, entry in value.items()}
    return [dirty(entry) for entry in value] if isinstance(value, list | tuple) else value


def check(told, path, width):
    assert told["said"] == []
    assert told["requests"] == []
    assert told["inner"] == width
    assert told["wide"] <= width, told["tooWide"]
    assert told["failed"] == 0
    assert path.stat().st_size <= LARGEST
