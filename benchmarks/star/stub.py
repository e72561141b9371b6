"""The services behind STAR's tasks: plausible results that depend on the arguments alone."""

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import yaml

_CATALOG = Path(__file__).with_name("catalog.yaml")
_NUMBERS = {
    "AverageRating": (1, 5),
    "BankBalance": (0, 9_999),
    "NumRooms": (1, 6),
    "Price": (5, 900),
    "TemperatureCelsius": (-5, 30),
    "TripLengthMinutes": (5, 90),
    "id": (1, 1_000),
}
_SENTENCES = {
    "ChangeStatus": ("Your ride has been changed.", "Your ride can no longer be changed."),
    "Instructions": ("go north for two blocks, then turn left.", "take bus 61 to the last stop."),
    "RideStatus": ("Your driver is on the way.", "Your driver is waiting for you."),
    "RideWait": ("It takes about five minutes.", "It takes about a quarter of an hour."),
    "Message": ("It has been arranged.", "That is not available, please choose something else."),
}


@cache
def _outputs(tool: str) -> dict[str, Any]:
    with _CATALOG.open("rb") as file:
        tools = yaml.load(file, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))["tools"]
    _results.update({name: one["result_schema"]["properties"] for name, one in tools.items()})
    return _results[tool]


_results: dict[str, dict[str, Any]] = {}


def _reply(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    seed = orjson.dumps([tool, arguments], option=orjson.OPT_SORT_KEYS)
    dice = hashlib.sha256(seed).digest()
    outputs = _results.get(tool) or _outputs(tool)
    result: dict[str, Any] = {}
    for index, (name, schema) in enumerate(outputs.items()):
        roll = dice[index % len(dice)] * 256 + dice[(index + 1) % len(dice)]
        allowed = schema.get("enum")
        # A place that no service knows is asked for all the same: it replies with one that it has.
        if name in arguments and (allowed is None or arguments[name] in allowed):
            result[name] = arguments[name]
        elif allowed is not None:
            result[name] = allowed[roll % len(allowed)]
        elif schema["type"] == "integer":
            low, high = _NUMBERS.get(name, (1, 20))
            result[name] = low + roll % (high - low + 1)
        elif schema["type"] == "boolean":
            result[name] = bool(roll % 2)
        else:
            sentences = _SENTENCES.get(name, ("As agreed.",))
            result[name] = sentences[roll % len(sentences)]
    return result


def _service(tool: str) -> Any:
    async def call(**arguments: Any) -> dict[str, Any]:
        return _reply(tool, arguments)

    call.__name__ = tool
    return call


apartment_schedule = _service("apartment_schedule")
apartment_search = _service("apartment_search")
bank_balance = _service("bank_balance")
bank_fraud_report = _service("bank_fraud_report")
doctor_followup = _service("doctor_followup")
doctor_schedule = _service("doctor_schedule")
hotel_book = _service("hotel_book")
hotel_search = _service("hotel_search")
hotel_service_request = _service("hotel_service_request")
meeting_schedule = _service("meeting_schedule")
party_plan = _service("party_plan")
party_rsvp = _service("party_rsvp")
plane_book = _service("plane_book")
plane_search = _service("plane_search")
restaurant_book = _service("restaurant_book")
restaurant_search = _service("restaurant_search")
ride_book = _service("ride_book")
ride_change = _service("ride_change")
ride_status = _service("ride_status")
spaceship_access_codes = _service("spaceship_access_codes")
spaceship_life_support = _service("spaceship_life_support")
trip_directions = _service("trip_directions")
trivia = _service("trivia")
weather = _service("weather")
