"""A teacher behind HTTP says what the model itself says, in either engine's form; other tokens are refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from distill.divergence import diverge, forward_kl
from distill.engine_teacher import EngineTeacher
from distill.student_loss import Origin
from distill.teacher import PROBE, TokenizerMismatchError
from distill.whole_teacher import WholeTeacher, states_behind
from serving.engines.base import Endpoint, EngineError
from tests.json_server import JsonHandler, listening
from tests.train.model.tiny import reference_llama, tiny_llama, tiny_shape
from train.credit import by_heart
from train.model.policy import Line
from train.rollouts.rollout import MissingLogprobsError

torch.set_num_threads(1)
SHAPE = tiny_shape(vocab_size=30)
GROUPS = (by_heart(Origin.TEACHER, (1, 5, 9), (13, 2, 7)), by_heart(Origin.STUDENT, (1, 5), (9, 4)))
ALL_BUT_ONE = 29


class Engine(JsonHandler):
    """A server of `tiny_llama`, in vLLM's form or in llama.cpp's."""

    model: Any
    form: str
    asked: list[dict[str, Any]]

    def do_POST(self) -> None:
        body = self.body()
        if self.path == "/tokenize":
            assert body["content"] == body["prompt"] == PROBE
            return self.say({"tokens": [1, 2, 3]})
        self.asked.append(body)
        token_ids = body["prompt"]
        with torch.no_grad():
            logits = self.model(torch.tensor([token_ids])).logits
        told = [place.log_softmax(-1).topk(body["logprobs"]) for place in logits[0]]
        if self.form == "vllm":
            pairs_of = zip(told[:-1], token_ids[1:], strict=True)
            places = [None, *(self._by_id(place, token) for place, token in pairs_of)]
            return self.say({"choices": [{"prompt_logprobs": places}]})
        pairs = zip(told[-1].indices.tolist(), told[-1].values.tolist(), strict=True)
        top = [{"id": token, "logprob": logprob, "token": "?"} for token, logprob in pairs]
        content = [{"id": top[0]["id"], "logprob": top[0]["logprob"], "top_logprobs": top}]
        return self.say({"choices": [{"logprobs": {"content": content if self.form == "llamacpp" else []}}]})

    @staticmethod
    def _by_id(place: Any, token: int) -> dict[str, dict[str, float]]:
        pairs = dict(zip(place.indices.tolist(), place.values.tolist(), strict=True))
        return {str(each): {"logprob": logprob} for each, logprob in {token: -99.0, **pairs}.items()}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    Engine.asked, Engine.model = [], reference_llama(tiny_llama(SHAPE, dtype=torch.float32))
    with listening(Engine) as url:
        yield Endpoint(url=url, api_key=None)


@pytest.mark.parametrize(("form", "num_asked"), [("vllm", 2), ("llamacpp", 6)])
def test_an_engine_says_what_the_model_says(endpoint: Endpoint, form: str, num_asked: int) -> None:
    """Told all tokens but one, the divergence at each place is that from the whole teacher."""
    Engine.form = form
    teacher = EngineTeacher(endpoint, "tiny", ALL_BUT_ONE)
    student = tiny_llama(SHAPE, seed=1, dtype=torch.float32)
    line = Line(GROUPS, student.lm_head.weight)
    hidden, _ = states_behind(student, line, ())
    told, whole = (
        diverge(hidden, student.lm_head.weight, each.read(line, ())[0], forward_kl)
        for each in (teacher, WholeTeacher(tiny_llama(SHAPE, dtype=torch.float32)))
    )
    assert torch.allclose(told, whole, atol=1e-4)
    assert float(whole.detach().min()) > 0.01
    assert len(Engine.asked) == num_asked
    assert {body["model"] for body in Engine.asked} == {"tiny"}


def test_an_engine_of_other_tokens_is_refused(endpoint: Endpoint) -> None:
    """By what it makes of the probe."""
    teacher = EngineTeacher(endpoint, "tiny", 4)
    teacher.require_tokens([1, 2, 3])
    with pytest.raises(TokenizerMismatchError, match="4 and 3 tokens of the probe"):
        teacher.require_tokens([1, 2, 3, 4])


def test_what_an_engine_keeps_back_is_said(endpoint: Endpoint) -> None:
    """No likeliest tokens, and no server at all."""
    Engine.form = "silent"
    line = Line(GROUPS, tiny_llama(SHAPE, dtype=torch.float32).lm_head.weight)
    with pytest.raises(MissingLogprobsError, match="tells no likeliest tokens"):
        EngineTeacher(endpoint, "tiny", 4).read(line, ())
    nobody = Endpoint(url="http://127.0.0.1:9", api_key=None)
    with pytest.raises(EngineError, match="does not answer"):
        EngineTeacher(nobody, "tiny", 4).read(line, ())
