"""A stand-in for the admin port: the page as the gateway itself serves it, with a scene's answers behind it."""
import http.server
import json
import pathlib
import threading
import time
import urllib.request

KINDS = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}


class Server:
    """Serves a scene on a port of its own until `close`. `answers` may be taken away: `gone` (closes what connects),
    `silent` (never answers), `failing` (503)."""

    def __init__(self, scene, admin, files=None):
        self.scene, self.admin, self.files = scene, admin, files
        self.answers, self.asked, self.let_go = "well", [], threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                outer.answer(self)

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def answer(self, request):
        if not request.path.startswith("/api/"):
            return self.pass_on(request)
        self.asked.append((time.monotonic(), request.path))
        if self.answers == "silent":
            self.let_go.wait()
        if self.answers in ("gone", "silent"):
            request.close_connection = True
            return None
        if self.answers == "failing":
            return self.send(request, 503, [], b'{"error":"a shard did not answer in time"}')
        found = self.scene(int(time.time() * 1000), request.path)
        body = json.dumps(found if found is not None else {"error": "there is none"}).encode()
        return self.send(request, 200 if found is not None else 404, [("content-type", "application/json"), ("cache-control", "no-store")], body)

    def pass_on(self, request):
        """What the gateway serves, its headers with it; its text from `files` when that is given."""
        try:
            with urllib.request.urlopen(self.admin + request.path) as answer:
                status, headers, body = answer.status, answer.getheaders(), answer.read()
        except urllib.error.HTTPError as error:
            status, headers, body = error.code, error.headers.items(), error.read()
        if self.files:
            path = pathlib.Path(self.files) / (request.path.removeprefix("/page").lstrip("/") or "index.html")
            if path.is_file():
                status, body = 200, path.read_bytes()
                headers = [pair for pair in headers if pair[0] != "content-type"] + [("content-type", KINDS[path.suffix])]
        keep = [pair for pair in headers if pair[0] not in ("content-length", "date", "transfer-encoding", "connection")]
        return self.send(request, status, keep, body)

    @staticmethod
    def send(request, status, headers, body):
        request.send_response(status)
        for name, value in headers:
            request.send_header(name, value)
        request.send_header("content-length", str(len(body)))
        try:
            request.end_headers()
            request.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            request.close_connection = True

    def close(self):
        self.answers = "gone"
        self.let_go.set()
        self.http.shutdown()
        self.http.server_close()
