"""What is looked at. A look opens pages and yields what is wrong with them."""
import json
import re
import subprocess
import time
import urllib.parse

from chromium import Page
from scenes import HOSTILE, SCENES
from server import Server

VIEWS = {
    "desktop": (1440, 900, "light"),
    "dark": (1440, 900, "dark"),
    "phone": (390, 844, "light"),
    "phone-dark": (390, 844, "dark"),
}


class Stage:
    """A browser, a gateway, and what was asked for on the command line."""

    def __init__(self, browser, gateway, files, shots):
        self.browser, self.gateway, self.files, self.shots = browser, gateway, files, shots

    def server(self, scene):
        return Server(SCENES[scene], self.gateway.admin, self.files)

    def open(self, server, hash="#/", view="desktop"):
        page = Page(self.browser, f"{server.url}/{hash}", view, VIEWS)
        page.until("document.querySelector('main h1')", f"{hash} to be drawn")
        page.settle()
        return page

    def shoot(self, page, name):
        if self.shots:
            page.shoot(self.shots / f"{name}-{page.view}.png")


def text(page, selector):
    return page.js(f"[...document.querySelectorAll({json.dumps(selector)})].map((n) => n.textContent).join('\\n')")


def always(page, server):
    """What holds for every page."""
    yield from page.faults(lambda url: url.startswith(server.url))
    if broad := page.too_broad():
        yield broad
    shown = text(page, "main")
    if odd := re.search(r"NaN|undefined|\[object|Infinity|Invalid Date", shown):
        yield f"shows {odd.group()}: …{shown[max(0, odd.start() - 60):odd.end() + 20]}…"
    if page.js("/NaN|undefined/.test([...document.querySelectorAll('svg *')].flatMap((n) => [...n.attributes].map((a) => a.value)).join(' '))"):
        yield "a drawing has no number somewhere"
    if page.js("document.querySelectorAll('h1').length") != 1 or page.js("document.querySelectorAll('main, header, nav[aria-label=Pages]').length") != 3:
        yield "not one h1, main, header and nav"
    if nameless := page.js("[...document.querySelectorAll('section, nav, [role=img], [role=region], form')].filter((n) => !n.getAttribute('aria-label') && "
                           "!n.getAttribute('aria-labelledby') && n.getAttribute('role') !== 'search').map((n) => n.outerHTML.slice(0, 90))"):
        yield f"no name for {nameless}"
    if bare := page.js("[...document.querySelectorAll('table')].filter((t) => !t.caption || [...t.querySelectorAll('thead th')].some((h) => h.scope !== 'col')).length"):
        yield f"{bare} tables without caption or headers"
    yield from contrast(page)
    if page.view.startswith("phone"):
        if small := page.js("[...document.querySelectorAll('nav a, .cell, .button, .finder input, .finder select')].filter((n) => n.getClientRects().length && "
                            "n.getBoundingClientRect().height < 43.5).map((n) => n.outerHTML.slice(0, 90))"):
            yield f"too small to touch: {small}"
        if hidden := page.js("[...document.querySelectorAll('main .scroll')].filter((n) => n.scrollWidth > n.clientWidth + 1).map((n) => `${n.getAttribute('aria-label')} ${n.scrollWidth} > ${n.clientWidth}`)"):
            yield f"tables to be scrolled sideways: {hidden}"


CONTRAST = r"""(() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = (node) => { for (let at = node; at; at = at.parentElement) { const c = rgba(getComputedStyle(at).backgroundColor); if (c[3] > 250) return c; } return rgba('white'); };
  const bad = new Map();
  for (const node of document.querySelectorAll('body *')) {
    if (![...node.childNodes].some((c) => c.nodeType === 3 && c.nodeValue.trim()) || !node.getClientRects().length || node.closest('.unseen, noscript')) continue;
    const style = getComputedStyle(node);
    const [a, b] = [light(rgba(node.closest('svg') ? style.fill : style.color)), light(ground(node))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) bad.set(`${node.className.baseVal ?? node.className} in ${node.parentElement.className}`, `${ratio.toFixed(2)}: ${node.textContent.slice(0, 40)}`);
  }
  return [...bad].map((pair) => pair.join(' '));
})()"""


def contrast(page):
    """Text that WCAG's AA finds too faint."""
    if faint := page.js(CONTRAST):
        yield f"too faint: {faint}"


