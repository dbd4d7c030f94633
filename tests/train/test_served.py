"""What a server answers is scored as what a policy answers in this process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from json import loads
from pathlib import Path
from typing import Any

import pytest

from serving.engines.base import Endpoint, EngineError
from tests.json_server import JsonHandler, listening
from tests.train.rollouts.test_turns_in_chat import chat
from train.commands import eval as eval_command
from train.served import Asked, evaluate_served, first_model

SUM = re.compile(r"(\d+)\+(\d+)=")


class Adder(JsonHandler):
    """A server that adds, in the tokens of `chat`, and knows nothing else."""

    codec: Any
    asked: list[dict[str, Any]]

    def do_GET(self) -> None:
        """The list of models."""
        self.say({"data": [{"id": "adder"}]})

    def do_POST(self) -> None:
        """A completion."""
        body = self.body()
        self.asked.append({**body, "key": self.headers["authorization"]})
        found = SUM.search(self.codec.text(body["prompt"]))
        said = str(int(found[1]) + int(found[2])) if found else "no"
        tokens = self.codec.answer(said)
        logprobs = {"token_logprobs": [-0.1] * len(tokens)}
        self.say({"choices": [{"token_ids": list(tokens), "logprobs": logprobs, "finish_reason": "stop"}]})


@pytest.fixture
def adder(tmp_path: Path) -> Iterator[Endpoint]:
    """On a port of its own."""
    Adder.codec, Adder.asked = chat(tmp_path), []
    with listening(Adder) as url:
        yield Endpoint(url=url, api_key="secret", keeps_connections=False)


def test_a_server_is_scored(adder: Endpoint, tmp_path: Path) -> None:
    """It is right where it can be and nowhere else, is asked with its key and by its first model's name."""
    asked = Asked(levels={"terse_addition": (0, 1), "terse_copying": (0,)}, num_items=3, num_samples=1)
    found = evaluate_served(adder, None, tmp_path, asked)
    scores = {each.domain: (each.greedy.mean, each.sampled and each.sampled.mean) for each in found.domains}
    assert scores == {"terse_addition": (1.0, 1.0), "terse_copying": (0.0, 0.0)}
    assert {(each["model"], each["key"]) for each in Adder.asked} == {("adder", "Bearer secret")}


def test_the_command_asks_a_server(
    adder: Endpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`tierwise train eval ./checkpoint --url URL`: one object of scores, with the key of a file."""
    (tmp_path / "key").write_text("secret\n")
    asked = [
        "--url",
        adder.url + "/",
        "--domains",
        "terse_addition",
        "--levels",
        "2",
        "--items",
        "2",
        "--json",
    ]
    assert eval_command.main([str(tmp_path), *asked, "--api-key-file", str(tmp_path / "key")]) == 0
    (score,) = loads(capsys.readouterr().out)["domains"]
    assert (score["domain"], score["num_items"], score["greedy"]["mean"]) == ("terse_addition", 2, 1.0)
    assert Adder.asked[-1]["key"] == "Bearer secret"


def test_a_server_that_is_not_there_is_named() -> None:
    """With its address."""
    with pytest.raises(EngineError, match=r"127\.0\.0\.1:9/v1/models does not answer"):
        first_model(Endpoint(url="http://127.0.0.1:9"))
