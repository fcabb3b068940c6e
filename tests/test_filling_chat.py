"""Chat models as generators: replies are data, endpoints may fail in any way."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from harmony_utils.errors import InputError
from harmony_utils.filling import (
    ChatGenerator,
    EndpointChat,
    GeneratorError,
    LocalChat,
    candidate_from_reply,
    check_format,
    check_key,
)
from harmony_utils.items import Item

ITEM = Item("q", "Which gas do plants take in?", ("carbon dioxide", "oxygen"), 0)
GOOD = {"question": ITEM.question, "options": ["argon", "carbon dioxide"], "answer": 1}
BAND = (0.0, 1.0)


def completion(text: str) -> bytes:
    return json.dumps({"choices": [{"message": {"content": text}}]}).encode()


@contextmanager
def endpoint(body: bytes, *, status: int = 200, wait: float = 0.0, headers=()):
    """A server on this machine; yields its address and what it was asked."""
    asked: list[tuple[str, dict, dict]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            asked.append((self.path, dict(self.headers), json.loads(raw)))
            time.sleep(wait)
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):  # who asked has gone
                self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
    finally:
        server.shutdown()
        server.server_close()


def propose(url: str, n: int = 1, **options):
    chat = EndpointChat(url, "small", **{"timeout": 20.0, **options})
    return ChatGenerator(chat).propose(ITEM, BAND, np.random.default_rng(0), n)


def test_a_good_reply_becomes_a_candidate(monkeypatch):
    monkeypatch.setenv("FILL_KEY", "secret")
    with endpoint(completion(json.dumps(GOOD))) as (url, asked):
        (made,) = propose(url, key_variable="FILL_KEY")
    assert made.options == ("argon", "carbon dioxide")
    assert made.gold == 1
    assert check_format(made) == check_key(made) == ""
    path, headers, body = asked[0]
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == "Bearer secret"
    assert body["model"] == "small"
    assert "harder" in body["messages"][0]["content"]
    assert json.loads(body["messages"][1]["content"])["answer"] == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Sure, here is one!", "no JSON object"),
        ("[1, 2]", "no JSON object"),
        ("[" * 100_000, "more than"),
        ("[" * 15_000, "no JSON object"),
        (json.dumps({**GOOD, "code": "import os"}), "exactly question, options and answer"),
        (json.dumps({**GOOD, "answer": True}), "no index"),
        (json.dumps({**GOOD, "answer": 5}), "no index"),
        (json.dumps({**GOOD, "options": "ab"}), "no list of texts"),
        (json.dumps({**GOOD, "options": ["a"]}), "1 options"),
        (json.dumps({**GOOD, "question": ""}), "no text"),
        ("x" * 30_000, "more than 20000 characters"),
    ],
)
def test_what_cannot_be_used_is_kept_with_its_problem(text, problem):
    made = candidate_from_reply(text, ITEM, BAND, "chat")
    assert problem in made.problem
    assert check_format(made) == made.problem
    assert len(made.notes) < 300


def test_a_reply_in_a_fence_is_read():
    text = "```json\n" + json.dumps(GOOD) + "\n```"
    assert candidate_from_reply(text, ITEM, BAND, "chat").problem == ""


def test_another_key_is_refused_by_the_gate():
    made = candidate_from_reply(json.dumps({**GOOD, "answer": 0}), ITEM, BAND, "chat")
    assert "the key is 'argon'" in check_key(made)


@pytest.mark.parametrize(
    "body", [b"<html>", b"{}", b'{"choices": []}', b"\xff\xfe", b"x" * 1_100_000]
)
def test_rubbish_from_an_endpoint_is_a_rejected_candidate(body):
    with endpoint(body) as (url, _):
        (made,) = propose(url)
    assert "\n" not in check_format(made)
    assert "reply" in check_format(made)


def one_line(error) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert "secret" not in text
    return text


def test_an_endpoint_that_is_down():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(GeneratorError) as error:
        propose(f"http://127.0.0.1:{port}/v1")
    assert "cannot be reached" in one_line(error)
    assert "is it running?" in one_line(error)


def test_an_endpoint_that_is_slow():
    with endpoint(completion("{}"), wait=1.5) as (url, _), pytest.raises(GeneratorError) as error:
        propose(url, timeout=0.3)
    assert "no answer within 0.3 s" in one_line(error)


def test_an_endpoint_that_refuses(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    with endpoint(b"", status=401) as (url, _), pytest.raises(GeneratorError) as error:
        propose(url)
    assert "answers 401" in one_line(error)


def test_a_redirect_does_not_carry_the_key_elsewhere(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    with (
        endpoint(completion("{}")) as (other, asked),
        endpoint(b"", status=302, headers=[("Location", other)]) as (url, _),
        pytest.raises(GeneratorError) as error,
    ):
        propose(url)
    assert "answers 302" in one_line(error)
    assert asked == []


def test_something_that_speaks_no_http():
    server = socket.create_server(("127.0.0.1", 0))

    def answer():
        connection, _ = server.accept()
        connection.recv(65536)
        connection.sendall(b"SSH-2.0-OpenSSH\r\n")
        connection.close()

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    with pytest.raises(GeneratorError) as error:
        propose(f"http://127.0.0.1:{server.getsockname()[1]}/v1")
    thread.join(5)
    server.close()
    assert one_line(error).startswith("endpoint http://127.0.0.1")


@pytest.mark.parametrize("url", ["localhost:8000", "file:///etc/passwd", ""])
def test_only_web_addresses_are_asked(url):
    with pytest.raises(InputError, match="give an address"):
        EndpointChat(url, "small")


def test_a_local_model_answers_the_same_for_the_same_seed(tiny_model):
    from harmony_utils.scoring import load_model

    chat = LocalChat(load_model(str(tiny_model), device="cpu"), max_tokens=12)
    first, again, other = (chat("Rewrite.", "{}", seed) for seed in (1, 1, 2))
    assert first == again != other
    made = ChatGenerator(chat).propose(ITEM, BAND, np.random.default_rng(0), 2)
    assert made
    assert all(check_format(one) for one in made)


def test_a_local_model_needs_a_chat_template(tiny_model, monkeypatch):
    from harmony_utils.scoring import load_model

    loaded = load_model(str(tiny_model), device="cpu")
    monkeypatch.setattr(loaded.tokenizer, "chat_template", None)
    with pytest.raises(InputError, match="no chat template"):
        LocalChat(loaded)
