"""The pictures of docs/how-to/serve.md: the explorer with four blanks in a real browser, light, dark, phone.

    python docs/screenshots.py [--model english]

starts `unmask serve`, opens the page in Debian's chromium (apt-get install chromium chromium-driver), and
writes docs/figures/explorer-*.png.
"""

from __future__ import annotations

import argparse
import base64
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
FIGURES = DOCS / "figures"
sys.path.append(str(DOCS.parent / "tests" / "web"))
STATE = "#s=The+man+is+playing+with+his+dog.&b=1,2,5,6&n=tree&w=product&k=auto"
PICTURES = {
    # name: scheme, width, height, pixels a point
    "explorer-light": ("light", 1180, 2480, 1.0),
    "explorer-dark": ("dark", 1180, 2480, 1.0),
    "explorer-phone": ("light", 390, 4300, 1.0),
}
WAIT = 300


def picture(session: Any, name: str, address: str) -> None:
    from browser import prefer

    scheme, width, height, scale = PICTURES[name]
    prefer(session, scheme)
    size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 500}
    session.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    session.get("about:blank")
    session.get(f"{address}/{STATE}")
    end = time.monotonic() + WAIT
    done = "return Boolean(document.body.dataset.settled && document.body.dataset.drawn)"
    while not session.execute_script(done):
        trouble = session.find_element("id", "trouble")
        if time.monotonic() > end or trouble.is_displayed():
            raise SystemExit(
                f"the page is not done: {trouble.text or session.find_element('id', 'status').text}"
            )
        time.sleep(0.1)
    time.sleep(1)  # the charts fade in
    shot = session.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    (FIGURES / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))


def main() -> None:
    from browser import chromium, find

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="english")
    parser.add_argument("--memory", default="4GB", help="of the server; less of it makes smaller tables")
    given = parser.parse_args()
    command = [sys.executable, "-c", "from unmask.cli import main; main()", "serve", "--port", "0"]
    with subprocess.Popen(
        [*command, "--model", given.model, "--memory", given.memory, "--time-limit", str(WAIT)],
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://\S+", server.stdout.readline())
            assert found is not None, "the server did not start"
            with chromium(*find()) as session:
                picture(session, next(iter(PICTURES)), found.group())  # the model answers, the charts load
                for name in PICTURES:
                    picture(session, name, found.group())
                    print(FIGURES / f"{name}.png")
        finally:
            server.send_signal(signal.SIGINT)


if __name__ == "__main__":
    main()