def in_views(stage, scene, pages, look=None, views=VIEWS):
    """Opens these pages of a scene in every view; `look(page, name, server)` yields what else is wrong."""
    server = stage.server(scene)
    try:
        for view in views:
            for name, hash in pages.items():
                page = stage.open(server, hash, view)
                stage.shoot(page, f"{scene}-{name}")
                for fault in [*always(page, server), *(look(page, name) if look else [])]:
                    yield f"{name}, {view}: {fault}"
                page.close()
    finally:
        server.close()


def calm(stage):
    def look(page, name):
        if name == "overview":
            if "Healthy" not in text(page, ".verdict .big") or text(page, "#chip .says") != "Healthy":
                yield f"does not say that it is healthy: {text(page, '.verdict')}"
            if "No group lags" not in text(page, ".lagging"):
                yield "does not say that no group lags"
            if page.js("document.querySelectorAll('.cell').length") != 4 or "Shard 2 takes most CPU: 34 %" not in text(page, ".shards"):
                yield f"the shards: {text(page, '.shards')}"
            if "/s in, " not in text(page, "main"):
                yield "bytes per second could be records"
            if page.js("document.title") != "Overview · ringgate":
                yield f"the title is {page.js('document.title')}"
    yield from in_views(stage, "calm", {"overview": "#/", "topics": "#/topics", "topic": "#/topics/orders", "shard": "#/shards/2"}, look)


def empty(stage):
    def look(page, name):
        if name == "overview" and "kcat -b 127.0.0.1:9093 -P" not in text(page, ".begin"):
            yield "does not say how to begin"
        if name != "overview" and "There is no" not in text(page, "main"):
            yield "does not say that there is none"
    yield from in_views(stage, "empty", {"overview": "#/", "groups": "#/groups", "topics": "#/topics"}, look)


def trouble(stage):
    def look(page, name):
        said = text(page, "main")
        if name == "overview":
            for wanted in ("Critical: 4 findings", "Shard 1 did not run", "Hot: shard 1 (97 %)", "1.28 M", "max_connections", "12 min"):
                if wanted not in said:
                    yield f"does not say {wanted!r}"
            if not page.js("document.title").startswith("✕ 4 findings"):
                yield f"the title is {page.js('document.title')}"
            if page.js("[...document.querySelectorAll('.findings a')].map((a) => a.hash).join()") != "#/shards/1,#/shards/1,#/groups/billing":
                yield "findings do not lead to what they are about"
        if name == "shard" and "Critical" not in text(page, ".findings .badge"):
            yield f"findings are {text(page, '.findings .badge')}"
        if name == "group":
            for wanted in ("billing", "Stable", "for 12 min", "billing-worker", "took 1.24 s", "1 failed"):
                if wanted not in said:
                    yield f"does not say {wanted!r}"
            if page.js("document.querySelectorAll('.partitions tbody tr').length") != 24 or page.js("document.querySelectorAll('.members tbody > tr').length") != 8:
                yield "not all partitions and members"
        if name == "groups" and page.js("[...document.querySelectorAll('.list tbody th a')].map((a) => a.textContent)")[:2] != ["billing", "search-indexer"]:
            yield "the largest lag is not first"
    yield from in_views(stage, "trouble", {"overview": "#/", "groups": "#/groups", "group": "#/groups/billing", "shard": "#/shards/1"}, look)


def many(stage):
    def look(page, name):
        if name == "overview":
            if page.js("document.querySelectorAll('.cell').length") != 64 or page.js("document.querySelectorAll('.cell.hot').length") != 2:
                yield "not 64 shards, two of them hot"
            if page.js("(() => { const c = document.getElementById('heat'); return `${c.width}x${c.height} ${c.getContext('2d').getImageData(300, 41, 1, 1).data.join() === c.getContext('2d').getImageData(300, 3, 1, 1).data.join()}`; })()") != "360x64 false":
                yield "the picture of 64 shards does not show which is hot"
        if name == "group" and ("The first 1,000 of 9,500 members" not in text(page, ".members") or page.js("document.querySelectorAll('.members > .scroll tbody > tr').length") != 100):
            yield "does not say that there are more members than it shows"
        if name == "groups" and "1–50 of 100 k" not in text(page, ".pager"):
            yield f"the pager says {text(page, '.pager')}"
    yield from in_views(stage, "many", {"overview": "#/", "groups": "#/groups", "group": "#/groups/fleet"}, look)


