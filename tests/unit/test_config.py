"""The configuration: file, environment, secrets, names, and errors that say where."""

import os
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from turnstream.config import (
    LOGICAL_TOPICS,
    ConfigurationError,
    PythonSettings,
    SecretRef,
    SecretUnavailable,
    load_settings,
    near_variables,
)

Write = Callable[[str], Path]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the machine's own environment reaches a test."""
    for name in list(os.environ):
        if name.upper().startswith("TURNSTREAM_"):
            monkeypatch.delenv(name)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a configuration file and gives its path."""

    def written(text: str) -> Path:
        path = tmp_path / "turnstream.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return written


def faults(path: Path | None) -> list[tuple[int | None, str, str]]:
    """Line, path and message of everything that is wrong with a configuration."""
    with pytest.raises(ConfigurationError) as raised:
        load_settings(path)
    return [(fault.line, fault.path, fault.message) for fault in raised.value.faults]


def test_defaults_need_no_file() -> None:
    """Without a file and without variables every default holds."""
    settings = load_settings(None)

    assert settings.kafka.client_options() == {
        "bootstrap_servers": "127.0.0.1:9092",
        "security_protocol": "PLAINTEXT",
    }
    assert (settings.partitions, settings.replication_factor) == (4, 1)
    assert settings.start_from is None
    assert settings.metrics.port is None
    assert list(settings.deciders) == ["catalog_rules"]
    assert list(settings.classifiers) == ["embedded"]


def test_defaults_of_decide_are_the_documented_ones() -> None:
    """Turns are decided for 15 minutes, conversations kept for seven days."""
    decide = load_settings(None).decide

    assert (900, 7 * 24 * 3600) == (decide.max_turn_age_seconds, decide.conversation_ttl_seconds)


def test_an_empty_file_and_empty_sections_mean_defaults(write: Write) -> None:
    """A section whose lines are all commented out is read as its defaults."""
    path = write("kafka:\n#  bootstrap_servers: x\nstream:\n")

    assert load_settings(path) == load_settings(None).model_copy(
        update={"catalog": path.parent / "catalog.yaml"}
    )


def test_the_environment_wins_over_the_file(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable replaces one key and leaves its neighbours in the file alone."""
    monkeypatch.setenv("TURNSTREAM_KAFKA__BOOTSTRAP_SERVERS", "env:1")
    monkeypatch.setenv("TURNSTREAM_DECIDE__BOT_ACTORS", '["bot"]')
    path = write("kafka: {bootstrap_servers: file:1, check_crcs: false}\npartitions: 7\n")

    settings = load_settings(path)

    assert settings.kafka.bootstrap_servers == "env:1"
    assert settings.kafka.check_crcs is False
    assert settings.partitions == 7
    assert settings.decide.bot_actors == ("bot",)


def test_every_fault_is_reported_with_line_path_and_expectation(write: Write) -> None:
    """Errors come all at once, each with its line, and name what was expected."""
    path = write(
        "kafka:\n"
        "  bootsrap_servers: x\n"
        "  security_protocol: TLS\n"
        "stream:\n"
        "  slots: many\n"
        "deciders:\n"
        "  slow: {kind: pyton}\n"
        "surprise: 1\n"
    )

    found = faults(path)

    assert found[0] == (
        2,
        "kafka.bootsrap_servers",
        "unknown key; did you mean 'bootstrap_servers'?",
    )
    assert [(line, where) for line, where, _ in found[1:]] == [
        (3, "kafka.security_protocol"),
        (5, "stream.slots"),
        (7, "deciders.slow"),
        (8, "surprise"),
    ]
    assert "'PLAINTEXT', 'SSL', 'SASL_PLAINTEXT' or 'SASL_SSL', got 'TLS'" in found[1][2]
    assert "valid integer" in found[2][2]
    assert "'catalog_rules', 'python'" in found[3][2]
    assert found[4][2].startswith("unknown key; expected one of catalog, classifiers,")


