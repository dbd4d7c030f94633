"""What a candidate keeps of its teacher: both answer the same held-out items, and scores are compared item by item.

The items are those of every evaluation (`train.evaluate.held_out`), so that figures here and there are of one kind.
Where both are in this process and speak of the same tokens, how far their next tokens are apart is told as well (KL,
along reference answers), and on request how often the teacher would take the candidate's tokens as a draft.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from transformers import PreTrainedTokenizerFast

from distill.calibration import answered, held_out_prompts
from distill.drafts.acceptance import Acceptance, measure
from distill.drafts.model_draft import Drawing, ModelDraft
from distill.paired import Estimate, Kept, Pair, kept
from distill.questions import MIN_ITEMS, Questions, scored
from distill.subject import Subject
from distill.teacher import TokenizerMismatchError, require_same_tokens
from train.agreement import Agreement, agreement
from train.codec import ChatCodec
from train.compared_texts import compared_texts
from train.domains.audit import audited
from train.evaluate import DomainScore, Evaluation
from train.run_directory import RunError
from train.seeds import seed_of
from train.verifiers.pool import Judge


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two."""

    name: str
    domains: tuple[DomainScore, ...]
    score: Estimate
    """Macro mean of what is compared."""
    mean_tokens: float
    """Of the greedy answers, macro."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A candidate beside its teacher."""

    candidate: Side
    teacher: Side
    kept: Kept
    nearness: Agreement | None
    """KL(teacher ‖ candidate) along reference answers; None where either is a server, or other tokens."""
    acceptance: tuple[Acceptance, ...] = ()
    """Of the candidate as the teacher's draft."""

    def by_domain(self) -> dict[str, dict[str, float]]:
        """As a manifest has it."""
        found = {}
        for mine, theirs in zip(self.candidate.domains, self.teacher.domains, strict=True):
            difference = self.kept.differences[mine.domain]
            found[mine.domain] = {
                "num_items": float(mine.num_items),
                "greedy": mine.greedy.mean,
                "greedy_low": mine.greedy.low,
                "greedy_high": mine.greedy.high,
                "teacher_greedy": theirs.greedy.mean,
                "difference": difference.value,
                "difference_low": difference.low,
                "difference_high": difference.high,
                "mean_tokens": mine.mean_tokens,
            }
        return found


def compare(
    candidate: Subject,
    teacher: Subject,
    questions: Questions,
    pool: Judge,
    *,
    on_side: Callable[[str], None] = lambda name: None,
) -> Comparison:
    """Ask both, and hold them against each other.

    Args:
        candidate: the cheaper one.
        teacher: what it is to be as good as.
        questions: what.
        pool: judges.
        on_side: told whose turn it is.

    Raises:
        RunError: too few items.
        UnauditedError: a domain has not passed its audit.
        EngineError, MissingLogprobsError: a server does not answer as it has to.
    """
    if questions.num_items < MIN_ITEMS or not questions.domains:
        raise RunError(f"name domains, and ask at least {MIN_ITEMS} items of each: one item has no interval")
    sides = []
    for subject in (candidate, teacher):
        on_side(subject.name)
        sides.append(scored(subject.sampler, ChatCodec(subject.start), questions, pool))
    (mine, my_scores), (theirs, their_scores) = sides
    pairs = {domain: Pair(scores, their_scores[domain]) for domain, scores in my_scores.items()}
    found = kept(pairs, seed=seed_of(questions.seed, "retention"))
    is_near = candidate.model is not None and teacher.model is not None and speak_alike(candidate, teacher)
    return Comparison(
        candidate=_side(candidate, mine, my_scores),
        teacher=_side(teacher, theirs, their_scores),
        kept=found,
        nearness=_nearness(candidate, teacher, questions) if is_near else None,
        acceptance=_acceptance(candidate, teacher, questions) if is_near and questions.num_drafts else (),
    )


def _side(subject: Subject, evaluation: Evaluation, by_item: Mapping[str, Sequence[float]]) -> Side:
    macro = evaluation.sampled or evaluation.greedy
    return Side(
        name=subject.name,
        domains=evaluation.domains,
        score=Estimate(fmean(map(fmean, by_item.values())), macro.low, macro.high),
        mean_tokens=fmean(domain.mean_tokens for domain in evaluation.domains),
    )


def speak_alike(candidate: Subject, teacher: Subject) -> bool:
    """Whether both speak of the same tokens."""
    mine, theirs = (PreTrainedTokenizerFast.from_pretrained(each.start) for each in (candidate, teacher))
    try:
        require_same_tokens(mine, theirs)
    except TokenizerMismatchError:
        return False
    return True


def _nearness(candidate: Subject, teacher: Subject, questions: Questions) -> Agreement | None:
    assert candidate.model is not None
    assert teacher.model is not None
    return agreement(
        teacher.model, candidate.model, compared_texts(questions.domains, ChatCodec(teacher.start))
    )


def _acceptance(candidate: Subject, teacher: Subject, questions: Questions) -> tuple[Acceptance, ...]:
    """Of greedy drafting of the teacher's greedy answers."""
    assert candidate.model is not None
    assert teacher.model is not None
    domains = audited(domain.name for domain in questions.domains)
    limits = {domain.name: domain.max_answer_tokens for domain in questions.domains}
    texts = answered(
        held_out_prompts(domains, questions.num_items),
        teacher.sampler,
        ChatCodec(teacher.start),
        temperature=0,
        max_tokens=lambda prompt: (
            limits[prompt.domain] or (prompt.item.max_answer_tokens if prompt.item else 1)
        ),
    )
    try:
        return tuple(
            measure(ModelDraft(candidate.model, teacher.model, Drawing(0)), texts, questions.num_drafts)
        )
    except ValueError as error:
        raise RunError(str(error)) from None
