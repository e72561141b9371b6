"""E-mail addresses in the ways in which people and links write them."""

import pytest

from turnstream.privacy import Detector

_DETECTOR = Detector(["email"])


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("write to john.doe@example.com.", "write to [email]."),
        ("John+Shop@Mail.Example.co.uk!", "[email]!"),
        ("o'brien@example.ie", "[email]"),
        ("'john@example.com'", "'[email]'"),
        ("<john@example.com>, (jane@example.org)", "<[email]>, ([email])"),
        ('"john smith"@example.com', "[email]"),
        ("mailto:john@example.com?subject=hi", "mailto:[email]?subject=hi"),
        ("https://x.example/?email=a.b@c.example&x=1", "https://x.example/?email=[email]&x=1"),
        ("josé.garcía@exämple.de", "[email]"),
        ("jose\u0301@example.es", "[email]"),
        ("иван@пример.рф", "[email]"),
        ("john@xn--exmple-cua.xn--p1ai", "[email]"),
        ("john\uff20example\uff0ecom", "[email]"),
        ("john\u200b@exam\u00adple.com", "[email]"),
        ("我的邮箱是a@b.com谢谢", "我的邮箱是[email]谢谢"),
        ("用户@例子.公司", "[email]"),
        ("\u202bהמייל שלי dana@example.co.il תודה\u202c", "\u202bהמייל שלי [email] תודה\u202c"),
        ("a@b.example,c@d.example;e@f.example", "[email],[email];[email]"),
        ("john@example.com-", "[email]-"),
        ("john@example.com.123", "[email].123"),
        ("ends with\njohn@example.com\nof course", "ends with\n[email]\nof course"),
        ("\ud800john@example.com\udfff", "\ud800[email]\udfff"),
    ],
)
def test_addresses_are_taken_out(text: str, redacted: str) -> None:
    """An address goes whole, and nothing around it."""
    assert redacted == _DETECTOR.redacted(text).text


@pytest.mark.parametrize(
    "text",
    [
        "Sunday @ 4pm",
        "@john follows me",
        "john@localhost",
        "john @ example . com",
        "2 for 1 @1.50",
        "a@b.1",
        "@@@@",
        '"@example.com',
        ".@example.com",
        "john.@example.com",
    ],
)
def test_what_is_no_address_stays(text: str) -> None:
    """An at sign makes no address."""
    assert text == _DETECTOR.redacted(text).text


def test_places_are_code_points_of_the_text_as_it_came() -> None:
    """Invisible characters before and in an address count."""
    (finding,) = _DETECTOR.find("\u200b\u200b a\u200b@b.example")

    assert ("email", 3, 15) == tuple(finding)