def test_a_fault_as_text_begins_with_file_and_line(write: Write) -> None:
    """The error's text can be clicked in a terminal."""
    path = write("partitions: 0\n")

    with pytest.raises(ConfigurationError) as raised:
        load_settings(path)

    expected = f"{path}:1: partitions: Input should be greater than or equal to 1, got 0"
    assert expected == str(raised.value)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("kafka: [\n", 2, "not valid YAML: "),
        ("partitions: 1\npartitions: 2\n", 2, "repeated key, first given on line 1"),
        ("- a\n", 1, "expected a mapping of sections"),
        ("partitions: !!python/object:os.system 1\n", 1, "is not supported"),
        ("a: &a\n  b: *a\n", 1, "nested deeper"),
        ("partitions: 99999999999999999999\n", 1, "64 bits"),
        ('catalog: "\\ud800"\n', 1, "surrogate"),
    ],
)
def test_broken_yaml_is_located(write: Write, text: str, line: int, message: str) -> None:
    """What is not YAML of the dialect is refused at its line."""
    found = faults(write(text))[0]

    assert found[0] == line
    assert message in found[2]


def test_an_absent_file_is_an_error(tmp_path: Path) -> None:
    """A path that leads nowhere is never read as an empty configuration."""
    found = faults(tmp_path / "none.yaml")

    assert found[0][0] is None
    assert "cannot be read" in found[0][2]


def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault that comes from the environment names its variable."""
    monkeypatch.setenv("TURNSTREAM_STREAM__SLOTS", "many")

    with pytest.raises(ConfigurationError) as raised:
        load_settings(None)

    text = str(raised.value)
    assert text.startswith("environment variable TURNSTREAM_STREAM__SLOTS: stream.slots: ")


def test_unknown_variables_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt section or key of the environment is an error; a platform's variable is not."""
    monkeypatch.setenv("TURNSTREAM_METRICS_PORT", "tcp://10.0.0.1:9464")
    load_settings(None)
    monkeypatch.setenv("TURNSTREAM_KAFAK__CHECK_CRCS", "false")
    monkeypatch.setenv("TURNSTREAM_KAFKA__CHECK_CRC", "false")

    found = faults(None)

    assert "unknown section 'kafak'" in found[0][2]
    assert found[1][1:] == ("kafka.check_crc", "unknown key; did you mean 'check_crcs'?")


def test_variables_that_look_misspelt_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of a key or a section's key, not those of platforms and other programs."""
    for name, value in {
        "TURNSTREAM_PARTITION": "12",
        "TURNSTREAM_KAFKA_BOOTSTRAP_SERVERS": "k:9092",
        "TURNSTREAM_METRICS_PORT": "tcp://10.0.0.1:9464",
        "TURNSTREAM_METRICS_SERVICE_HOST": "10.0.0.1",
        "TURNSTREAM_HOME": "/srv",
        "TURNSTREAM_PARTITIONS": "4",
        "TURNSTREAM_STREAM__SLOTS": "5",
    }.items():
        monkeypatch.setenv(name, value)

    assert [
        ("TURNSTREAM_KAFKA_BOOTSTRAP_SERVERS", "TURNSTREAM_KAFKA__BOOTSTRAP_SERVERS"),
        ("TURNSTREAM_PARTITION", "TURNSTREAM_PARTITIONS"),
    ] == near_variables()


def test_a_list_in_the_environment_must_be_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be parsed in a variable is reported by its name."""
    monkeypatch.setenv("TURNSTREAM_DECIDERS", "{broken")

    with pytest.raises(ConfigurationError, match=r"variable TURNSTREAM_DECIDERS: .*JSON"):
        load_settings(None)


# --- secrets ------------------------------------------------------------------------------------


def test_a_literal_secret_is_refused_without_being_repeated(write: Write) -> None:
    """The error says what to write instead and never shows the secret."""
    path = write("kafka:\n  sasl_password: hunter2\n")

    with pytest.raises(ConfigurationError) as raised:
        load_settings(path)

    expected = (
        f"{path}:2: kafka.sasl_password: expected a reference to a secret, not the secret itself: "
        "write env:NAME or file:PATH"
    )
    assert expected == str(raised.value)
    assert "hunter2" not in repr(raised.value)


def test_secrets_are_read_at_each_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rotated secret is seen without loading the configuration again."""
    file = tmp_path / "secret"
    reference = SecretRef(f"file:{file}")
    file.write_text("one\n", encoding="utf-8")
    first = reference.resolve()
    file.write_text("two", encoding="utf-8")
    monkeypatch.setenv("A_SECRET", "three")

    assert [first, reference.resolve(), SecretRef("env:A_SECRET").resolve()] == [
        "one",
        "two",
        "three",
    ]
    assert repr(SecretRef("env:A_SECRET")) == "SecretRef('env:A_SECRET')"


