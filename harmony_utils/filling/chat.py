"""Generators that ask a chat model to rewrite a question, on this machine or at an endpoint.

A reply is data: one JSON object with a question, options and the index of the answer. Nothing in it
is executed, anything else is a candidate that the first gate rejects with the reason.
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

import numpy as np

from harmony_utils.errors import InputError
from harmony_utils.filling.candidates import Band, Candidate, GeneratorError, make_candidate
from harmony_utils.items import Item

MAX_REPLY = 20_000
"""Longest reply of a model that is read, in characters."""

MAX_BYTES = 1_000_000
"""Longest answer of an endpoint that is read."""

INSTRUCTIONS = (
    "You rewrite multiple-choice questions. Keep what is asked and keep the right answer's text "
    "word for word; change wrong options so that the question gets {direction}. Exactly one option "
    "may be right. Reply with one JSON object and nothing else: "
    '{{"question": string, "options": list of 2 to 6 strings, "answer": index of the right option, '
    "counted from 0}}."
)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key to another host; it is an error instead."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)

Reply = Callable[[str, str, int], str]
"""From instructions, the message and a seed to a model's text."""


class ChatGenerator:
    """Generator that asks a chat model.

    Parameters
    ----------
    reply : callable
        :class:`EndpointChat`, :class:`LocalChat` or a function of instructions, message and seed.
    name : str
        Shown as the generator.
    difficulties : mapping of item id to float, optional
        Decides whether harder or easier is asked for; harder if unknown.
    """

    def __init__(
        self, reply: Reply, *, name: str = "chat", difficulties: dict[str, float] | None = None
    ) -> None:
        self.reply, self.name = reply, name
        self.difficulties = dict(difficulties or {})

    def propose(
        self, item: Item, target_band: Band, rng: np.random.Generator, n: int
    ) -> list[Candidate]:
        """Ask ``n`` times; every reply gives a candidate, an unusable one with its problem.

        Raises
        ------
        GeneratorError
            If the model cannot be reached, or does not answer in time.
        """
        middle = (target_band[0] + target_band[1]) / 2
        harder = self.difficulties.get(item.id, -np.inf) < middle
        instructions = INSTRUCTIONS.format(direction="harder" if harder else "easier")
        asked = {"question": item.question, "options": list(item.options), "answer": item.gold}
        if item.passage:
            asked["passage"] = item.passage
        message = json.dumps(asked, ensure_ascii=False)
        found: dict[str, Candidate] = {}
        for _ in range(n):
            text = self.reply(instructions, message, int(rng.integers(2**31)))
            made = candidate_from_reply(text, item, target_band, self.name, harder=harder)
            found.setdefault(made.id, made)
        return list(found.values())


def candidate_from_reply(
    text: str, item: Item, band: Band, generator: str, *, harder: bool = True
) -> Candidate:
    """Read a reply; what cannot be used becomes a candidate with a ``problem``.

    Examples
    --------
    >>> item = Item("q", "Which?", ("a", "b"), 0)
    >>> candidate_from_reply("Sure! Here you go", item, (0, 1), "chat").problem
    'the reply is no JSON object'
    >>> candidate_from_reply('{"question": "Which?", "options": ["a", "c"], "answer": 0}',
    ...     item, (0, 1), "chat").options
    ('a', 'c')
    """
    operations = ("rewrite-harder" if harder else "rewrite-easier",)
    shared = {"operations": operations, "band": band, "generator": generator}
    try:
        data = _strict(text)
    except ValueError as error:
        shown = f"reply: {text[:200]!r}"
        return make_candidate(
            item, question=item.question, options=item.options, gold=item.gold,
            problem=str(error), notes=shown, **shared,
        )  # fmt: skip
    return make_candidate(
        item,
        question=data["question"].strip(),
        options=tuple(option.strip() for option in data["options"]),
        gold=data["answer"],
        **shared,
    )


def _strict(text: str) -> dict[str, Any]:
    """Return the reply's object or say in a ValueError what is wrong with it."""
    if not isinstance(text, str) or len(text) > MAX_REPLY:
        raise ValueError(f"the reply has more than {MAX_REPLY} characters")
    body = text.strip()
    if body.startswith("```"):
        body = body.strip("`").removeprefix("json").strip()
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("the reply is no JSON object") from None
    if not isinstance(data, dict):
        raise ValueError("the reply is no JSON object")
    if set(data) != {"question", "options", "answer"}:
        raise ValueError("the reply needs exactly question, options and answer")
    if not isinstance(data["question"], str) or not data["question"].strip():
        raise ValueError("the reply's question is no text")
    options, answer = data["options"], data["answer"]
    if not isinstance(options, list) or not all(isinstance(o, str) for o in options):
        raise ValueError("the reply's options are no list of texts")
    if not 2 <= len(options) <= 6:
        raise ValueError(f"the reply has {len(options)} options; 2 to 6 are allowed")
    if isinstance(answer, bool) or not isinstance(answer, int) or not 0 <= answer < len(options):
        raise ValueError("the reply's answer is no index of an option")
    return data


