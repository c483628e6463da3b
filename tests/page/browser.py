#!/usr/bin/env python3
"""Opens the page of `vkattn inspect --html` in headless Chromium at two widths, in light and dark, over the
browser's own pipe. Fails where the console has an error, anything is fetched, the page is wider than its
window, or a click opens no head.

    browser.py TOOL FOLDER     FOLDER takes the page and pictures of what was seen
"""
import base64
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import time

PATIENCE = 60  # seconds, of a machine that does other things too
QUERY, KEY = 11, 4


def write_weights(path, heads, tokens, seed):
    numbers = random.Random(seed)
    values = []
    for head in range(heads):
        for query in range(tokens):
            row = [numbers.random() ** (1 + 8 * head) + 1e-6 if key <= query else 0.0 for key in range(tokens)]
            values += [value / sum(row) for value in row]
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d, %d), }" % (heads, tokens, tokens)
    header = header.ljust(117) + "\n"
    data = struct.pack("<%df" % len(values), *values)
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)
    return values[(tokens + QUERY) * tokens + KEY]  # of head 1


class Browser:
    def __init__(self, program):
        read, child_write = os.pipe()
        child_read, write = os.pipe()

        def connect():  # the browser reads from 3 and writes to 4
            os.dup2(child_read, 100)
            os.dup2(child_write, 101)
            os.dup2(100, 3)
            os.dup2(101, 4)

        self.process = subprocess.Popen([program, "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"],
                                        preexec_fn=connect, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(child_read)
        os.close(child_write)
        self.read, self.write, self.buffer, self.number, self.events = read, write, b"", 0, []

    def call(self, method, session=None, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.buffer:
                more = os.read(self.read, 1 << 20)
                if not more:
                    raise SystemExit("the browser has ended")
                self.buffer += more
            text, _, self.buffer = self.buffer.partition(b"\0")
            answer = json.loads(text)
            if answer.get("id") != self.number:
                self.events.append(answer)
            elif "error" in answer:
                raise SystemExit("%s: %s" % (method, answer["error"]))
            else:
                return answer["result"]


def look(browser, address, width, height, scheme, weight, folder):
    wrong = []
    target = browser.call("Target.createTarget", url="about:blank")["targetId"]
    session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for domain in ("Page", "Runtime", "Log", "Network"):
        browser.call(domain + ".enable", session)
    browser.call("Emulation.setDeviceMetricsOverride", session, width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
    browser.call("Emulation.setEmulatedMedia", session, features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.events.clear()

    def ask(expression):
        answer = browser.call("Runtime.evaluate", session, expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            wrong.append("%s: %s" % (expression, answer["exceptionDetails"].get("text")))
        return answer["result"].get("value")

    def press(key):
        for kind in ("keyDown", "keyUp"):
            browser.call("Input.dispatchKeyEvent", session, type=kind, key=key, code=key, windowsVirtualKeyCode={"Escape": 27, "ArrowRight": 39, "ArrowUp": 38, "Home": 36}[key])

    def expect(what, expression, expected=True):
        found = ask(expression)
        if found != expected:
            wrong.append("%s: %r, expected %r" % (what, found, expected))

    browser.call("Page.navigate", session, url=address)
    end = time.time() + PATIENCE
    while ask("document.documentElement?.dataset.ready") != "yes" and time.time() < end:
        time.sleep(0.05)
    expect("ready", "document.documentElement.dataset.ready", "yes")
    expect("width of the page", "document.documentElement.scrollWidth <= innerWidth")
    expect("cards", "document.querySelectorAll('.card').length", 3)
    dark = ask("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    if dark != (scheme == "dark"):
        wrong.append("the page is %s" % ("dark" if dark else "light"))
    place = json.loads(ask("(() => { const card = document.querySelectorAll('.card')[1]; card.scrollIntoView({ block: 'center' }); const box = card.getBoundingClientRect();"
                           " return JSON.stringify([box.x + box.width / 2, box.y + box.height / 2]); })()"))
    for kind in ("mousePressed", "mouseReleased"):
        browser.call("Input.dispatchMouseEvent", session, type=kind, x=place[0], y=place[1], button="left", clickCount=1)
    expect("a click opens a head", "document.getElementById('view').open")
    expect("which head", "document.getElementById('view-title').textContent", "head 1")
    expect("width of the head", "document.getElementById('view').scrollWidth <= document.getElementById('view').clientWidth")
    ask("document.getElementById('plot').focus()")
    press("Home")
    for _ in range(KEY):
        press("ArrowRight")
    while "Query %d " % QUERY not in (ask("document.getElementById('readout').textContent") or "") and time.time() < end:
        press("ArrowUp")
    # Four digits of a weight that the page has in 16 bits.
    text, _, number = ask("document.getElementById('readout').textContent").rpartition(": ")
    if text != "Query %d \u201c<b>11\u201d \u2192 key %d \u201c<b>4\u201d" % (QUERY, KEY) or not abs(float(number) - weight) < 0.5e-4 + 0.5 / 65000:
        wrong.append("the weight below the cursor: %r is %r, expected %.6f" % (text, number, weight))
    expect("elements out of tokens", "document.querySelectorAll('#ribbon b').length", 0)
    picture = browser.call("Page.captureScreenshot", session, format="png")["data"]
    (folder / ("head_%d_%s.png" % (width, scheme))).write_bytes(base64.b64decode(picture))
    press("Escape")
    expect("Escape closes", "document.getElementById('view').open", False)
    ask("document.querySelector('input[value=own]').click()")
    expect("own range", "document.getElementById('end').textContent", "largest of the head")
    ask("document.querySelectorAll('#table thead button')[2].click()")
    expect("sorted by entropy", "(() => { const cells = [...document.querySelectorAll('#table tbody tr')].map(row => +row.cells[2].textContent);"
           " return cells.every((cell, n) => n === 0 || cells[n - 1] >= cell); })()")
    for event in browser.events:
        parameters = event.get("params", {})
        if event.get("method") in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
            wrong.append("console: " + json.dumps(parameters)[:500])
        if event.get("method") == "Network.requestWillBeSent" and parameters["request"]["url"] not in (address, "about:blank"):
            wrong.append("request: " + parameters["request"]["url"])
    browser.call("Target.closeTarget", targetId=target)
    return ["%d px, %s: %s" % (width, scheme, what) for what in wrong]


def main():
    tool, folder = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    programs = [program for program in map(shutil.which, ("chromium-headless-shell", "chromium")) if program]
    if not programs:
        print("skipped: neither chromium-headless-shell nor chromium is installed")
        return 77
    folder.mkdir(parents=True, exist_ok=True)
    seed = int(os.environ.get("VKATTN_TEST_SEED") or random.randrange(10**9))
    print("seed %d (repeat with VKATTN_TEST_SEED=%d)" % (seed, seed))
    tokens = 24
    weight = write_weights(folder / "w.npy", 3, tokens, seed)
    (folder / "tokens.txt").write_text("".join("<b>%d\n" % n for n in range(tokens)))
    page = folder / "heads.html"
    subprocess.run([tool, "inspect", "--weights", folder / "w.npy", "--tokens", folder / "tokens.txt", "--html", page], check=True, stdout=subprocess.DEVNULL)
    browser = Browser(programs[0])
    wrong = []
    try:
        for width, height in ((1280, 900), (390, 844)):
            for scheme in ("light", "dark"):
                wrong += look(browser, page.as_uri(), width, height, scheme, weight, folder)
    finally:
        browser.process.terminate()
        browser.process.wait()
    print("\n".join(wrong) or "the page is in order at 1280 and 390 px, in light and dark")
    return 1 if wrong else 0


sys.exit(main())