def hostile(stage):
    """Names that are markup, code, or look like something else are shown as what they are, and nothing else happens."""
    pages = {"overview": "#/", "groups": "#/groups", "topics": "#/topics"}
    for at, name in enumerate(HOSTILE):
        pages[f"group{at}"] = f"#/groups/{urllib.parse.quote(name, safe='')}"
        if name not in ("", ".."):
            pages[f"topic{at}"] = f"#/topics/{urllib.parse.quote(name, safe='')}"

    def look(page, name):
        if page.js("document.querySelectorAll('main img, main script, main iframe, main [onerror], main [onload], main a[href^=javascript]').length"):
            yield "a name became markup"
        said = text(page, "main")
        if name in ("overview", "groups") and ("<img src=x onerror=alert(1)>" not in said or "safe\\u202egnp.exe" not in said or (name == "groups" and "(empty)" not in said)):
            yield f"names are not shown as they are: {said[:300]}"
        if name.startswith("group") and name != "groups" and "Partitions" not in said:
            yield f"the group's own page is not shown: {said[:200]}"
    for view_faults in in_views(stage, "hostile", pages, look, ("desktop", "phone")):
        yield view_faults
    server = stage.server("hostile")
    page = stage.open(server, "#/groups")
    page.js("[...document.querySelectorAll('.list tbody th a')].find((a) => a.textContent.startsWith('a/b')).click()")
    page.until("document.querySelector('.partitions')", "the group a/b?c=d#e%20f&g")
    if text(page, "h1 bdi") != "a/b?c=d#e%20f&g":
        yield f"a link led to {text(page, 'h1')}"
    page.close()
    server.close()


def gone(stage):
    """A page whose gateway is gone does not look well, says since when, and comes back."""
    for answers in ("gone", "failing", "silent"):
        server = stage.server("calm")
        for view in ("desktop", "phone"):
            server.answers = "well"
            page = stage.open(server, "#/", view)
            server.answers = answers
            page.until("document.body.dataset.state === 'stale'", "the page to grow old", 30)
            page.until("/^No answer for \\d+ s$/.test(document.querySelector('.verdict.stale .big')?.textContent)", "a verdict")
            stage.shoot(page, f"gone-{answers}")
            before = text(page, ".verdict.stale .big")
            page.until(f"document.querySelector('.verdict.stale .big').textContent !== {json.dumps(before)}", "its age to go on")
            if page.js("[...document.querySelectorAll('.verdict.ok, .chip.ok')].some((n) => n.getClientRects().length)") or "Healthy" in page.js("document.querySelector('#chip').innerText"):
                yield f"{answers}, {view}: looks well"
            if not page.js("document.title").startswith("? No answer for"):
                yield f"{answers}, {view}: the title is {page.js('document.title')}"
            if page.js("getComputedStyle(document.querySelector('.tiles')).opacity") != "0.5":
                yield f"{answers}, {view}: old numbers look like those of now"
            if "does not answer" not in text(page, "#aloud"):
                yield f"{answers}, {view}: nothing is read aloud"
            if answers == "failing":
                page.until("document.querySelector('.verdict.stale')?.textContent.includes('a shard did not answer in time')", "the reason")
            # Each failure is waited for longer than the one before.
            if answers != "silent":
                asked = len(server.asked)
                page.until("/Asking again in [5-9] s|Asking again in 10 s/.test(document.querySelector('.verdict.stale')?.textContent)", "a longer pause", 40)
                if len(server.asked) - asked > 4:
                    yield f"{answers}, {view}: asks {len(server.asked) - asked} times instead of waiting"
            server.answers = "well"
            server.let_go.set()
            page.until("document.body.dataset.state === 'live' && !document.querySelector('.verdict.stale')", "the gateway to be back", 30)
            if "Healthy" not in text(page, ".verdict .big"):
                yield f"{answers}, {view}: does not say that it is well again"
            server.let_go.clear()
            if foreign := [fault for fault in page.faults(lambda url: url.startswith(server.url)) if not re.search("Failed to load resource", fault)]:
                yield f"{answers}, {view}: {foreign}"
            page.close()
        server.close()


