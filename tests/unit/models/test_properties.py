"""What holds for every request that the embedded decider can get."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnstream.core.contract import ACTIONS, faults
from turnstream.core.definitions import Catalog
from turnstream.core.events import Passage, ToolOutcome
from turnstream.core.ports import DecisionRequest, Message, ToolFact, ToolOption
from turnstream.models.catalog_rules import CatalogRules

_WORDS = st.sampled_from(
    [
        "annuler",
        "cancel",
        "my",
        "order",
        "ne",
        "pas",
        "not",
        "already",
        "colis",
        "A-1001",
        "Lyon",
        "bouilloire",
        "merci",
        "hello",
        "où",
        ".",
        ",",
        "?",
        "étiquette",
        "return",
        "livraison",
        "fees",
        "humain",
        "invoice",
        "a",
        "'",
        "\n",
        "cmd",
        "svp",
    ]
)
_TEXT = st.one_of(
    st.text(max_size=300),
    st.lists(_WORDS, max_size=25).map(" ".join),
)
_TOOLS = ("get_order_status", "cancel_order", "check_store_availability", "create_return_label")
_NAME = st.sampled_from((*_TOOLS, "return_period", "order_status", "gone", ""))
_FIELDS = st.lists(st.sampled_from(("order_id", "city", "product", "gone")), max_size=2).map(tuple)


def _requests() -> st.SearchStrategy[DecisionRequest]:
    messages = st.lists(
        st.builds(
            Message,
            role=st.sampled_from(("customer", "agent", "assistant", "system")),
            text=_TEXT,
        ),
        max_size=4,
    ).map(tuple)
    options: Any = st.lists(
        st.builds(ToolOption, _NAME, _FIELDS, _FIELDS, _FIELDS),
        max_size=5,
        unique_by=lambda one: one.name,
    ).map(tuple)
    found: Any = st.builds(
        ToolFact,
        tool=_NAME,
        outcome=st.sampled_from(get_args(ToolOutcome)),
        result=st.none(),
        error_code=st.sampled_from((None, "order_not_found", "gone")),
        superseded=st.booleans(),
    )
    return st.builds(
        DecisionRequest,
        agent=st.just("shop"),
        locale=st.sampled_from(("fr", "en", "xx")),
        interactive=st.booleans(),
        messages=messages,
        latest=_TEXT,
        known=st.just({}),
        tools=options,
        facts=st.lists(found, max_size=3).map(tuple),
        answered_field=st.sampled_from((None, "order_id", "gone")),
        open_intent=st.one_of(st.none(), _NAME),
        passages=st.just((Passage(passage_id="p", text="cancel everything"),)),
        fault=st.sampled_from((None, None, None, "broken")),
    )


@pytest.fixture(scope="module")
def other(catalog: Catalog) -> CatalogRules:
    """A second decider of the same catalog."""
    return CatalogRules(catalog, "0123456789abcdef")


@settings(deadline=None, max_examples=300)
@given(request=_requests())
def test_every_proposal_agrees_with_the_contract(
    decider: CatalogRules, other: CatalogRules, catalog: Catalog, request: DecisionRequest
) -> None:
    """Nothing raises; the table holds; names exist; numbers are probabilities; replies repeat."""
    proposal = decider.propose(request)

    assert proposal.action in ACTIONS
    assert () == faults(
        proposal.action,
        proposal.tool,
        proposal.missing_field,
        proposal.reason_code,  # type: ignore[arg-type]
    )
    assert proposal.tool in (None, *(option.name for option in request.tools))
    assert proposal.answer_id in (None, *catalog.answers)
    assert proposal.rule in (None, *catalog.rules)
    assert proposal.needed_for in (None, *(option.name for option in request.tools))
    assert 0 <= proposal.confidence <= 1
    assert set(ACTIONS) == set(proposal.probabilities)
    assert pytest.approx(1) == sum(proposal.probabilities.values())
    assert proposal.margin is None or 0 <= proposal.margin <= 1
    assert proposal == other.propose(request)


_SCRIPT = """
import sys
from pathlib import Path
import yaml
from turnstream.classifiers.embedded import EmbeddedClassifier
from turnstream.core.definitions import Catalog
from turnstream.core.ports import DecisionRequest, Exchange, Message, ToolOption
from turnstream.models.catalog_rules import CatalogRules

catalog = Catalog.model_validate(yaml.safe_load(Path(sys.argv[1]).read_text(encoding="utf-8")))
decider = CatalogRules(catalog, "v")
classifier = EmbeddedClassifier(catalog)
tools = tuple(ToolOption(name, (), (), ()) for name in catalog.tools)
for text, _, _ in yaml.safe_load(Path(sys.argv[2]).read_text(encoding="utf-8")):
    request = DecisionRequest("shop", "fr", True, (), text, {}, tools, (), None, None)
    print(repr(decider.propose(request)))
    print(classifier.classify(Exchange("e", "fr", (Message("customer", text),))))
"""


def test_processes_agree() -> None:
    """Two processes with different hash seeds print the same proposals and labels to the digit."""
    here = Path(__file__).parent
    files = [
        str(here.parents[1] / "fixtures" / "shop_catalog.yaml"),
        str(here / "dev_requests.yaml"),
    ]
    printed = [
        subprocess.run(
            [sys.executable, "-c", _SCRIPT, *files],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "4242")
    ]

    assert printed[0] == printed[1]
    assert printed[0]
