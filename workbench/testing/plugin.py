"""The pytest plugin: ``--topk-fixtures DIR`` and the fixture ``topk_case``, one case for every fixture file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from workbench.testing.case import TopkCase

_FIXTURE = "topk_case"
_OPTION = "--topk-fixtures"
_INI = "topk_fixtures"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option, and the setting of the same meaning."""
    about = "folder of fixtures that workbench export wrote; the fixture topk_case runs a test on each"
    parser.getgroup("top-k workbench").addoption(_OPTION, metavar="DIR", default=None, help=about)
    parser.addini(_INI, f"as {_OPTION}, relative to the file of settings", default="")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for ``topk_case`` once a file, named as the file."""
    if _FIXTURE not in metafunc.fixturenames:
        return
    folder = _folder(metafunc.config)
    if folder is None:
        why = f"no folder of fixtures is given ({_OPTION} DIR, or {_INI} in the settings)"
        metafunc.parametrize(_FIXTURE, [pytest.param(None, marks=pytest.mark.skip(reason=why))], ids=["none"])
        return
    from workbench.errors import WorkbenchError
    from workbench.export.fixture import fixture_files

    try:
        files = fixture_files(folder)
    except WorkbenchError as error:
        raise pytest.Collector.CollectError(str(error)) from None  # pytest prints its text alone
    ids = [file.relative_to(folder).with_suffix("").as_posix() for file in files]
    metafunc.parametrize(_FIXTURE, files, ids=ids, indirect=True)


@pytest.fixture
def topk_case(request: pytest.FixtureRequest) -> TopkCase:
    """One fixture file as a ``workbench.testing.TopkCase``."""
    from workbench.errors import WorkbenchError
    from workbench.testing.case import load_case

    try:
        return load_case(request.param)
    except WorkbenchError as error:
        pytest.fail(str(error), pytrace=False)


def _folder(config: pytest.Config) -> Path | None:
    given: str | None = config.getoption(_OPTION)
    if given is not None:
        return config.invocation_params.dir / given
    setting: str = config.getini(_INI)
    if not setting:
        return None
    return (config.rootpath if config.inipath is None else config.inipath.parent) / setting