def hidden(stage):
    """A page that nobody sees asks for nothing, and asks at once when it is seen."""
    server = stage.server("calm")
    page = stage.open(server, "#/")
    # Counted in the page, where nothing happens between an event and what is done about it.
    page.js("(() => { const fetch = window.fetch; window.fetch = (...words) => { window.asked += 1; return fetch(...words); }; })()")
    page.js("(Object.defineProperty(document, 'hidden', { configurable: true, get: () => true }), document.dispatchEvent(new Event('visibilitychange')), window.asked = 0)")
    page.js("new Promise((done) => setTimeout(() => done(1), 6000))")
    if asked := page.js("window.asked"):
        yield f"asked {asked} times while nobody saw it"
    asked = len(server.asked)
    if not page.js("(window.asked = 0, Object.defineProperty(document, 'hidden', { configurable: true, get: () => false }), document.dispatchEvent(new Event('visibilitychange')), window.asked)"):
        yield "does not ask at once when it is seen again"
    page.until("document.body.dataset.state === 'live'", "it to be live again", 30)
    if len(server.asked) == asked:
        yield "is live again without an answer"
    page.close()
    server.close()


def use(stage):
    """By link, keyboard, search, order, page and back button; what has the focus keeps it while numbers change."""
    server = stage.server("many")
    page = stage.open(server, "#/")
    page.js("document.querySelector('nav [data-page=groups]').click()")
    page.until("document.querySelector('.list')", "the groups")
    if page.js("document.querySelector('nav [aria-current]').dataset.page") != "groups":
        yield "the navigation does not say where one is"
    page.js("(() => { const input = document.querySelector('.finder input'); input.focus(); input.value = 'tenant-0012'; input.dispatchEvent(new Event('input', { bubbles: true })); })()")
    page.until("/of 10$/.test(document.querySelector('.pager')?.textContent)", "what was searched")
    if page.js("location.hash") != "#/groups?search=tenant-0012" or page.js("document.activeElement.name") != "search":
        yield f"after a search: {page.js('location.hash')}, focus on {page.js('document.activeElement.outerHTML')}"
    page.js("history.back()")
    page.until("document.querySelector('.pager')?.textContent.includes('of 100 k')", "the way back")
    if page.js("document.querySelector('.finder input').value") != "":
        yield "the search field keeps what is not searched any more"
    page.js("[...document.querySelectorAll('.sort')].find((a) => a.textContent.startsWith('Group')).click()")
    page.until("document.querySelector('.list tbody th a')?.textContent === 'fleet'", "the order by name")
    if page.js("document.querySelector('th[aria-sort]').textContent.slice(0, 5)") != "Group":
        yield "the order is not told"
    page.js("[...document.querySelectorAll('.pager a')].find((a) => a.textContent === 'Next').click()")
    page.until("document.querySelector('.pager')?.textContent.includes('51–100')", "the second page")
    page.js("document.querySelector('.list tbody tr:nth-child(3) th a').focus()")
    focused = page.js("document.activeElement.textContent")
    asked = len(server.asked)
    end = time.monotonic() + 30
    while not any(path.startswith("/api/groups") for _, path in server.asked[asked:]) and time.monotonic() < end:
        page.js("new Promise((done) => setTimeout(() => done(1), 100))")
    page.settle()
    if page.js("document.activeElement.textContent") != focused:
        yield "a new answer took the focus"
    page.js("document.activeElement.click()")
    page.until("document.querySelector('.partitions')", "the group")
    if page.js("document.activeElement.id") != "main":
        yield "the focus does not go to the new page"
    page.js("history.back()")
    page.until("document.querySelector('.pager')?.textContent.includes('51–100')", "the list as it was")
    page.close()

    # Charts are read by keyboard and by pointer, and go on being read when an answer comes.
    page = stage.open(server, "#/")
    page.js("(() => { const plot = document.querySelector('[data-chart=p99]'); plot.focus(); plot.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowLeft', bubbles: true })); })()")
    if not re.search(r"\d+ s ago: p99 .*[µm]s", text(page, "#told")):
        yield f"keys read {text(page, '#told')!r}"
    page.js("(() => { const heat = document.getElementById('heat'); const b = heat.getBoundingClientRect(); heat.dispatchEvent(new PointerEvent('pointermove', { bubbles: true, clientX: b.left + b.width * 0.5, clientY: b.top + b.height * (41.5 / 64) })); })()")
    if "shard 41" not in text(page, "#tip") or "9" not in text(page, "#tip"):
        yield f"the pointer reads {text(page, '#tip')!r}"
    rows = page.js("document.querySelectorAll('.each-shard details tbody tr').length")
    if rows != 56:
        yield f"{rows} shards are folded away, not 56"
    page.js("document.querySelector('.each-shard details').open = true")
    page.js("window.before = document.querySelector('.tile strong').firstChild")
    page.js("new Promise((done) => setTimeout(() => done(1), 5000))")
    if not page.js("document.querySelector('.each-shard details').open && document.querySelector('.tile strong').firstChild === window.before"):
        yield "an answer drew the page anew"
    page.js("location.hash = '#/groups/nosuch'")
    page.until("document.querySelector('main')?.textContent.includes('there is none')", "that there is no such group")
    page.js("location.hash = '#/nosuch'")
    page.until("document.querySelector('h1')?.textContent === 'No such page'", "that there is no such page")
    page.close()
    server.close()


