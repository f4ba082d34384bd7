"""Headless Chromium for checks of pages: spoken to over its pipe, with nothing of Python but itself."""
import base64
import json
import os
import select
import shutil
import subprocess
import time

DEADLINE_S = 60
VIEWS = {
    "desktop": (1280, 900, "light"),
    "dark": (1280, 900, "dark"),
    "phone": (390, 844, "light"),
}


class Browser:
    """Chromium, spoken to over its pipe: commands on descriptor 3, answers and events from 4, each ended by a zero."""

    def __init__(self, profile):
        to_it, from_it = os.pipe(), os.pipe()

        def wire():
            os.dup2(to_it[0], 100)
            os.dup2(from_it[1], 101)
            os.dup2(100, 3)
            os.dup2(101, 4)

        self.process = subprocess.Popen(
            [
                find_chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                "--no-first-run", "--disable-background-networking", "--hide-scrollbars",
                f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank",
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=wire, close_fds=False,
        )
        os.close(to_it[0])
        os.close(from_it[1])
        self.out, self.back = to_it[1], from_it[0]
        self.number, self.rest, self.events = 0, b"", []

    def send(self, method, session=None, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        wanted = self.number
        return self.wait(lambda m: m.get("id") == wanted, method)

    def wait(self, wanted, what):
        end = time.monotonic() + DEADLINE_S
        while True:
            while b"\0" in self.rest:
                text, self.rest = self.rest.split(b"\0", 1)
                message = json.loads(text)
                if "method" in message:
                    self.events.append(message)
                if wanted(message):
                    if "error" in message:
                        raise RuntimeError(f"{what}: {message['error']}")
                    return message.get("result", message.get("params"))
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.back], [], [], left)[0]:
                raise RuntimeError(f"{what}: no answer in {DEADLINE_S} s")
            more = os.read(self.back, 1 << 20)
            if not more:
                raise RuntimeError(f"{what}: chromium ended")
            self.rest += more

    def close(self):
        try:
            self.send("Browser.close")
        except (RuntimeError, OSError):
            self.process.kill()
        self.process.wait(DEADLINE_S)


class Page:
    """A page in one view, and what must not have happened on it."""

    def __init__(self, browser, url, view, views=VIEWS):
        width, height, scheme = views[view]
        self.browser, self.url, self.view, self.width = browser, url, view, width
        self.target = browser.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.send("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Network", "Page"):
            self.send(f"{domain}.enable")
        phone = view.startswith("phone")
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=2 if phone else 1, mobile=phone)
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        browser.events.clear()
        self.send("Page.navigate", url=url)
        browser.wait(lambda m: m.get("method") == "Page.loadEventFired", f"{url} to load")
        self.settle()

    def send(self, method, **params):
        return self.browser.send(method, self.session, **params)

    def js(self, expression):
        answer = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def settle(self):
        """Until what was changed is drawn."""
        self.js("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def until(self, condition, what, deadline_s=DEADLINE_S):
        """Until an expression is true."""
        end = time.monotonic() + deadline_s
        while not self.js(f"Boolean({condition})"):
            if time.monotonic() > end:
                raise RuntimeError(f"{self.url}, {self.view}: waited {deadline_s} s for {what}")
            self.js("new Promise((done) => setTimeout(() => done(1), 50))")

    def faults(self, allowed=lambda url: False):
        """What must not have happened since the page was opened; `allowed` says which requests it may make."""
        for event in self.browser.events:
            method, params = event["method"], event["params"]
            if event.get("sessionId") != self.session:
                continue
            if method == "Runtime.exceptionThrown":
                yield f"exception: {params['exceptionDetails']}"
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                yield f"console: {params['args']}"
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                yield f"log: {params['entry']['text']} {params['entry'].get('url', '')}"
            elif method == "Page.javascriptDialogOpening":
                yield f"a dialog: {params['message']}"
            elif method == "Network.requestWillBeSent":
                url = params["request"]["url"]
                if url != self.url and not url.startswith("data:") and not allowed(url):
                    yield f"a request: {url}"

    def too_broad(self):
        """What makes the page wider than its screen, if anything does."""
        broad = self.js("document.documentElement.scrollWidth")
        if broad <= self.width:
            return None
        what = self.js("[...document.querySelectorAll('body *')].filter((n) => !n.closest('.scroll') && "
                       f"n.getBoundingClientRect().right > {self.width}).slice(-1).map((n) => n.outerHTML.slice(0, 200))[0]")
        return f"wider than the screen: {broad} > {self.width}: {what}"

    def shoot(self, path):
        size = self.send("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": self.width, "height": min(size["height"], 12_000), "scale": 1}
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def close(self):
        self.browser.send("Target.closeTarget", targetId=self.target)


def find_chromium():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    return None


def install_chromium():
    if find_chromium():
        return
    print("installing chromium", flush=True)
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"]):
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
