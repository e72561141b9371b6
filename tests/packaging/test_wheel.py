"""The wheel holds what the tree holds, and works where the tree is not."""

import subprocess
import sys
import zipfile
from pathlib import Path

from tests.packaging.conftest import ROOT

IMPORT_ALL = """
import importlib, pkgutil, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import turnstream
for module in pkgutil.walk_packages(turnstream.__path__, "turnstream."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
loaded = [m for name, m in sys.modules.items() if name.split(".")[0] == "turnstream"]
strays = [m.__name__ for m in loaded if not Path(m.__file__).is_relative_to(sys.argv[1])]
print(len(loaded) > 1, strays)
"""

READ_DATA = """
import sys
sys.path.insert(0, sys.argv[1])
from importlib.resources import files
data = files("turnstream") / "_data"
print(sorted(folder.name for folder in data.iterdir()))
"""


def files_under(folder: str, *, as_: str) -> set[str]:
    """Names every file under a folder of the tree as the wheel should name it."""
    base = ROOT / folder
    return {
        f"{as_}/{path.relative_to(base).as_posix()}"
        for path in base.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def names_in(wheel: Path) -> set[str]:
    """Names every file of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def run_isolated(code: str, *arguments: str) -> str:
    """Runs code with -I, so that neither the folder nor the environment can help it."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, *arguments],
        cwd="/",
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout.strip()


def test_wheel_holds_exactly_the_package_the_schemas_and_the_topics(wheel: Path) -> None:
    """Every module, data file, schema and topic is in the wheel, and no test or anything else."""
    held = {name for name in names_in(wheel) if ".dist-info/" not in name}

    expected = (
        files_under("processors/turnstream", as_="turnstream")
        | files_under("schemas", as_="turnstream/_data/schemas")
        | files_under("topics", as_="turnstream/_data/topics")
    )
    assert expected == held


def test_wheel_is_typed_licensed_and_has_the_command(wheel: Path) -> None:
    """The wheel carries py.typed, the licence and the turnstream command."""
    names = names_in(wheel)
    with zipfile.ZipFile(wheel) as archive:
        [entry_points] = [name for name in names if name.endswith("entry_points.txt")]
        commands = archive.read(entry_points).decode()

    assert "turnstream/py.typed" in names
    assert 1 == sum(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert "turnstream = turnstream.cli:main" in commands


def test_every_schema_and_topic_of_the_tree_is_data_of_the_wheel(unpacked: Path) -> None:
    """Both contract folders are not empty and are found through the installed package."""
    assert files_under("schemas", as_="schemas")
    assert files_under("topics", as_="topics")
    assert "['schemas', 'topics']" == run_isolated(READ_DATA, str(unpacked))


def test_every_module_of_the_wheel_imports_without_the_tree(unpacked: Path) -> None:
    """Each module loads from the installed wheel; none comes from the checkout."""
    assert "True []" == run_isolated(IMPORT_ALL, str(unpacked))
