"""The doctor's look at deciders and the classifier: can they be made, and their models reached?"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from turnstream.cli.connections import unreachable
from turnstream.cli.findings import Finding, fail, ok, warn

if TYPE_CHECKING:
    from turnstream.roles.deployment import Deployment

_REMEDY: Final = (
    "see that the model's server runs and lets this host in, and that base_url is right; until "
    "then conversations wait for it as long as decider_patience_seconds says and are handed off"
)


def examine_models(deployment: "Deployment") -> Iterator[Finding]:
    """Make every decider and the classifier, as the roles would; nothing is asked."""
    from turnstream.calibration import CalibrationRefused
    from turnstream.catalog import CatalogError
    from turnstream.catalog.unscored import unscored_advice
    from turnstream.config import PythonSettings
    from turnstream.config.connectors import unscored_in
    from turnstream.roles.deployment import DeploymentError, made_by

    settings = deployment.settings
    away = unreachable("models", _addresses(deployment), remedy=_REMEDY)
    try:
        made = [*deployment.deciders().values()]
        candidate = deployment.candidate()
        made.append(candidate.calibrated(settings.shadow.decider, settings.shadow.calibration))
        names = {decider.name for decider in made}
        classifier = settings.classifiers[settings.classify.classifier]
        if isinstance(classifier, PythonSettings):
            where = f"classifiers.{settings.classify.classifier}"
            made_by(classifier, deployment.catalog, where=where, method="classify")
    except CatalogError as error:
        yield fail("models", str(error), "mend the lines named")
    except DeploymentError as error:
        yield fail("models", str(error), "mend the section named or its factory")
    except CalibrationRefused as error:
        yield fail("models", str(error), "calibrate again, or take the file out")
    else:
        if not away:
            yield ok("models", ", ".join(sorted(names)))
    yield from away
    for place, advice in unscored_advice(deployment.catalog, unscored_in(settings.deciders)):
        yield warn("models", f"agents.{place[1]}: {advice}", "see thresholds in the reference")


def _addresses(deployment: "Deployment") -> dict[str, str]:
    """The deciders that are asked and have an address, with it; a region alone is none."""
    from turnstream.roles.secret_references import deciders_of

    settings, catalog = deployment.settings, deployment.catalog
    asked = deciders_of("decide", settings=settings, catalog=catalog) | deciders_of(
        "shadow", settings=settings, catalog=catalog
    )
    urls = {name: getattr(settings.deciders.get(name), "base_url", None) for name in sorted(asked)}
    return {f"deciders.{name}": url for name, url in urls.items() if url is not None}