@pytest.mark.parametrize("reference", ["env:NO_SUCH_VARIABLE", "file:/no/such/file"])
def test_an_unavailable_secret_names_its_reference(reference: str) -> None:
    """A reference that leads nowhere fails when it is used and says which it was."""
    with pytest.raises(SecretUnavailable, match=reference):
        SecretRef(reference).resolve()


@pytest.mark.parametrize("text", ["", "env:", "file:", "env:A B", "ENV:A", "secret", "env:A\n"])
def test_other_forms_are_no_references(text: str) -> None:
    """Only the two documented forms are references."""
    with pytest.raises(ValueError, match="write env:NAME or file:PATH"):
        SecretRef(text)


# --- clients, names, paths ----------------------------------------------------------------------


def test_client_options_for_an_authenticated_cluster(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Credentials and a TLS context are added when the protocol wants them."""
    monkeypatch.setenv("KAFKA_PASSWORD", "pw")
    path = write(
        "kafka: {security_protocol: SASL_SSL, sasl_mechanism: SCRAM-SHA-512, sasl_username: u,\n"
        "        sasl_password: env:KAFKA_PASSWORD}\n"
    )

    options = load_settings(path).kafka.client_options()

    assert isinstance(options.pop("ssl_context"), ssl.SSLContext)
    assert options == {
        "bootstrap_servers": "127.0.0.1:9092",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "u",
        "sasl_plain_password": "pw",
    }


@pytest.mark.parametrize(
    "servers", ["kafka://broker:9092", "me:hunter2@broker:9092", "broker:port", "a:1,,b:2", "a b"]
)
def test_servers_are_addresses(write: Write, servers: str) -> None:
    """A URL or a user is refused, and not repeated: there may be a password in it."""
    with pytest.raises(ConfigurationError, match="expected host:port, several with commas") as told:
        load_settings(write(f'kafka: {{bootstrap_servers: "{servers}"}}\n'))

    assert servers not in str(told.value)


def test_several_servers_may_have_blanks_between(write: Write) -> None:
    """Clients get them without."""
    settings = load_settings(write('kafka: {bootstrap_servers: "a.b-c_d:1, [::1]:2 ,e"}\n'))

    assert "a.b-c_d:1,[::1]:2,e" == settings.kafka.bootstrap_servers


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_certificate_that_cannot_be_used_is_named(
    write: Write, tmp_path: Path, content: str | None
) -> None:
    """With its key: Python's own error names neither."""
    if content is not None:
        (tmp_path / "ca.pem").write_text(content)
    settings = load_settings(write("kafka: {security_protocol: SSL, ssl_cafile: ca.pem}\n"))

    with pytest.raises(SecretUnavailable, match=r"kafka: cannot use .*ca\.pem \(ssl_cafile, "):
        settings.kafka.client_options()


def test_names_carry_the_prefix_and_can_be_set(write: Write) -> None:
    """The prefix is for topics, groups and changelogs; a topic's own key gives its whole name."""
    settings = load_settings(write("topics: {prefix: staging., turns: support.chat}\n"))

    assert settings.topics.name("conversation.turns") == "support.chat"
    assert settings.topics.name("conversation.turns.dlq") == "support.chat.dlq"
    assert settings.topics.name("tool.results") == "staging.tool.results"
    assert settings.topics.logical("support.chat.dlq") == "conversation.turns.dlq"
    assert settings.topics.logical("conversation.turns") is None
    assert settings.group("decide") == "staging.turnstream-decide"
    assert settings.changelog("decide") == "staging.turnstream-decide-state-changelog"


def test_logical_and_physical_names_map_both_ways() -> None:
    """Every logical topic is found again from its physical name."""
    topics = load_settings(None).topics

    assert list(LOGICAL_TOPICS) == [topics.logical(topics.name(name)) for name in LOGICAL_TOPICS]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topics: {turns: a, actions: a}", "conversation.actions are both named 'a'"),
        ("topics: {turns: 'a b'}", "expected 1 to 249 of the characters"),
        ("topics: {prefix: 'é'}", "expected 1 to 249 of the characters"),
        ("stream: {grace_seconds: 50}", "grace_seconds must be below"),
        ("start_from: yesterday", "expected latest, earliest or an ISO timestamp"),
        ("start_from: 2026-01-31T08:00:00", "with its UTC offset"),
        ("refused_schemas: [id:017]", "expected 16 hexadecimal digits, or id:NUMBER"),
        ("refused_schemas: ['id:4294967296']", "or id:NUMBER up to id:4294967295"),
        ("shadow: {decider: none}", "expected one of deciders (catalog_rules), got 'none'"),
        ("classify: {classifier: x}", "expected one of classifiers (embedded), got 'x'"),
        ("kafka: {security_protocol: SASL_SSL}", "sasl_username is required with SASL_SSL"),
        ("kafka: {ssl_certfile: a}", "ssl_certfile and ssl_keyfile are given together"),
        ("execute: {egress_allow: ['http://x']}", "expected host, host:port or *.domain"),
        ("registry: {url: registry}", "should match pattern"),
        ("stream: {store: rocksdict}", "store: rocksdict needs data_dir"),
        ("stream: {session_timeout_seconds: 301}", "less than or equal to 300, got 301"),
        ("stream: {max_record_bytes: 32767}", "greater than or equal to 32768, got 32767"),
        ("stream: {max_record_bytes: 1032193}", "less than or equal to 1032192, got 1032193"),
    ],
)
def test_contradictions_are_refused(write: Write, text: str, message: str) -> None:
    """Values that cannot work together, or cannot work at all, stop the start."""
    assert message in faults(write(text))[0][2]


