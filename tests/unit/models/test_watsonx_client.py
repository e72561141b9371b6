"""The HTTP client of watsonx, which its library is handed."""

import httpx
import pytest

from turnstream.config.connectors import WatsonxSettings
from turnstream.models.watsonx_models import watsonx_clients

SETTINGS = {
    "kind": "watsonx",
    "base_url": "https://watsonx.test",
    "project_id": "p",
    "api_key": "env:WATSONX_KEY",
    "model": "m",
    "native_tools": True,
}


def test_no_cookie_of_one_customer_goes_out_with_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a gateway sets for one request is not sent with the next."""
    sent: list[str | None] = []

    def reply(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers.get("cookie"))
        return httpx.Response(200, headers={"set-cookie": "sid=ann; Path=/"}, json={})

    monkeypatch.setattr("httpx.HTTPTransport", lambda **_: httpx.MockTransport(reply))
    settings = WatsonxSettings.model_validate(SETTINGS)
    client, _ = watsonx_clients(settings)
    for _ in range(2):
        client.get("https://watsonx.test/ml")

    assert [None, None] == sent
