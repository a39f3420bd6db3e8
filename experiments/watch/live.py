"""Live page of a watch: a server on this computer, that gives one page to whoever knows its token, and nothing else."""

import hmac
import json
import secrets
from collections import deque
from collections.abc import Mapping
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from excitor.experiments.report.html import compact, page
from excitor.experiments.watch.session import CycleReport, Session, cycle_data
from excitor.experiments.watch.sources import alarm_sentence, summary_data

HOST = "127.0.0.1"
MOST_CYCLES = 300  # in the chart
MOST_SAID = 20  # alarms and problems that are listed
PATIENCE = 5.0  # s that a client may take to say what it wants


class LivePage:
    """The page's address and its data; it ends with the block that it is the context of."""

    def __init__(self, session: Session) -> None:
        self.token = secrets.token_urlsafe(24)
        self._version, self._cycles = 0, deque[dict[str, Any]](maxlen=MOST_CYCLES)
        self._content = page(
            "live.html",
            {
                "robot": session.basis.model.robot_name,
                "name": session.basis.campaign.folder.resolve().name,
                "version": "",
            },
            scripts=("charts.js", "page.js"),
            styles=("report.css",),
            data=("live", {"token": self.token}),
        ).encode()
        self._data = b"{}"
        self._server = ThreadingHTTPServer((HOST, 0), _handler(self))
        self._server.daemon_threads = True
        self.update(session)

    @property
    def address(self) -> str:
        """The page's address with its token."""
        return f"http://{self.host}/?token={self.token}"

    @property
    def host(self) -> str:
        """Host and port."""
        return f"{HOST}:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def cycle(self, session: Session, report: CycleReport) -> None:
        """Remember a cycle for the chart."""
        data = cycle_data(session.basis, report)
        self._cycles.append({key: data[key] for key in ("cycle", "surprise")} | {"alarm": bool(data["alarms"])})

    def update(self, session: Session, problems: list[str] | None = None) -> None:
        """Show the state after a batch of cycles."""
        self._version += 1
        summary = summary_data(session, 0, [], [])
        data = {key: summary[key] for key in ("cycles", "left_out", "learning", "parameters")} | {
            "version": self._version,
            "history": list(self._cycles),
            "alarms": [_alarm(alarm) for alarm in session.alarms[-MOST_SAID:]],
            "problems": (problems or [])[-MOST_SAID:],
        }
        self._data = json.dumps(compact(data), allow_nan=False).encode()

    def answer(self, target: str, headers: "Message[str, str]") -> tuple[int, str, bytes]:
        """Answer a request: status, type and content; 403 without the token, from another origin or by another name."""
        asked = urlsplit(target)
        own, query = f"http://{self.host}", parse_qs(asked.query)
        known = hmac.compare_digest(query.get("token", [""])[0].encode(), self.token.encode())
        foreign = headers.get("Origin", own) != own or headers.get("Sec-Fetch-Site", "none") not in (
            "none",
            "same-origin",
        )
        if not known or foreign or headers.get("Host") != self.host:
            return 403, "text/plain", b"The address needs the token that excitor watch --serve printed.\n"
        if asked.path == "/":
            return 200, "text/html; charset=utf-8", self._content
        if asked.path == "/data":
            same = query.get("version") == [str(self._version)]
            return (204, "application/json", b"") if same else (200, "application/json", self._data)
        return 404, "text/plain", b"There is only the page itself.\n"


def _alarm(cycle: Mapping[str, Any]) -> dict[str, Any]:
    return {"sentence": alarm_sentence(cycle), "confirmed": not cycle["alarms"]}


def _handler(live: LivePage) -> type[BaseHTTPRequestHandler]:
    """Make a handler of requests that answers for a page."""

    class Handler(BaseHTTPRequestHandler):
        timeout = PATIENCE
        server_version, sys_version = "excitor", ""

        def do_GET(self) -> None:
            """Send the page or its data."""
            status, kind, content = live.answer(self.path, self.headers)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("Referrer-Policy", "no-referrer")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Cross-Origin-Resource-Policy", "same-origin")
            self.send_header("Content-Security-Policy", "frame-ancestors 'none'")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Write nothing: a token stands in each address."""

    return Handler