@pytest.mark.parametrize("number", ["inf", "-Infinity", "nan", "1.0e+400"])
@pytest.mark.parametrize(
    "key",
    [
        "stream.grace_seconds",
        "stream.session_timeout_seconds",
        "stream.rebalance_timeout_seconds",
        "decide.max_turn_age_seconds",
        "decide.conversation_ttl_seconds",
        "decide.answer_deadline_seconds",
        "decide.decider_timeout_seconds",
        "shadow.pair_within_seconds",
    ],
)
def test_numbers_must_be_finite(write: Write, key: str, number: str) -> None:
    """What is no number, or no end, is refused where it is written."""
    section, _, name = key.rpartition(".")
    path = write(f"{section}:\n  {name}: {number}\n")

    line, where, message = faults(path)[0]

    assert (2, key) == (line, where)
    assert "finite number" in message


def test_a_boolean_is_no_number(write: Write) -> None:
    """A time-out that somebody switched on would be one of a second; the line is told."""
    (found,) = faults(write("decide:\n  decider_timeout_seconds: true\n"))

    assert 1 == found[0]
    assert "decider_timeout_seconds: expected a number, got a boolean" in found[2]


def test_options_of_a_factory_are_finite_too(write: Write) -> None:
    """They are JSON, which has no other numbers."""
    path = write(
        'deciders: {slow: {kind: python, target: "a.b:make", options: {delay: [1.0e+400]}}}\n'
    )

    assert any("finite number" in message for _, _, message in faults(path))


@pytest.mark.parametrize("text", ["latest", "earliest", "2026-01-31T08:00:00+01:00"])
def test_start_from_is_kept_as_written(write: Write, text: str) -> None:
    """A date in YAML stays the text that was written."""
    assert load_settings(write(f"start_from: {text}\n")).start_from == text


def test_relative_paths_are_relative_to_the_file(write: Write) -> None:
    """A configuration can be used from any working directory."""
    path = write(
        "catalog: shop.yaml\nshadow: {catalog: next.yaml}\n"
        "kafka: {ssl_cafile: /etc/ca.pem, ssl_certfile: c.pem, ssl_keyfile: k.pem}\n"
    )

    settings = load_settings(path)

    assert [
        settings.catalog,
        settings.shadow.catalog,
        settings.kafka.ssl_cafile,
        settings.kafka.ssl_certfile,
        settings.kafka.ssl_keyfile,
    ] == [
        path.parent / "shop.yaml",
        path.parent / "next.yaml",
        Path("/etc/ca.pem"),
        path.parent / "c.pem",
        path.parent / "k.pem",
    ]


def test_a_python_decider_can_be_plugged_in(write: Write) -> None:
    """A decider of one's own stands beside the embedded one."""
    settings = load_settings(
        write('deciders: {slow: {kind: python, target: "a.b:make", options: {delay: 0.05}}}\n')
    )

    assert list(settings.deciders) == ["catalog_rules", "slow"]
    expected = PythonSettings(kind="python", target="a.b:make", options={"delay": 0.05})
    assert expected == settings.deciders["slow"]


def test_the_demo_configuration_loads() -> None:
    """The packaged configuration of the demo is valid and finds its catalog."""
    path = Path(__file__).parents[2] / "processors/turnstream/demo/turnstream.yaml"

    assert load_settings(path).catalog.exists()