class EndpointChat:
    """An endpoint that speaks OpenAI's chat completions, such as vLLM, llama.cpp or Ollama.

    Parameters
    ----------
    url : str
        Base, e.g. ``http://localhost:8000/v1``; ``/chat/completions`` is appended.
    model : str
        Name that the endpoint knows.
    key_variable : str
        Environment variable that holds the key; it is read when asked and never shown.
    timeout : float
        Seconds for connecting, and for the whole answer.
    max_tokens : int
        Longest reply asked for.
    temperature : float
        Of sampling.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        key_variable: str = "OPENAI_API_KEY",
        timeout: float = 60.0,
        max_tokens: int = 600,
        temperature: float = 0.8,
    ) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise InputError(f"endpoint {url!r}: give an address like http://localhost:8000/v1")
        self.url, self.model = url.rstrip("/") + "/chat/completions", model
        self.place = f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
        self.key_variable, self.timeout = key_variable, timeout
        self.max_tokens, self.temperature = max_tokens, temperature

    def __call__(self, instructions: str, message: str, seed: int) -> str:
        """Return the text of the first choice; rubbish comes back as a text that no gate passes.

        Raises
        ------
        GeneratorError
            In one line: endpoint down, too slow, or refusing.
        """
        body = {
            "model": self.model,
            "messages": [
                {"role": "system", "content": instructions},
                {"role": "user", "content": message},
            ],
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "seed": seed,
        }
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get(self.key_variable):
            headers["Authorization"] = f"Bearer {key}"
        request = urllib.request.Request(self.url, json.dumps(body).encode(), headers)
        raw = self._read(request)
        if len(raw) > MAX_BYTES:
            return "x" * (MAX_REPLY + 1)
        try:
            text = json.loads(raw)["choices"][0]["message"]["content"]
        except (ValueError, KeyError, IndexError, TypeError, RecursionError):
            return f"no chat completion: {raw[:80].decode('utf-8', 'replace')}"
        return text if isinstance(text, str) else "no text"

    def _read(self, request: urllib.request.Request) -> bytes:
        deadline = time.monotonic() + self.timeout
        raw = b""
        try:
            with _OPENER.open(request, timeout=self.timeout) as answer:
                while len(raw) <= MAX_BYTES and (part := answer.read1(65536)):
                    raw += part
                    if time.monotonic() > deadline:
                        raise TimeoutError
            return raw
        except urllib.error.HTTPError as error:
            raise GeneratorError(
                f"endpoint {self.place}: answers {error.code}; check address, model name and key"
            ) from None
        except TimeoutError:
            raise GeneratorError(self._slow()) from None
        except (urllib.error.URLError, OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, TimeoutError):
                raise GeneratorError(self._slow()) from None
            raise GeneratorError(
                f"endpoint {self.place}: cannot be reached ({reason}); is it running?"
            ) from None
        except Exception as error:  # http.client raises its own for rubbish instead of HTTP
            raise GeneratorError(
                f"endpoint {self.place}: does not speak HTTP ({type(error).__name__})"
            ) from None

    def _slow(self) -> str:
        return f"endpoint {self.place}: no answer within {self.timeout:g} s; raise the timeout"


class LocalChat:
    """A chat model of ``transformers`` on this machine.

    Parameters
    ----------
    language_model : LanguageModel
        From :func:`~harmony_utils.scoring.models.load_model`; its tokenizer needs a chat template.
    max_tokens : int
        Longest reply.
    temperature : float
        Of sampling; 0 takes the likeliest token.

    Raises
    ------
    InputError
        Without a chat template.
    """

    def __init__(
        self, language_model: Any, *, max_tokens: int = 300, temperature: float = 0.8
    ) -> None:
        if not getattr(language_model.tokenizer, "chat_template", None):
            raise InputError("this model has no chat template; choose an instruction-tuned one")
        self.language_model = language_model
        self.max_tokens, self.temperature = max_tokens, temperature

    def __call__(self, instructions: str, message: str, seed: int) -> str:
        """Return the reply's text."""
        import torch

        tokenizer, model = self.language_model.tokenizer, self.language_model.model
        turns = [{"role": "user", "content": f"{instructions}\n\n{message}"}]
        text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        inputs = tokenizer(text, return_tensors="pt", add_special_tokens=False).to(model.device)
        inputs.pop("token_type_ids", None)
        sampling = {"do_sample": self.temperature > 0}
        if self.temperature > 0:
            sampling["temperature"] = self.temperature
        with torch.random.fork_rng(devices=[]), torch.inference_mode():
            torch.manual_seed(seed)
            out = model.generate(
                **inputs,
                max_new_tokens=self.max_tokens,
                pad_token_id=tokenizer.pad_token_id or tokenizer.eos_token_id,
                **sampling,
            )
        return tokenizer.decode(out[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
