"""The section on personal data: which tenants' texts are redacted before they are stored."""

from typing import Annotated, Literal, Self, get_args

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from turnstream.config.section import Section

PersonalDataKind = Literal["email", "iban", "card", "national_number", "phone", "name"]
NumbersOfCountry = Literal[
    "at", "be", "br", "ca", "ch", "de", "dk", "es", "fi", "fr", "gb", "in", "it", "nl", "no", "pl",
    "se", "us",
]  # fmt: skip


def _once(values: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(values)) < len(values):
        raise ValueError("expected each once")
    return values


class TenantPersonalData(Section):
    """What is done with the personal data of a tenant's conversations."""

    policy: Literal["off", "before_store"] = "off"
    """`before_store`: what the detectors find is replaced by markers, as [email], before anything
    is stored; it cannot be brought back. A restricted question or reasoning that would have to be
    altered is a handoff (`redaction_conflict`)."""
    detectors: Annotated[tuple[PersonalDataKind, ...], AfterValidator(_once)] = get_args(
        PersonalDataKind
    )
    """What is looked for. Order numbers that pass for card or telephone numbers are a reason to
    leave a kind out."""
    national_numbers: Annotated[tuple[NumbersOfCountry, ...], AfterValidator(_once)] = get_args(
        NumbersOfCountry
    )
    """Countries whose national numbers are looked for."""
    region: Annotated[str, StringConstraints(pattern=r"^[A-Z]{2}$")] | None = None
    """ISO 3166 code, as FR, of telephone numbers without a country code; the region of the
    conversation's locale comes first. With neither, only numbers with `+` are found."""
    name_fields: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = ()
    """Values of the session claims that are names of persons. Names are not guessed: without these
    the detector `name` finds none."""

    @model_validator(mode="after")
    def _looks_for_something(self) -> Self:
        if self.policy == "before_store" and not self.detectors:
            raise ValueError("policy: before_store needs detectors; for none of them it is `off`")
        return self


class PersonalDataSettings(Section):
    """Personal data, tenant by tenant."""

    default: TenantPersonalData = TenantPersonalData()
    """Of tenants that are not named, and of turns without a tenant."""
    tenants: dict[str, TenantPersonalData] = Field(default={})
    """Tenant id to what holds for it, as a whole: nothing is taken over from `default`."""

    def of(self, tenant_id: str | None) -> TenantPersonalData:
        """What holds for a tenant."""
        return self.default if tenant_id is None else self.tenants.get(tenant_id, self.default)