def steady(stage):
    """Answers that change move nothing: the same boxes at the same places."""
    server = stage.server("trouble")
    for view in ("desktop", "phone"):
        page = stage.open(server, "#/", view)
        boxes = "JSON.stringify([...document.querySelectorAll('main > *, .tile, .cell, .part')].map((n) => { const b = n.getBoundingClientRect(); return [Math.round(b.top), Math.round(b.height)]; }))"
        before, asked = page.js(boxes), len(server.asked)
        end = time.monotonic() + 30
        while len(server.asked) < asked + 3 and time.monotonic() < end:
            page.js("new Promise((done) => setTimeout(() => done(1), 100))")
        page.settle()
        if page.js(boxes) != before:
            yield f"{view}: moved from {before} to {page.js(boxes)}"
        page.close()
    server.close()


def gateway(stage):
    """The gateway itself: empty, then with a topic, records, and a group that has read some of them."""
    admin = stage.gateway.admin
    page = Page(stage.browser, f"{admin}/", "desktop", VIEWS)
    page.until("document.querySelector('.begin')", "the gateway's own answer")
    if f"kcat -b {stage.gateway.nodes[0]} -P" not in text(page, ".begin"):
        yield f"does not say how to begin with {stage.gateway.nodes[0]}: {text(page, '.begin')}"
    bare = stage.gateway.bootstrap
    subprocess.run(["kcat", "-b", bare, "-P", "-t", "greetings"], input=b"hello\n" * 40, check=True, timeout=60)
    subprocess.run(["kcat", "-q", "-b", bare, "-G", "greeters", "-X", "auto.offset.reset=earliest", "-X", "enable.auto.offset.store=true", "-c", "2", "greetings"],
                   check=True, timeout=60, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    page.until("!document.querySelector('.begin') && [...document.querySelectorAll('.apis tbody th, .slowness tbody th')].some((n) => n.textContent === 'Produce')", "what kcat did", 90)
    yield from always(page, Stand(admin))
    page.close()
    for view in VIEWS:
        for name, hash, wanted in (("overview", "#/", ("shard 1", "embedded in")), ("groups", "#/groups", ("greeters",)), ("group", "#/groups/greeters", ("greetings", "Committed")),
                                   ("topics", "#/topics", ("greetings",)), ("topic", "#/topics/greetings", ("greeters", "Settings")), ("shard", "#/shards/1", ("CPU",))):
            page = stage.open(Stand(admin), hash, view)
            stage.shoot(page, f"gateway-{name}")
            said = text(page, "main")
            yield from (f"{name}, {view}: does not say {part!r}: {said[:300]}" for part in wanted if part not in said)
            yield from (f"{name}, {view}: {fault}" for fault in always(page, Stand(admin)))
            page.close()


class Stand:
    """A server that is somebody else's."""

    def __init__(self, url):
        self.url = url


def iggy(stage):
    yield from in_views(stage, "iggy", {"overview": "#/"})


LOOKS = {look.__name__: look for look in (calm, empty, trouble, many, iggy, hostile, gone, hidden, use, steady, gateway)}
