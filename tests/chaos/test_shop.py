"""What the tools of the shop remember, and what is counted of its decider."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.chaos import logs, shop
from turnstream.tools import NotExecuted

Tool = Callable[[str, str], Awaitable[dict[str, str]]]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the shop writes its logs; it has called nobody yet."""
    monkeypatch.setenv(logs.FOLDER, str(tmp_path))
    shop._tried.clear()
    return tmp_path


def _order(before: int, after: int) -> str:
    """An order whose calls fail so often before their effect, and then after it."""
    return next(
        order
        for order in map("A-{}".format, range(999))
        if shop._troubles(order) == (before, after)
    )


async def _until_done(tool: Tool, order: str) -> int:
    """Call a tool until it does not fail; give the number of calls."""
    for number in range(1, 9):
        try:
            await tool(order, "c-1/0/0")
        except ConnectionError:
            continue
        return number
    return 0


@pytest.mark.parametrize(("before", "after"), [(0, 0), (0, 1), (1, 0), (1, 1)])
async def test_a_booking_that_is_repeated_has_one_effect(
    before: int, after: int, folder: Path
) -> None:
    """Its tool knows the key again, in another process too; it fails as often as the order says."""
    order = _order(before, after)

    assert 1 + before + after == await _until_done(shop.book, order)
    shop._tried.clear()
    await _until_done(shop.book, order)

    (effect,) = logs.effects(folder)
    assert "c-1/0/0" == effect.action_id
    assert effect.looked is not None
    assert effect.looked <= effect.at
    assert 2 * before + after == logs.failures(folder)


async def test_a_transfer_that_is_repeated_has_two_effects(folder: Path) -> None:
    """It is the executor that must not call it again."""
    for _ in range(2):
        await shop.transfer(_order(0, 0), "c-1/0/0")

    assert 2 == len(logs.effects(folder))


@pytest.mark.parametrize(("trouble", "there"), [((0, 1), True), ((1, 0), False)])
async def test_what_became_of_a_transfer_can_be_asked(
    trouble: tuple[int, int], there: bool, folder: Path
) -> None:
    """Also when its caller had no reply."""
    with pytest.raises(ConnectionError):
        await shop.transfer(_order(*trouble), "c-1/0/0")

    if there:
        assert {"status": "transferred"} == await shop.transferred("c-1/0/0")
    else:
        with pytest.raises(NotExecuted):
            await shop.transferred("c-1/0/0")
    assert 1 == logs.questions(folder)


async def test_a_question_may_have_to_be_put_again() -> None:
    """Of some calls, the first one is not answered."""
    unanswered = 0
    for number in range(12):
        try:
            await shop.transferred(f"c-{number}/0/0")
        except ConnectionError:
            unanswered += 1
            with pytest.raises(NotExecuted):
                await shop.transferred(f"c-{number}/0/0")
        except NotExecuted:
            pass

    assert 0 < unanswered < 12


def test_every_reply_to_the_same_request_is_a_replay(folder: Path) -> None:
    """Also of a decider that replies at once, and so begins and ends no wait."""
    for number, request in enumerate(("one", "another", "one", "one")):
        about = {"diagnostics": {logs.REPLY: str(number)}}
        proposal = shop._proposal("handoff", "unsupported", **about)
        line = {"request": request, "pid": number, "proposal": proposal}
        logs.append(logs.REPLIES, line)

    assert 2 == logs.repeated(folder)
